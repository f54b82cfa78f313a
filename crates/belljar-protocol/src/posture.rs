//! What the supervisor sees of its sandbox and of each worker, and the names of what can be weaker than asked for.
//!
//! It does not judge: `session` compares it with what was asked of the engine.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The sandbox as its supervisor sees it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Posture {
    /// Of PID 1.
    #[serde(flatten)]
    pub process: ProcessPosture,
    /// Release and version of the kernel, as `uname` writes them.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kernel: String,
    /// Whether `/` is mounted read-only.
    pub root_read_only: bool,
    /// Every mount.
    pub mounts: Vec<Mount>,
    /// Paths directly in /proc, /sys and /sys/fs that have content and that no mount masks; processes and links are left out.
    pub visible: Vec<String>,
    /// What PID 1 inherited as descriptors, by number: `pipe`, `socket`, `null`, or `file` and its path.
    pub fds: Vec<String>,
    /// Network interfaces.
    pub interfaces: Vec<String>,
    /// What answered when PID 1 tried to reach other machines, as `tcp 10.0.0.1:443`. It tries only if it is asked to and there is an interface.
    pub reachable: Vec<String>,
    /// The number of each namespace.
    pub namespaces: BTreeMap<String, u64>,
    /// Whether uid 0 inside is another user outside.
    pub user_namespace: bool,
    /// Memory that the cgroup enforces.
    pub memory_max_bytes: Option<u64>,
    /// Processes that the cgroup enforces.
    pub pids_max: Option<u64>,
    /// Thousandths of a CPU that the cgroup enforces.
    pub cpu_max_millis: Option<u64>,
    /// The version of Landlock that processes of the sandbox can use; 0 for none.
    pub landlock: u64,
    /// Whether the kernel has Landlock and a filter of the engine's forbids it.
    pub landlock_forbidden: bool,
}

/// A worker as the supervisor sees it, after the worker has confined itself and before it has read anything.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WorkerPosture {
    /// Of its process.
    #[serde(flatten)]
    pub process: ProcessPosture,
    /// Its descriptors, by number.
    pub fds: Vec<String>,
    /// The version of Landlock by which it has restricted itself, as it said before it ran any code; 0 for none.
    pub landlock: u64,
    /// Whether the supervisor, which has the same user, cannot open its memory.
    pub memory_closed: bool,
    /// Whether it can open what the supervisor has open.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub supervisor_open: bool,
}

/// A process as the kernel describes it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessPosture {
    /// User id inside.
    pub uid: u64,
    /// Group id inside.
    pub gid: u64,
    /// Supplementary groups.
    pub groups: Vec<u64>,
    /// Effective capabilities, hex, as the next four.
    pub cap_eff: String,
    /// Permitted.
    pub cap_prm: String,
    /// Inheritable.
    pub cap_inh: String,
    /// The bounding set.
    pub cap_bnd: String,
    /// Ambient.
    pub cap_amb: String,
    /// `NoNewPrivs` of /proc/PID/status.
    pub no_new_privs: u64,
    /// `Seccomp` of /proc/PID/status: 2 is a filter.
    pub seccomp: u64,
    /// How many filters; nothing where the kernel does not say.
    pub seccomp_filters: Option<u64>,
    /// Hard limits; nothing for none.
    pub rlimits: Rlimits,
    /// How early the kernel ends it when memory runs out: from -1000, never, to 1000, first.
    pub oom_score_adj: Option<i64>,
}

/// Hard resource limits of a process; nothing for none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Rlimits {
    /// Bytes of a core file.
    pub core: Option<u64>,
    /// Bytes of data.
    pub data: Option<u64>,
    /// Open files.
    pub nofile: Option<u64>,
    /// Processes of its user.
    pub nproc: Option<u64>,
}

/// A mount inside the sandbox.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Mount {
    /// Where.
    pub target: String,
    /// The file system's type.
    #[serde(rename = "type")]
    pub kind: String,
    /// Such as `ro` and `noexec`.
    pub options: Vec<String>,
    /// Whether the sandbox's user may write there; devices do not count.
    pub writable: bool,
    /// The size of a tmpfs; 0 for no bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
    /// The identity of what is mounted there. Only mounts below /mnt have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identity: Option<FileIdentity>,
}

/// Device and inode, which are the same for all names of a file or folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileIdentity(pub u64, pub u64);

macro_rules! fields {
    ($($field:ident $name:literal $meaning:literal),* $(,)?) => {
        /// Something in which a sandbox can be weaker than asked for.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum PostureField {
            $(#[doc = $meaning] $field),*
        }

        impl PostureField {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$field),*];

            /// As it is written.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$field => $name),*
                }
            }
        }
    };
}

fields! {
    Uid "uid" "The user.",
    Gid "gid" "The group.",
    Groups "groups" "Supplementary groups.",
    Capabilities "capabilities" "Any capability set.",
    NoNewPrivs "no_new_privs" "Whether programs can gain privileges.",
    Seccomp "seccomp" "The engine's filter and the worker's own.",
    Root "root" "Whether the root is read-only.",
    Mounts "mounts" "What is mounted, and how.",
    Masks "masks" "What of /proc and /sys is masked.",
    Fds "fds" "Inherited descriptors.",
    Kernel "kernel" "Whose kernel it has.",
    Interfaces "interfaces" "Network interfaces.",
    Namespaces "namespaces" "Namespaces shared with the host.",
    Rlimits "rlimits" "Resource limits of processes.",
    Memory "memory" "The memory limit.",
    Pids "pids" "The limit of processes.",
    Cpus "cpus" "The limit of CPU time.",
    Tracing "tracing" "Whether other processes of the sandbox can open the interpreter's memory.",
    Landlock "landlock" "The interpreter's restriction by Landlock, where the kernel has it.",
}

impl fmt::Display for PostureField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for PostureField {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Self::ALL.iter().copied().find(|field| field.name() == text).ok_or(())
    }
}
