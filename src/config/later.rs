//! A server's entry of which parts are known only when commands have been run: those of its `${cmd:…}`.
//!
//! It runs none of them: whoever starts the server does, and hands in what they have printed.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use super::entry::{Reading, Section};
use super::environment::Environment;
use super::json::Member;
use super::problem::{Severity, report};
use super::references::{CommandLine, Commands, Files, Sources};
use super::server::ServerConfig;
use crate::limits::Limits;

/// What is left to be found out about a server. `Debug` shows nothing of it, and equality compares what is written.
#[derive(Clone)]
pub struct Later(Arc<Unfinished>);

/// The entry, to be read again, and all that its reading needs.
pub(super) struct Unfinished {
    pub(super) environment: Environment,
    pub(super) limits: Limits,
    pub(super) path: PathBuf,
    pub(super) text: Arc<str>,
    pub(super) section: Section,
    pub(super) member: Member,
    pub(super) commands: Vec<CommandLine>,
    pub(super) hides_reach: bool,
}

impl Later {
    pub(super) fn new(unfinished: Unfinished) -> Self {
        Self(Arc::new(unfinished))
    }

    /// The commands that are to be run; at least one.
    #[must_use]
    pub fn commands(&self) -> &[CommandLine] {
        &self.0.commands
    }

    /// The entry in one form that tells whether another one means the same. It may hold secrets.
    #[must_use]
    pub fn written(&self) -> String {
        self.0.member.value.written()
    }

    /// Whether the program or the address itself is not known yet.
    #[must_use]
    pub fn hides_reach(&self) -> bool {
        self.0.hides_reach
    }

    /// The server, once its commands have printed this, each by how it is written.
    ///
    /// # Errors
    /// What is wrong with the entry then; no value is repeated.
    pub fn finished(&self, printed: &BTreeMap<String, String>) -> Result<ServerConfig, String> {
        let Unfinished { environment, limits, path, text, section, member, .. } = &*self.0;
        let commands = Commands::Ran(printed);
        let sources = Sources { environment, limits, files: Files::Read, commands };
        let mut problems = Vec::new();
        let mut reading = Reading::new(&sources, path, text, *section, &mut problems);
        let entry = reading.entry(member);
        report(problems.iter().filter(|problem| problem.severity == Severity::Warning));
        match entry {
            Some(entry) => entry.read.map(|server| *server),
            None => Err("cannot be used: its name is none".to_owned()),
        }
    }
}

impl PartialEq for Later {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.written() == other.written()
    }
}

impl fmt::Debug for Later {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Later")
    }
}
