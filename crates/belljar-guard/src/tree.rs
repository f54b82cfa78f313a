//! Finds processes by their ancestor or by their mark, and kills them until none is left.
//!
//! It reads `/proc`: where there is none, it finds nothing.

use std::collections::HashMap;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, getpid};

use super::mark::{Mark, PARENT_VARIABLE};

/// Processes that the kernel does not let go are given up after this.
const DYING: Duration = Duration::from_secs(5);
/// How long marked processes have to end by themselves, so that keepers can do their work; and between two looks.
const LEAVING: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(20);

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

/// Waits until no process carries the mark, and kills those that do not go by themselves.
pub async fn end_marked(mark: &Mark) {
    let started = Instant::now();
    loop {
        let left = marked(mark);
        if left.is_empty() || started.elapsed() > DYING {
            return;
        }
        if started.elapsed() > LEAVING {
            left.into_iter().for_each(kill_now);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// The processor time that a process group has used so far, in ticks of the kernel.
#[must_use]
pub fn ticks_of_group(group: Pid) -> u64 {
    let of = |pid: Pid| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
        // The group, and the times of the process and of its children that have ended.
        let is_member = fields.get(2)?.parse() == Ok(group.as_raw());
        let times = fields.get(11..15)?;
        is_member.then(|| times.iter().filter_map(|ticks| ticks.parse::<u64>().ok()).sum::<u64>())
    };
    processes().filter_map(of).sum()
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

fn kill_now(pid: Pid) {
    if let Err(error) = kill(pid, Signal::SIGKILL)
        && error != Errno::ESRCH
    {
        tracing::warn!(%error, %pid, "a process could not be killed");
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

pub(super) fn marked(mark: &Mark) -> Vec<Pid> {
    let variable = format!("{PARENT_VARIABLE}={}", mark.as_str());
    let carries = |pid: &Pid| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|found| found == variable.as_bytes())
    };
    processes().filter(carries).collect()
}

fn processes() -> impl Iterator<Item = Pid> {
    let entries = std::fs::read_dir(Path::new("/proc")).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).map(Pid::from_raw)
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

    #[tokio::test]
    async fn marked_processes_are_killed_and_others_are_left() {
        let mark = Mark::new();
        let start = |mark: &Mark| {
            Command::new("sleep").arg("99").env(PARENT_VARIABLE, mark.as_str()).spawn().expect("sleep starts")
        };
        let (mut ours, mut foreign) = (start(&mark), start(&Mark::new()));
        // A zombie has no environment any more.
        end_marked(&mark).await;
        assert!(ours.try_wait().unwrap().is_some());
        assert!(foreign.try_wait().unwrap().is_none());
        foreign.kill().unwrap();
        foreign.wait().unwrap();
    }
}
