//! The files of the kernel that a sandbox must not show.
//!
//! Some files of /proc stay visible, since programs need them: cpuinfo, meminfo, stat, loadavg, uptime, version,
//! filesystems. Files that only root can read are protected by their modes.

/// The paths that every engine masks by default. A list in a request replaces Docker's own list, so these paths are
/// repeated here.
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

/// Files and folders of /proc about the whole machine. Under /proc/sys there are also counters that one sandbox could
/// change and another one read. An engine skips paths that the kernel does not have.
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

/// All of /sys except the control groups, which the supervisor and language runtimes read.
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
