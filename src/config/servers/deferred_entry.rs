//! A server's entry that is complete only when the commands of its `${cmd:…}` have been run.
//!
//! It runs none of them, and does not read the entry again: `entry` does.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use belljar_base::limits::Limits;
use belljar_confine::{ChangeablePlaces, PrivatePlaces};

use super::reading::Section;
use crate::clients::Member;
use crate::config::read::changeable::NamedFile;
use crate::config::read::changeable::misled;
use crate::config::read::environment::Environment;
use crate::config::read::references::CommandLine;

/// An entry with commands. `Debug` shows nothing of it, and equality compares what is written.
#[derive(Clone)]
pub struct DeferredEntry {
    source: Arc<EntrySource>,
    /// The places that the paths of files that the entry names must not lead through.
    changeable: ChangeablePlaces,
}

/// The entry, with everything that is needed to read it again.
pub(super) struct EntrySource {
    pub(super) environment: Environment,
    pub(super) limits: Limits,
    pub(super) private: PrivatePlaces,
    pub(super) path: PathBuf,
    pub(super) text: Arc<str>,
    pub(super) section: Section,
    pub(super) member: Member,
    pub(super) commands: Vec<CommandLine>,
    pub(super) hides_reach: bool,
}

impl DeferredEntry {
    pub(super) fn new(source: EntrySource) -> Self {
        Self { source: Arc::new(source), changeable: ChangeablePlaces::default() }
    }

    pub(super) fn source(&self) -> &EntrySource {
        &self.source
    }

    /// Sets the places that others can change.
    pub(super) fn set_changeable(&mut self, changeable: &ChangeablePlaces) {
        self.changeable = changeable.clone();
    }

    /// The message and hint for the first of these files that others can replace.
    pub(super) fn misled(&self, named: &[NamedFile]) -> Option<(String, &'static str)> {
        let environment = &self.source.environment;
        let projects = environment.projects();
        // Another bridge may have given some since.
        let given = match environment.given_places() {
            Ok(given) => ChangeablePlaces::new(given),
            Err(problem) => return Some((format!("has commands, and {problem}"), "")),
        };
        let changeable = self.changeable.and(&given);
        named.iter().find_map(|file| misled(&changeable, &projects, file))
    }

    /// The commands that are to be run; at least one.
    #[must_use]
    pub fn commands(&self) -> &[CommandLine] {
        &self.source.commands
    }

    /// The entry in a canonical form: entries with the same meaning give the same text. It may contain secrets.
    #[must_use]
    pub fn written(&self) -> String {
        self.source.member.value.to_json().to_string()
    }

    /// Whether the program or the address itself needs the output of a command.
    #[must_use]
    pub fn hides_reach(&self) -> bool {
        self.source.hides_reach
    }
}

impl PartialEq for DeferredEntry {
    fn eq(&self, other: &Self) -> bool {
        self.written() == other.written()
    }
}

impl fmt::Debug for DeferredEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DeferredEntry")
    }
}
