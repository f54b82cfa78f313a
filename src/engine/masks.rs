//! Which files of the kernel a sandbox must not show, and how each engine is asked to mask them.
//!
//! Programs need some files of /proc, and those stay: cpuinfo, meminfo, stat, loadavg, uptime, version, filesystems. Files
//! that only root can read are left to their modes.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use bollard::models::HostConfig;

use super::find::{Engine, EngineKind};

/// What every engine masks by default. Docker takes a list in place of its own, so this one repeats it.
const DEFAULTS: [&str; 9] = [
    "/proc/acpi",
    "/proc/asound",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/timer_list",
    "/proc/timer_stats",
];

/// Files and folders of /proc about the whole machine. /proc/sys also has counters that one sandbox changes and another
/// one reads. An engine skips those that the kernel does not have.
const OF_PROC: [&str; 37] = [
    "/proc/bootconfig",
    "/proc/buddyinfo",
    "/proc/bus",
    "/proc/cgroups",
    "/proc/cmdline",
    "/proc/config.gz",
    "/proc/consoles",
    "/proc/crypto",
    "/proc/devices",
    "/proc/diskstats",
    "/proc/dma",
    "/proc/driver",
    "/proc/dynamic_debug",
    "/proc/execdomains",
    "/proc/fb",
    "/proc/fs",
    "/proc/interrupts",
    "/proc/iomem",
    "/proc/ioports",
    "/proc/irq",
    "/proc/kallsyms",
    "/proc/key-users",
    "/proc/locks",
    "/proc/mdstat",
    "/proc/misc",
    "/proc/modules",
    "/proc/mtrr",
    "/proc/partitions",
    "/proc/pressure",
    "/proc/schedstat",
    "/proc/softirqs",
    "/proc/swaps",
    "/proc/sys",
    "/proc/tty",
    "/proc/version_signature",
    "/proc/vmstat",
    "/proc/zoneinfo",
];

/// All of /sys but the control groups, which the supervisor and language runtimes read.
const OF_SYS: [&str; 24] = [
    "/sys/block",
    "/sys/bus",
    "/sys/class",
    "/sys/dev",
    "/sys/devices",
    "/sys/firmware",
    "/sys/fs/bcache",
    "/sys/fs/bpf",
    "/sys/fs/btrfs",
    "/sys/fs/erofs",
    "/sys/fs/ext4",
    "/sys/fs/f2fs",
    "/sys/fs/fuse",
    "/sys/fs/nfs",
    "/sys/fs/pstore",
    "/sys/fs/resctrl",
    "/sys/fs/selinux",
    "/sys/fs/tmpfs",
    "/sys/fs/xfs",
    "/sys/fs/zfs",
    "/sys/hypervisor",
    "/sys/kernel",
    "/sys/module",
    "/sys/power",
];

/// An empty folder in place of the kernel's.
const EMPTY: &str = "ro,noexec,nosuid,nodev,size=4k,mode=555";

/// The control groups: the sandbox's own, or all of the machine.
const GROUPS: &str = "/sys/fs/cgroup";

/// What the control groups show that an engine mounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Groups {
    /// The sandbox's own group.
    Own,
    /// Those of the machine, with the use of every other container and service: a rootless engine cannot make a group of
    /// cgroup version 1. They limit nothing, so that the supervisor needs none of them.
    Machine,
}

impl Groups {
    /// An engine that is not of root, by the owner of its socket, on a machine without version 2.
    fn of(engine: &Engine) -> Self {
        let socket = engine.address.strip_prefix("unix://").map(fs::metadata);
        let is_rootless = socket.is_some_and(|socket| socket.is_ok_and(|socket| socket.uid() != 0));
        let has_version_1 =
            Path::new(GROUPS).is_dir() && !Path::new(GROUPS).join("cgroup.controllers").exists();
        if is_rootless && has_version_1 { Self::Machine } else { Self::Own }
    }

    fn masked(self) -> Option<&'static str> {
        (self == Self::Machine).then_some(GROUPS)
    }
}

impl Engine {
    /// Every path that a sandbox on this engine must not show.
    #[must_use]
    pub fn masked_paths(&self) -> Vec<&'static str> {
        masked_paths(Groups::of(self)).collect()
    }

    /// Asks it to mask them.
    pub(super) fn mask(&self, host: &mut HostConfig) {
        mask(self.kind, Groups::of(self), host);
    }
}

fn masked_paths(groups: Groups) -> impl Iterator<Item = &'static str> {
    DEFAULTS.into_iter().chain(OF_PROC).chain(OF_SYS).chain(groups.masked())
}

fn mask(kind: EngineKind, groups: Groups, host: &mut HostConfig) {
    match kind {
        EngineKind::Podman => {
            // Added to its own list. In place of sysfs an empty file system takes less time than a mask for each folder;
            // Docker would mount that above the control groups.
            let paths: Vec<&str> = OF_PROC.into_iter().chain(groups.masked()).collect();
            host.security_opt.get_or_insert_default().push(format!("mask={}", paths.join(":")));
            host.tmpfs.get_or_insert_default().insert("/sys".into(), EMPTY.into());
        }
        EngineKind::Docker => host.masked_paths = Some(masked_paths(groups).map(str::to_owned).collect()),
    }
    // Message queues would be files in one more writable place.
    host.tmpfs.get_or_insert_default().insert("/dev/mqueue".into(), EMPTY.into());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_groups_of_the_machine_are_masked() {
        for kind in [EngineKind::Podman, EngineKind::Docker] {
            for groups in [Groups::Own, Groups::Machine] {
                let mut host = HostConfig::default();
                mask(kind, groups, &mut host);
                let options = host.security_opt.unwrap_or_default();
                let paths: Vec<String> = match kind {
                    EngineKind::Podman => {
                        options[0].strip_prefix("mask=").unwrap().split(':').map(str::to_owned).collect()
                    }
                    EngineKind::Docker => host.masked_paths.unwrap(),
                };
                assert!(paths.iter().any(|path| path == "/proc/sys"), "{kind:?}");
                let has_groups = paths.iter().any(|path| path == GROUPS);
                assert_eq!(has_groups, groups == Groups::Machine, "{kind:?} {groups:?}");
                assert_eq!(masked_paths(groups).any(|path| path == GROUPS), has_groups);
            }
        }
    }
}
