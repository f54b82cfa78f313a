//! Common code of the processes above a sandbox or a confined server: they wait for signals, and close the streams that
//! pass through them.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::{dup2_stderr, dup2_stdin, dup2_stdout};
use rustix::process::{PidfdFlags, pidfd_open};

/// A queue of blocked signals. Programs that are started meanwhile inherit the block.
#[derive(Debug)]
pub struct SignalQueue(SignalFd);

impl SignalQueue {
    /// Blocks these signals in this thread, and queues them from now on.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn of(signals: &[Signal]) -> io::Result<Self> {
        let mut set = SigSet::empty();
        set.extend(signals.iter().copied());
        set.thread_block()?;
        Ok(Self(SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?))
    }

    /// Waits until a signal comes or one of these descriptors has an event. Returns the signals, and whether a
    /// descriptor has an event. Both may be empty, since a wait can be interrupted.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn wait<'f>(
        &'f self,
        others: impl IntoIterator<Item = PollFd<'f>>,
    ) -> io::Result<(Vec<Signal>, bool)> {
        let mut fds = vec![PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
        fds.extend(others);
        match poll(&mut fds, PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        let happened = fds[1..].iter().any(|other| other.any().unwrap_or(true));
        let mut signals = Vec::new();
        while let Some(signal) = self.0.read_signal()? {
            let number = i32::try_from(signal.ssi_signo).ok();
            signals.extend(number.and_then(|number| Signal::try_from(number).ok()));
        }
        Ok((signals, happened))
    }
}

impl AsFd for SignalQueue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A descriptor that becomes readable when a process has ended; `None` if it has ended, or on kernels before 5.3.
#[must_use]
pub fn open_process(number: u32) -> Option<OwnedFd> {
    let pid = rustix::process::Pid::from_raw(i32::try_from(number).ok()?)?;
    pidfd_open(pid, PidfdFlags::empty()).ok()
}

/// Replaces this process's stdin and stdout by `/dev/null`. While a process holds a copy of a stream, the processes at
/// both ends cannot notice each other's end.
///
/// # Errors
/// The kernel refuses.
pub fn release_streams() -> io::Result<()> {
    let null = OpenOptions::new().read(true).write(true).open("/dev/null")?;
    dup2_stdin(&null)?;
    dup2_stdout(&null)?;
    Ok(())
}

/// Replaces this process's stdin, stdout and stderr by `/dev/null`.
///
/// # Errors
/// The kernel refuses.
pub fn release_all_streams() -> io::Result<()> {
    release_streams()?;
    dup2_stderr(&OpenOptions::new().write(true).open("/dev/null")?)?;
    Ok(())
}
