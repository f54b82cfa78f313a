//! Waits for the end of a sandbox's PID 1, whose parent may have been killed before.

use std::time::Duration;

#[cfg(target_os = "linux")]
use std::os::fd::{AsFd, OwnedFd};

#[cfg(target_os = "linux")]
use nix::errno::Errno;
#[cfg(target_os = "linux")]
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

#[cfg(target_os = "linux")]
use belljar_confine::open_process;

/// The PID 1 of a sandbox. It ends after all other processes of its namespace.
#[cfg(target_os = "linux")]
#[derive(Debug)]
pub(super) struct InitProcess(OwnedFd);

#[cfg(target_os = "linux")]
impl InitProcess {
    /// None if it has ended, or on kernels before 5.3.
    pub(super) fn new(number: u32) -> Option<Self> {
        open_process(number).map(Self)
    }

    /// Waits for its end, for at most `within`. Returns whether it has ended.
    pub(super) async fn ended(self, within: Duration) -> bool {
        let wait = move || {
            let timeout = PollTimeout::try_from(within).unwrap_or(PollTimeout::MAX);
            let mut fds = [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
            loop {
                match poll(&mut fds, timeout) {
                    Err(Errno::EINTR) => {}
                    ready => return ready.is_ok_and(|ready| ready > 0),
                }
            }
        };
        tokio::task::spawn_blocking(wait).await.unwrap_or(false)
    }
}

/// Process sandboxes exist on Linux only, so this type has no value elsewhere.
#[cfg(not(target_os = "linux"))]
#[derive(Debug)]
pub(super) enum InitProcess {}

#[cfg(not(target_os = "linux"))]
impl InitProcess {
    pub(super) fn new(_: u32) -> Option<Self> {
        None
    }

    pub(super) async fn ended(self, _: Duration) -> bool {
        match self {}
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[tokio::test]
    async fn the_end_of_a_process_is_seen() {
        let mut process = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let first = || InitProcess::new(process.id()).unwrap();
        let (lives, ends) = (first(), first());
        assert!(!lives.ended(Duration::ZERO).await);
        process.kill().unwrap();
        assert!(ends.ended(Duration::from_secs(60)).await);
        process.wait().unwrap();
        assert!(InitProcess::new(process.id()).is_none());
    }
}
