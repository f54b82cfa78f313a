//! Claims about accepted postures, and that every weaker field is named.

use std::collections::BTreeMap;

use belljar_protocol::{FileIdentity, Rlimits};

use super::*;

const TMPFS: &[(&str, u64)] = &[("/tmp", 64), ("/dev/shm", 64)];

fn asked() -> RequestedPosture {
    RequestedPosture {
        uid: 65534,
        gid: 65534,
        memory_bytes: 512 << 20,
        pids_max: 128,
        cpu: Some(CpuQuota { millis: 500, optional: false }),
        open_files_max: 1024,
        tmpfs: TMPFS.to_vec(),
        program_folders: vec![],
        masked: vec!["/proc/cmdline", "/proc/sys", "/sys/block"],
        folders: vec![],
        kernel: Kernel::Shared,
        machines_kernel: None,
    }
}

fn process() -> ProcessPosture {
    let none = || "0000000000000000".to_owned();
    ProcessPosture {
        uid: 65534,
        gid: 65534,
        groups: vec![65534],
        cap_eff: none(),
        cap_prm: none(),
        cap_inh: none(),
        cap_bnd: none(),
        cap_amb: none(),
        no_new_privs: 1,
        seccomp: 2,
        seccomp_filters: Some(1),
        rlimits: Rlimits { core: Some(0), data: None, nofile: Some(1024), nproc: Some(4096) },
        oom_score_adj: Some(500),
    }
}

fn mount(target: &str, kind: &str, options: &str, writable: bool) -> Mount {
    let options = options.split(',').map(str::to_owned).collect();
    let size_bytes = (kind == "tmpfs").then_some(64 << 20);
    Mount { target: target.into(), kind: kind.into(), options, writable, size_bytes, identity: None }
}

/// Mounts as engines make them: a selection of real ones.
fn mounts() -> Vec<Mount> {
    vec![
        mount("/", "overlay", "ro,relatime", false),
        mount("/dev", "tmpfs", "rw,nosuid", false),
        mount("/dev/null", "devtmpfs", "rw,nosuid,noexec", false),
        mount("/dev/mqueue", "tmpfs", "ro,nosuid,nodev,noexec", false),
        mount("/tmp", "tmpfs", "rw,nosuid,nodev,noexec", true),
        mount("/dev/shm", "tmpfs", "rw,nosuid,nodev,noexec", true),
        mount("/etc/hosts", "ext4", "ro", false),
        mount("/proc", "proc", "rw,nosuid,nodev,noexec", false),
        mount("/proc/keys", "tmpfs", "rw,nosuid", false),
        mount("/sys", "sysfs", "ro", false),
        mount("/sys/fs/cgroup", "tmpfs", "rw,nosuid,nodev,noexec", true),
    ]
}

fn good() -> Posture {
    let own = |name: &str| (name.to_owned(), 4_026_532_180);
    Posture {
        process: process(),
        kernel: "6.18.1 #1 SMP".into(),
        root_read_only: true,
        mounts: mounts(),
        visible: ["/proc/cpuinfo", "/sys/fs"].map(str::to_owned).to_vec(),
        fds: vec!["pipe".into(), "socket".into(), "null".into()],
        interfaces: vec!["lo".into()],
        namespaces: BTreeMap::from(["ipc", "mnt", "net", "pid", "uts"].map(own)),
        user_namespace: false,
        memory_max_bytes: Some(512 << 20),
        pids_max: Some(128),
        cpu_max_millis: Some(500),
        landlock: 7,
        landlock_forbidden: false,
    }
}

fn good_worker() -> WorkerPosture {
    let rlimits = Rlimits { data: Some(512 << 20), ..process().rlimits };
    let fds = ["null", "pipe", "pipe", "socket", "socket", "socket"].map(str::to_owned).to_vec();
    let process = ProcessPosture { seccomp_filters: Some(2), rlimits, ..process() };
    WorkerPosture { process, fds, landlock: 7, memory_closed: true, supervisor_open: false }
}

fn said(found: &[Weakness]) -> Vec<String> {
    found.iter().map(ToString::to_string).collect()
}

fn with(change: impl FnOnce(&mut Posture)) -> Vec<String> {
    let mut posture = good();
    change(&mut posture);
    said(&weaknesses(&posture, &asked()))
}

fn with_mount(mount: Mount) -> Vec<String> {
    with(|posture| {
        posture.mounts.retain(|other| other.target != mount.target);
        posture.mounts.push(mount);
    })
}

fn with_worker(change: impl FnOnce(&mut WorkerPosture)) -> Vec<String> {
    let mut worker = good_worker();
    change(&mut worker);
    said(&worker_weaknesses(&worker, &good(), &asked(), false))
}

#[test]
fn a_sandbox_as_asked_has_nothing_to_report() {
    assert_eq!(with(|_| ()), [""; 0]);
    assert_eq!(with_worker(|_| ()), [""; 0]);
    assert_eq!(unenforced(&good(), &asked()), vec![]);
}

#[test]
fn every_weaker_field_is_named() {
    assert_eq!(with(|p| p.process.uid = 0), ["uid: got 0, expected 65534"]);
    assert_eq!(with(|p| p.process.gid = 0), ["gid: got 0, expected 65534"]);
    assert_eq!(with(|p| p.process.groups = vec![65534, 27, 999]), ["groups: got 27 999, expected none"]);
    assert_eq!(with(|p| p.process.cap_eff = "1".into()), ["capabilities: got effective 1, expected none"]);
    assert_eq!(with(|p| p.process.cap_prm = "2".into()), ["capabilities: got permitted 2, expected none"]);
    assert_eq!(with(|p| p.process.cap_inh = "3".into()), ["capabilities: got inheritable 3, expected none"]);
    assert_eq!(with(|p| p.process.cap_bnd = String::new()), ["capabilities: got bounding , expected none"]);
    assert_eq!(with(|p| p.process.cap_amb = "4".into()), ["capabilities: got ambient 4, expected none"]);
    assert_eq!(with(|p| p.process.no_new_privs = 0), ["no_new_privs: got 0, expected 1"]);
    assert_eq!(with(|p| p.process.seccomp = 0), ["seccomp: got 0, expected 2 (a filter)"]);
    assert_eq!(with(|p| p.root_read_only = false), ["root: got writable, expected read-only"]);
    assert_eq!(with(|p| p.interfaces.push("eth0".into())), ["interfaces: got lo eth0, expected lo"]);
    for (name, machines) in MACHINES_OWN {
        let named = [format!("namespaces: got {name} of the machine, expected its own")];
        assert_eq!(with(|p| *p.namespaces.get_mut(name).unwrap() = machines), named);
        assert_eq!(with(|p| p.namespaces.retain(|own, _| own != name)), named);
    }
}

/// The posture as gVisor shows it: a selection of real values.
fn gvisor() -> (Posture, WorkerPosture, RequestedPosture) {
    let asked =
        RequestedPosture { kernel: Kernel::Gvisor, machines_kernel: Some("6.18.1 #1 SMP".into()), ..asked() };
    let seen =
        |process: ProcessPosture| ProcessPosture { cap_amb: String::new(), seccomp_filters: None, ..process };
    let good = good();
    let posture = Posture {
        process: ProcessPosture { seccomp: 0, ..seen(good.process.clone()) },
        kernel: "4.4.0 #1 SMP Sun Jan 10 15:06:54 PST 2016".into(),
        mounts: vec![
            mount("/", "9p", "ro", false),
            mount("/dev", "tmpfs", "rw,noexec", false),
            mount("/tmp", "tmpfs", "rw,noexec", true),
            mount("/dev/shm", "tmpfs", "rw,noexec", true),
            mount("/etc/hosts", "9p", "ro,noexec", false),
            mount("/proc", "proc", "rw,noexec", false),
            mount("/sys", "sysfs", "ro,noexec", false),
        ],
        visible: vec!["/proc/cmdline".into(), "/proc/sys".into()],
        fds: vec!["host".into(), "host".into(), "host".into()],
        namespaces: BTreeMap::from([("net".to_owned(), 110), ("pid".to_owned(), 111)]),
        ..good
    };
    let worker = good_worker();
    (posture, WorkerPosture { process: seen(worker.process), ..worker }, asked)
}

#[test]
fn gvisor_shows_less_and_is_accepted_only_where_asked_for() {
    let (posture, worker, wanted) = gvisor();
    assert_eq!(said(&weaknesses(&posture, &wanted)), [""; 0]);
    assert_eq!(said(&worker_weaknesses(&worker, &posture, &wanted, false)), [""; 0]);
    assert!(!weaknesses(&posture, &asked()).is_empty());
    let unfiltered = ProcessPosture { seccomp: 0, ..worker.process.clone() };
    let unfiltered = WorkerPosture { process: unfiltered, ..worker };
    let no_filter = ["seccomp: got no filter of the interpreter's own, expected one"];
    assert_eq!(said(&worker_weaknesses(&unfiltered, &posture, &wanted, false)), no_filter);
    let open = Posture { mounts: vec![mount("/tmp", "tmpfs", "rw", true)], ..posture };
    assert!(said(&weaknesses(&open, &wanted))[0].starts_with("mounts: got /tmp (tmpfs, rw), expected"));
}

#[test]
fn kernel_of_the_machine_is_named_where_another_is_asked_for() {
    let machines = Some("6.18.1 #1 SMP".to_owned());
    let wanted = RequestedPosture { kernel: Kernel::Guest, machines_kernel: machines, ..asked() };
    assert_eq!(said(&weaknesses(&good(), &wanted)), ["kernel: got 6.18.1 #1 SMP, expected one of its own"]);
    let guests = Posture { kernel: "6.12.3 #1 SMP".into(), ..good() };
    assert_eq!(said(&weaknesses(&guests, &wanted)), [""; 0]);
    // A kernel that is not reported may be the machine's.
    let untold = Posture { kernel: String::new(), ..good() };
    assert_eq!(said(&weaknesses(&untold, &wanted)), ["kernel: got nothing, expected one of its own"]);
}

#[test]
fn paths_that_should_be_masked_are_named() {
    let see = |path: &str| with(|posture| posture.visible.push(path.into()));
    assert_eq!(see("/proc/meminfo"), [""; 0]);
    assert_eq!(see("/proc/cmdline"), ["masks: got /proc/cmdline visible, expected masked"]);
    let both = with(|posture| posture.visible.extend(["/sys/block", "/proc/sys"].map(str::to_owned)));
    assert_eq!(both, ["masks: got /proc/sys /sys/block visible, expected masked"]);
}

#[test]
fn message_queues_as_files_are_named() {
    for (kind, options, writable) in
        [("mqueue", "rw,nosuid,nodev,noexec", true), ("tmpfs", "ro", true), ("tmpfs", "rw", false)]
    {
        let seen = format!("mounts: got /dev/mqueue ({kind}, {options}), expected an empty tmpfs,ro");
        assert_eq!(with_mount(mount("/dev/mqueue", kind, options, writable)), [seen]);
    }
    assert_eq!(with(|posture| posture.mounts.retain(|mount| mount.target != "/dev/mqueue")), [""; 0]);
}

#[test]
fn descriptors_beyond_the_three_streams_are_named() {
    let extra = "fds: got pipe, socket, null, file /etc, expected three streams";
    assert_eq!(with(|p| p.fds.push("file /etc".into())), [extra]);
    assert_eq!(
        with(|p| p.fds.push("pipe".into())),
        ["fds: got pipe, socket, null, pipe, expected three streams"]
    );
    assert_eq!(
        with(|p| p.fds[2] = "file /x".into()),
        ["fds: got pipe, socket, file /x, expected three streams"]
    );
}

#[test]
fn a_folder_of_the_user_is_as_it_was_asked_for_or_named() {
    let with_folder = |writable: bool, options: Option<&str>| {
        let folder = Folder { host: "/srv".into(), guest: "/mnt/data".into(), writable, identity: None };
        let mut posture = good();
        posture.mounts.extend(options.map(|options| mount("/mnt/data", "ext4", options, writable)));
        said(&weaknesses(&posture, &RequestedPosture { folders: vec![folder], ..asked() }))
    };
    assert_eq!(with_folder(false, Some("ro,noexec,nosuid,nodev")), [""; 0]);
    assert_eq!(with_folder(true, Some("rw,noexec,nosuid,nodev")), [""; 0]);
    assert_eq!(
        with_folder(false, Some("rw,noexec,nosuid,nodev")),
        ["mounts: got /mnt/data (ext4, rw,noexec,nosuid,nodev), expected ro,noexec,nosuid,nodev"]
    );
    assert_eq!(
        with_folder(false, Some("ro,nosuid,nodev")),
        ["mounts: got /mnt/data (ext4, ro,nosuid,nodev), expected ro,noexec,nosuid,nodev"]
    );
    assert_eq!(with_folder(false, None), ["mounts: got none at /mnt/data, expected a folder"]);
}

#[test]
fn another_folder_than_the_checked_one_is_named_if_the_kernel_is_the_machine_s() {
    let with = |seen: Option<FileIdentity>, machine: &str| {
        let identity = Some(FileIdentity(2049, 17));
        let folder = Folder { host: "/srv".into(), guest: "/mnt/data".into(), writable: false, identity };
        let mut posture = good();
        let mounted = mount("/mnt/data", "ext4", "ro,noexec,nosuid,nodev", false);
        posture.mounts.push(Mount { identity: seen, ..mounted });
        let machines_kernel = Some(machine.to_owned());
        let asked = RequestedPosture { folders: vec![folder], machines_kernel, ..asked() };
        said(&weaknesses(&posture, &asked))
    };
    let kernel = good().kernel;
    let named = ["mounts: got another folder at /mnt/data, expected the one that was checked"];
    assert_eq!(with(Some(FileIdentity(2049, 17)), &kernel), [""; 0]);
    for seen in [Some(FileIdentity(2049, 18)), Some(FileIdentity(2050, 17)), None] {
        assert_eq!(with(seen, &kernel), named, "{seen:?}");
        // Another machine numbers its devices otherwise.
        assert_eq!(with(seen, "5.0 of another machine"), [""; 0]);
    }
}

#[test]
fn every_open_mount_is_named() {
    assert_eq!(
        with_mount(mount("/mnt", "ext4", "ro,noexec,nosuid,nodev", false)),
        ["mounts: got /mnt (ext4, ro,noexec,nosuid,nodev), expected no such mount"]
    );
    assert_eq!(
        with_mount(mount("/tmp", "tmpfs", "rw,nosuid,nodev", true)),
        ["mounts: got /tmp (tmpfs, rw,nosuid,nodev), expected tmpfs,noexec,nosuid,nodev"]
    );
    assert_eq!(
        with_mount(mount("/tmp", "ext4", "rw,nosuid,nodev,noexec", true)),
        ["mounts: got /tmp (ext4, rw,nosuid,nodev,noexec), expected tmpfs,noexec,nosuid,nodev"]
    );
    let sized = |size_bytes| Mount { size_bytes, ..mount("/tmp", "tmpfs", "rw,nosuid,nodev,noexec", true) };
    assert_eq!(with_mount(sized(Some(65 << 20))), ["mounts: got /tmp with 65 MiB, expected 64 MiB"]);
    for none in [Some(0), None] {
        assert_eq!(with_mount(sized(none)), ["mounts: got /tmp with no size, expected 64 MiB"]);
    }
    assert_eq!(
        with_mount(mount("/etc/hosts", "ext4", "rw", true)),
        ["mounts: got /etc/hosts (ext4, rw) open to the code, expected shut"]
    );
    assert_eq!(
        with_mount(Mount { size_bytes: Some(0), ..mount("/proc/x", "tmpfs", "noexec,nosuid,nodev", true) }),
        ["mounts: got /proc/x (tmpfs, noexec,nosuid,nodev) open to the code, expected shut"]
    );
    assert_eq!(
        with_mount(mount("/sys", "sysfs", "rw", false)),
        ["mounts: got /sys (sysfs, rw), expected ro"]
    );
    assert_eq!(
        with(|p| p.mounts.retain(|mount| mount.target != "/dev/shm")),
        ["mounts: got none at /dev/shm, expected a tmpfs"]
    );
}

#[test]
fn folders_of_programs_are_read_only_without_privileges_or_named() {
    let seen = |folders: &[&str], target: &str, options: &str, writable| {
        let mut posture = good();
        posture.mounts.push(mount(target, "ext4", options, writable));
        let program_folders = folders.iter().map(|folder| (*folder).to_owned()).collect();
        said(&weaknesses(&posture, &RequestedPosture { program_folders, ..asked() }))
    };
    let closed = "ro,nosuid,nodev";
    for target in ["/usr", "/usr/local", "/bin"] {
        assert_eq!(seen(&["/usr", "/bin"], target, closed, false), [""; 0]);
        for (options, writable) in [
            ("rw,nosuid,nodev", true),
            ("rw,nosuid,nodev", false),
            (closed, true),
            ("ro,nodev", false),
            ("ro,nosuid", false),
        ] {
            let named = [format!("mounts: got {target} (ext4, {options}), expected ro,nosuid,nodev")];
            assert_eq!(seen(&["/usr", "/bin"], target, options, writable), named);
        }
    }
    for (folders, target) in
        [(&["/usr"][..], "/usrx"), (&["/usr"], "/opt"), (&[], "/usr"), (&[], "/usr/local")]
    {
        let named = [format!("mounts: got {target} (ext4, {closed}), expected no such mount")];
        assert_eq!(seen(folders, target, closed, false), named);
    }
}

#[test]
fn a_worker_without_its_own_lock_is_named() {
    let no_filter = ["seccomp: got no filter of the interpreter's own, expected one"];
    assert_eq!(with_worker(|w| w.process.seccomp_filters = Some(1)), no_filter);
    // Some kernels do not count filters; a worker without its filter would not have started.
    assert_eq!(with_worker(|w| w.process.seccomp_filters = None), [""; 0]);
    assert_eq!(with_worker(|w| w.process.no_new_privs = 0), ["no_new_privs: got 0, expected 1"]);
    assert_eq!(with_worker(|w| w.process.rlimits.core = None), ["rlimits: got core unlimited, expected 0"]);
    assert_eq!(
        with_worker(|w| w.process.rlimits.nofile = Some(4096)),
        ["rlimits: got nofile 4096, expected 1024"]
    );
    assert_eq!(
        with_worker(|w| w.process.rlimits.data = None),
        ["rlimits: got data unlimited, expected 536870912"]
    );
    assert_eq!(
        with_worker(|w| w.fds.push("file /etc".into())),
        [
            "fds: got null, pipe, pipe, socket, socket, socket, file /etc, expected null, pipe, pipe, socket, socket, socket"
        ]
    );
}

#[test]
fn worker_with_open_memory_is_named() {
    let open = ["tracing: got an interpreter whose memory other processes can open, expected none"];
    assert_eq!(with_worker(|w| w.memory_closed = false), open);
}

#[test]
fn worker_without_landlock_is_named_if_it_exists() {
    let missing = |has, used| {
        let (posture, worker) =
            (Posture { landlock: has, ..good() }, WorkerPosture { landlock: used, ..good_worker() });
        said(&worker_weaknesses(&worker, &posture, &asked(), false))
    };
    assert_eq!(missing(7, 0), ["landlock: got version 0, expected version 7, which the kernel has"]);
    assert_eq!(missing(2, 0), ["landlock: got version 0, expected version 2, which the kernel has"]);
    assert_eq!(missing(2, 2), [""; 0]);
    // The first version would forbid moving files between folders.
    assert_eq!(missing(1, 0), [""; 0]);
    assert_eq!(missing(0, 0), [""; 0]);
}

#[test]
fn writable_places_are_those_asked_for() {
    let folder =
        |guest: &str, writable| Folder { host: "/srv".into(), guest: guest.into(), writable, identity: None };
    let folders = vec![folder("/mnt/in", false), folder("/mnt/out", true)];
    assert_eq!(RequestedPosture { folders, ..asked() }.writable(), ["/tmp", "/dev/shm", "/mnt/out"]);
}

#[test]
fn supervisor_that_code_can_open_is_named() {
    let named = ["fds: got an interpreter that can open the supervisor's, expected its own only"];
    assert_eq!(with_worker(|w| w.supervisor_open = true), named);
}

#[test]
fn every_ignored_limit_is_named() {
    let ignored = Posture { memory_max_bytes: None, pids_max: Some(4096), cpu_max_millis: None, ..good() };
    assert_eq!(
        unenforced(&ignored, &asked()),
        [
            (PostureField::Memory, "the memory limit of 512 MiB is not enforced by this engine".to_owned()),
            (PostureField::Pids, "the pids limit of 128 processes is not enforced by this engine".to_owned()),
            (
                PostureField::Cpus,
                "the cpu limit of 500 thousandths of a CPU is not enforced by this engine".to_owned()
            ),
        ]
    );
}
