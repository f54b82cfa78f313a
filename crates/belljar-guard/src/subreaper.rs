//! The keeper's own life: it starts one program, and ends everything below itself with that program or with the bridge.
//!
//! It passes the standard streams on untouched and reads nothing of what goes through them. Of them it holds the writing
//! end of the program's stderr only: when nobody is left to read it, or the bridge's process has ended, the bridge is gone.

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitCode};

use belljar_confine::{
    ServeError, ServerPlan, SignalQueue, Step, StepFailure, open_process, part_server, reap, release_streams,
    serve_confined,
};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getppid};

use super::containers::removal;
use super::descendants::end_descendants;
use super::keeper::{FOR_SERVER, Keeper, NOT_CONFINED, NOT_CONFINED_WORDS, NOT_STARTED, NOT_STARTED_WORDS};

/// The variable in which the first process of a confined server's namespaces has the keeper's token. The server cannot read
/// that process's environment.
const TOKEN: &str = "BELLJAR_KEEPER_TOKEN";

/// Starts the program, confined if there is a plan for it, and returns its exit code when it and everything below it have
/// ended. `bridge` is the process that has started this one; what is said to it begins with `token`.
#[must_use]
pub fn keep(command: &[OsString], plan: Option<&str>, bridge: u32, token: &str) -> ExitCode {
    ended(kept(command, plan, bridge, token), token)
}

/// Starts the program of a keeper in the namespaces that the keeper has made; returns when it has ended.
#[must_use]
pub fn keep_inside(command: &[OsString], keeper: u32, plan: &str) -> ExitCode {
    let token = std::env::var(TOKEN).unwrap_or_default();
    let of_server = |(name, value): (OsString, OsString)| {
        let name = name.as_bytes().strip_prefix(FOR_SERVER.as_bytes())?;
        Some((OsStr::from_bytes(name).to_owned(), value))
    };
    let variables = std::env::vars_os().filter_map(of_server);
    let plan = read(plan).map_err(ServeError::from);
    ended(plan.and_then(|plan| serve_confined(keeper, &plan, command, variables)), &token)
}

/// The exit code; why the program was not started is said on stderr.
fn ended(ended: Result<u8, ServeError>, token: &str) -> ExitCode {
    let (words, code) = match ended {
        Ok(code) => return ExitCode::from(code),
        Err(ServeError::Start(error)) => {
            (format!("{NOT_STARTED_WORDS}{}", error.raw_os_error().unwrap_or_default()), NOT_STARTED)
        }
        Err(ServeError::Confinement(failed)) => {
            let failed = serde_json::to_string(&failed).unwrap_or_default();
            (format!("{NOT_CONFINED_WORDS}{failed}"), NOT_CONFINED)
        }
    };
    // Nobody may be left to read it.
    drop(writeln!(std::io::stderr(), "{token} {words}"));
    ExitCode::from(code)
}

fn read(plan: &str) -> Result<ServerPlan, StepFailure> {
    serde_json::from_str(plan).map_err(std::io::Error::other).step("read its plan")
}

fn kept(command: &[OsString], plan: Option<&str>, bridge: u32, token: &str) -> Result<u8, ServeError> {
    nix::sys::prctl::set_child_subreaper(true).map_err(std::io::Error::from)?;
    let (program, arguments) =
        command.split_first().ok_or_else(|| std::io::Error::from(std::io::ErrorKind::InvalidInput))?;
    let server = match plan {
        None => Command::new(program).args(arguments).spawn()?,
        Some(text) => {
            part_server(&read(text)?)?;
            let mut inside = Command::new("/proc/self/exe");
            let keeper = std::process::id().to_string();
            inside.arg0("belljar").args(["keep", "--inside", &keeper, "--confine", text, "--"]).args(command);
            inside.env(TOKEN, token).spawn().step("start the first process of its namespaces")?
        }
    };
    let ended = keep_server(&server, bridge, plan.is_some()).map_err(ServeError::Start);
    // While there is a bridge, it removes the server's container itself.
    if i32::try_from(bridge).ok() != Some(getppid().as_raw())
        && let Some(mut removal) = removal(command)
    {
        removal.spawn().map_err(ServeError::Start)?;
    }
    ended
}

/// `is_confined`: the server has a session of its own.
fn keep_server(server: &Child, bridge: u32, is_confined: bool) -> std::io::Result<u8> {
    // Not before, since the server would have them blocked as well.
    let signals = SignalQueue::of(&[
        Signal::SIGCHLD,
        Keeper::AT_ONCE,
        Signal::SIGTERM,
        Signal::SIGINT,
        Signal::SIGHUP,
    ])?;
    release_streams()?;
    let code = watch(server, bridge, &signals, is_confined)?;
    end_descendants(&signals);
    Ok(code)
}

/// The exit code when everything is to end.
const ENDED: u8 = 128 + Signal::SIGKILL as u8;

/// Until the server has ended, or everything is to.
fn watch(server: &Child, bridge: u32, signals: &SignalQueue, is_confined: bool) -> std::io::Result<u8> {
    let server = Pid::from_raw(i32::try_from(server.id()).map_err(std::io::Error::other)?);
    let stderr = std::io::stderr();
    // A server can open the other end of its stderr, but not end the wait for a process. Kernels before 5.3 have no
    // descriptors of processes.
    let process = open_process(bridge);
    // Its end may have come before the signals were listened for.
    if let Some(code) = reap(server)? {
        return Ok(code);
    }
    if i32::try_from(bridge).ok() != Some(getppid().as_raw()) {
        return Ok(ENDED);
    }
    loop {
        // The kernel reports the end of the stream's readers without being asked.
        let stream = PollFd::new(stderr.as_fd(), PollFlags::empty());
        let process = process.as_ref().map(|process| PollFd::new(process.as_fd(), PollFlags::POLLIN));
        let (signals, bridge_is_gone) = signals.wait([Some(stream), process].into_iter().flatten())?;
        if let Some(code) = reap(server)? {
            return Ok(code);
        }
        if bridge_is_gone || signals.contains(&Keeper::AT_ONCE) {
            return Ok(ENDED);
        }
        // Those to the keeper's group reach a server in that group by themselves.
        let to_end = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP];
        for signal in to_end.into_iter().filter(|signal| is_confined && signals.contains(signal)) {
            if let Err(error) = kill(server, signal)
                && error != Errno::ESRCH
            {
                return Err(error.into());
            }
        }
    }
}
