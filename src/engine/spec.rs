//! What a sandbox is made of, whichever engine makes it.

use std::collections::HashMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The specification of a sandbox. Nothing in it comes from a frame.
#[derive(Debug, Clone)]
pub struct SandboxSpec {
    /// Names of images by preference: the first that the engine has is used.
    pub images: Vec<String>,
    /// The command, PID 1.
    pub command: Vec<String>,
    /// The OCI runtime; `None`: the engine's default.
    pub oci_runtime: Option<String>,
    /// The user inside; `None`: one that no other sandbox has, if the engine has that many.
    pub user: Option<User>,
    /// Memory and swap together.
    pub memory_bytes: u64,
    /// Processes and threads.
    pub pids_max: u64,
    /// The limit of CPU time; `None` for none.
    pub cpu: Option<CpuQuota>,
    /// Open files per process.
    pub open_files_max: u64,
    /// Folders of the machine that are mounted.
    pub folders: Vec<Folder>,
    /// Marks the owner.
    pub labels: HashMap<String, String>,
    /// Bound on each request to the engine.
    pub request: Duration,
}

/// Processes and threads that PID 1 may have; its workers lower the limit to `pids_max`.
pub(super) const FIRSTS_PROCESSES_MAX: u64 = 4096;

impl SandboxSpec {
    /// Open files that PID 1 may have; workers lower theirs to `open_files_max`. The kernel refuses to pass a descriptor on
    /// once the sender's user has more of them on the way than the sender may have open, and the code has PID 1's user:
    /// with more than the code may have, PID 1 can always pass one on.
    pub(super) fn open_files_of_first(&self) -> u64 {
        4 * self.open_files_max
    }
}

/// A limit of CPU time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuQuota {
    /// Thousandths of a CPU.
    pub millis: u64,
    /// Whether a container without the limit is acceptable where the engine refuses one with it.
    pub optional: bool,
}

/// A folder of the machine inside, in which nothing can be executed and devices are none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Folder {
    /// Where it is: absolute, without a colon or comma.
    pub host: String,
    /// Where it is mounted.
    pub guest: String,
    /// Whether it can be written to.
    pub writable: bool,
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

/// Writable places inside: size in MiB, with this much memory or more. Podman adds `/run` and `/var/tmp` by itself,
/// executable and unbounded, unless they are named.
const TMPFS_MIB: [(&str, u64); 5] =
    [("/tmp", 64), ("/workspace", 128), ("/run", 4), ("/var/tmp", 16), ("/dev/shm", 64)];
const TMPFS_OF_MIB: u64 = 512;

/// Writable places inside a sandbox with this much memory, and their size in MiB: full ones together leave the code almost
/// half of it.
#[must_use]
pub fn tmpfs_mib(memory_bytes: u64) -> Vec<(&'static str, u64)> {
    let of_mib = (memory_bytes >> 20).min(TMPFS_OF_MIB);
    TMPFS_MIB.map(|(path, mib)| (path, (mib * of_mib / TMPFS_OF_MIB).max(1))).to_vec()
}

/// The variables of PID 1, beside its PATH.
pub(super) const ENVIRONMENT: [(&str, &str); 9] = [
    ("HOME", "/workspace"),
    // The user's number has no account in the image, and Docker adds none.
    ("USER", "sandbox"),
    ("LOGNAME", "sandbox"),
    ("PYTHONUNBUFFERED", "1"),
    ("PYTHONIOENCODING", "utf-8"),
    ("PYTHONDONTWRITEBYTECODE", "1"),
    ("MPLBACKEND", "Agg"),
    ("MPLCONFIGDIR", "/tmp/matplotlib"),
    // Threads of the linear algebra libraries would not survive a fork of the interpreter.
    ("OPENBLAS_NUM_THREADS", "1"),
];
