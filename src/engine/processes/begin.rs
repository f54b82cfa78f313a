//! The first of the two processes that start a sandbox: makes its namespaces, and ends it when the bridge goes.
//!
//! It stays the parent of the sandbox's PID 1, in the machine's own PID namespace, and does nothing else.

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitCode};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CloneFlags, unshare};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::{dup2_stderr, dup2_stdin, dup2_stdout, getppid};

use super::answer::{say, tell};
use super::plan::{MAPPED, UNSHARED};
use crate::confine::{Failed, Step, close_others, keep_capabilities};

/// Starts the sandbox of that plan, and returns when it has ended. `parent` is the bridge.
#[must_use]
pub fn begin(parent: u32, plan: &str) -> ExitCode {
    match begun(parent, plan) {
        Ok(code) => ExitCode::from(code),
        Err(failed) => {
            tell(&failed);
            ExitCode::from(70)
        }
    }
}

fn begun(parent: u32, plan: &str) -> Result<u8, Failed> {
    set_pdeathsig(Signal::SIGKILL).step("bind itself to the bridge")?;
    if u32::try_from(getppid().as_raw()) != Ok(parent) {
        return Ok(0);
    }
    close_others().step("close what it was started with")?;
    // By itself, since the users of all other namespaces are this one's, and it has none yet.
    unshare(CloneFlags::CLONE_NEWUSER).step("make a user namespace")?;
    say(UNSHARED).step("answer the bridge")?;
    let mut answer = vec![0; MAPPED.len()];
    io::stdin().lock().read_exact(&mut answer).step("hear the bridge")?;
    let others = CloneFlags::CLONE_NEWNS
        | CloneFlags::CLONE_NEWPID
        | CloneFlags::CLONE_NEWNET
        | CloneFlags::CLONE_NEWIPC
        | CloneFlags::CLONE_NEWUTS
        | CloneFlags::CLONE_NEWCGROUP;
    unshare(others).step("make namespaces")?;
    keep_capabilities().step("keep its capabilities")?;
    // Before there is a first process, so that a signal to end finds both; that process unblocks them.
    let mut signals = SigSet::empty();
    signals.extend([Signal::SIGCHLD, Signal::SIGTERM]);
    signals.thread_block().step("block signals")?;
    let mut first = Command::new("/proc/self/exe");
    first.arg0("belljar").args(["confine", "--inside", plan]).env_clear();
    let first = first.spawn().step("start the sandbox's first process")?;
    let wake = SignalFd::with_flags(&signals, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)
        .step("wait for signals")?;
    let_go_of_streams().step("close its streams")?;
    watch(first, &wake).step("wait for the sandbox")
}

/// The sandbox's own end must be seen by the bridge, and the bridge's by the sandbox.
fn let_go_of_streams() -> io::Result<()> {
    let null = OpenOptions::new().read(true).write(true).open("/dev/null")?;
    dup2_stdin(&null)?;
    dup2_stdout(&null)?;
    dup2_stderr(&null)?;
    Ok(())
}

/// Until the sandbox's first process has ended, and with it every other one of its namespace.
fn watch(mut first: Child, wake: &SignalFd) -> io::Result<u8> {
    loop {
        if let Some(status) = first.try_wait()? {
            return Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1));
        }
        let mut fds = [PollFd::new(wake.as_fd(), PollFlags::POLLIN)];
        match poll(&mut fds, PollTimeout::NONE) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        while let Some(signal) = wake.read_signal()? {
            if i32::try_from(signal.ssi_signo) == Ok(Signal::SIGTERM as i32) {
                first.kill()?;
            }
        }
    }
}
