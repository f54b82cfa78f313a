//! What a sandbox of processes consists of, as the bridge tells it to the process that becomes the sandbox.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::super::spec::Folder;

/// Folders of the machine with programs and what they need, which a sandbox has read-only. All but the first one are mostly
/// links into it.
pub(super) const PROGRAM_FOLDERS: [&str; 8] =
    ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc/alternatives"];

/// The plan of one sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Plan {
    /// Mark the owner for people who list processes.
    pub(super) labels: BTreeMap<String, String>,
    /// The program of PID 1.
    pub(super) program: String,
    /// Its command line, with its name.
    pub(super) command: Vec<String>,
    /// Its environment.
    pub(super) environment: Vec<(String, String)>,
    /// Its user, as it sees itself.
    pub(super) uid: u32,
    /// Its group.
    pub(super) gid: u32,
    /// Whether the supplementary groups of the bridge can be given up, which takes a group that the bridge does not have.
    pub(super) drops_groups: bool,
    /// Writable places and their sizes in MiB.
    pub(super) places: Vec<(String, u64)>,
    /// Folders of the machine.
    pub(super) folders: Vec<Folder>,
    /// Files and folders of /proc that it must not show.
    pub(super) masked: Vec<String>,
    /// Open files of PID 1.
    pub(super) open_files_max: u64,
    /// Processes of PID 1's user.
    pub(super) processes_max: u64,
}

/// What the process says once its user namespace is there and needs its users.
pub(super) const UNSHARED: &str = "unshared";
/// The answer.
pub(super) const MAPPED: &str = "mapped\n";
/// What it says right before it becomes PID 1.
pub(super) const READY: &str = "ready";

/// What it says instead when a step fails.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Failed {
    /// What it could not do.
    pub(super) could_not: String,
    /// Why.
    pub(super) why: String,
    /// The system's error number, if there is one.
    pub(super) errno: Option<i32>,
}
