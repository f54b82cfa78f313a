//! A confined server's two processes: its keeper makes the namespaces, and the first process in them starts the server.
//!
//! The first process stays: it reaps orphaned processes and passes signals on. When it ends, everything in the
//! namespaces ends.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};

use nix::errno::Errno;
use nix::sched::{CloneFlags, unshare};
use nix::sys::prctl::{set_dumpable, set_no_new_privs, set_pdeathsig};
use nix::sys::resource::Resource;
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, chdir, getegid, geteuid, sethostname, setsid};

use super::lock::{
    FileRights, drop_capabilities, keep_capabilities, limit, restrict_files, scopes_abstract_sockets,
};
use super::root::{ACCOUNTS, Machine, Root, place};
use super::server_plan::{Access, Network, ServerPlan, VisiblePath};
use super::signals::{SignalQueue, release_all_streams};
use super::step::{Step, StepFailure, close_others, is_first_process};
use super::system_calls::{filter, forbid_unix_sockets};

/// Files of /proc that a server sees beside processes: programs read them to choose sizes.
const OF_PROC: [&str; 9] =
    ["cpuinfo", "filesystems", "loadavg", "meminfo", "mounts", "self", "stat", "uptime", "version"];
/// Files for servers with network access; missing ones are left out.
const OF_NETWORK: [&str; 7] = [
    "/etc/hosts",
    "/etc/resolv.conf",
    "/etc/host.conf",
    "/etc/gai.conf",
    "/etc/nsswitch.conf",
    "/etc/services",
    "/etc/protocols",
];
/// Public files of the machine that programs need.
const PUBLIC: [&str; 8] = [
    "/etc/localtime",
    "/etc/timezone",
    "/etc/mime.types",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/ca-certificates",
    "/etc/pki/tls/certs",
    "/etc/pki/ca-trust/extracted",
];
/// The sizes of the private places, in MiB.
const TMP_MIB: u64 = 512;
const HOME_MIB: u64 = 512;
const SHARED_MEMORY_MIB: u64 = 64;

/// Puts this process, the keeper, into new namespaces, which its children share. The new PID namespace begins with its
/// next child.
///
/// # Errors
/// The step that failed.
pub fn part_server(plan: &ServerPlan) -> Result<(), StepFailure> {
    close_others().step("close what it was started with")?;
    let (uid, gid) = (geteuid(), getegid());
    unshare(CloneFlags::CLONE_NEWUSER).namespace_step("make a user namespace")?;
    // The kernel lets an ordinary user map a group only after this. The user's number stays the same, since the
    // server's files belong to the user.
    fs::write("/proc/self/setgroups", "deny").namespace_step("give up changes of its groups")?;
    fs::write("/proc/self/gid_map", format!("{gid} {gid} 1\n")).namespace_step("map its group")?;
    fs::write("/proc/self/uid_map", format!("{uid} {uid} 1\n")).namespace_step("map its user")?;
    let network = match plan.network {
        Network::None => CloneFlags::CLONE_NEWNET,
        Network::Host => CloneFlags::empty(),
    };
    let others = CloneFlags::CLONE_NEWPID
        | CloneFlags::CLONE_NEWIPC
        | CloneFlags::CLONE_NEWUTS
        | CloneFlags::CLONE_NEWCGROUP;
    unshare(others | network).namespace_step("make namespaces")?;
    keep_capabilities().namespace_step("keep its capabilities")
}

/// Becomes the first process in a server's namespaces, starts the server with these variables only, and returns its
/// exit code when it has ended. `keeper` is the number of this process's parent.
///
/// # Errors
/// The failed step, or the reason why the server's program could not be started.
pub fn serve_confined(
    keeper: u32,
    plan: &ServerPlan,
    command: &[OsString],
    variables: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<u8, ServeError> {
    is_first_process()?;
    set_pdeathsig(Signal::SIGKILL).step("bind itself to its keeper")?;
    // The kernel schedules a session as one, and lets each of its processes change the priority of all.
    setsid().step("leave the session of the user's programs")?;
    if parent_on_machine() != Some(keeper) {
        return Ok(0);
    }
    log_in();
    unshare(CloneFlags::CLONE_NEWNS).namespace_step("make a mount namespace")?;
    build(plan)?;
    sethostname("sandbox").namespace_step("set its host name")?;
    limit(&[(Resource::RLIMIT_CORE, 0)]).step("set its limits")?;
    drop_capabilities().step("drop its capabilities")?;
    set_no_new_privs().step("forbid new privileges")?;
    let writable = plan.visible.iter().filter(|visible| visible.access > Access::Execute);
    let private = ["/tmp", "/var/tmp", "/dev/shm", plan.home.as_str()].into_iter();
    let writable = private.chain(writable.map(|visible| visible.path.as_str())).map(str::to_owned).collect();
    // The mounts decide what can be executed, and the network namespace decides what can be reached.
    let allowed = FileRights { executable: &["/"], writable, tcp: true };
    restrict_files(&allowed).step("restrict itself by Landlock")?;
    filter().step("filter its system calls")?;
    if plan.network == Network::Host && !scopes_abstract_sockets() {
        forbid_unix_sockets().step("filter its system calls")?;
    }
    set_dumpable(false).step("hide its memory")?;
    // If the server does not see its folder, it starts in its HOME.
    let folders = [Path::new(&plan.folder), Path::new(&plan.home)];
    let entered = folders.into_iter().find(|folder| chdir(*folder).is_ok());
    entered.ok_or(Errno::ENOENT).step("enter its folder")?;
    let (program, arguments) = command.split_first().ok_or(Errno::EINVAL).step("start")?;
    let mut server = Command::new(program);
    server.args(arguments).env_clear().envs(variables).process_group(0);
    let server = server.spawn()?;
    watch(server).step("wait for the server").map_err(ServeError::from)
}

/// The reason why a server was not started in its namespaces.
#[derive(Debug)]
pub enum ServeError {
    /// A step of its confinement failed.
    Confinement(StepFailure),
    /// Its program could not be started.
    Start(io::Error),
}

impl From<io::Error> for ServeError {
    fn from(error: io::Error) -> Self {
        Self::Start(error)
    }
}

impl From<StepFailure> for ServeError {
    fn from(failed: StepFailure) -> Self {
        Self::Confinement(failed)
    }
}

/// Sets the login user, unless there is one, before the server can claim one. That is possible only once, and writes to
/// the machine's audit log.
fn log_in() {
    const FILE: &str = "/proc/self/loginuid";
    const NO_LOGIN: &str = "4294967295";
    if fs::read_to_string(FILE).is_ok_and(|login| login.trim() == NO_LOGIN) {
        // A kernel that refuses this refuses it to the server, too.
        drop(fs::write(FILE, geteuid().to_string()));
    }
}

/// The number of this process's parent on the machine, whose /proc is still mounted.
fn parent_on_machine() -> Option<u32> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()
}

/// Builds the root and makes it this process's own.
fn build(plan: &ServerPlan) -> Result<(), StepFailure> {
    let machine = Machine::open()?;
    let of_network: &[&str] = if plan.network == Network::Host { &OF_NETWORK } else { &[] };
    // Their contents are read now, since the paths may be symlinks to files that the server does not see.
    let texts: Vec<(&str, Vec<u8>)> =
        of_network.iter().filter_map(|path| Some((*path, fs::read(path).ok()?))).collect();
    let sources: Vec<_> =
        plan.visible.iter().map(|visible| place(&visible.path)).collect::<Result<_, _>>()?;
    let root = Root::new()?;
    root.machine(machine)?;
    for (path, text) in texts {
        root.file(path, &text)?;
    }
    // Programs look up their own user.
    let own = format!("user:x:{}:{}::{}:/bin/sh\n", geteuid(), getegid(), plan.home);
    root.file("/etc/passwd", format!("{own}{ACCOUNTS}").as_bytes())?;
    for path in PUBLIC {
        let Ok(real) = fs::canonicalize(path) else { continue };
        if real.is_dir() {
            root.show(&place(&real.to_string_lossy())?, path, Access::Execute)?;
        } else if let Ok(text) = fs::read(&real) {
            root.file(path, &text)?;
        }
    }
    for (path, mib, mode) in [
        ("/tmp", TMP_MIB, "1777"),
        ("/var/tmp", TMP_MIB, "1777"),
        ("/dev/shm", SHARED_MEMORY_MIB, "1777"),
        (&plan.home, HOME_MIB, "700"),
    ] {
        root.private(path, mib, mode)?;
    }
    root.processes_and(&OF_PROC)?;
    for (path, target) in &plan.links {
        root.link(path, target)?;
    }
    for (VisiblePath { path, access }, source) in plan.visible.iter().zip(&sources) {
        root.show(source, path, *access)?;
    }
    root.enter()
}

/// Waits until the server has ended. Signals that ask this process to end are passed on to the server.
fn watch(server: Child) -> io::Result<u8> {
    // Signals are blocked only now, since the server would inherit the block. Earlier signals do not end this process,
    // because it is the first one of its namespace.
    let signals = SignalQueue::of(&[Signal::SIGCHLD, Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP])?;
    release_all_streams()?;
    let server = Pid::from_raw(i32::try_from(server.id()).map_err(io::Error::other)?);
    loop {
        if let Some(code) = reap(server)? {
            return Ok(code);
        }
        for signal in signals.wait([])?.0.into_iter().filter(|signal| *signal != Signal::SIGCHLD) {
            if let Err(error) = killpg(server, signal)
                && error != Errno::ESRCH
            {
                return Err(error.into());
            }
        }
    }
}

/// Reaps all ended processes. Returns the server's exit code if it has ended.
///
/// # Errors
/// The system's error.
pub fn reap(server: Pid) -> io::Result<Option<u8>> {
    loop {
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::Exited(pid, code)) if pid == server => {
                return Ok(Some(u8::try_from(code).unwrap_or(u8::MAX)));
            }
            Ok(WaitStatus::Signaled(pid, signal, _)) if pid == server => {
                return Ok(Some(128_u8.saturating_add(signal as u8)));
            }
            Ok(WaitStatus::StillAlive) => return Ok(None),
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
