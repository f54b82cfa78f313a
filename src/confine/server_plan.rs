//! What the user allows a confined server, and the files that its first process makes visible to it.

use std::fmt;
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

impl fmt::Display for ServerSandbox {
    /// As it is written in TOML.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |paths: &[PathBuf]| {
            let quoted: Vec<String> =
                paths.iter().map(|path| format!("{:?}", path.display().to_string())).collect();
            format!("[{}]", quoted.join(", "))
        };
        let mut parts = Vec::new();
        if !self.read.is_empty() {
            parts.push(format!("read = {}", list(&self.read)));
        }
        if !self.write.is_empty() {
            parts.push(format!("write = {}", list(&self.write)));
        }
        let network = if self.network == Network::Host { "host" } else { "none" };
        parts.push(format!("network = \"{network}\""));
        write!(f, "{{ {} }}", parts.join(", "))
    }
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
    /// The folder in which it begins, if it sees it.
    pub folder: String,
    /// The place of its own, empty HOME.
    pub home: String,
    /// Symlinks on the way to what is visible, each with its target.
    pub links: Vec<(String, String)>,
    /// What it sees of the user's files: real paths, parents before their children.
    pub visible: Vec<VisiblePath>,
}

/// A file or folder that a confined server sees at its own place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VisiblePath {
    /// Where it is.
    pub path: String,
    /// What can be done with it.
    pub access: Access,
}
