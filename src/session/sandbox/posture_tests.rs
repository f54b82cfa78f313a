//! Claims about accepted postures, and that every weaker field is named.

use std::collections::BTreeMap;
use std::path::Path;

use belljar_engine::{Choice, EngineLocations, find};
use belljar_protocol::{FileIdentity, Rlimits};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

const TMPFS: &[(&str, u64)] = &[("/tmp", 64), ("/dev/shm", 64)];

/// The paths that every engine masked before the engines stated their guarantees.
const MASKED: &str = "/proc/acpi /proc/asound /proc/kcore /proc/keys /proc/latency_stats /proc/sched_debug /proc/scsi \
    /proc/timer_list /proc/timer_stats /proc/bootconfig /proc/buddyinfo /proc/bus /proc/cgroups \
    /proc/cmdline /proc/config.gz /proc/consoles /proc/crypto /proc/devices /proc/diskstats /proc/dma \
    /proc/driver /proc/dynamic_debug /proc/execdomains /proc/fb /proc/fs /proc/interrupts /proc/iomem \
    /proc/ioports /proc/irq /proc/kallsyms /proc/key-users /proc/locks /proc/mdstat /proc/misc /proc/modules \
    /proc/mtrr /proc/partitions /proc/pressure /proc/schedstat /proc/softirqs /proc/swaps /proc/sys \
    /proc/tty /proc/version_signature /proc/vmstat /proc/zoneinfo /sys/block /sys/bus /sys/class /sys/dev \
    /sys/devices /sys/firmware /sys/fs/bcache /sys/fs/bpf /sys/fs/btrfs /sys/fs/erofs /sys/fs/ext4 \
    /sys/fs/f2fs /sys/fs/fuse /sys/fs/nfs /sys/fs/pstore /sys/fs/resctrl /sys/fs/selinux /sys/fs/tmpfs \
    /sys/fs/xfs /sys/fs/zfs /sys/hypervisor /sys/kernel /sys/module /sys/power";
/// The mounts that were accepted from every engine before, besides those below /proc and /sys.
const ADDED_MOUNTS: [&str; 20] = [
    "/dev",
    "/dev/console",
    "/dev/full",
    "/dev/null",
    "/dev/ptmx",
    "/dev/pts",
    "/dev/random",
    "/dev/tty",
    "/dev/urandom",
    "/dev/zero",
    "/etc/group",
    "/etc/hostname",
    "/etc/hosts",
    "/etc/localtime",
    "/etc/passwd",
    "/etc/resolv.conf",
    "/proc",
    "/run/.containerenv",
    "/run/secrets",
    "/sys",
];

fn asked() -> RequestedPosture {
    RequestedPosture {
        uid: 65534,
        gid: 65534,
        memory_bytes: 512 << 20,
        pids_max: 128,
        cpu: Some(CpuQuota { millis: 500, optional: false }),
        open_files_max: 1024,
        tmpfs: TMPFS.to_vec(),
        guarantees: Guarantees {
            masked_paths: vec!["/proc/cmdline", "/proc/sys", "/sys/block"],
            program_folders: vec![],
            added_mounts: &ADDED_MOUNTS,
            open_mounts: &[],
            shut_places: true,
            own_users: false,
            network: Network::NoInterface,
            streams: [&["pipe", "socket", "null"]; 3],
        },
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
        reachable: vec![],
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
    let seen = |folders: &[&'static str], target: &str, options: &str, writable| {
        let mut posture = good();
        posture.mounts.push(mount(target, "ext4", options, writable));
        let guarantees = Guarantees { program_folders: folders.to_vec(), ..asked().guarantees };
        said(&weaknesses(&posture, &RequestedPosture { guarantees, ..asked() }))
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

/// A Pod has an interface, and its places are not shut. Only an engine that says so is allowed that.
#[test]
fn what_a_pod_has_beyond_a_container_is_weaker_anywhere_else() {
    let of_pod = Posture {
        interfaces: vec!["lo".into(), "eth0".into()],
        mounts: mounts()
            .into_iter()
            .filter(|mount| !["/dev/mqueue", "/tmp"].contains(&mount.target.as_str()))
            .chain([
                mount("/dev/mqueue", "mqueue", "rw,nosuid,nodev,noexec", true),
                mount("/dev/termination-log", "ext4", "rw,relatime", true),
                mount("/tmp", "tmpfs", "rw,relatime", true),
            ])
            .collect(),
        ..good()
    };
    let fields = |posture: &Posture, asked: &RequestedPosture| -> Vec<PostureField> {
        weaknesses(posture, asked).into_iter().map(|weakness| weakness.field).collect()
    };
    use PostureField::{Interfaces, Mounts};
    assert_eq!(fields(&of_pod, &asked()), [Mounts, Mounts, Mounts, Interfaces]);
    let guarantees = Guarantees {
        open_mounts: &["/dev/mqueue", "/dev/termination-log"],
        shut_places: false,
        own_users: true,
        network: Network::Denied,
        ..asked().guarantees
    };
    let of_cluster = RequestedPosture { guarantees, ..asked() };
    assert_eq!(fields(&of_pod, &of_cluster), []);
    let other = Posture { interfaces: vec!["lo".into(), "eth1".into()], ..of_pod.clone() };
    assert_eq!(fields(&other, &of_cluster), [Interfaces]);
    let on_disk = Posture { mounts: vec![mount("/tmp", "ext4", "rw,relatime", true)], ..of_pod };
    assert!(fields(&on_disk, &of_cluster).contains(&Mounts));
}

/// What each engine guarantees. Podman and Docker are servers here that answer pings only.
async fn all_guarantees() -> Vec<(&'static str, Guarantees)> {
    let mut found = Vec::new();
    for (name, libpod) in [("podman", "200 OK"), ("docker", "404 Not Found"), ("process", "")] {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let choice = match name {
            "process" => Choice::Process,
            _ => Choice::At(vec![format!("tcp://{}", listener.local_addr().unwrap())]),
        };
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut head = vec![0; 8192];
                let read = stream.read(&mut head).await.unwrap();
                let is_libpod = String::from_utf8_lossy(&head[..read]).contains("/libpod/");
                let status = if is_libpod { libpod } else { "200 OK" };
                let answer =
                    format!("HTTP/1.1 {status}\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{{}}");
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        });
        if name == "process" && !cfg!(target_os = "linux") {
            continue;
        }
        let locations = EngineLocations { choice, ..EngineLocations::default() };
        let engine = find(&locations, &[], Path::new("/nowhere")).await.unwrap();
        found.push((name, engine.0.guarantees()));
    }
    found
}

#[tokio::test]
async fn no_engine_guarantees_less_than_was_asked_of_all_engines_before() {
    for (name, guarantees) in all_guarantees().await {
        let Guarantees { masked_paths, program_folders, added_mounts, open_mounts, .. } = guarantees;
        let Guarantees { shut_places, network, streams, .. } = guarantees;
        assert_eq!((open_mounts, shut_places), (&[""; 0][..], true), "{name}");
        let mut masked: Vec<&str> = MASKED.split(' ').collect();
        assert_eq!(masked.len(), 70);
        if name == "process" {
            masked.push("/sys/fs/cgroup");
            let devices = ["/dev/full", "/dev/null", "/dev/random", "/dev/urandom", "/dev/zero"];
            assert_eq!(added_mounts, [&devices[..], &["/proc"]].concat());
            let folders = "/usr /bin /sbin /lib /lib32 /lib64 /libx32 /etc/alternatives /opt/belljar";
            assert_eq!(program_folders.join(" "), folders);
            assert_eq!(streams, [&["pipe"]; 3]);
        } else {
            assert_eq!(added_mounts, ADDED_MOUNTS, "{name}");
            assert_eq!(program_folders, [""; 0], "{name}");
            assert_eq!(streams, [&["pipe", "socket", "null"]; 3], "{name}");
        }
        assert_eq!(masked_paths, masked, "{name}");
        assert_eq!(network, Network::NoInterface, "{name}");
    }
}

/// A posture as the engine with these guarantees makes it.
fn good_of(guarantees: &Guarantees) -> Posture {
    let is_added = |mount: &Mount| {
        let is_below = ["/proc/", "/sys/"].iter().any(|kernel| {
            guarantees.added_mounts.contains(&kernel.trim_end_matches('/'))
                && mount.target.starts_with(kernel)
        });
        let is_requested = ["/", "/dev/mqueue", "/tmp", "/dev/shm"].contains(&mount.target.as_str());
        is_requested || is_below || guarantees.added_mounts.contains(&mount.target.as_str())
    };
    let programs = guarantees.program_folders.iter();
    let programs = programs.map(|folder| mount(folder, "ext4", "ro,nosuid,nodev", false));
    let mounts = mounts().into_iter().filter(is_added).chain(programs).collect();
    let fds = guarantees.streams.iter().map(|kinds| kinds[0].to_owned()).collect();
    Posture { mounts, fds, ..good() }
}

/// Postures that are worse than a good one, each in one field.
fn worsened(good: &Posture) -> Vec<(PostureField, Posture)> {
    let mut found = Vec::new();
    let mut worse = |field: PostureField, change: &dyn Fn(&mut Posture)| {
        let mut posture = good.clone();
        change(&mut posture);
        found.push((field, posture));
    };
    worse(PostureField::Uid, &|p| p.process.uid = 0);
    worse(PostureField::Gid, &|p| p.process.gid = 0);
    worse(PostureField::Groups, &|p| p.process.groups.push(0));
    let sets: [fn(&mut ProcessPosture) -> &mut String; 5] =
        [|p| &mut p.cap_eff, |p| &mut p.cap_prm, |p| &mut p.cap_inh, |p| &mut p.cap_bnd, |p| &mut p.cap_amb];
    for set in sets {
        worse(PostureField::Capabilities, &|p| *set(&mut p.process) = "0000000000000400".into());
    }
    worse(PostureField::NoNewPrivs, &|p| p.process.no_new_privs = 0);
    worse(PostureField::Seccomp, &|p| p.process.seccomp = 0);
    worse(PostureField::Root, &|p| p.root_read_only = false);
    worse(PostureField::Interfaces, &|p| p.interfaces.push("eth0".into()));
    for (name, machines) in MACHINES_OWN {
        worse(PostureField::Namespaces, &|p| *p.namespaces.get_mut(name).unwrap() = machines);
    }
    for path in MASKED.split(' ') {
        worse(PostureField::Masks, &|p| p.visible.push(path.into()));
    }
    for number in 0..3 {
        worse(PostureField::Fds, &|p| drop(p.fds.remove(number)));
        for kind in ["file /etc", "host", "anon_inode:[eventpoll]"] {
            worse(PostureField::Fds, &|p| p.fds[number] = kind.into());
        }
    }
    worse(PostureField::Fds, &|p| p.fds.push("pipe".into()));
    // Every mount that any engine may make, open to the code, and some that none may make.
    let others = ["/home", "/procs", "/system", "/dev/sda", "/etc/shadow", "/run/secrets/kubernetes.io"];
    let below = ["/proc/x", "/sys/x", "/dev/mqueue", "/usr", "/opt/belljar", "/tmp", "/dev/shm"];
    for target in ADDED_MOUNTS.into_iter().chain(others).chain(below) {
        worse(PostureField::Mounts, &|p| {
            p.mounts.retain(|mount| mount.target != target);
            p.mounts.push(mount(target, "ext4", "rw", true));
        });
    }
    for target in others {
        worse(PostureField::Mounts, &|p| p.mounts.push(mount(target, "tmpfs", "ro,noexec", false)));
    }
    for (target, _) in TMPFS {
        worse(PostureField::Mounts, &|p| p.mounts.retain(|mount| mount.target != *target));
    }
    found
}

#[tokio::test]
async fn a_posture_that_is_worse_in_one_field_is_refused_for_every_engine() {
    for (name, guarantees) in all_guarantees().await {
        let good = good_of(&guarantees);
        let asked = RequestedPosture { guarantees: guarantees.clone(), ..asked() };
        assert_eq!(said(&weaknesses(&good, &asked)), [""; 0], "{name}");
        for (field, posture) in worsened(&good) {
            let found = weaknesses(&posture, &asked);
            assert!(
                !found.is_empty() && found.iter().all(|weak| weak.field == field),
                "{name} {field}: {found:?}"
            );
        }
        // An engine gets no more than what it states itself.
        for target in ADDED_MOUNTS.into_iter().filter(|target| !guarantees.added_mounts.contains(target)) {
            let posture = Posture {
                mounts: [good.mounts.clone(), vec![mount(target, "ext4", "ro", false)]].concat(),
                ..good.clone()
            };
            assert_eq!(weaknesses(&posture, &asked).len(), 1, "{name} {target}");
        }
    }
}
