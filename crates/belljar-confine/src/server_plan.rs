//! The rights that the user gives a confined server, and the files that its first process makes visible to it.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The rights of a confined process to the files of a folder, from the least to the most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Access {
    /// The process reads the files.
    Read,
    /// The process reads and executes the files.
    Execute,
    /// The process reads, executes and changes the files. Other processes do not see its changes, which end with it.
    Layer,
    /// The process reads and changes the files.
    Write,
    /// The process reads, changes and executes the files.
    Change,
}

/// The rights that a server's entry in the configuration gives the server, in addition to its own program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerSandbox {
    /// Files and folders that the server can read.
    pub read: Vec<PathBuf>,
    /// Files and folders that the server can read and change.
    pub write: Vec<PathBuf>,
    /// The network that the server can reach.
    pub network: Network,
}

impl fmt::Display for ServerSandbox {
    /// Writes the rights in TOML.
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

/// The network that a confined server can reach.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Network {
    /// No network.
    #[default]
    None,
    /// The machine's network, including the machine itself.
    Host,
}

/// The plan of one server's namespaces.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerPlan {
    /// The network that the server can reach.
    pub network: Network,
    /// The folder in which the server starts, if the server sees it.
    pub folder: String,
    /// The path of the server's own HOME, which is empty.
    pub home: String,
    /// Symlinks on the way to visible files, each with its target.
    pub links: Vec<(String, String)>,
    /// The user's files and folders that the server sees, by real paths, parents before their children.
    pub visible: Vec<VisiblePath>,
}

/// A file or folder that a confined server sees at its own path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VisiblePath {
    /// Where it is.
    pub path: String,
    /// The server's access.
    pub access: Access,
}

/// The largest number of files and folders in a writable place in memory of this many MiB. An empty file takes about 1
/// KiB of kernel memory, which the size of the place does not limit.
#[must_use]
pub fn files_of_place_max(mib: u64) -> u64 {
    (mib * 256).clamp(4096, 65_536)
}
