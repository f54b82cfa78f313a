//! Compares the posture that the supervisor reports, of its sandbox and its workers, with what the engine was asked
//! for.
//!
//! It decides nothing: `sandbox` refuses a weaker property, unless the operator has allowed it by name.

use std::fmt;

use belljar_engine::{CpuQuota, Folder, Guarantees, Kernel, Network};
use belljar_protocol::{Mount, Posture, PostureField, ProcessPosture, WorkerPosture};

/// The properties of a sandbox that the bridge asked the engine for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RequestedPosture {
    pub(super) uid: u64,
    pub(super) gid: u64,
    pub(super) memory_bytes: u64,
    pub(super) pids_max: u64,
    pub(super) cpu: Option<CpuQuota>,
    pub(super) open_files_max: u64,
    /// Writable places by path, with their size in MiB.
    pub(super) tmpfs: Vec<(&'static str, u64)>,
    /// What the engine guarantees about its sandboxes.
    pub(super) guarantees: Guarantees,
    /// Folders of the machine that are mounted.
    pub(crate) folders: Vec<Folder>,
    /// The kernel that the OCI runtime gives it.
    pub(crate) kernel: Kernel,
    /// The kernel of this machine, if the engine is on it.
    pub(super) machines_kernel: Option<String>,
}

impl RequestedPosture {
    /// The folders below which code may change files.
    pub(crate) fn writable(&self) -> Vec<String> {
        let places = self.tmpfs.iter().map(|(path, _)| (*path).to_owned());
        let folders = self.folders.iter().filter(|folder| folder.writable).map(|folder| folder.guest.clone());
        places.chain(folders).collect()
    }
}

/// A property in which a sandbox is weaker than requested.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Weakness {
    pub(crate) field: PostureField,
    seen: String,
    asked: String,
}

impl fmt::Display for Weakness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { field, seen, asked } = self;
        let seen = if seen.is_empty() { "nothing" } else { seen };
        write!(f, "{field}: got {seen}, expected {asked}")
    }
}

/// Folders of the kernel, below which an engine may mount anything. It is harmless if code cannot write there, or if
/// neither programs nor devices work there.
const KERNELS: [&str; 2] = ["/proc", "/sys"];
/// The largest tmpfs that an engine may add at a place where code can write, in bytes.
const ENGINES_TMPFS_BYTES_MAX: u64 = 64 << 20;
/// The first version of Landlock that can allow files to move between folders; an older one is not used.
pub(super) const LANDLOCK_VERSION_MIN: u64 = 2;
/// The interface of a Pod to its cluster's network.
const PODS_INTERFACE: &str = "eth0";
/// Interfaces that modules of the kernel add to each network namespace. They are down, and only a privileged process can
/// change that.
const FALLBACK_TUNNELS: [&str; 9] =
    ["tunl0", "sit0", "ip6tnl0", "gre0", "gretap0", "erspan0", "ip6gre0", "ip_vti0", "ip6_vti0"];
const SHUT: [&str; 3] = ["noexec", "nosuid", "nodev"];
/// The place of the message queues. An empty, read-only file system is requested there.
const QUEUES: &str = "/dev/mqueue";

/// The numbers that the kernel gives to the machine's own namespaces. Before Linux 6.17 those of `mnt` and `net`
/// differ, and the comparison relies on the mounts and the interfaces.
const MACHINES_OWN: [(&str, u64); 5] = [
    ("ipc", 0xEFFF_FFFF),
    ("mnt", 0xEFFF_FFF8),
    ("net", 0xEFFF_FFF9),
    ("pid", 0xEFFF_FFFC),
    ("uts", 0xEFFF_FFFE),
];

/// The properties in which the sandbox is weaker than requested. `unenforced` judges the limits of its cgroup.
pub(super) fn weaknesses(posture: &Posture, asked: &RequestedPosture) -> Vec<Weakness> {
    let mut found = Weaknesses::default();
    found.process(&posture.process, asked);
    found.need(posture.root_read_only, PostureField::Root, || ("writable".into(), "read-only".into()));
    for mount in &posture.mounts {
        found.mount(mount, asked);
    }
    let missing = asked.tmpfs.iter().filter(|(path, _)| !posture.mounts.iter().any(|m| m.target == *path));
    for (path, _) in missing {
        found.need(false, PostureField::Mounts, || (format!("none at {path}"), "a tmpfs".into()));
    }
    // With a kernel of its own, the sandbox sees nothing of the machine at these paths.
    let masked = if asked.kernel == Kernel::Shared { asked.guarantees.masked_paths.as_slice() } else { &[] };
    let visible: Vec<&str> =
        masked.iter().filter(|path| posture.visible.iter().any(|seen| seen == *path)).copied().collect();
    found.need(visible.is_empty(), PostureField::Masks, || {
        (format!("{} visible", visible.join(" ")), "masked".into())
    });
    for folder in &asked.folders {
        let is_there = posture.mounts.iter().any(|mount| mount.target == folder.guest);
        found.need(is_there, PostureField::Mounts, || {
            (format!("none at {}", folder.guest), "a folder".into())
        });
        // Only the kernel that checked the folder gives it the same numbers.
        let is_comparable =
            asked.kernel == Kernel::Shared && asked.machines_kernel.as_ref() == Some(&posture.kernel);
        let mut mounted = posture.mounts.iter().filter(|mount| mount.target == folder.guest);
        let is_same = !is_comparable || mounted.all(|mount| mount.identity == folder.identity);
        found.need(is_same, PostureField::Mounts, || {
            (format!("another folder at {}", folder.guest), "the one that was checked".into())
        });
    }
    // Only Landlock keeps code from what the mounts allow.
    let is_shut = asked.guarantees.shut_places
        || asked.kernel != Kernel::Shared
        || posture.landlock >= LANDLOCK_VERSION_MIN;
    found.need(is_shut, PostureField::Landlock, || {
        (
            format!("version {}", posture.landlock),
            "one that keeps code from executing files it has written".into(),
        )
    });
    // gVisor has another name for descriptors from the machine.
    let streams = &asked.guarantees.streams;
    let is_stream = |(fd, kinds): (&String, &&[&str])| {
        kinds.contains(&fd.as_str()) || (asked.kernel == Kernel::Gvisor && fd == "host")
    };
    let are_streams = posture.fds.len() == streams.len() && posture.fds.iter().zip(streams).all(is_stream);
    found.need(are_streams, PostureField::Fds, || (posture.fds.join(", "), "three streams".into()));
    match asked.guarantees.network {
        Network::NoInterface => {
            let has_none = posture.interfaces.iter().all(|name| name == "lo");
            found.need(has_none, PostureField::Interfaces, || (posture.interfaces.join(" "), "lo".into()));
        }
        Network::Denied => {
            let reached = &posture.reachable;
            found.need(reached.is_empty(), PostureField::Interfaces, || {
                let remedy = "no answer: the network policies of the cluster must deny all";
                (format!("an answer from {}", reached.join(", ")), remedy.into())
            });
            let is_known =
                |name: &str| ["lo", PODS_INTERFACE].contains(&name) || FALLBACK_TUNNELS.contains(&name);
            let has_others = posture.interfaces.iter().any(|name| !is_known(name));
            let expected = format!("lo {PODS_INTERFACE}");
            found.need(!has_others, PostureField::Interfaces, || (posture.interfaces.join(" "), expected));
        }
    }
    if asked.kernel != Kernel::Shared {
        // Another kernel has its own namespaces with its own numbers, so only the kernel is compared.
        let is_other = !posture.kernel.is_empty() && Some(&posture.kernel) != asked.machines_kernel.as_ref();
        found.need(is_other, PostureField::Kernel, || (posture.kernel.clone(), "one of its own".into()));
        return found.0;
    }
    for (name, machines) in MACHINES_OWN {
        let is_own = posture.namespaces.get(name).is_some_and(|number| *number != machines);
        found.need(is_own, PostureField::Namespaces, || (format!("{name} of the machine"), "its own".into()));
    }
    found.0
}

/// The properties in which a worker is weaker than its runtime makes it. A restored worker has run code, so it may have
/// files open.
pub(crate) fn worker_weaknesses(
    worker: &WorkerPosture,
    posture: &Posture,
    asked: &RequestedPosture,
    restored: bool,
) -> Vec<Weakness> {
    let mut found = Weaknesses::default();
    let process = &worker.process;
    found.process(process, asked);
    let is_filtered = match (process.seccomp_filters, posture.process.seccomp_filters) {
        (Some(workers), Some(supervisors)) => workers > supervisors,
        // This kernel does not count filters. A worker that could not install its own does not start.
        _ => process.seccomp == 2,
    };
    found.need(is_filtered, PostureField::Seccomp, || {
        ("no filter of the interpreter's own".into(), "one".into())
    });
    let fds = ["null", "pipe", "pipe", "socket", "socket", "socket"];
    found.need(restored || worker.fds == fds, PostureField::Fds, || (worker.fds.join(", "), fds.join(", ")));
    found.need(worker.memory_closed, PostureField::Tracing, || {
        ("an interpreter whose memory other processes can open".into(), "none".into())
    });
    let has = posture.landlock;
    let is_restricted = has < LANDLOCK_VERSION_MIN || worker.landlock >= has;
    found.need(is_restricted, PostureField::Landlock, || {
        (format!("version {}", worker.landlock), format!("version {has}, which the kernel has"))
    });
    found.need(!worker.supervisor_open, PostureField::Fds, || {
        ("an interpreter that can open the supervisor's".into(), "its own only".into())
    });
    // The limits of PID 1 are not judged: it runs no code of the user, and rootless Podman 4 gives it none of the
    // requested ones.
    found.rlimit("core", process.rlimits.core, 0);
    found.rlimit("nofile", process.rlimits.nofile, asked.open_files_max);
    found.rlimit("data", process.rlimits.data, asked.memory_bytes);
    if asked.guarantees.own_users && posture.pids_max.is_none_or(|pids| pids > asked.pids_max) {
        found.rlimit("nproc", process.rlimits.nproc, asked.pids_max);
    }
    found.0
}

/// The limits of the cgroup that the engine has accepted and does not enforce, each with a sentence for the user.
pub(super) fn unenforced(posture: &Posture, asked: &RequestedPosture) -> Vec<(PostureField, String)> {
    let mut found = Vec::new();
    let mut expect = |field, seen: Option<u64>, wanted: u64, slack: u64, limit: String| {
        if seen.is_none_or(|seen| seen > wanted.saturating_add(slack)) {
            found.push((field, format!("the {limit} is not enforced by this engine")));
        }
    };
    let mib = |bytes: u64| bytes >> 20;
    let memory = mib(asked.memory_bytes);
    let limit = format!("memory limit of {memory} MiB");
    expect(PostureField::Memory, posture.memory_max_bytes.map(mib), memory, 1, limit);
    // Otherwise the worker is judged.
    if !asked.guarantees.own_users {
        let limit = format!("pids limit of {} processes", asked.pids_max);
        expect(PostureField::Pids, posture.pids_max, asked.pids_max, 0, limit);
    }
    if let Some(CpuQuota { millis, .. }) = asked.cpu {
        let limit = format!("cpu limit of {millis} thousandths of a CPU");
        expect(PostureField::Cpus, posture.cpu_max_millis, millis, 1, limit);
    }
    found
}

/// The weaknesses that a comparison has found so far.
#[derive(Default)]
struct Weaknesses(Vec<Weakness>);

impl Weaknesses {
    fn need(&mut self, holds: bool, field: PostureField, said: impl FnOnce() -> (String, String)) {
        if !holds {
            let (seen, asked) = said();
            self.0.push(Weakness { field, seen, asked });
        }
    }

    fn process(&mut self, process: &ProcessPosture, asked: &RequestedPosture) {
        let ProcessPosture { uid, gid, no_new_privs, seccomp, .. } = *process;
        let number = |seen: u64, asked: u64| (seen.to_string(), asked.to_string());
        self.need(uid == asked.uid, PostureField::Uid, || number(uid, asked.uid));
        self.need(gid == asked.gid, PostureField::Gid, || number(gid, asked.gid));
        let others: Vec<String> =
            process.groups.iter().filter(|group| **group != asked.gid).map(ToString::to_string).collect();
        self.need(others.is_empty(), PostureField::Groups, || (others.join(" "), "none".into()));
        let sets = [
            ("effective", &process.cap_eff),
            ("permitted", &process.cap_prm),
            ("inheritable", &process.cap_inh),
            ("bounding", &process.cap_bnd),
            ("ambient", &process.cap_amb),
        ];
        for (name, set) in sets {
            // gVisor does not show the ambient set, which cannot exceed the permitted one.
            let is_unshown = asked.kernel == Kernel::Gvisor && name == "ambient" && set.is_empty();
            self.need(is_zero(set) || is_unshown, PostureField::Capabilities, || {
                (format!("{name} {set}"), "none".into())
            });
        }
        self.need(no_new_privs == 1, PostureField::NoNewPrivs, || number(no_new_privs, 1));
        // Runtimes with a kernel of their own apply the engine's filter to that kernel, not to processes in it.
        let is_filtered = seccomp == 2 || asked.kernel != Kernel::Shared;
        self.need(is_filtered, PostureField::Seccomp, || (seccomp.to_string(), "2 (a filter)".into()));
    }

    fn rlimit(&mut self, name: &str, seen: Option<u64>, asked: u64) {
        self.need(seen.is_some_and(|seen| seen <= asked), PostureField::Rlimits, || {
            let seen = seen.map_or("unlimited".into(), |seen| seen.to_string());
            (format!("{name} {seen}"), asked.to_string())
        });
    }

    fn mount(&mut self, mount: &Mount, asked: &RequestedPosture) {
        let Mount { target, kind, options, writable, size_bytes, identity: _ } = mount;
        let has = |option: &str| options.iter().any(|own| own == option);
        // gVisor does not show `nosuid` and `nodev`: programs gain no privileges there, and devices need a capability
        // to be made.
        let shut = if asked.kernel == Kernel::Gvisor { &SHUT[..1] } else { &SHUT[..] };
        let is_shut = shut.iter().all(|option| has(option));
        let seen = || format!("{target} ({kind}, {})", options.join(","));
        if target == "/" {
            return;
        }
        if let Some((_, mib)) = asked.tmpfs.iter().find(|(path, _)| path == target) {
            let bytes_max = *mib << 20;
            let is_sized = size_bytes.is_some_and(|bytes| (1..=bytes_max).contains(&bytes));
            let is_as_promised = is_shut || !asked.guarantees.shut_places;
            self.need(kind == "tmpfs" && is_as_promised, PostureField::Mounts, || {
                (seen(), format!("tmpfs,{}", SHUT.join(",")))
            });
            self.need(kind != "tmpfs" || is_sized, PostureField::Mounts, || {
                let size = size_bytes.filter(|bytes| *bytes > 0);
                let size = size.map_or("no size".into(), |bytes| format!("{} MiB", bytes >> 20));
                (format!("{target} with {size}"), format!("{mib} MiB"))
            });
            return;
        }
        if let Some(folder) = asked.folders.iter().find(|folder| folder.guest == *target) {
            let access = if folder.writable { "rw" } else { "ro" };
            self.need(is_shut && (folder.writable || has("ro")), PostureField::Mounts, || {
                (seen(), format!("{access},{}", SHUT.join(",")))
            });
            return;
        }
        if asked.guarantees.program_folders.iter().any(|folder| is_in(target, folder)) {
            let is_closed = ["ro", "nosuid", "nodev"].iter().all(|option| has(option)) && !writable;
            self.need(is_closed, PostureField::Mounts, || (seen(), "ro,nosuid,nodev".into()));
            return;
        }
        if asked.guarantees.open_mounts.contains(&target.as_str()) {
            return;
        }
        if target == QUEUES {
            let is_empty = kind == "tmpfs" && has("ro") && !writable;
            self.need(is_empty, PostureField::Mounts, || (seen(), "an empty tmpfs,ro".into()));
            return;
        }
        let is_added = |place: &&str| target == place || (KERNELS.contains(place) && is_in(target, place));
        let is_engines = asked.guarantees.added_mounts.iter().any(is_added);
        self.need(is_engines, PostureField::Mounts, || (seen(), "no such mount".into()));
        let is_bounded =
            kind != "tmpfs" || size_bytes.is_some_and(|bytes| (1..=ENGINES_TMPFS_BYTES_MAX).contains(&bytes));
        let is_harmless = !writable || (is_shut && is_bounded);
        self.need(!is_engines || is_harmless, PostureField::Mounts, || {
            (format!("{} open to the code", seen()), "shut".into())
        });
        self.need(target != "/sys" || has("ro"), PostureField::Mounts, || (seen(), "ro".into()));
    }
}

/// Whether a path is a folder or below it.
fn is_in(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|below| below.is_empty() || below.starts_with('/'))
}

fn is_zero(hex: &str) -> bool {
    !hex.is_empty() && hex.chars().all(|digit| digit == '0')
}

#[cfg(test)]
#[path = "posture_tests.rs"]
mod tests;
