//! The state of reading one file with entries: the position, the problems so far, and the references that were
//! resolved.
//!
//! It does not know which key means what: `entry` and the modules of its keys do.

use std::path::Path;
use std::sync::Arc;

use belljar_base::problem::{OF_FILE_MAX, Origin, Position, Problem, Severity};

use crate::clients::{Member, Value};
use crate::config::read::file::WatchedFile;
use crate::config::read::line_index::LineIndex;
use crate::config::read::references::{ResolvedReferences, Sources};

/// Stands in for the value of a reference whose command has not run yet. It is valid for every key.
pub(super) const STAND_IN: &str = "https://known.later.invalid/";

/// One file that is being read.
pub(super) struct Reading<'r> {
    pub(super) sources: &'r Sources<'r>,
    pub(super) path: &'r Path,
    pub(super) text: &'r Arc<str>,
    pub(super) section: Section,
    pub(super) problems: &'r mut Vec<Problem>,
    places: LineIndex<'r>,
    /// The number of errors, including those that were not reported one by one.
    pub(super) errors: usize,
    told: usize,
    untold: usize,
    /// The files that references have led to.
    pub(super) files: Vec<WatchedFile>,
    /// The references of the entry that is being read.
    pub(super) resolved: ResolvedReferences,
}

/// The section that holds the entries, which also tells the kind of file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Section {
    /// `mcpServers` of a JSON file, as clients have it.
    McpServers,
    /// `servers` of a config.toml.
    Servers,
}

/// The keys of one entry that count, each at most once.
#[derive(Default)]
pub(super) struct Parts<'m> {
    pub(super) command: Option<&'m Value>,
    pub(super) args: Option<&'m Value>,
    pub(super) env: Option<&'m Value>,
    pub(super) env_inherit: Option<&'m Value>,
    pub(super) cwd: Option<&'m Value>,
    pub(super) url: Option<&'m Member>,
    pub(super) headers: Option<&'m Value>,
    pub(super) login: Option<&'m Value>,
    pub(super) transport: Option<&'m Value>,
    pub(super) start_timeout: Option<&'m Value>,
    pub(super) timeout: Option<&'m Value>,
    pub(super) max_concurrency: Option<&'m Value>,
    pub(super) allow: Option<&'m Value>,
    pub(super) deny: Option<&'m Value>,
    pub(super) sandbox: Option<&'m Value>,
    pub(super) sandbox_files: Option<&'m Value>,
    pub(super) private: Option<&'m Value>,
    pub(super) description: Option<&'m Value>,
    pub(super) disabled: bool,
}

impl Section {
    /// The section's key in the file.
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
        let (places, files, resolved) = (LineIndex::new(text), Vec::new(), ResolvedReferences::default());
        let (errors, told, untold) = (0, 0, 0);
        Self { sources, path, text, section, problems, places, errors, told, untold, files, resolved }
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
        let problem =
            Problem::of_file(self.path, message).severity(severity).at(self.position(at)).key(key).hint(hint);
        self.problems.push(problem);
    }

    /// Reports the number of problems that were not reported one by one, and returns the files that references have led
    /// to.
    pub(super) fn end(self) -> Vec<WatchedFile> {
        self.problems.extend(Problem::untold(Origin::File(self.path.to_owned()), self.untold));
        self.files
    }

    pub(super) fn unknown_type(&mut self, at: usize, key: &str, kind: &str) {
        let message = format!("has the type {kind:?}, which belljar does not know");
        self.push(Severity::Error, (at, key), message, "known are stdio, http (or streamable-http) and sse");
    }
}
