//! Checks one entry of `mcpServers`: every defect is named at its place, and a sound one becomes a `ServerConfig`.
//!
//! It sees one entry at a time; `launch` and `endpoint` read what only one kind of server has.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::config_files::Seen;
use super::json::{Member, Node, Spanned};
use super::later::{Later, Unfinished};
use super::places::Places;
use super::problem::{OF_FILE_MAX, Origin, Position, Problem, Severity};
use super::reach::{NamedSecrets, Reach};
use super::references::{Followed, Sources, written_origin};
use super::server::ServerConfig;
use super::server_keys::{CLIENT_ALLOW, CLIENT_DENY, URL_KEYS, snake_case};
use crate::names::ServerName;

/// What a value is taken for while a command has to be run for it: valid wherever a value may be.
pub(super) const STAND_IN: &str = "https://known.later.invalid/";
/// Keys of one entry.
const KEYS_MAX: usize = 200;

/// One file that is being read.
pub(super) struct Reading<'r> {
    pub(super) sources: &'r Sources<'r>,
    pub(super) path: &'r Path,
    pub(super) text: &'r Arc<str>,
    pub(super) section: Section,
    pub(super) problems: &'r mut Vec<Problem>,
    places: Places<'r>,
    /// Errors that were found, those that were not told among them.
    errors: usize,
    told: usize,
    untold: usize,
    /// The files that references have led to.
    pub(super) files: Vec<Seen>,
    /// What the entry that is being read has referred to.
    pub(super) followed: Followed,
}

/// Under what entries stand, and with that in which kind of file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Section {
    /// A JSON file, as clients have.
    McpServers,
    /// A config.toml.
    Servers,
}

/// An entry with a good name, and where it stands.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) name: ServerName,
    pub(super) path: PathBuf,
    pub(super) position: Position,
    pub(super) key: String,
    /// The environment variables that it refers to, also where it is not used.
    pub(super) variables: BTreeSet<String>,
    /// The server, or why there is none, to be said behind "is configured, but".
    pub(super) read: Result<Box<ServerConfig>, String>,
}

/// The keys of one entry that count, each at most once.
#[derive(Default)]
pub(super) struct Parts<'m> {
    pub(super) command: Option<&'m Spanned>,
    pub(super) args: Option<&'m Spanned>,
    pub(super) env: Option<&'m Spanned>,
    pub(super) env_inherit: Option<&'m Spanned>,
    pub(super) cwd: Option<&'m Spanned>,
    pub(super) url: Option<&'m Member>,
    pub(super) headers: Option<&'m Spanned>,
    pub(super) login: Option<&'m Spanned>,
    pub(super) transport: Option<&'m Spanned>,
    pub(super) start_timeout: Option<&'m Spanned>,
    pub(super) timeout: Option<&'m Spanned>,
    pub(super) max_concurrency: Option<&'m Spanned>,
    pub(super) allow: Option<&'m Spanned>,
    pub(super) deny: Option<&'m Spanned>,
    pub(super) sandbox_files: Option<&'m Spanned>,
    description: Option<&'m Spanned>,
    disabled: bool,
}

impl Section {
    /// As it is written.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::McpServers => "mcpServers",
            Self::Servers => "servers",
        }
    }
}

impl<'r> Reading<'r> {
    pub(super) fn new(
        sources: &'r Sources<'r>,
        path: &'r Path,
        text: &'r Arc<str>,
        section: Section,
        problems: &'r mut Vec<Problem>,
    ) -> Self {
        let (places, files, followed) = (Places::new(text), Vec::new(), Followed::default());
        let (errors, told, untold) = (0, 0, 0);
        Self { sources, path, text, section, problems, places, errors, told, untold, files, followed }
    }
}

impl Reading<'_> {
    pub(super) fn position(&self, at: usize) -> Position {
        self.places.position(at)
    }

    pub(super) fn report(&mut self, at: usize, key: &str, message: impl Into<String>) {
        self.push(Severity::Error, (at, key), message, "");
    }

    pub(super) fn warn(&mut self, at: usize, key: &str, message: impl Into<String>) {
        self.push(Severity::Warning, (at, key), message, "");
    }

    pub(super) fn push(
        &mut self,
        severity: Severity,
        (at, key): (usize, &str),
        message: impl Into<String>,
        hint: &str,
    ) {
        self.errors += usize::from(severity == Severity::Error);
        if self.told == OF_FILE_MAX {
            self.untold += 1;
            return;
        }
        self.told += 1;
        let problem = Problem::new(Origin::File(self.path.to_owned()), message)
            .severity(severity)
            .at(self.position(at))
            .hint(hint);
        self.problems.push(if key.is_empty() { problem } else { problem.key(key) });
    }

    /// Says what was not told one by one; the answer are the files that references have led to.
    pub(super) fn end(self) -> Vec<Seen> {
        self.problems.extend(Problem::untold(Origin::File(self.path.to_owned()), self.untold));
        self.files
    }

    /// The entry; `None` where its name is none, which was reported.
    pub(super) fn entry(&mut self, member: &Member) -> Option<Entry> {
        let section = self.section.name();
        let key = format!("{section}.{}", member.key);
        let name = match ServerName::new(&member.key) {
            Ok(name) => name,
            Err(error) => {
                self.report(member.key_at, section, error.to_string());
                return None;
            }
        };
        let problems_before = self.problems.len();
        self.followed = Followed::default();
        let server = self.server(&name, &key, member);
        self.files.append(&mut self.followed.files);
        let read = server.map(Box::new).ok_or_else(|| self.reason(problems_before));
        Some(self.as_entry(name, key, member, read))
    }

    fn as_entry(
        &self,
        name: ServerName,
        key: String,
        member: &Member,
        read: Result<Box<ServerConfig>, String>,
    ) -> Entry {
        let (path, position) = (self.path.to_owned(), self.position(member.key_at));
        Entry { name, path, position, key, variables: member.value.variables(), read }
    }

    /// An entry that is not read for this reason, which is reported.
    pub(super) fn refused(&mut self, member: &Member, message: &str) -> Option<Entry> {
        let key = format!("{}.{}", self.section.name(), member.key);
        let problems_before = self.problems.len();
        self.report(member.key_at, &key, message);
        let name = ServerName::new(&member.key).ok()?;
        let read = Err(self.reason(problems_before));
        Some(self.as_entry(name, key, member, read))
    }

    /// Why an entry is not used, of which this was said since then.
    fn reason(&self, problems_before: usize) -> String {
        let told = &self.problems[problems_before..];
        match told.iter().max_by_key(|problem| (problem.severity, std::cmp::Reverse(problem.position))) {
            Some(problem) if problem.severity == Severity::Error => format!("cannot be used: {problem}"),
            Some(problem) => format!("is not used: {problem}"),
            None => format!("is not used: its file has more than {OF_FILE_MAX} problems"),
        }
    }

    /// The server of an entry, unless something about it was reported.
    fn server(&mut self, name: &ServerName, key: &str, member: &Member) -> Option<ServerConfig> {
        let Node::Object(members) = &member.value.node else {
            let message = format!("must be an object, not {}", member.value.node.kind());
            self.report(member.value.at, key, message);
            return None;
        };
        let errors_before = self.errors;
        if members.len() > KEYS_MAX {
            let message = format!("has {} keys, more than the {KEYS_MAX} allowed", members.len());
            self.report(member.key_at, key, message);
            return None;
        }
        let parts = self.parts(key, members);
        if parts.disabled {
            self.push(Severity::Note, (member.key_at, key), "is switched off in its entry", "");
            return None;
        }
        let rules = self.rules(key, &parts);
        let has_slip = self.errors > errors_before;
        let reach = self.reach(key, member, &parts, has_slip)?;
        let description = self.description(key, parts.description);
        let server = ServerConfig {
            name: name.clone(),
            description,
            reach,
            written_origin: match parts.url.map(|url| &url.value.node) {
                Some(Node::String(url)) => written_origin(url),
                _ => None,
            },
            rules: rules?,
            references: NamedSecrets::new(std::mem::take(&mut self.followed.values)),
            later: self.later(member, &parts),
            source: self.path.to_owned(),
            position: self.position(member.key_at),
            key: key.to_owned(),
        };
        (self.errors == errors_before).then_some(server)
    }

    /// What has to be found out when the server is started.
    fn later(&mut self, member: &Member, parts: &Parts<'_>) -> Option<Later> {
        let commands = std::mem::take(&mut self.followed.commands);
        let target = [parts.command, parts.url.map(|member| &member.value)].into_iter().flatten();
        let hides = |value: &Spanned| matches!(&value.node, Node::String(text) if text.contains("${cmd:"));
        (!commands.is_empty()).then(|| {
            Later::new(Unfinished {
                environment: self.sources.environment.clone(),
                limits: self.sources.limits.clone(),
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
                let message =
                    format!("is repeated; it stands on line {} too", self.position(first.key_at).line);
                self.report(member.key_at, &at, message);
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
                "sandbox_files" => parts.sandbox_files = Some(&member.value),
                "disabled" | "enabled" => match member.value.node {
                    Node::Bool(value) => parts.disabled |= value == (known == "disabled"),
                    ref other => {
                        let message = format!("must be true or false, not {}", other.kind());
                        self.report(member.value.at, &at, message);
                    }
                },
                _ if URL_KEYS.contains(&member.key.as_str()) => match parts.url {
                    None => parts.url = Some(member),
                    Some(first) => {
                        let message = format!("means the same as {:?}, which is there too", first.key);
                        self.report(member.key_at, &at, message);
                    }
                },
                _ => self.unknown_key(member.key_at, &at, &member.key),
            }
        }
        parts
    }

    /// A choice of tools, of which there is one under whichever name.
    fn choice<'m>(&mut self, chosen: &mut Option<&'m Spanned>, member: &'m Member, at: &str) {
        if chosen.replace(&member.value).is_some() {
            self.report(member.key_at, at, "means the same as another key, which is there too");
        }
    }

    /// The way to the server, unless something about it was reported. With a slip in a key, one that is missing is there
    /// most likely.
    fn reach(&mut self, key: &str, member: &Member, parts: &Parts<'_>, has_slip: bool) -> Option<Reach> {
        if let (Some(_), Some(url)) = (parts.command, parts.url) {
            let message = "has both a command and a url, so it is unclear which is meant";
            self.push(Severity::Error, (url.key_at, key), message, "remove one of them");
            return None;
        }
        if let Some(other) = parts.transport.filter(|value| !matches!(value.node, Node::String(_))) {
            let message = format!("must be a string, not {}", other.node.kind());
            self.report(other.at, &format!("{key}.type"), message);
            return None;
        }
        if parts.url.is_some() {
            return self.endpoint(key, parts).map(Reach::Endpoint);
        }
        if let Some(Spanned { at, node: Node::String(kind) }) = parts.transport
            && !matches!(kind.as_str(), "stdio" | "local")
        {
            if matches!(
                kind.as_str(),
                "http" | "streamable-http" | "streamable_http" | "streamableHttp" | "sse"
            ) {
                let message = format!("is {kind:?}, but the entry has no url");
                self.report(*at, &format!("{key}.type"), message);
            } else {
                self.unknown_type(*at, key, kind);
            }
            return None;
        }
        if parts.command.is_none() && has_slip {
            return None;
        }
        if parts.command.is_none() {
            self.report(member.key_at, key, "has neither a command nor a url");
            return None;
        }
        self.launch(key, member.value.at, parts).map(Reach::Launch)
    }

    pub(super) fn unknown_type(&mut self, at: usize, key: &str, kind: &str) {
        let message = format!("has the type {kind:?}, which belljar does not know");
        self.push(Severity::Error, (at, key), message, "known are stdio, http (or streamable-http) and sse");
    }

    fn description(&mut self, key: &str, description: Option<&Spanned>) -> Option<String> {
        match description.map(|value| (value.at, &value.node)) {
            None | Some((_, Node::Null)) => None,
            Some((_, Node::String(text))) => Some(text.clone()),
            Some((at, other)) => {
                let message = format!("must be a string, not {}; it is left out", other.kind());
                self.warn(at, &format!("{key}.description"), message);
                None
            }
        }
    }
}
