//! Linux system calls by name and number, and which of them a user may add to those that sandboxed code can make.
//!
//! It does not know which calls the sandbox's filter allows by itself: that table is in `entrypoint/belljar_sandbox`.

use std::fmt;
use std::str::FromStr;

use belljar_base::text;
use serde::Serialize;

/// One call a line: its name, its number on x86-64 and on aarch64, `-` where there is none.
const TABLE: &str = include_str!("system_calls.txt");

/// Calls that no user can add, and what each would do to the sandbox.
const NEVER: &[(&str, &str)] = &[
    (
        "reaches into other processes",
        "ptrace process_vm_readv process_vm_writev process_madvise process_mrelease pidfd_getfd kcmp",
    ),
    (
        "makes namespaces or changes mounts",
        "unshare setns clone3 mount umount2 pivot_root chroot open_tree open_tree_attr move_mount fsopen fsconfig fsmount \
         fspick mount_setattr",
    ),
    (
        "opens or uses sockets, and the sandbox has no network",
        "socket connect bind listen accept accept4 sendmmsg recvmmsg",
    ),
    (
        "gets past the filter or installs one",
        "seccomp bpf io_uring_setup io_uring_enter io_uring_register perf_event_open userfaultfd uselib",
    ),
    ("uses the kernel's keyrings", "add_key request_key keyctl"),
    (
        "opens files past their folders",
        "open_by_handle_at name_to_handle_at fanotify_init fanotify_mark lookup_dcookie",
    ),
    (
        "changes the machine",
        "reboot kexec_load kexec_file_load init_module finit_module delete_module create_module swapon swapoff acct \
         settimeofday clock_settime clock_adjtime adjtimex sethostname setdomainname syslog quotactl quotactl_fd iopl \
         ioperm modify_ldt nfsservctl vhangup _sysctl",
    ),
    (
        "is allowed already, with arguments that are checked",
        "socketpair sendto sendmsg recvfrom recvmsg setsockopt prlimit64 setpriority sched_setaffinity clone prctl ioctl \
         arch_prctl fcntl madvise open openat mknod mknodat chmod fchmod fchmodat \
         renameat2",
    ),
];

/// A system call that a user has added to those that sandboxed code can make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExtraSystemCall {
    name: &'static str,
    x86_64: Option<u32>,
    aarch64: Option<u32>,
}

impl fmt::Display for ExtraSystemCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl FromStr for ExtraSystemCall {
    type Err = String;

    /// # Errors
    /// When Linux has no call of this name, or the call may never be added: the text says which, as the end of a sentence
    /// about the value.
    fn from_str(text: &str) -> Result<Self, String> {
        let shown = text::inert_excerpt(text, 60);
        let (name, x86_64, aarch64) = rows()
            .find(|(name, ..)| *name == text)
            .ok_or_else(|| format!("has \"{shown}\", which is not a system call of Linux"))?;
        match NEVER.iter().find(|(_, names)| names.split(' ').any(|never| never == name)) {
            Some((why, _)) => Err(format!("has \"{name}\", which cannot be added: it {why}")),
            None => Ok(Self { name, x86_64, aarch64 }),
        }
    }
}

/// Numbers of the calls that the filter allows besides its own, as the `hello` frame has them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ExtraNumbers {
    /// On x86-64.
    pub x86_64: Vec<u32>,
    /// On aarch64.
    pub aarch64: Vec<u32>,
}

impl From<&[ExtraSystemCall]> for ExtraNumbers {
    fn from(calls: &[ExtraSystemCall]) -> Self {
        Self {
            x86_64: calls.iter().filter_map(|call| call.x86_64).collect(),
            aarch64: calls.iter().filter_map(|call| call.aarch64).collect(),
        }
    }
}

/// The name of a call on a machine as `uname` calls it; `None` where it is not known.
#[must_use]
pub fn system_call_name(machine: &str, number: i64) -> Option<&'static str> {
    rows()
        .find(|(_, x86_64, aarch64)| {
            let own = match machine {
                "x86_64" => *x86_64,
                "aarch64" => *aarch64,
                _ => None,
            };
            own.is_some_and(|own| i64::from(own) == number)
        })
        .map(|(name, ..)| name)
}

fn rows() -> impl Iterator<Item = (&'static str, Option<u32>, Option<u32>)> {
    TABLE.lines().filter_map(|line| {
        let mut fields = line.split(' ');
        Some((fields.next()?, fields.next()?.parse().ok(), fields.next()?.parse().ok()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_calls_can_be_added_by_name() {
        let calls: Vec<ExtraSystemCall> =
            ["mincore", "inotify_init"].iter().map(|name| name.parse().unwrap()).collect();
        let numbers = ExtraNumbers::from(calls.as_slice());
        assert_eq!(numbers, ExtraNumbers { x86_64: vec![27, 253], aarch64: vec![232] });
    }

    #[test]
    fn unknown_and_dangerous_calls_are_refused() {
        let refusal = |name: &str| name.parse::<ExtraSystemCall>().unwrap_err();
        assert_eq!(refusal("Mincore"), "has \"Mincore\", which is not a system call of Linux");
        assert_eq!(
            refusal("ptrace"),
            "has \"ptrace\", which cannot be added: it reaches into other processes"
        );
        for (_, names) in NEVER {
            for name in names.split(' ') {
                assert!(rows().any(|(known, ..)| known == name), "{name} is in the table");
                assert!(refusal(name).contains("cannot be added"), "{name}");
            }
        }
    }

    #[test]
    fn calls_with_checked_arguments_cannot_be_added() {
        let filter = include_str!("../entrypoint/belljar_sandbox/kernel/seccomp.py");
        let checks =
            filter.split_once("def checks(").and_then(|(_, rest)| rest.split_once("\ndef ")).unwrap().0;
        let checked: Vec<&str> = checks
            .lines()
            .filter_map(|line| line.strip_prefix("        \"")?.split_once("\": ").map(|(name, _)| name))
            .collect();
        assert_eq!(checked.join(" "), NEVER.last().unwrap().1);
    }

    #[test]
    fn names_are_found_by_machine_and_number() {
        assert_eq!(system_call_name("x86_64", 41), Some("socket"));
        assert_eq!(system_call_name("aarch64", 198), Some("socket"));
        assert_eq!(system_call_name("x86_64", -1), None);
        assert_eq!(system_call_name("riscv64", 198), None);
    }
}
