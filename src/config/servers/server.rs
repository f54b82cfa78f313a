//! One configured server: how it is reached, and what its entry says of its use.
//!
//! It checks nothing: `entry` makes it of what is sound.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use super::deferred_entry::DeferredEntry;
use super::transport::{Endpoint, Launch, NamedSecrets, Transport};
use crate::names::ServerName;
use crate::policy::ToolChoice;
use crate::problem::Position;
use crate::text;

/// How much of a program's path is shown, in characters.
const SHOWN_CHARS_MAX: usize = 200;
/// Shorter values of references are words as any other.
const SECRET_BYTES_MIN: usize = 6;

/// A server that may be used. Two are equal when they are configured alike, wherever in their file they stand.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// Its name, unique among all files.
    pub name: ServerName,
    /// What the operator says it is for.
    pub description: Option<String>,
    /// How it is reached. With `deferred`, only as far as that is known without its commands.
    pub transport: Transport,
    /// Its address up to the path, as it is written with references; nothing where none stand there.
    pub written_origin: Option<String>,
    /// What its entry says of its use.
    pub rules: ServerRules,
    /// What references have brought into its entry, under names that can be shown.
    pub references: NamedSecrets,
    /// What has to be found out when it is started.
    pub deferred: Option<DeferredEntry>,
    /// The file that it stands in.
    pub source: PathBuf,
    /// Where it stands there.
    pub position: Position,
    /// Its key there, such as `mcpServers.github`.
    pub key: String,
}

/// The rules of an entry for the use of its server.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ServerRules {
    /// The longest time of its start; `None`: that of any server.
    pub start_time: Option<Duration>,
    /// The longest time of one call; `None`: the run's.
    pub call_time: Option<Duration>,
    /// Calls that are under way at once; `None`: as many as of any server.
    pub calls_at_once: Option<usize>,
    /// The tools that are offered.
    pub tools: ToolChoice,
    /// What becomes of files of the sandbox in arguments.
    pub sandbox_files: SandboxFiles,
}

/// The treatment of binary values of the sandbox in arguments of calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SandboxFiles {
    /// They are sent, as base64.
    #[default]
    Sent,
    /// A call with one is refused where it is made. That keeps from mistakes: code can send base64 text of its own.
    Kept,
}

/// A server that stands in the configuration and cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedServer {
    /// Its name.
    pub name: ServerName,
    /// The file that it stands in.
    pub source: PathBuf,
    /// Where it stands there.
    pub position: Position,
    /// Why, to be said behind "is configured, but"; without a value that could be a secret.
    pub reason: String,
}

impl ServerConfig {
    /// Where its entry stands, for the operator.
    #[must_use]
    pub fn place(&self) -> String {
        format!("{} of {}", self.key, self.source.display())
    }

    /// How it is reached, for the operator: the program or the address as far as that is no secret.
    #[must_use]
    pub fn shown_reach(&self) -> String {
        let shown = match &self.transport {
            _ if self.deferred.as_ref().is_some_and(DeferredEntry::hides_reach) => {
                "known when it is started".to_owned()
            }
            Transport::Launch(Launch { program, .. }) => format!("command {}", program.display()),
            Transport::Endpoint(endpoint) => format!("at {}", self.shown_origin(endpoint)),
        };
        text::inert_excerpt(&self.without_references(shown), SHOWN_CHARS_MAX)
    }

    /// Where its address leads, for the operator; references in that as they are written.
    #[must_use]
    pub fn shown_origin(&self, endpoint: &Endpoint) -> String {
        let origin = self.written_origin.clone().unwrap_or_else(|| endpoint.origin());
        text::inert_excerpt(&origin, SHOWN_CHARS_MAX)
    }

    /// The text with what references have brought written as their names.
    #[must_use]
    pub fn without_references(&self, text: String) -> String {
        let mut secrets: Vec<(&str, &str)> =
            self.references.iter().filter(|(_, value)| value.len() >= SECRET_BYTES_MIN).collect();
        // One that contains another goes first.
        secrets.sort_by_key(|(_, value)| std::cmp::Reverse(value.len()));
        secrets.into_iter().fold(text, |text, (name, value)| text.replace(value, &format!("[{name}]")))
    }
}

impl PartialEq for ServerConfig {
    fn eq(&self, other: &Self) -> bool {
        let Self {
            name,
            description,
            transport,
            written_origin,
            rules,
            references,
            deferred,
            source,
            position: _,
            key,
        } = self;
        *name == other.name
            && *description == other.description
            && *transport == other.transport
            && *written_origin == other.written_origin
            && *rules == other.rules
            && *references == other.references
            && *deferred == other.deferred
            && *source == other.source
            && *key == other.key
    }
}

impl fmt::Display for RefusedServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "server '{}' is configured, but {}", self.name, text::inert_line(&self.reason))
    }
}
