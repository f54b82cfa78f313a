//! Which files of the kernel a sandbox must not show.
//!
//! Programs need some files of /proc, and those stay: cpuinfo, meminfo, stat, loadavg, uptime, version, filesystems. Files
//! that only root can read are left to their modes.

/// What every engine masks by default. Docker takes a list in place of its own, so this one repeats it.
pub(super) const DEFAULTS: [&str; 9] = [
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
pub(super) const OF_PROC: [&str; 37] = [
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
pub(super) const OF_SYS: [&str; 24] = [
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
