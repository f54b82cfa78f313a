//! What a sandbox of processes consists of, as the bridge tells it to the process that becomes the sandbox.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::super::spec::Folder;

/// Where a sandbox has its virtual environment, if it has one.
pub(super) const ENVIRONMENT_FOLDER: &str = "/opt/belljar";

/// The plan of one sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Plan {
    /// Mark the owner for people who list processes.
    pub(super) labels: BTreeMap<String, String>,
    /// The program of PID 1.
    pub(super) program: String,
    /// The virtual environment.
    pub(super) environment_folder: Option<String>,
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
/// What it says right before it becomes PID 1; when a step fails, it says that instead.
pub(super) const READY: &str = "ready";
