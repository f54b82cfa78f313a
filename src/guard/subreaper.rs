//! The keeper's own life: it starts one program, and ends everything below itself with that program or with the bridge.
//!
//! It passes the standard streams on untouched and reads nothing of what goes through them. Of them it holds the writing
//! end of the program's stderr only: when nobody is left to read it, the bridge is gone.

use std::ffi::OsString;
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitCode};

use nix::sys::signal::Signal;
use nix::unistd::Pid;

use super::keeper::{Keeper, NOT_CONFINED, NOT_CONFINED_WORDS, NOT_STARTED, NOT_STARTED_WORDS};
use super::tree;
use crate::confine::{
    Failed, NotServed, ServerPlan, SignalQueue, Step, part_server, reap, release_streams, serve_confined,
};

/// Starts the program, confined if there is a plan for it, and returns its exit code when it and everything below it have
/// ended.
#[must_use]
pub fn keep(command: &[OsString], plan: Option<&str>) -> ExitCode {
    ended(kept(command, plan))
}

/// Starts the program of a keeper in the namespaces that the keeper has made; returns when it has ended.
#[must_use]
pub fn keep_inside(command: &[OsString], keeper: u32, plan: &str) -> ExitCode {
    ended(read(plan).map_err(NotServed::from).and_then(|plan| serve_confined(keeper, &plan, command)))
}

/// The exit code; why the program was not started is said on stderr.
fn ended(ended: Result<u8, NotServed>) -> ExitCode {
    let (words, code) = match ended {
        Ok(code) => return ExitCode::from(code),
        Err(NotServed::Start(error)) => {
            (format!("{NOT_STARTED_WORDS}{}", error.raw_os_error().unwrap_or_default()), NOT_STARTED)
        }
        Err(NotServed::Confinement(failed)) => {
            let failed = serde_json::to_string(&failed).unwrap_or_default();
            (format!("{NOT_CONFINED_WORDS}{failed}"), NOT_CONFINED)
        }
    };
    // Nobody may be left to read it.
    drop(writeln!(std::io::stderr(), "{words}"));
    ExitCode::from(code)
}

fn read(plan: &str) -> Result<ServerPlan, Failed> {
    serde_json::from_str(plan).map_err(std::io::Error::other).step("read its plan")
}

fn kept(command: &[OsString], plan: Option<&str>) -> Result<u8, NotServed> {
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
            inside.spawn().step("start the first process of its namespaces")?
        }
    };
    keep_server(&server).map_err(NotServed::Start)
}

fn keep_server(server: &Child) -> std::io::Result<u8> {
    // Not before, since the server would have them blocked as well. The group's endings reach the server by themselves.
    let signals = SignalQueue::of(&[
        Signal::SIGCHLD,
        Keeper::AT_ONCE,
        Signal::SIGTERM,
        Signal::SIGINT,
        Signal::SIGHUP,
    ])?;
    release_streams()?;
    let code = watch(server, &signals)?;
    tree::end_descendants(&signals);
    Ok(code)
}

/// Until the server has ended, or everything is to.
fn watch(server: &Child, signals: &SignalQueue) -> std::io::Result<u8> {
    let server = Pid::from_raw(i32::try_from(server.id()).map_err(std::io::Error::other)?);
    let lifeline = std::io::stderr();
    // Its end may have come before the signals were listened for.
    if let Some(code) = reap(server)? {
        return Ok(code);
    }
    loop {
        let (signals, bridge_is_gone) = signals.wait(Some(lifeline.as_fd()))?;
        if let Some(code) = reap(server)? {
            return Ok(code);
        }
        if bridge_is_gone || signals.contains(&Keeper::AT_ONCE) {
            return Ok(128 + Signal::SIGKILL as u8);
        }
    }
}
