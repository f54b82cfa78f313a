//! The second of the two processes that start a sandbox: builds its root, confines itself and becomes its PID 1.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use belljar_confine::{
    Access, FileRights, Machine, PROGRAM_FOLDERS, Root, Step, StepFailure, close_others, drop_capabilities,
    filter, is_first_process, limit, place, restrict_files,
};
use nix::errno::Errno;
use nix::sys::prctl::{set_dumpable, set_no_new_privs, set_pdeathsig};
use nix::sys::resource::Resource;
use nix::sys::signal::{SigSet, Signal};
use nix::unistd::{Gid, Uid, chdir, setgroups, sethostname, setresgid, setresuid};

use super::answer::{say, tell};
use super::plan::{ENVIRONMENT_FOLDER, Plan, READY};

/// The kernel's OOM killer prefers processes of sandboxes to others of the machine.
const OOM_SCORE: &str = "500";

/// Becomes PID 1 of the sandbox of this plan; returns only on failure.
#[must_use]
pub fn enter(plan: &str) -> ExitCode {
    match entered(plan) {
        // The bridge would take text on stdout for output of the sandbox.
        Ok(error) => drop(writeln!(std::io::stderr(), "Python could not be executed: {error}")),
        Err(failed) => tell(&failed),
    }
    ExitCode::from(70)
}

/// Returns why PID 1's program could not be executed.
fn entered(plan: &str) -> Result<std::io::Error, StepFailure> {
    is_first_process()?;
    // If the bridge has ended before this call, or has killed the parent, the answer to the bridge fails.
    set_pdeathsig(Signal::SIGKILL).step("bind itself to its parent")?;
    let plan: Plan = serde_json::from_str(plan).map_err(std::io::Error::other).step("read its plan")?;
    close_others().step("close what it was started with")?;
    SigSet::empty().thread_set_mask().step("let all signals through")?;
    // This comes before the change of the user, after which another user owns the file.
    fs::write("/proc/self/oom_score_adj", OOM_SCORE).step("raise its OOM score")?;
    // The sources are opened as the user who configured them, since only that user may have access to them.
    let sources = Sources::open(&plan)?;
    become_user(&plan)?;
    sethostname("sandbox").namespace_step("set its host name")?;
    build(&plan, sources)?;
    chdir("/tmp").step("enter /tmp")?;
    limit(&limits(&plan)).step("set its limits")?;
    drop_capabilities().step("drop its capabilities")?;
    set_no_new_privs().step("forbid new privileges")?;
    let environment = plan.environment_folder.iter().map(|_| ENVIRONMENT_FOLDER);
    let executable: Vec<&str> = PROGRAM_FOLDERS.into_iter().chain(environment).collect();
    let allowed = FileRights { executable: &executable, writable: writable(&plan), tcp: false };
    restrict_files(&allowed).step("restrict itself by Landlock")?;
    filter().step("filter its system calls")?;
    say(READY).step("answer the bridge")?;
    let (name, arguments) = plan.command.split_first().ok_or(Errno::EINVAL).step("start")?;
    let variables = plan.environment.iter().map(|(name, value)| (name, value));
    let mut first = Command::new(&plan.program);
    first.arg0(name).args(arguments).env_clear().envs(variables);
    Ok(first.exec())
}

fn limits(plan: &Plan) -> [(Resource, u64); 3] {
    [
        (Resource::RLIMIT_NOFILE, plan.open_files_max),
        (Resource::RLIMIT_NPROC, plan.processes_max),
        (Resource::RLIMIT_CORE, 0),
    ]
}

fn writable(plan: &Plan) -> Vec<String> {
    let places = plan.places.iter().map(|(path, _)| path.clone());
    let folders = plan.folders.iter().filter(|folder| folder.writable).map(|folder| folder.guest.clone());
    // PID 1 sets its login and its priority there. Interpreters cannot: they restrict themselves more.
    places.chain(folders).chain(["/proc".to_owned()]).collect()
}

fn become_user(plan: &Plan) -> Result<(), StepFailure> {
    let (uid, gid) = (Uid::from_raw(plan.uid), Gid::from_raw(plan.gid));
    if plan.drops_groups {
        setgroups(&[]).step("give up its groups")?;
    }
    setresgid(gid, gid, gid).step("change its group")?;
    setresuid(uid, uid, uid).step("change its user")?;
    // The kernel has reset both at the change of the user.
    set_dumpable(true).step("own its files of /proc")?;
    set_pdeathsig(Signal::SIGKILL).step("bind itself to its parent")
}

/// Files and folders of the machine for the sandbox. They are opened before the root is built, since the root may cover
/// them.
pub(super) struct Sources {
    machine: Machine,
    environment: Option<File>,
    folders: Vec<File>,
}

impl Sources {
    pub(super) fn open(plan: &Plan) -> Result<Self, StepFailure> {
        let folders =
            plan.folders.iter().map(|folder| place(&folder.host)).collect::<Result<_, StepFailure>>()?;
        // A folder above the environment, such as the user's data folder, may be a symlink.
        let real = |folder: &String| fs::canonicalize(folder).step(format!("find {folder}"));
        let environment = plan.environment_folder.as_ref().map(real).transpose()?;
        let environment = environment.map(|real| place(&real.to_string_lossy())).transpose()?;
        Ok(Self { machine: Machine::open()?, environment, folders })
    }
}

/// Builds the root and makes it this process's own.
pub(super) fn build(plan: &Plan, sources: Sources) -> Result<(), StepFailure> {
    let root = Root::new()?;
    root.machine(sources.machine)?;
    if let Some(environment) = &sources.environment {
        root.show(environment, ENVIRONMENT_FOLDER, Access::Execute)?;
    }
    for (path, mib) in &plan.places {
        root.writable(path, *mib)?;
    }
    root.processes(&plan.masked)?;
    for (folder, place) in plan.folders.iter().zip(&sources.folders) {
        root.show(place, &folder.guest, if folder.writable { Access::Write } else { Access::Read })?;
    }
    root.enter()
}
