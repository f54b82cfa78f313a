//! Files and facts of the host, of the engine and of PID 1, and places to put programs.
//!
//! Files of the kernel are opened only, never written.

use super::probe::Probe;
use super::probe::WithoutDefence::{Itself, SucceedsOnHost};

/// Refusals of a file: no right, no writable place, or no such file at all.
const CLOSED: &[&str] = &["EACCES", "EPERM", "EROFS", "ENOENT"];

pub const PROBES: &[Probe] = &[
    Probe::attempt(
        "files.descriptors",
        "find a descriptor of a file or folder that was left open (CVE-2024-21626)",
        &["EACCES"],
        r"
targets = []
for fd in os.listdir('/proc/self/fd'):
    try:
        targets.append(os.readlink('/proc/self/fd/' + fd))
    except OSError:
        pass
known = ('pipe:', 'socket:', 'anon_inode:', '/dev/null', '/proc/')
if all(target.startswith(known) for target in targets):
    refuse('none')
",
    )
    .without_defence(SucceedsOnHost),
    Probe::attempt(
        "files.sysrq",
        "open the trigger that restarts the machine",
        CLOSED,
        "os.close(os.open('/proc/sysrq-trigger', os.O_WRONLY))",
    )
    .absent(&["ENOENT"]),
    Probe::attempt("files.kcore", "read the kernel's memory", CLOSED, "open('/proc/kcore', 'rb').read(1)")
        .absent(&["ENOENT"]),
    Probe::attempt(
        "files.core-pattern",
        "have the kernel start a program of one's own on the host",
        CLOSED,
        "os.close(os.open('/proc/sys/kernel/core_pattern', os.O_WRONLY))",
    ),
    Probe::attempt(
        "files.uevent-helper",
        "the same by the helper for devices",
        CLOSED,
        "os.close(os.open('/sys/kernel/uevent_helper', os.O_WRONLY))",
    )
    .absent(&["ENOENT"]),
    Probe::attempt(
        "files.kernel-settings",
        "open any setting of the kernel for writing",
        &["EACCES"],
        r"
opened = 0
for folder, _, names in os.walk('/proc/sys'):
    for name in names:
        try:
            os.close(os.open(os.path.join(folder, name), os.O_WRONLY))
            opened += 1
        except OSError:
            pass
if not opened:
    refuse('none')
",
    ),
    Probe::attempt(
        "files.cgroup",
        "make a control group, which could have other limits",
        &["EACCES"],
        r"
made = 0
# With version 1 the folder of all controllers is a mere file system.
folders = [line.split()[4] for line in open('/proc/self/mountinfo') if ' - cgroup' in line]
for folder in folders:
    try:
        os.mkdir(folder + '/of-probe')
        made += 1
        os.rmdir(folder + '/of-probe')
    except OSError:
        pass
if not made:
    refuse('none')
",
    ),
    Probe::attempt(
        "files.library",
        "put a module among those of Python",
        CLOSED,
        "import sysconfig\nopen(sysconfig.get_path('stdlib') + '/of_probe.py', 'w').close()",
    ),
    Probe::attempt("files.passwd", "add a user", CLOSED, "open('/etc/passwd', 'a').close()"),
    Probe::attempt(
        "files.writable",
        "find a place to write besides the five",
        &["EACCES"],
        r"
found = []
groups = [line.split()[4] for line in open('/proc/self/mountinfo') if ' - cgroup' in line]
for folder, folders, _ in os.walk('/'):
    if folder in ('/proc', '/tmp', '/workspace', '/run', '/var/tmp', '/dev/shm'):
        folders.clear()
    elif folder == '/sys/fs/cgroup' and folder not in groups:
        pass  # Podman's folder of all controllers of version 1 can be written to: 1 MiB without programs
    elif os.access(folder, os.W_OK):
        found.append(folder)
if not found:
    refuse('none')
",
    ),
    Probe::attempt(
        "files.message-queues",
        "keep data where message queues are files",
        CLOSED,
        "open('/dev/mqueue/of-probe', 'w').close()\nos.remove('/dev/mqueue/of-probe')",
    ),
    Probe::attempt(
        "files.host-pipe",
        "write to a program of the host through a named pipe in a mounted folder",
        CLOSED,
        "os.write(os.open('/mnt/shared/pipe', os.O_WRONLY | os.O_NONBLOCK), b'from the sandbox')",
    ),
    Probe::attempt(
        "files.host-socket",
        "send to a program of the host through a socket in a mounted folder",
        &["EACCES", "EPERM", "ENOENT", "ENOSYS", "EAFNOSUPPORT", "EPROTONOSUPPORT"],
        r"
one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
one.sendto(b'from the sandbox', '/mnt/shared/socket')
",
    ),
    // SECURITY.md says that the next two reach out of the sandbox. Programs need the calls, so they have to work.
    Probe::says(
        "files.flush",
        "make the disk of the machine write its cache, by a file that can only be read",
        &["flushed the file of the image and the mounted folder"],
        r"
for path, flags in ((os.__file__, os.O_RDONLY), ('/mnt/pipes', os.O_RDONLY | os.O_DIRECTORY)):
    fd = os.open(path, flags)
    os.fsync(fd)
    os.close(fd)
print('flushed the file of the image and the mounted folder')
",
    )
    .without_defence(Itself),
    Probe::says(
        "files.lock",
        "lock a file and a mounted folder that can only be read, so that others wait",
        &["others wait for the file of the image, others wait for the mounted folder"],
        r"
import fcntl
def others_wait(path):
    # Two openings count as two programs.
    own, other = os.open(path, os.O_RDONLY), os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(own, fcntl.LOCK_EX)
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return 'others wait for'
    finally:
        os.close(own)
        os.close(other)
print(others_wait(os.__file__), 'the file of the image,', others_wait('/mnt/pipes'), 'the mounted folder')
",
    )
    .without_defence(Itself),
    Probe::attempt(
        "files.own-program",
        "change the interpreter's own program (CVE-2019-5736)",
        CLOSED,
        "os.chmod('/proc/self/exe', 0o777)",
    ),
    Probe::attempt("files.script-tmp", "run a script from /tmp", CLOSED, "run_script('/tmp')"),
    Probe::attempt("files.script-var-tmp", "run a script from /var/tmp", CLOSED, "run_script('/var/tmp')"),
    Probe::attempt("files.script-run", "run a script from /run", CLOSED, "run_script('/run')"),
    Probe::attempt("files.script-shm", "run a script from /dev/shm", CLOSED, "run_script('/dev/shm')"),
    Probe::attempt(
        "files.script-workspace",
        "run a script from /workspace",
        CLOSED,
        "run_script('/workspace')",
    ),
    Probe::attempt(
        "files.memfd-program",
        "run a program that is in no file system",
        &["EPERM", "ENOSYS", "EACCES"],
        r"
fd = os.memfd_create('x')
os.write(fd, open('/bin/true', 'rb').read())
subprocess.run([f'/proc/self/fd/{fd}'], pass_fds=[fd], check=True)
",
    ),
    Probe::attempt(
        "files.load-library",
        "load a library of one's own",
        &["EPERM", "EACCES", "OSError"],
        r"
import _ctypes, shutil
shutil.copy(_ctypes.__file__ if hasattr(_ctypes, '__file__') else '/bin/true', '/tmp/of-probe.so')
try:
    ctypes.CDLL('/tmp/of-probe.so')
finally:
    os.remove('/tmp/of-probe.so')
",
    ),
    Probe::attempt("files.root", "become root", CLOSED, "in_child(lambda: os.setuid(0))"),
    Probe::attempt(
        "files.groups",
        "join the groups of root",
        CLOSED,
        "in_child(lambda: os.setgroups([0, 6, 999]))",
    ),
    Probe::attempt(
        "files.su",
        "become root by a program that may",
        &["CalledProcessError", "EACCES", "EPERM", "ENOENT"],
        "subprocess.run(['su', '-c', 'true'], input=b'', check=True, capture_output=True)",
    ),
    Probe::attempt(
        "files.supervisor-root",
        "see the files of PID 1 by a link",
        CLOSED,
        r"
try:
    os.symlink('/proc/1/root', '/tmp/root-of-probe')
    os.listdir('/tmp/root-of-probe/root')
finally:
    os.remove('/tmp/root-of-probe')
",
    ),
    Probe::attempt(
        "files.supervisor-environment",
        "read the environment of PID 1",
        CLOSED,
        "open('/proc/1/environ').read()",
    ),
    Probe::attempt(
        "files.supervisor-descriptors",
        "list the descriptors of PID 1",
        CLOSED,
        "os.listdir('/proc/1/fd')",
    ),
    Probe::attempt(
        "files.supervisor-program",
        "see the program of PID 1",
        CLOSED,
        "os.readlink('/proc/1/exe')",
    ),
    Probe::attempt(
        "files.working-folder",
        "start in a folder that leads out",
        &["EACCES"],
        "if os.path.realpath('/proc/self/cwd') == os.getcwd() == '/workspace':\n    refuse('inside')",
    ),
    Probe::attempt(
        "files.secrets",
        "find a server's token or place in environment, processes, files or the interpreter's own memory",
        &["EACCES"],
        r"
import glob, re
secret = re.compile(rb'canary-[0-9]{16}|/belljar-fixture-[A-Za-z0-9]{6}/')
found = []
def look(what, data):
    found.extend((what, match) for match in secret.findall(data))
look('environ', repr(dict(os.environ)).encode())
for name in glob.glob('/proc/[0-9]*/environ') + glob.glob('/proc/[0-9]*/cmdline') + ['/proc/self/mountinfo']:
    try:
        look(name, open(name, 'rb').read())
    except OSError:
        pass
for line in open('/proc/self/maps').read().splitlines():
    span, rights = line.split()[:2]
    start, end = (int(part, 16) for part in span.split('-'))
    if rights.startswith('rw') and end - start < 1 << 28:
        # Not by /proc/self/mem: the process itself cannot open it.
        for at in range(start, end, 1 << 20):
            look(line, ctypes.string_at(at, min(1 << 20, end - at)))
if not found:
    refuse('none')
",
    ),
    Probe::attempt(
        "files.mounts",
        "find a folder of the host that is mounted",
        &["EACCES"],
        r"
# The first is mounted by these probes, the others by engines.
own = {'/mnt/pipes', '/etc/passwd', '/etc/group', '/etc/hosts', '/etc/hostname', '/etc/resolv.conf', '/run/.containerenv', '/run/secrets'}
kinds = {'proc', 'sysfs', 'tmpfs', 'devtmpfs', 'devpts', 'mqueue', 'cgroup', 'cgroup2', 'overlay'}
found = []
for line in open('/proc/self/mountinfo'):
    mount, _, source = line.partition(' - ')
    if source.split()[0] not in kinds and mount.split()[4] not in own:
        found.append(line)
if not found:
    refuse('none')
",
    )
    // It has programs of the machine.
    .known_on("process"),
    Probe::attempt(
        "files.user-name",
        "learn the user's name from where the engine keeps its files",
        &["EACCES"],
        r"
import re
if not re.search(r'/\.local/share/containers/|/home/|/Users/', open('/proc/self/mountinfo').read()):
    refuse('none')
",
    )
    .known_on("podman-rootless"),
    Probe::attempt(
        "files.disks",
        "find a disk of the machine among the devices",
        &["EACCES"],
        r"
import stat
if not [name for name in os.listdir('/dev') if stat.S_ISBLK(os.lstat('/dev/' + name).st_mode)]:
    refuse('none')
",
    )
    .without_defence(SucceedsOnHost),
    Probe::attempt(
        "files.device",
        "make a device",
        CLOSED,
        "import stat\nos.mknod('/tmp/device-of-probe', stat.S_IFCHR | 0o600, os.makedev(1, 3))\nos.remove('/tmp/device-of-probe')",
    ),
    Probe::attempt(
        "files.set-id",
        "make a file that runs as its owner",
        CLOSED,
        "open('/tmp/set-id', 'w').close()\nos.chmod('/tmp/set-id', 0o4700)\nassert os.stat('/tmp/set-id').st_mode & 0o4000",
    ),
    Probe::attempt(
        "files.fifo",
        "make a FIFO",
        &["EACCES"],
        "os.mkfifo('/tmp/fifo-of-probe')\nos.remove('/tmp/fifo-of-probe')",
    )
    .by_landlock(),
    Probe::attempt(
        "files.socket",
        "make a socket in the file system without asking for a socket",
        &["EACCES", "EPERM"],
        "import stat\nos.mknod('/tmp/socket-of-probe', stat.S_IFSOCK | 0o600)\nos.remove('/tmp/socket-of-probe')",
    )
    .by_landlock(),
    Probe::attempt(
        "files.fifo-of-the-host",
        "write to a FIFO of the host in a folder that is mounted read-only",
        &["EACCES"],
        "fd = os.open('/mnt/pipes/pipe', os.O_RDWR | os.O_NONBLOCK)\nos.write(fd, b'x')\nos.close(fd)",
    )
    .by_landlock(),
    Probe::attempt(
        "files.terminal",
        "open a terminal, whose driver has a long record of defects",
        &["EACCES", "ENOENT"],
        "for fd in os.openpty():\n    os.close(fd)",
    )
    .by_landlock(),
    Probe::attempt(
        "files.terminal-for-reading",
        "make a terminal by opening its device for reading only",
        &["EACCES", "ENOENT"],
        "os.close(os.open('/dev/ptmx', os.O_RDONLY | os.O_NOCTTY))",
    )
    .by_landlock(),
    Probe::attempt(
        "files.terminal-without-access",
        "make a terminal by an access mode that neither reads nor writes",
        &["EACCES", "EPERM"],
        "os.close(os.open('/dev/ptmx', 3 | os.O_NOCTTY))",
    ),
    Probe::attempt(
        "files.other-processes",
        "see processes besides one's own",
        &["EACCES"],
        r"
def session(pid):
    return int(open(f'/proc/{pid}/stat').read().rpartition(')')[2].split()[3])
pids = [int(name) for name in os.listdir('/proc') if name.isdigit()]
if not [pid for pid in pids if pid != 1 and session(pid) != os.getsid(0)]:
    refuse('none')
",
    )
    .without_defence(SucceedsOnHost),
];
