//! The first of the two processes that start a sandbox: it creates the namespaces, and ends the sandbox when the bridge
//! ends.
//!
//! It stays the parent of the sandbox's PID 1, in the machine's own PID namespace, and does nothing else.

use std::io::{self, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitCode, ExitStatus};

use belljar_confine::{SignalQueue, Step, StepFailure, close_others, keep_capabilities, release_all_streams};
use nix::sched::{CloneFlags, unshare};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use nix::unistd::getppid;

use super::super::fate::SIGNALLED;
use super::answer::{say, tell};
use super::plan::{MAPPED, UNSHARED};

/// Starts the sandbox of this plan, and returns when it has ended. `parent` is the number of the bridge's process.
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

fn begun(parent: u32, plan: &str) -> Result<u8, StepFailure> {
    set_pdeathsig(Signal::SIGKILL).step("bind itself to the bridge")?;
    if u32::try_from(getppid().as_raw()) != Ok(parent) {
        return Ok(0);
    }
    close_others().step("close what it was started with")?;
    // The user namespace is created alone. The other namespaces take their users from it, and it has none until the
    // bridge maps them.
    unshare(CloneFlags::CLONE_NEWUSER).namespace_step("make a user namespace")?;
    say(UNSHARED).step("answer the bridge")?;
    let mut answer = vec![0; MAPPED.len()];
    io::stdin().lock().read_exact(&mut answer).step("hear the bridge")?;
    let others = CloneFlags::CLONE_NEWNS
        | CloneFlags::CLONE_NEWPID
        | CloneFlags::CLONE_NEWNET
        | CloneFlags::CLONE_NEWIPC
        | CloneFlags::CLONE_NEWUTS
        | CloneFlags::CLONE_NEWCGROUP;
    unshare(others).namespace_step("make namespaces")?;
    keep_capabilities().namespace_step("keep its capabilities")?;
    // The signals are blocked before the first process starts, so that a SIGTERM meanwhile waits for `watch`. The first
    // process unblocks them for itself.
    let signals = SignalQueue::of(&[Signal::SIGCHLD, Signal::SIGTERM]).step("wait for signals")?;
    let mut first = Command::new("/proc/self/exe");
    first.arg0("belljar").args(["confine", "--inside", plan]).env_clear();
    let first = first.spawn().step("start the sandbox's first process")?;
    // With its own copies of the streams, this process would hide the sandbox's end from the bridge, and the bridge's
    // end from the sandbox.
    release_all_streams().step("close its streams")?;
    watch(first, &signals).step("wait for the sandbox")
}

/// Waits until the sandbox's first process has ended, and with it every process of its namespace.
fn watch(mut first: Child, signals: &SignalQueue) -> io::Result<u8> {
    loop {
        if let Some(status) = first.try_wait()? {
            return Ok(exit_code(status).and_then(|code| u8::try_from(code).ok()).unwrap_or(1));
        }
        if signals.wait([])?.0.contains(&Signal::SIGTERM) {
            first.kill()?;
        }
    }
}

/// The exit code of a process as shells give it: 128 and the number of the signal that killed it.
pub(super) fn exit_code(status: ExitStatus) -> Option<i32> {
    status.code().or_else(|| Some(SIGNALLED + status.signal()?))
}
