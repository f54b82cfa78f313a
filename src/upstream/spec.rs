//! How a server is started.

use std::path::PathBuf;

use crate::guard::Keeper;
use crate::names::ServerName;

/// How to start one server over stdio.
#[derive(Clone, PartialEq, Eq)]
pub struct ServerSpec {
    /// Its name.
    pub name: ServerName,
    /// The program, found in `PATH` when it has no slash.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
    /// Added to the bridge's own environment. May hold secrets, so this type has no `Debug`.
    pub env: Vec<(String, String)>,
    /// Where it runs; the bridge's own folder by default.
    pub cwd: Option<PathBuf>,
    /// Ends whatever it starts; nothing where the system has no such thing.
    pub keeper: Option<Keeper>,
}
