//! What the user allows a confined server, and what its first process is told to show it.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::access::Access;

/// What an entry allows its server beyond its own program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerSandbox {
    /// Files and folders that it can read.
    pub read: Vec<PathBuf>,
    /// Those that it can change, too.
    pub write: Vec<PathBuf>,
    /// What it can reach.
    pub network: Network,
}

/// What a confined server can reach.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Network {
    /// Nothing.
    #[default]
    None,
    /// Whatever the machine reaches, and the machine itself.
    Host,
}

/// The plan of one server's namespaces.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerPlan {
    /// What it can reach.
    pub network: Network,
    /// The place of its own, empty HOME.
    pub home: String,
    /// Symlinks on the way to what is visible, each with its target.
    pub links: Vec<(String, String)>,
    /// What it sees of the user's files: real paths, parents before their children.
    pub visible: Vec<Visible>,
}

/// A file or folder that a confined server sees at its own place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Visible {
    /// Where it is.
    pub path: String,
    /// What can be done with it.
    pub access: Access,
}
