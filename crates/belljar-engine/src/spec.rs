//! The specification of a sandbox, for any engine.

use std::collections::HashMap;
use std::time::Duration;

use belljar_protocol::FileIdentity;
use serde::{Deserialize, Serialize};

/// The specification of a sandbox. None of its values come from a frame.
#[derive(Debug, Clone)]
pub struct SandboxSpec {
    /// Names of images in the order of preference; the first one that the engine has is used.
    pub images: Vec<String>,
    /// Variables of the sandbox, beside those that every one has.
    pub variables: Vec<(String, String)>,
    /// The command line of PID 1.
    pub command: Vec<String>,
    /// The OCI runtime; `None`: the engine's default.
    pub oci_runtime: Option<String>,
    /// The user in the sandbox; `None`: one that no other sandbox has, if the engine has enough users.
    pub user: Option<User>,
    /// The limit on memory and swap together, in bytes.
    pub memory_bytes: u64,
    /// The largest number of processes and threads.
    pub pids_max: u64,
    /// The limit of CPU time; `None`: no limit.
    pub cpu: Option<CpuQuota>,
    /// The largest number of open files of a process.
    pub open_files_max: u64,
    /// Folders of the machine that are mounted.
    pub folders: Vec<Folder>,
    /// Labels that mark the owner.
    pub labels: HashMap<String, String>,
    /// The longest time of each request to the engine.
    pub request: Duration,
    /// How long a lost connection to a sandbox on another machine is tried again.
    pub reconnection: Duration,
}

/// The largest number of processes and threads of PID 1; its workers lower the limit to `pids_max`.
pub(super) const FIRSTS_PROCESSES_MAX: u64 = 4096;

impl SandboxSpec {
    /// The largest number of open files of PID 1; workers lower theirs to `open_files_max`. The kernel refuses to send
    /// a descriptor if the sender's user already has more descriptors in flight than the sender may have open. Code has
    /// the same user as PID 1, so PID 1 gets a higher limit, with which it can always send one.
    pub(super) fn open_files_of_first(&self) -> u64 {
        4 * self.open_files_max
    }
}

/// A limit of CPU time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuQuota {
    /// Thousandths of a CPU.
    pub millis: u64,
    /// Whether a container without the limit is acceptable, if the engine refuses it with the limit.
    pub optional: bool,
}

/// A folder of the machine in the sandbox. Nothing in it can be executed, and device files do not work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Folder {
    /// Its path on the machine: absolute, without a colon or comma.
    pub host: String,
    /// Its path in the sandbox.
    pub guest: String,
    /// Whether it can be written to.
    pub writable: bool,
    /// Its device and inode when it was checked; `None`: it was not checked yet.
    #[serde(skip)]
    pub identity: Option<FileIdentity>,
}

/// The user and group of a sandbox's processes, as numbers inside the container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct User {
    /// The user.
    pub uid: u32,
    /// The group.
    pub gid: u32,
}

impl User {
    /// The user `nobody`, for sandboxes that must share one.
    pub const SHARED: Self = Self { uid: 65_534, gid: 65_534 };
}

impl std::fmt::Display for User {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.uid, self.gid)
    }
}

/// Writable places in the sandbox, with their sizes in MiB if the sandbox has enough memory. Podman adds `/run` and
/// `/var/tmp` by itself, executable and unbounded, unless they are named.
pub(super) const TMPFS_MIB: [(&str, u64); 5] =
    [("/tmp", 64), ("/workspace", 128), ("/run", 4), ("/var/tmp", 16), ("/dev/shm", 64)];
const TMPFS_OF_MIB: u64 = 512;

/// Writable places in a sandbox with this much memory, and their sizes in MiB. If all of them are full, the code still
/// has almost half of the memory.
#[must_use]
pub fn tmpfs_mib(memory_bytes: u64) -> Vec<(&'static str, u64)> {
    let of_mib = (memory_bytes >> 20).min(TMPFS_OF_MIB);
    TMPFS_MIB.map(|(path, mib)| (path, (mib * of_mib / TMPFS_OF_MIB).max(1))).to_vec()
}

/// The variables of PID 1, except its PATH.
pub(super) const ENVIRONMENT: [(&str, &str); 9] = [
    ("HOME", "/workspace"),
    // The user has no account in the image, and Docker creates none.
    ("USER", "sandbox"),
    ("LOGNAME", "sandbox"),
    ("PYTHONUNBUFFERED", "1"),
    ("PYTHONIOENCODING", "utf-8"),
    ("PYTHONDONTWRITEBYTECODE", "1"),
    ("MPLBACKEND", "Agg"),
    ("MPLCONFIGDIR", "/tmp/matplotlib"),
    // Threads of linear algebra libraries would not survive a fork of the interpreter.
    ("OPENBLAS_NUM_THREADS", "1"),
];

/// The engine that the operator has chosen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Choice {
    /// Any engine, a rootless one before a rootful one.
    #[default]
    Auto,
    /// Podman.
    Podman,
    /// Docker.
    Docker,
    /// Processes of this machine, without a container engine.
    Process,
    /// Pods of a Kubernetes cluster.
    Kubernetes,
    /// The engines at these addresses: `unix://`, `tcp://`, `http://` or `ssh://`. Of several, each new session gets one.
    At(Vec<String>),
}
