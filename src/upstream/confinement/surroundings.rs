//! Where and with what a server's command is started.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::programs::locate_program;

/// The folder and the environment that a command is started in.
pub(super) struct Surroundings<'a> {
    /// The server's own variables.
    pub(super) variables: &'a BTreeMap<String, String>,
    /// The user's HOME.
    pub(super) home: &'a Path,
    /// The folder it is started in.
    pub(super) folder: &'a Path,
}

impl Surroundings<'_> {
    pub(super) fn variable(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// The file that a command name starts.
    pub(super) fn locate(&self, program: &Path) -> Option<PathBuf> {
        locate_program(program, self.variable("PATH").map(OsStr::new), self.folder)
    }

    /// Whether a folder holds more than one program's files.
    pub(super) fn is_too_wide(&self, folder: &Path) -> bool {
        self.home.starts_with(folder)
            || folder.components().count() < 3
            || folder == self.home.join(".local")
            || folder == self.home.join(".config")
            || folder == self.home.join(".cache")
    }
}
