//! One configured server: how it is reached, and the rules for its use.
//!
//! It checks nothing: `entry` makes it from checked values.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use belljar_base::names::ServerName;
use belljar_base::problem::Position;
use belljar_base::text;
use belljar_tools::policy::ToolChoice;

use super::deferred_entry::DeferredEntry;
use super::transport::{Endpoint, Launch, NamedSecrets, Transport};

/// The longest part of a program's path that is shown, in characters.
const SHOWN_CHARS_MAX: usize = 200;
/// The shortest value of a reference that is redacted, in bytes; shorter ones are too likely to be ordinary words.
const SECRET_BYTES_MIN: usize = 6;

/// A server that may be used. Two are equal if they are configured alike; their positions in the file do not matter.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// Its name, unique among all files.
    pub name: ServerName,
    /// The operator's description of its purpose.
    pub description: Option<String>,
    /// How it is reached. With `deferred`, only the parts that need no command's output.
    pub transport: Transport,
    /// Its address before the path, as it is written with references; `None`: that part has no reference.
    pub written_origin: Option<String>,
    /// The rules for its use.
    pub rules: ServerRules,
    /// The values of the references in its entry, under names that can be shown.
    pub references: NamedSecrets,
    /// The entry, if commands have to be run when the server is started.
    pub deferred: Option<DeferredEntry>,
    /// The configuration file.
    pub source: PathBuf,
    /// The position of the entry in the file.
    pub position: Position,
    /// The key of the entry in the file, such as `mcpServers.github`.
    pub key: String,
}

/// The rules that an entry sets for the use of its server.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ServerRules {
    /// The longest time of its start; `None`: the limit for all servers.
    pub start_time: Option<Duration>,
    /// The longest time of one call; `None`: the time of the run.
    pub call_time: Option<Duration>,
    /// The largest number of simultaneous calls; `None`: the limit for all servers.
    pub calls_at_once: Option<usize>,
    /// The tools that are offered.
    pub tools: ToolChoice,
    /// The treatment of binary values of the sandbox in arguments.
    pub sandbox_files: SandboxFiles,
    /// Whether each session has a server of its own, for one that has a state for each client.
    pub is_private: bool,
}

/// The treatment of binary values of the sandbox in arguments of calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SandboxFiles {
    /// Binary values are sent as base64.
    #[default]
    Sent,
    /// A call with a binary value is refused in the sandbox. That prevents mistakes, not intent: code can send its own
    /// base64.
    Kept,
}

/// A server that is configured and cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedServer {
    /// The server's name.
    pub name: ServerName,
    /// The configuration file.
    pub source: PathBuf,
    /// The position of the entry in the file.
    pub position: Position,
    /// The reason, worded to follow "is configured, but". It contains no value that could be a secret.
    pub reason: String,
}

impl ServerConfig {
    /// The place of its entry, for the operator.
    #[must_use]
    pub fn place(&self) -> String {
        format!("{} of {}", self.key, self.source.display())
    }

    /// How it is reached, for the operator: the program or the address, without secrets.
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

    /// The origin of its address, for the operator. References in it are shown as they are written.
    #[must_use]
    pub fn shown_origin(&self, endpoint: &Endpoint) -> String {
        let origin = self.written_origin.clone().unwrap_or_else(|| endpoint.origin());
        text::inert_excerpt(&origin, SHOWN_CHARS_MAX)
    }

    /// The text with the values of references replaced by their names.
    #[must_use]
    pub fn without_references(&self, text: String) -> String {
        let mut secrets: Vec<(&str, &str)> =
            self.references.iter().filter(|(_, value)| value.len() >= SECRET_BYTES_MIN).collect();
        // Longer values come first, since one may contain another.
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
