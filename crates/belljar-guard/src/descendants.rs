//! Ends everything below a keeper.

use std::collections::HashMap;
use std::os::fd::AsFd;
use std::time::Instant;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, getpid};

use super::processes::{DYING, kill_now, processes};

/// Kills and reaps everything below this process, which is its descendants' subreaper: once it has no child left, it
/// has no descendant left. `wake` becomes readable when a child ends.
pub(super) fn end_descendants(wake: impl AsFd) {
    let until = Instant::now() + DYING;
    // What could not be reaped within the bound cannot be killed either, or is another user's.
    while reap_all() && Instant::now() < until {
        for pid in descendants(getpid()) {
            kill_now(pid);
        }
        let mut fds = [PollFd::new(wake.as_fd(), PollFlags::POLLIN)];
        // Interrupted or not, the next look is due.
        let _woken = poll(&mut fds, PollTimeout::from(5_u8));
    }
}

/// Reaps what has ended; whether there are children left.
fn reap_all() -> bool {
    loop {
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::StillAlive) => return true,
            Err(Errno::ECHILD) => return false,
            Ok(_) | Err(_) => {}
        }
    }
}

fn descendants(ancestor: Pid) -> Vec<Pid> {
    let mut children: HashMap<Pid, Vec<Pid>> = HashMap::new();
    for pid in processes() {
        if let Some(parent) = parent_of(pid) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut found = children.remove(&ancestor).unwrap_or_default();
    let mut next = 0;
    while let Some(pid) = found.get(next) {
        let below = children.remove(pid).unwrap_or_default();
        found.extend(below);
        next += 1;
    }
    found
}

fn parent_of(pid: Pid) -> Option<Pid> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may hold anything; after it come the state and the parent.
    let parent = stat.rsplit_once(") ")?.1.split(' ').nth(1)?;
    parent.parse().ok().map(Pid::from_raw)
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::Duration;

    use super::*;

    #[test]
    fn descendants_are_found_over_generations_and_nobody_else_is() {
        let mut shell =
            Command::new("sh").args(["-c", "sh -c 'sleep 99 & wait' & wait"]).spawn().expect("sh starts");
        let own = Pid::from_raw(i32::try_from(shell.id()).unwrap());
        let until = Instant::now() + Duration::from_secs(20);
        while descendants(own).len() < 2 {
            assert!(Instant::now() < until, "{:?}", descendants(own));
            std::thread::park_timeout(Duration::from_millis(5));
        }
        let found = descendants(own);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(descendants(getpid()).contains(&found[1]) && !found.contains(&own));
        found.into_iter().for_each(kill_now);
        shell.wait().unwrap();
    }
}
