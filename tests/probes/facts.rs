//! Facts about the machine, and counters of the whole machine by which two sandboxes could talk.
//!
//! Everything is read only.

use super::probe::Probe;

/// The refusal of `refuse`: nothing was found.
const NOTHING: &[&str] = &["EACCES"];

pub const PROBES: &[Probe] = &[
    Probe::attempt(
        "facts.command-line",
        "read how the kernel was started",
        NOTHING,
        "if not with_content('/proc/cmdline', '/proc/bootconfig'):\n    refuse('none')",
    ),
    Probe::attempt(
        "facts.boot",
        "read a number that names this start of the machine",
        &["EACCES", "ENOENT"],
        "open('/proc/sys/kernel/random/boot_id').read()",
    ),
    Probe::attempt(
        "facts.kernel-build",
        "read which options and modules the kernel has",
        NOTHING,
        "if not with_content('/proc/config.gz', '/proc/modules', '/sys/module', '/proc/crypto'):\n    refuse('none')",
    ),
    Probe::attempt(
        "facts.kernel-symbols",
        "read names and places of the kernel's functions and of devices in memory",
        NOTHING,
        "if not with_content('/proc/kallsyms', '/proc/iomem', '/proc/ioports', '/sys/kernel/notes'):\n    refuse('none')",
    ),
    Probe::attempt(
        "facts.disks",
        "learn which disks there are and how they are used",
        NOTHING,
        r"
if not with_content('/proc/diskstats', '/proc/partitions', '/proc/swaps', '/proc/fs/*', '/sys/block', '/sys/fs/ext4/*'):
    refuse('none')
",
    ),
    Probe::attempt(
        "facts.loop-files",
        "read which files of the host are used as disks",
        NOTHING,
        "if not with_content('/sys/block/loop*', '/sys/devices/virtual/block/*', '/sys/class/block'):\n    refuse('none')",
    ),
    Probe::attempt(
        "facts.interrupts",
        "watch interrupts, which tell of keys and packets",
        NOTHING,
        "if not with_content('/proc/interrupts', '/proc/softirqs', '/proc/irq'):\n    refuse('none')",
    ),
    Probe::attempt(
        "facts.memory",
        "watch how the machine uses its memory and waits for it",
        NOTHING,
        r"
if not with_content('/proc/vmstat', '/proc/zoneinfo', '/proc/buddyinfo', '/proc/pressure', '/sys/devices/system/node'):
    refuse('none')
",
    ),
    Probe::attempt(
        "facts.hardware",
        "learn what the machine is and what is connected to it",
        NOTHING,
        r"
seen = '/sys/class', '/sys/bus', '/sys/devices', '/sys/firmware', '/proc/bus', '/proc/devices', '/proc/tty', '/proc/mtrr'
if not with_content(*seen):
    refuse('none')
",
    ),
    Probe::attempt(
        "facts.settings",
        "read settings of the kernel",
        NOTHING,
        "if not with_content('/proc/sys/vm', '/proc/sys/kernel', '/proc/sys/net', '/proc/sys/fs'):\n    refuse('none')",
    ),
    Probe::attempt(
        "facts.control-groups",
        "count the containers and services of the machine",
        NOTHING,
        "if not with_content('/proc/cgroups', '/proc/key-users', '/sys/kernel/cgroup'):\n    refuse('none')",
    ),
    Probe::attempt(
        "facts.locks",
        "see which files of the host are locked",
        NOTHING,
        r"
import fcntl
with open('/tmp/lock-of-probe', 'w') as file:
    fcntl.flock(file, fcntl.LOCK_EX)
    os.remove('/tmp/lock-of-probe')
    if not with_content('/proc/locks'):
        refuse('none')
",
    ),
    Probe::attempt(
        "facts.channel-open-files",
        "send to another sandbox by the number of open files",
        &["EACCES", "ENOENT"],
        r"
def count():
    return int(open('/proc/sys/fs/file-nr').read().split()[0])
before = count()
files = [open('/dev/null') for _ in range(600)]
during = count()
for file in files:
    file.close()
if during < before + 200:
    refuse('nothing is seen')
",
    ),
    Probe::attempt(
        "facts.channel-inodes",
        "send to another sandbox by the number of files that the kernel keeps",
        &["EACCES", "ENOENT"],
        r"
def count():
    return int(open('/proc/sys/fs/inode-nr').read().split()[0])
before = count()
for number in range(2000):
    open(f'/tmp/{number}-of-probe', 'w').close()
during = count()
for number in range(2000):
    os.remove(f'/tmp/{number}-of-probe')
if during < before + 1000:
    refuse('nothing is seen')
",
    ),
    Probe::attempt(
        "facts.channel-counters",
        "read another counter that sandboxes share",
        NOTHING,
        r"
# The kernel does not have all of them.
names = 'fs/aio-nr', 'fs/dentry-state', 'kernel/pty/nr', 'kernel/random/entropy_avail', 'kernel/ns_last_pid'
if not with_content(*('/proc/sys/' + name for name in names)):
    refuse('none')
",
    ),
    Probe::attempt(
        "facts.unlisted",
        "read a file of the kernel that SECURITY.md does not name as visible",
        NOTHING,
        r"
named = 'cpuinfo', 'meminfo', 'stat', 'loadavg', 'uptime', 'version', 'filesystems', 'sysvipc'
# Links lead to the files of one's own process.
entries = [entry for entry in os.scandir('/proc') if not (entry.name.isdigit() or entry.is_symlink())]
if not with_content(*(entry.path for entry in entries if entry.name not in named)):
    refuse('none')
",
    ),
];
