//! The keeper's own life: it starts one program, and ends everything below itself with that program or with the bridge.
//!
//! It passes the standard streams on untouched and reads nothing of what goes through them. Of them it holds the writing
//! end of the program's stderr only: when nobody is left to read it, the bridge is gone.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::fd::AsFd;
use std::process::{Child, Command, ExitCode};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, dup2_stdin, dup2_stdout};

use super::keeper::{Keeper, NOT_STARTED, NOT_STARTED_WORDS};
use super::tree;

/// Starts the program, and returns its exit code when it and everything below it have ended.
#[must_use]
pub fn keep(command: &[OsString]) -> ExitCode {
    match kept(command) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            // Nobody may be left to read it.
            let number = error.raw_os_error().unwrap_or_default();
            drop(writeln!(std::io::stderr(), "{NOT_STARTED_WORDS}{number}"));
            ExitCode::from(NOT_STARTED)
        }
    }
}

fn kept(command: &[OsString]) -> std::io::Result<u8> {
    nix::sys::prctl::set_child_subreaper(true)?;
    let (program, arguments) = command.split_first().ok_or(std::io::ErrorKind::InvalidInput)?;
    let server = Command::new(program).args(arguments).spawn()?;
    // Not before, since the server would have them blocked as well.
    let mut signals = SigSet::empty();
    // The group's endings reach the server by themselves.
    signals.extend([Signal::SIGCHLD, Keeper::AT_ONCE, Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP]);
    signals.thread_block()?;
    let wake = SignalFd::with_flags(&signals, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
    let_go_of_streams()?;
    let code = watch(&server, &wake)?;
    tree::end_descendants(&wake);
    Ok(code)
}

/// Whoever holds an end of them keeps the bridge and the server from seeing each other's end.
fn let_go_of_streams() -> std::io::Result<()> {
    let null = OpenOptions::new().read(true).write(true).open("/dev/null")?;
    dup2_stdin(&null)?;
    dup2_stdout(&null)?;
    Ok(())
}

/// Until the server has ended, or everything is to.
fn watch(server: &Child, wake: &SignalFd) -> std::io::Result<u8> {
    let server = Pid::from_raw(i32::try_from(server.id()).map_err(std::io::Error::other)?);
    let lifeline = std::io::stderr();
    // Its end may have come before the signals were listened for.
    if let Some(code) = reap(server)? {
        return Ok(code);
    }
    loop {
        let mut fds = [
            PollFd::new(wake.as_fd(), PollFlags::POLLIN),
            // Asked for nothing, it tells that nobody reads any more.
            PollFd::new(lifeline.as_fd(), PollFlags::empty()),
        ];
        match poll(&mut fds, PollTimeout::NONE) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        let bridge_is_gone = fds[1].any().unwrap_or(true);
        let mut at_once = false;
        while let Some(signal) = wake.read_signal()? {
            at_once |= i32::try_from(signal.ssi_signo) == Ok(Keeper::AT_ONCE as i32);
        }
        if let Some(code) = reap(server)? {
            return Ok(code);
        }
        if bridge_is_gone || at_once {
            return Ok(128 + Signal::SIGKILL as u8);
        }
    }
}

/// Reaps whatever has ended; the server's exit code when it has.
fn reap(server: Pid) -> std::io::Result<Option<u8>> {
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
