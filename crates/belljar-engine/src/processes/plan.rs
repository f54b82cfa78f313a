//! The plan of a sandbox of processes, which the bridge passes to the process that becomes the sandbox.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::super::spec::Folder;

/// The path of the virtual environment in a sandbox that has one.
pub(super) const ENVIRONMENT_FOLDER: &str = "/opt/belljar";

/// The plan of one sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Plan {
    /// Labels that show the owner to people who list processes.
    pub(super) labels: BTreeMap<String, String>,
    /// The program of PID 1.
    pub(super) program: String,
    /// The folder of the virtual environment on the machine; `None`: the sandbox has none.
    pub(super) environment_folder: Option<String>,
    /// The command line of PID 1, including the program's name.
    pub(super) command: Vec<String>,
    /// The environment of PID 1.
    pub(super) environment: Vec<(String, String)>,
    /// The user of PID 1 inside the sandbox.
    pub(super) uid: u32,
    /// The group of PID 1 inside the sandbox.
    pub(super) gid: u32,
    /// Whether the bridge's supplementary groups can be dropped, which needs another group than the bridge's.
    pub(super) drops_groups: bool,
    /// Writable places and their sizes in MiB.
    pub(super) places: Vec<(String, u64)>,
    /// Folders of the machine to mount.
    pub(super) folders: Vec<Folder>,
    /// Files and folders of /proc that the sandbox must not show.
    pub(super) masked: Vec<String>,
    /// The largest number of open files of PID 1.
    pub(super) open_files_max: u64,
    /// The largest number of processes of PID 1's user.
    pub(super) processes_max: u64,
}

/// The process's message that its user namespace exists and needs its users.
pub(super) const UNSHARED: &str = "unshared";
/// The bridge's answer to [`UNSHARED`].
pub(super) const MAPPED: &str = "mapped\n";
/// The process's message right before it becomes PID 1. If a step fails, the failure comes instead.
pub(super) const READY: &str = "ready";
