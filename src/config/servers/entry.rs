//! Checks one entry of `mcpServers`: every defect is named at its place, and a sound one becomes a `ServerConfig`.
//!
//! It sees one entry at a time; `launch` and `endpoint` read what only one kind of server has.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use belljar_base::names::ServerName;
use belljar_base::problem::{OF_FILE_MAX, Position, Problem, Severity, report};

use super::deferred_entry::{DeferredEntry, EntrySource};
use super::reading::{Parts, Reading, Section};
use super::server::ServerConfig;
use super::server_keys::{CLIENT_ALLOW, CLIENT_DENY, URL_KEYS, snake_case};
use super::transport::{NamedSecrets, Transport};
use crate::clients::{Member, Node, Value};
use crate::config::read::changeable::NamedFile;
use crate::config::read::references::{
    Commands, Files, ResolvedReferences, Sources, variables_of, written_origin,
};

/// The largest number of keys of one entry.
const KEYS_MAX: usize = 200;

/// An entry with a valid name, and its place.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(super) name: ServerName,
    pub(super) path: PathBuf,
    pub(super) position: Position,
    pub(super) key: String,
    /// The environment variables that it refers to, even if it is not used.
    pub(super) variables: BTreeSet<String>,
    /// The files that it names.
    pub(super) named: Vec<NamedFile>,
    /// The server, or the reason for which there is none, worded to follow "is configured, but".
    pub(super) read: Result<Box<ServerConfig>, String>,
}

impl Reading<'_> {
    /// The entry; `None` if its name is invalid, which was reported.
    pub(super) fn entry(&mut self, member: &Member) -> Option<Entry> {
        let section = self.section.name();
        let key = format!("{section}.{}", member.key);
        let name = match ServerName::new(&member.key) {
            Ok(name) => name,
            Err(error) => {
                self.report(member.at, section, error.to_string());
                return None;
            }
        };
        let problems_before = self.problems.len();
        self.resolved = ResolvedReferences::default();
        let server = self.server(&name, &key, member);
        self.files.append(&mut self.resolved.files);
        let read = server.map(Box::new).ok_or_else(|| self.reason(problems_before));
        let named = std::mem::take(&mut self.resolved.named);
        Some(Entry { named, ..self.as_entry(name, key, member, read) })
    }

    fn as_entry(
        &self,
        name: ServerName,
        key: String,
        member: &Member,
        read: Result<Box<ServerConfig>, String>,
    ) -> Entry {
        let (path, position) = (self.path.to_owned(), self.position(member.at));
        let variables = variables_of(&member.value);
        Entry { name, path, position, key, variables, named: Vec::new(), read }
    }

    /// Reports this error and returns the entry without a server; `None` if its name is invalid.
    pub(super) fn refused(&mut self, member: &Member, message: &str) -> Option<Entry> {
        let key = format!("{}.{}", self.section.name(), member.key);
        let problems_before = self.problems.len();
        self.report(member.at, &key, message);
        let name = ServerName::new(&member.key).ok()?;
        let read = Err(self.reason(problems_before));
        Some(self.as_entry(name, key, member, read))
    }

    /// The reason for which an entry is not used, from the problems that were reported since `problems_before`.
    fn reason(&self, problems_before: usize) -> String {
        let told = &self.problems[problems_before..];
        match told.iter().max_by_key(|problem| (problem.severity, std::cmp::Reverse(problem.position))) {
            Some(problem) if problem.severity == Severity::Error => format!("cannot be used: {problem}"),
            Some(problem) => format!("is not used: {problem}"),
            None => format!("is not used: its file has more than {OF_FILE_MAX} problems"),
        }
    }

    /// The server of an entry; `None` where a problem with it was reported.
    fn server(&mut self, name: &ServerName, key: &str, member: &Member) -> Option<ServerConfig> {
        let Node::Table(members) = &member.value.node else {
            let message = format!("must be an object, not {}", member.value.kind());
            self.report(member.value.at(), key, message);
            return None;
        };
        let errors_before = self.errors;
        if members.len() > KEYS_MAX {
            let message = format!("has {} keys, more than the {KEYS_MAX} allowed", members.len());
            self.report(member.at, key, message);
            return None;
        }
        let parts = self.parts(key, members);
        if parts.disabled {
            self.push(Severity::Note, (member.at, key), "is switched off in its entry", "");
            return None;
        }
        let rules = self.rules(key, &parts);
        let has_slip = self.errors > errors_before;
        let transport = self.transport(key, member, &parts, has_slip)?;
        let description = self.description(key, parts.description);
        let server = ServerConfig {
            name: name.clone(),
            description,
            transport,
            written_origin: match parts.url.map(|url| &url.value.node) {
                Some(Node::Text(url)) => written_origin(url),
                _ => None,
            },
            rules: rules?,
            references: NamedSecrets::new(std::mem::take(&mut self.resolved.values)),
            deferred: self.deferred(member, &parts),
            source: self.path.to_owned(),
            position: self.position(member.at),
            key: key.to_owned(),
        };
        (self.errors == errors_before).then_some(server)
    }

    /// The entry with the commands whose output it needs; `None` if it has no commands.
    fn deferred(&mut self, member: &Member, parts: &Parts<'_>) -> Option<DeferredEntry> {
        let commands = std::mem::take(&mut self.resolved.commands);
        let target = [parts.command, parts.url.map(|member| &member.value)].into_iter().flatten();
        let hides = |value: &Value| matches!(&value.node, Node::Text(text) if text.contains("${cmd:"));
        (!commands.is_empty()).then(|| {
            DeferredEntry::new(EntrySource {
                environment: self.sources.environment.clone(),
                limits: self.sources.limits.clone(),
                private: self.sources.private.clone(),
                path: self.path.to_owned(),
                text: Arc::clone(self.text),
                section: self.section,
                member: member.clone(),
                commands,
                hides_reach: target.into_iter().any(hides),
            })
        })
    }

    fn parts<'m>(&mut self, key: &str, members: &'m [Member]) -> Parts<'m> {
        let mut parts = Parts::default();
        let is_json = self.section == Section::McpServers;
        for (index, member) in members.iter().enumerate() {
            let at = format!("{key}.{}", member.key);
            // In JSON both spellings of a key are the same key.
            let spelt = |key: &str| match self.section {
                Section::McpServers => snake_case(key),
                Section::Servers => key.to_owned(),
            };
            let known = spelt(&member.key);
            if let Some(first) = members[..index].iter().find(|other| spelt(&other.key) == known) {
                let message = format!("is repeated; it stands on line {} too", self.position(first.at).line);
                self.report(member.at, &at, message);
                continue;
            }
            match known.as_str() {
                "command" => parts.command = Some(&member.value),
                "args" => parts.args = Some(&member.value),
                "env" => parts.env = Some(&member.value),
                "env_inherit" => parts.env_inherit = Some(&member.value),
                "cwd" => parts.cwd = Some(&member.value),
                "description" => parts.description = Some(&member.value),
                "type" | "transport" => parts.transport = Some(&member.value),
                "headers" => parts.headers = Some(&member.value),
                "login" => parts.login = Some(&member.value),
                "start_timeout" => parts.start_timeout = Some(&member.value),
                "timeout" => parts.timeout = Some(&member.value),
                "max_concurrency" => parts.max_concurrency = Some(&member.value),
                "allow" => self.choice(&mut parts.allow, member, &at),
                "deny" => self.choice(&mut parts.deny, member, &at),
                theirs if is_json && CLIENT_ALLOW.contains(&theirs) => {
                    self.choice(&mut parts.allow, member, &at);
                }
                theirs if is_json && CLIENT_DENY.contains(&theirs) => {
                    self.choice(&mut parts.deny, member, &at);
                }
                "sandbox" => parts.sandbox = Some(&member.value),
                "sandbox_files" => parts.sandbox_files = Some(&member.value),
                "private" => parts.private = Some(&member.value),
                "disabled" | "enabled" => match member.value.node {
                    Node::Bool(value) => parts.disabled |= value == (known == "disabled"),
                    ref other => {
                        let message = format!("must be true or false, not {}", other.kind());
                        self.report(member.value.at(), &at, message);
                    }
                },
                _ if URL_KEYS.contains(&member.key.as_str()) => match parts.url {
                    None => parts.url = Some(member),
                    Some(first) => {
                        let message = format!("means the same as {:?}, which is there too", first.key);
                        self.report(member.at, &at, message);
                    }
                },
                _ => self.unknown_key(member.at, &at, &member.key),
            }
        }
        parts
    }

    /// Sets one of the two lists of tools. A list may have several names, and only one of them may be used.
    fn choice<'m>(&mut self, chosen: &mut Option<&'m Value>, member: &'m Member, at: &str) {
        if chosen.replace(&member.value).is_some() {
            self.report(member.at, at, "means the same as another key, which is there too");
        }
    }

    /// How the server is reached; `None` where a problem with it was reported. With an unknown key in the entry
    /// (`has_slip`), a missing command is not reported: most likely it is the misspelt key.
    fn transport(
        &mut self,
        key: &str,
        member: &Member,
        parts: &Parts<'_>,
        has_slip: bool,
    ) -> Option<Transport> {
        if let (Some(_), Some(url)) = (parts.command, parts.url) {
            let message = "has both a command and a url, so it is unclear which is meant";
            self.push(Severity::Error, (url.at, key), message, "remove one of them");
            return None;
        }
        if let Some(other) = parts.transport.filter(|value| !matches!(value.node, Node::Text(_))) {
            let message = format!("must be a string, not {}", other.kind());
            self.report(other.at(), &format!("{key}.type"), message);
            return None;
        }
        if parts.url.is_some() {
            return self.endpoint(key, parts).map(Transport::Endpoint);
        }
        if let Some(Value { range, node: Node::Text(kind) }) = parts.transport
            && !matches!(kind.as_str(), "stdio" | "local")
        {
            if matches!(
                kind.as_str(),
                "http" | "streamable-http" | "streamable_http" | "streamableHttp" | "sse"
            ) {
                let message = format!("is {kind:?}, but the entry has no url");
                self.report(range.start, &format!("{key}.type"), message);
            } else {
                self.unknown_type(range.start, key, kind);
            }
            return None;
        }
        if parts.command.is_none() && has_slip {
            return None;
        }
        if parts.command.is_none() {
            self.report(member.at, key, "has neither a command nor a url");
            return None;
        }
        self.launch(key, member.value.at(), parts).map(Transport::Launch)
    }

    fn description(&mut self, key: &str, description: Option<&Value>) -> Option<String> {
        match description.map(|value| (value.at(), &value.node)) {
            None | Some((_, Node::Null)) => None,
            Some((_, Node::Text(text))) => Some(text.clone()),
            Some((at, other)) => {
                let message = format!("must be a string, not {}; it is left out", other.kind());
                self.warn(at, &format!("{key}.description"), message);
                None
            }
        }
    }
}

impl DeferredEntry {
    /// Checks that nobody chose the files that the commands name, as these are now.
    ///
    /// # Errors
    /// The reason for which the commands must not be run.
    pub fn check(&self) -> Result<(), String> {
        self.read_again(Commands::Later).0.map(drop)
    }

    /// Reads the entry again with the output of its commands, by the text of their references.
    ///
    /// # Errors
    /// The reason for which the entry cannot be used with this output. It repeats no value.
    pub fn finished(&self, printed: &BTreeMap<String, String>) -> Result<ServerConfig, String> {
        let (server, problems) = self.read_again(Commands::Ran(printed));
        report(problems.iter().filter(|problem| problem.severity == Severity::Warning));
        server
    }

    fn read_again(&self, commands: Commands<'_>) -> (Result<ServerConfig, String>, Vec<Problem>) {
        let EntrySource { environment, limits, private, path, text, section, member, .. } = self.source();
        let sources = Sources { environment, limits, files: Files::Read, commands, private };
        let mut problems = Vec::new();
        let mut reading = Reading::new(&sources, path, text, *section, &mut problems);
        let entry = reading.entry(member);
        let server = match entry {
            Some(entry) => match self.misled(&entry.named) {
                Some((message, hint)) => Err(format!("cannot be used: it {message}; {hint}")),
                None => entry.read.map(|server| *server),
            },
            None => Err("cannot be used: its name is invalid".to_owned()),
        };
        (server, problems)
    }
}
