//! What a container uses, read from this machine's /proc, where the engine cannot bound it.
//!
//! It judges nothing, and sees nothing of a container on another machine: there is no meter then.

use std::fs;
use std::io::ErrorKind;

/// What all processes of a container use together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Resident memory; what several processes share counts once where it is above what was asked for.
    pub memory_bytes: u64,
    /// Processes and threads.
    pub processes: u64,
}

/// Reads the usage of one container, by the number that its PID 1 has on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UsageMeter {
    root: u32,
    /// In clock ticks since the machine's start: with the number, the process.
    started: u64,
}

impl UsageMeter {
    /// For the process of that number, if it is one of this machine, PID 1 of a namespace, and was started as `command`;
    /// on a kernel that lists the children of a process.
    pub(super) fn new(root: u32, command: &[String]) -> Option<Self> {
        let line = fs::read(format!("/proc/{root}/cmdline")).ok()?;
        let is_it =
            line.split(|byte| *byte == 0).take(command.len()).eq(command.iter().map(String::as_bytes));
        let status = fs::read_to_string(format!("/proc/{root}/status")).ok()?;
        let numbers: Vec<&str> = field(&status, "NSpid:")?.split_whitespace().collect();
        let is_first = numbers.len() > 1 && numbers.last() == Some(&"1");
        let lists_children =
            fs::exists(format!("/proc/{root}/task/{root}/children")).is_ok_and(|exists| exists);
        let started = started(root)?;
        (is_it && is_first && lists_children).then_some(Self { root, started })
    }

    /// The usage now; nothing once the container has gone. Above `memory_bytes` what processes share counts once, as far
    /// as this user may see it.
    #[must_use]
    pub fn read(&self, memory_bytes: u64) -> Option<Usage> {
        let (mut waiting, mut members) = (vec![self.root], Vec::new());
        while let Some(pid) = waiting.pop() {
            // One that has ended meanwhile uses nothing, and its children are PID 1's.
            waiting.extend(children(pid));
            if let Ok(status) = fs::read_to_string(format!("/proc/{pid}/status")) {
                let resident = field(&status, "VmRSS:").and_then(kib).unwrap_or(0);
                let threads = field(&status, "Threads:").and_then(|text| text.trim().parse().ok());
                members.push((pid, resident, threads.unwrap_or(1)));
            }
        }
        if started(self.root)? != self.started {
            return None;
        }
        let processes = members.iter().map(|(_, _, threads)| threads).sum();
        let mut resident: u64 = members.iter().map(|(_, bytes, _)| bytes).sum();
        if resident > memory_bytes {
            resident = members.iter().map(|(pid, bytes, _)| proportional(*pid, *bytes)).sum();
        }
        Some(Usage { memory_bytes: resident, processes })
    }
}

/// Resident memory with shared pages divided among those that share them: a walk over all pages, and not for everybody.
fn proportional(pid: u32, resident: u64) -> u64 {
    match fs::read_to_string(format!("/proc/{pid}/smaps_rollup")) {
        // Without the line it is ending, and has given its memory back.
        Ok(rollup) => field(&rollup, "Pss:").and_then(kib).unwrap_or(0),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => resident,
        Err(_) => 0,
    }
}

/// The children of all its threads. They are looked for from above, since a look at every process of the machine takes
/// longer the more there are.
fn children(pid: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    // The children of a thread that has ended meanwhile are another one's.
    let lists = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists
        .flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<u32>>())
        .collect()
}

/// When it was started, in clock ticks since the machine's start.
fn started(pid: u32) -> Option<u64> {
    let line = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before it can hold anything.
    let (_, rest) = line.rsplit_once(')')?;
    rest.split_whitespace().nth(19)?.parse().ok()
}

fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(name))
}

fn kib(text: &str) -> Option<u64> {
    let number: u64 = text.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(number * 1024)
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;

    fn own() -> UsageMeter {
        let root = std::process::id();
        UsageMeter { root, started: started(root).unwrap() }
    }

    #[test]
    fn this_process_and_its_children_are_counted() {
        let alone = own().read(u64::MAX).unwrap();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let with_child = own().read(u64::MAX).unwrap();
        let shared = own().read(0).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(alone.processes >= 1 && alone.memory_bytes > 1 << 20, "{alone:?}");
        assert!(with_child.processes > alone.processes, "{alone:?} {with_child:?}");
        // The C library is shared with every process of the machine.
        assert!(shared.memory_bytes < with_child.memory_bytes, "{shared:?} {with_child:?}");
    }

    #[test]
    fn a_process_that_has_taken_the_number_of_another_is_none() {
        let own = own();
        assert_eq!(UsageMeter { started: own.started + 1, ..own }.read(0), None);
    }

    #[test]
    fn only_the_first_process_of_a_namespace_of_its_own_has_a_meter() {
        let command: Vec<String> = std::env::args().collect();
        assert_eq!(UsageMeter::new(std::process::id(), &command), None);
    }
}
