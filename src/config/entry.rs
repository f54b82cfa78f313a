//! Checks one entry of `mcpServers`: every defect is named at its place, and a sound one becomes a `ServerConfig`.
//!
//! It sees one entry at a time, and neither starts nor looks for the command.

use std::path::{Path, PathBuf};

use super::environment::Environment;
use super::json::{self, Member, Node, Spanned};
use super::problem::{Origin, Position, Problem, Severity};
use super::servers::{ServerConfig, ServerEnvironment};
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
struct Parts<'m> {
    command: Option<&'m Spanned>,
    args: Option<&'m Spanned>,
    env: Option<&'m Spanned>,
    cwd: Option<&'m Spanned>,
    description: Option<&'m Spanned>,
    transport: Option<&'m Spanned>,
    url: Option<&'m Member>,
    disabled: bool,
}

impl Reading<'_> {
    pub(super) fn position(&self, at: usize) -> Position {
        json::position(self.text, at)
    }

    pub(super) fn report(&mut self, at: usize, key: &str, message: impl Into<String>) {
        self.push(Severity::Error, (at, key), message, "");
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
        if !self.is_local(&key, member, &parts) {
            return None;
        }
        let server = self.server(&key, name, member, &parts)?;
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
                "headers" => {}
                "disabled" | "enabled" => match member.value.node {
                    Node::Bool(value) => parts.disabled |= value == (member.key == "disabled"),
                    ref other => {
                        let message = format!("must be true or false, not {}", other.kind());
                        self.report(member.value.at, &at, message);
                    }
                },
                url if URL_KEYS.contains(&url) => parts.url = Some(member),
                known if CLIENT_KEYS.contains(&known) => {}
                _ => {
                    self.push(
                        Severity::Warning,
                        (member.key_at, &at),
                        "is no key that hotcell knows; it has no effect",
                        "",
                    );
                }
            }
        }
        parts
    }

    /// Whether the entry names a command to start; if not, that was reported.
    fn is_local(&mut self, key: &str, member: &Member, parts: &Parts<'_>) -> bool {
        let remote_hint = "start it through a local command such as: npx -y mcp-remote URL";
        match (parts.command, parts.url) {
            (Some(_), Some(url)) => {
                let message = "has both a command and a url, so it is unclear which is meant";
                self.push(Severity::Error, (url.key_at, key), message, "remove one of them");
                return false;
            }
            (None, Some(url)) => {
                let message = "is a remote server (url), which this version of hotcell cannot reach";
                self.push(Severity::Error, (url.key_at, key), message, remote_hint);
                return false;
            }
            _ => {}
        }
        match parts.transport.map(|transport| (transport.at, &transport.node)) {
            None => {}
            Some((_, Node::String(kind))) if matches!(kind.as_str(), "stdio" | "local") => {}
            Some((at, Node::String(kind))) => {
                let message = format!("has the type {kind:?}, which this version of hotcell cannot reach");
                self.push(Severity::Error, (at, key), message, remote_hint);
                return false;
            }
            Some((at, other)) => {
                let message = format!("must be a string, not {}", other.kind());
                self.report(at, &format!("{key}.type"), message);
                return false;
            }
        }
        if parts.command.is_none() {
            self.report(member.key_at, key, "has no command");
            return false;
        }
        true
    }

    fn server(
        &mut self,
        key: &str,
        name: ServerName,
        member: &Member,
        parts: &Parts<'_>,
    ) -> Option<ServerConfig> {
        let program = self.value(&format!("{key}.command"), parts.command?);
        let args = self.args(&format!("{key}.args"), parts.args);
        let env = self.env(&format!("{key}.env"), parts.env);
        let cwd = match parts.cwd {
            Some(cwd) => Some(self.value(&format!("{key}.cwd"), cwd)?),
            None => None,
        };
        let description = match parts.description.map(|value| (value.at, &value.node)) {
            None | Some((_, Node::Null)) => None,
            Some((_, Node::String(text))) => Some(text.clone()),
            Some((at, other)) => {
                let message = format!("must be a string, not {}; it is left out", other.kind());
                self.push(Severity::Warning, (at, &format!("{key}.description")), message, "");
                None
            }
        };
        let program = program?;
        for (part, value) in [("command", Some(&program)), ("cwd", cwd.as_ref())] {
            if value.is_some_and(|value| value.trim().is_empty()) {
                self.report(member.value.at, &format!("{key}.{part}"), "is empty");
                return None;
            }
        }
        let folder = self.path.parent();
        let cwd = cwd.map(|cwd| self.environment.resolve(&cwd, folder));
        let program = self.program(&program, cwd.as_deref());
        Some(ServerConfig {
            name,
            description,
            program,
            args: args?,
            env: env?,
            cwd,
            source: self.path.to_owned(),
        })
    }

    /// A command with a slash is taken from the server's working folder, or else from the file's; others stay names.
    fn program(&self, program: &str, cwd: Option<&Path>) -> PathBuf {
        if program.contains('/') {
            self.environment.resolve(program, cwd.or(self.path.parent()))
        } else {
            self.environment.expand_home(program)
        }
    }

    fn args(&mut self, key: &str, args: Option<&Spanned>) -> Option<Vec<String>> {
        match args.map(|args| (args.at, &args.node)) {
            None | Some((_, Node::Null)) => Some(Vec::new()),
            Some((_, Node::Array(items))) => {
                let values: Vec<Option<String>> = items
                    .iter()
                    .enumerate()
                    .map(|(index, item)| self.value(&format!("{key}[{index}]"), item))
                    .collect();
                values.into_iter().collect()
            }
            Some((at, other)) => {
                let message = format!("must be an array of strings, not {}", other.kind());
                self.report(at, key, message);
                None
            }
        }
    }

    fn env(&mut self, key: &str, env: Option<&Spanned>) -> Option<ServerEnvironment> {
        let members = match env.map(|env| (env.at, &env.node)) {
            None | Some((_, Node::Null)) => return Some(ServerEnvironment::default()),
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
            if member.key.is_empty() || member.key.contains(['=', '\0', '\r', '\n']) {
                self.report(
                    member.key_at,
                    key,
                    "has a variable whose name is empty or holds '=', NUL or a line break",
                );
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
        sound.then(|| ServerEnvironment::new(pairs))
    }

    /// A string with its references replaced. What is wrong with it is said without repeating it.
    fn value(&mut self, key: &str, value: &Spanned) -> Option<String> {
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
                    format!("holds a {name} character, which no command line or variable may"),
                );
                return None;
            }
        }
        Some(replaced)
    }
}
