//! Which files of the kernel a sandbox must not show, and how each engine is asked to mask them.
//!
//! Programs need some files of /proc, and those stay: cpuinfo, meminfo, stat, loadavg, uptime, version, filesystems. Files
//! that only root can read are left to their modes.

use bollard::models::HostConfig;

use super::find::EngineKind;

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

/// Every path that a sandbox must not show.
pub fn masked_paths() -> impl Iterator<Item = &'static str> {
    DEFAULTS.into_iter().chain(OF_PROC).chain(OF_SYS)
}

/// Asks an engine of this kind to mask them.
pub(super) fn mask(kind: EngineKind, host: &mut HostConfig) {
    match kind {
        EngineKind::Podman => {
            // Added to its own list. In place of sysfs an empty file system takes less time than a mask for each folder;
            // Docker would mount that above the control groups.
            let option = format!("mask={}", OF_PROC.join(":"));
            host.security_opt.get_or_insert_default().push(option);
            host.tmpfs.get_or_insert_default().insert("/sys".into(), EMPTY.into());
        }
        EngineKind::Docker => host.masked_paths = Some(masked_paths().map(str::to_owned).collect()),
    }
    // Message queues would be files in one more writable place.
    host.tmpfs.get_or_insert_default().insert("/dev/mqueue".into(), EMPTY.into());
}
