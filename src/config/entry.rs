//! Checks one entry of `mcpServers`: every defect is named at its place, and a sound one becomes a `ServerConfig`.
//!
//! It sees one entry at a time; `launch` and `endpoint` read what only one kind of server has.

use std::path::Path;

use super::environment::Environment;
use super::json::{self, Member, Node, Spanned};
use super::problem::{Origin, Position, Problem, Severity};
use super::reach::{NamedSecrets, Reach};
use super::servers::ServerConfig;
use super::substitute::substitute;
use crate::names::ServerName;

/// Keys that clients use for themselves and that change nothing here.
const CLIENT_KEYS: [&str; 16] = [
    "$schema",
    "alwaysAllow",
    "autoApprove",
    "autoStart",
    "dev",
    "gallery",
    "icon",
    "id",
    "metadata",
    "name",
    "startupTimeout",
    "tags",
    "timeout",
    "title",
    "trust",
    "version",
];
const URL_KEYS: [&str; 3] = ["url", "serverUrl", "httpUrl"];

/// One file that is being read.
pub(super) struct Reading<'r> {
    pub(super) environment: &'r Environment,
    pub(super) path: &'r Path,
    pub(super) text: &'r str,
    pub(super) problems: &'r mut Vec<Problem>,
}

/// A sound entry and where it stands.
pub(super) struct Entry {
    pub(super) server: ServerConfig,
    pub(super) position: Position,
}

/// The keys of one entry that count, each at most once.
#[derive(Default)]
pub(super) struct Parts<'m> {
    pub(super) command: Option<&'m Spanned>,
    pub(super) args: Option<&'m Spanned>,
    pub(super) env: Option<&'m Spanned>,
    pub(super) cwd: Option<&'m Spanned>,
    pub(super) url: Option<&'m Member>,
    pub(super) headers: Option<&'m Spanned>,
    pub(super) transport: Option<&'m Spanned>,
    description: Option<&'m Spanned>,
    disabled: bool,
}

impl Reading<'_> {
    pub(super) fn position(&self, at: usize) -> Position {
        json::position(self.text, at)
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
        let problem = Problem::new(Origin::File(self.path.to_owned()), message)
            .severity(severity)
            .at(self.position(at))
            .hint(hint);
        self.problems.push(if key.is_empty() { problem } else { problem.key(key) });
    }

    /// The entry, unless something about it was reported.
    pub(super) fn entry(&mut self, member: &Member) -> Option<Entry> {
        let key = format!("mcpServers.{}", member.key);
        let name = match ServerName::new(&member.key) {
            Ok(name) => name,
            Err(error) => {
                self.report(member.key_at, "mcpServers", error.to_string());
                return None;
            }
        };
        let Node::Object(members) = &member.value.node else {
            let message = format!("must be an object, not {}", member.value.node.kind());
            self.report(member.value.at, &key, message);
            return None;
        };
        let errors_before = self.errors();
        let parts = self.parts(&key, members);
        if parts.disabled {
            self.push(Severity::Note, (member.key_at, &key), "is switched off in its entry", "");
            return None;
        }
        let reach = self.reach(&key, member, &parts)?;
        let description = self.description(&key, parts.description);
        let server = ServerConfig { name, description, reach, source: self.path.to_owned() };
        (self.errors() == errors_before).then(|| Entry { server, position: self.position(member.key_at) })
    }

    fn errors(&self) -> usize {
        self.problems.iter().filter(|problem| problem.severity == Severity::Error).count()
    }

    fn parts<'m>(&mut self, key: &str, members: &'m [Member]) -> Parts<'m> {
        let mut parts = Parts::default();
        for (index, member) in members.iter().enumerate() {
            let at = format!("{key}.{}", member.key);
            if let Some(first) = members[..index].iter().find(|other| other.key == member.key) {
                let message =
                    format!("is repeated; it stands on line {} too", self.position(first.key_at).line);
                self.report(member.key_at, &at, message);
                continue;
            }
            match member.key.as_str() {
                "command" => parts.command = Some(&member.value),
                "args" => parts.args = Some(&member.value),
                "env" => parts.env = Some(&member.value),
                "cwd" => parts.cwd = Some(&member.value),
                "description" => parts.description = Some(&member.value),
                "type" | "transport" => parts.transport = Some(&member.value),
                "headers" => parts.headers = Some(&member.value),
                "disabled" | "enabled" => match member.value.node {
                    Node::Bool(value) => parts.disabled |= value == (member.key == "disabled"),
                    ref other => {
                        let message = format!("must be true or false, not {}", other.kind());
                        self.report(member.value.at, &at, message);
                    }
                },
                url if URL_KEYS.contains(&url) => match parts.url {
                    None => parts.url = Some(member),
                    Some(first) => {
                        let message = format!("means the same as {:?}, which is there too", first.key);
                        self.report(member.key_at, &at, message);
                    }
                },
                known if CLIENT_KEYS.contains(&known) => {}
                _ => self.warn(member.key_at, &at, "is no key that hotcell knows; it has no effect"),
            }
        }
        parts
    }

    /// The way to the server, unless something about it was reported.
    fn reach(&mut self, key: &str, member: &Member, parts: &Parts<'_>) -> Option<Reach> {
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
        if parts.command.is_none() {
            self.report(member.key_at, key, "has neither a command nor a url");
            return None;
        }
        self.launch(key, member.value.at, parts).map(Reach::Launch)
    }

    pub(super) fn unknown_type(&mut self, at: usize, key: &str, kind: &str) {
        let message = format!("has the type {kind:?}, which hotcell does not know");
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

    /// An object of strings with their references replaced; `wrong` says what is wrong with a name.
    pub(super) fn named(
        &mut self,
        key: &str,
        value: Option<&Spanned>,
        wrong: impl Fn(&str) -> Option<String>,
    ) -> Option<NamedSecrets> {
        let members = match value.map(|value| (value.at, &value.node)) {
            None | Some((_, Node::Null)) => return Some(NamedSecrets::default()),
            Some((_, Node::Object(members))) => members,
            Some((at, other)) => {
                let message = format!("must be an object of strings, not {}", other.kind());
                self.report(at, key, message);
                return None;
            }
        };
        let mut pairs = Vec::with_capacity(members.len());
        let mut sound = true;
        for (index, member) in members.iter().enumerate() {
            let at = format!("{key}.{}", member.key);
            if let Some(message) = wrong(&member.key) {
                self.report(member.key_at, key, message);
                sound = false;
            } else if let Some(first) = members[..index].iter().find(|other| other.key == member.key) {
                let message =
                    format!("is repeated; it stands on line {} too", self.position(first.key_at).line);
                self.report(member.key_at, &at, message);
                sound = false;
            } else if let Some(value) = self.value(&at, &member.value) {
                pairs.push((member.key.clone(), value));
            } else {
                sound = false;
            }
        }
        sound.then(|| NamedSecrets::new(pairs))
    }

    /// A string with its references replaced. What is wrong with it is said without repeating it.
    pub(super) fn value(&mut self, key: &str, value: &Spanned) -> Option<String> {
        let Node::String(text) = &value.node else {
            let message = format!("must be a string, not {}", value.node.kind());
            let hint = match value.node {
                Node::Number | Node::Bool(_) => "put it in double quotes",
                _ => "",
            };
            self.push(Severity::Error, (value.at, key), message, hint);
            return None;
        };
        let replaced = match substitute(text, self.environment) {
            Ok(replaced) => replaced,
            Err(message) => {
                self.push(Severity::Error, (value.at, key), message, "write $${ for a literal ${");
                return None;
            }
        };
        for (character, name) in [('\0', "NUL"), ('\r', "carriage return")] {
            if replaced.contains(character) {
                self.report(
                    value.at,
                    key,
                    format!("holds a {name} character, which no configured value may"),
                );
                return None;
            }
        }
        Some(replaced)
    }
}
