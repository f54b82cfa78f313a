//! Finds processes by their mark or their group, and kills those with a mark until none is left.
//!
//! It reads `/proc`: where there is none, it finds nothing.

use std::path::Path;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::mark::{Mark, PARENT_VARIABLE};

/// Processes that the kernel does not let go are given up after this.
pub(super) const DYING: Duration = Duration::from_secs(5);
/// How long marked processes have to end by themselves, so that keepers can do their work; and between two looks.
const LEAVING: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(20);

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

pub(super) fn kill_now(pid: Pid) {
    if let Err(error) = kill(pid, Signal::SIGKILL)
        && error != Errno::ESRCH
    {
        tracing::warn!(%error, %pid, "a process could not be killed");
    }
}

pub(super) fn marked(mark: &Mark) -> Vec<Pid> {
    let variable = format!("{PARENT_VARIABLE}={}", mark.as_str());
    let carries = |pid: &Pid| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|found| found == variable.as_bytes())
    };
    processes().filter(carries).collect()
}

pub(super) fn processes() -> impl Iterator<Item = Pid> {
    let entries = std::fs::read_dir(Path::new("/proc")).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).map(Pid::from_raw)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

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
