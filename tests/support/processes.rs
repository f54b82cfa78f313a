//! What `/proc` tells of processes: whether they live, whose children they are, what they carry.

use std::fs::read_to_string;

/// Whether a process is there; a zombie is not.
pub fn is_alive(pid: i32) -> bool {
    let Ok(stat) = read_to_string(format!("/proc/{pid}/stat")) else { return false };
    !stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(['Z', 'X']))
}

/// Whether a process stands still by a signal.
pub fn is_stopped(pid: i32) -> bool {
    let stat = read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
}

/// The CPU time that a process has used, in the system's ticks.
pub fn cpu_ticks(pid: i32) -> u64 {
    let stat = read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
    // utime and stime.
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

/// The guardian of the bridge.
pub fn guardian_of(bridge: i32) -> Option<i32> {
    children_in_mode(bridge, "guardian").next()
}

/// The keepers of the bridge's servers.
pub fn keepers_of(bridge: i32) -> Vec<i32> {
    children_in_mode(bridge, "keep").collect()
}

/// Living processes that carry the variable in their environment.
pub fn marked(name: &str, value: &str) -> Vec<i32> {
    let variable = format!("{name}={value}");
    let carries = |pid: &i32| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|found| found == variable.as_bytes())
    };
    processes().filter(carries).filter(|pid| is_alive(*pid)).collect()
}

/// The direct children of a process, zombies included.
pub fn children_of(parent: i32) -> impl Iterator<Item = i32> {
    processes().filter(move |pid| {
        let stat = read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let parent_of = stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(1)?.parse().ok());
        parent_of == Some(parent)
    })
}

fn children_in_mode(parent: i32, mode: &'static str) -> impl Iterator<Item = i32> {
    let is_in_mode = move |pid: &i32| {
        let line = read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split('\0').nth(1) == Some(mode)
    };
    children_of(parent).filter(is_in_mode)
}

fn processes() -> impl Iterator<Item = i32> {
    std::fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}
