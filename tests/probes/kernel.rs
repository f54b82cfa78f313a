//! System calls that widen what code can do, or that reach little-used parts of the kernel.
//!
//! Arguments make no sense wherever the call would otherwise change the machine.

use super::probe::Probe;

/// Refusals of a filter.
const DENIED: &[&str] = &["EPERM", "ENOSYS"];

pub const PROBES: &[Probe] = &[
    Probe::attempt(
        "kernel.user-namespace",
        "get all capabilities in a user namespace of one's own",
        DENIED,
        "in_child(lambda: c('unshare', 0x10000000))",
    ),
    Probe::attempt(
        "kernel.mount-in-namespace",
        "mount in a mount namespace of one's own, without noexec and size",
        DENIED,
        "in_child(lambda: (c('unshare', 0x10020000), c('mount', b'n', b'/tmp', b'tmpfs', 0, 0)))",
    ),
    Probe::attempt(
        "kernel.network-namespace",
        "get a network stack of one's own",
        DENIED,
        "in_child(lambda: c('unshare', 0x50000000))",
    ),
    Probe::attempt(
        "kernel.clone-namespace",
        "fork into a user namespace",
        DENIED,
        r"
child = system_call('clone', 0x10000000 | 17, 0, 0, 0, 0)
if child == 0:
    os._exit(0)
os.waitpid(child, 0)
",
    ),
    Probe::attempt(
        "kernel.clone3-namespace",
        "fork into a user namespace by the call whose flags no filter can read",
        DENIED,
        r"
arguments = (ctypes.c_uint64 * 8)(0x10000000, 0, 0, 0, 17)
child = system_call('clone3', arguments, 64)
if child == 0:
    os._exit(0)
os.waitpid(child, 0)
",
    ),
    Probe::attempt(
        "kernel.setns",
        "enter another namespace",
        DENIED,
        "with open('/proc/self/ns/uts') as namespace:\n    reaches_the_kernel(lambda: c('setns', namespace.fileno(), 0))",
    ),
    Probe::attempt(
        "kernel.mount",
        "mount /proc anew, without masks",
        DENIED,
        "os.makedirs('/tmp/proc-of-probe', exist_ok=True)\nc('mount', b'proc', b'/tmp/proc-of-probe', b'proc', 0, 0)",
    ),
    Probe::attempt(
        "kernel.unmount",
        "take a mount away",
        DENIED,
        "reaches_the_kernel(lambda: c('umount2', b'/no-such-place', 0))",
    ),
    Probe::attempt(
        "kernel.new-mount-calls",
        "mount by the newer calls",
        DENIED,
        r"
name = ctypes.create_string_buffer(b'tmpfs')
os.close(system_call('fsopen', name, 0))
",
    ),
    Probe::attempt(
        "kernel.open-tree",
        "take a copy of a mount",
        DENIED,
        r"
path = ctypes.create_string_buffer(b'/tmp')
os.close(system_call('open_tree', -100, path, 1))
",
    ),
    Probe::attempt(
        "kernel.pivot-root",
        "change the root",
        DENIED,
        r"
path = ctypes.create_string_buffer(b'/no-such-place')
reaches_the_kernel(lambda: system_call('pivot_root', path, path))
",
    ),
    Probe::attempt(
        "kernel.chroot",
        "change the root of a process",
        DENIED,
        "in_child(lambda: os.chroot('/tmp'))",
    ),
    Probe::attempt(
        "kernel.ptrace",
        "trace a process",
        DENIED,
        "in_child(lambda: c('ptrace', 0, 0, 0, 0))",
    ),
    Probe::attempt(
        "kernel.read-memory",
        "read the memory of another process",
        DENIED,
        r"
reader, writer = os.pipe()
child = os.fork()
if child == 0:
    os.read(reader, 1)
    os._exit(0)
try:
    text = ctypes.create_string_buffer(8)
    ours = (ctypes.c_uint64 * 2)(ctypes.addressof(text), 8)
    theirs = (ctypes.c_uint64 * 2)(ctypes.addressof(text), 8)
    system_call('process_vm_readv', child, ours, 1, theirs, 1, 0)
finally:
    os.write(writer, b'.')
    os.waitpid(child, 0)
",
    ),
    Probe::attempt(
        "kernel.supervisor-memory",
        "open the memory of PID 1",
        &["EACCES", "EPERM"],
        "os.close(os.open('/proc/1/mem', os.O_RDWR))",
    ),
    Probe::attempt(
        "kernel.steal-descriptor",
        "take a descriptor of PID 1",
        DENIED,
        "pidfd = os.pidfd_open(1)\ntry:\n    os.close(system_call('pidfd_getfd', pidfd, 0, 0))\nfinally:\n    os.close(pidfd)",
    ),
    Probe::attempt(
        "kernel.compare",
        "learn addresses of the kernel by comparing processes",
        DENIED,
        "system_call('kcmp', os.getpid(), os.getpid(), 1, 0, 0)",
    ),
    Probe::attempt(
        "kernel.keyring",
        "use the kernel's keyrings",
        DENIED,
        "system_call('keyctl', 0, -3, 1, 0, 0)",
    ),
    Probe::attempt(
        "kernel.add-key",
        "keep data in the kernel's keyrings",
        DENIED,
        r"
kind, name = ctypes.create_string_buffer(b'user'), ctypes.create_string_buffer(b'probe')
system_call('add_key', kind, name, name, 5, -1)
",
    ),
    Probe::attempt(
        "kernel.bpf",
        "make a BPF map",
        DENIED,
        "os.close(system_call('bpf', 0, (ctypes.c_uint32 * 32)(1, 4, 4, 1), 128))",
    ),
    Probe::attempt(
        "kernel.io-uring",
        "submit calls past the filter",
        DENIED,
        "os.close(system_call('io_uring_setup', 8, (ctypes.c_char * 120)()))",
    ),
    Probe::attempt(
        "kernel.perf",
        "watch by performance counters",
        DENIED,
        r"
attributes = (ctypes.c_uint32 * 32)(1, 128)
os.close(system_call('perf_event_open', attributes, 0, -1, -1, 0))
",
    ),
    Probe::attempt(
        "kernel.userfaultfd",
        "stop the kernel in the middle of a copy",
        DENIED,
        "os.close(system_call('userfaultfd', 0))",
    ),
    Probe::attempt(
        "kernel.memfd",
        "make a file that is executable and in no file system",
        DENIED,
        "os.close(os.memfd_create('x'))",
    ),
    Probe::attempt(
        "kernel.memfd-secret",
        "hide memory from the kernel",
        DENIED,
        "os.close(system_call('memfd_secret', 0))",
    )
    .absent(&["ENOSYS"]),
    Probe::attempt(
        "kernel.splice",
        "move pages between pipes",
        DENIED,
        r"
reader, writer = os.pipe()
text = ctypes.create_string_buffer(b'abc')
c('vmsplice', writer, (ctypes.c_uint64 * 2)(ctypes.addressof(text), 3), ctypes.c_size_t(1), 0)
",
    ),
    Probe::attempt(
        "kernel.tee",
        "copy pages between pipes",
        DENIED,
        "a, b = os.pipe(), os.pipe()\nos.write(a[1], b'x')\nc('tee', a[0], b[1], ctypes.c_size_t(1), 0)",
    ),
    Probe::attempt(
        "kernel.sysv-memory",
        "make System V shared memory",
        DENIED,
        "c('shmctl', c('shmget', 0, ctypes.c_size_t(4096), 0o1600), 0, 0)",
    ),
    Probe::attempt(
        "kernel.sysv-queue",
        "make a System V message queue",
        DENIED,
        "c('msgctl', c('msgget', 0, 0o1600), 0, 0)",
    ),
    Probe::attempt(
        "kernel.sysv-semaphore",
        "make System V semaphores",
        DENIED,
        "c('semctl', c('semget', 0, 1, 0o1600), 0, 0)",
    ),
    Probe::attempt(
        "kernel.posix-queue",
        "make a POSIX message queue",
        DENIED,
        "os.close(c('mq_open', b'/probe', os.O_CREAT | os.O_RDWR, 0o600, 0))\nc('mq_unlink', b'/probe')",
    ),
    Probe::attempt(
        "kernel.execveat",
        "execute a descriptor",
        DENIED,
        r"
empty = ctypes.create_string_buffer(b'')
reaches_the_kernel(lambda: system_call('execveat', 0, empty, 0, 0, 0))
",
    ),
    Probe::attempt(
        "kernel.file-handle",
        "open a file by its handle, past every directory (CVE-2014-3519)",
        DENIED,
        r"
handle = (ctypes.c_char * 128)()
handle[0] = 100
reaches_the_kernel(lambda: system_call('open_by_handle_at', 0, handle, 0))
",
    ),
    Probe::attempt(
        "kernel.fanotify",
        "watch every file",
        DENIED,
        "os.close(c('fanotify_init', 0, 0))",
    )
    .absent(&["ENOSYS"]),
    Probe::attempt(
        "kernel.quota",
        "change quotas",
        DENIED,
        "reaches_the_kernel(lambda: system_call('quotactl', 0x800002 << 8, 0, 0, 0))",
    )
    .absent(&["ENOSYS"]),
    Probe::attempt(
        "kernel.accounting",
        "have every process written down",
        DENIED,
        "reaches_the_kernel(lambda: c('acct', b'/no-such-place'))",
    )
    .absent(&["ENOSYS"]),
    Probe::attempt(
        "kernel.swap",
        "add swap",
        DENIED,
        "reaches_the_kernel(lambda: c('swapon', b'/no-such-place', 0))",
    )
    .absent(&["ENOSYS"]),
    Probe::attempt(
        "kernel.clock",
        "set the clock",
        DENIED,
        // A tick of no length at all, which is refused only after the right to set one.
        "reaches_the_kernel(lambda: c('adjtimex', (ctypes.c_uint32 * 64)(0x4000)))",
    ),
    Probe::attempt(
        "kernel.module",
        "load a module into the kernel",
        DENIED,
        r"
nothing = ctypes.create_string_buffer(b'')
reaches_the_kernel(lambda: system_call('init_module', 0, 0, nothing))
",
    )
    .absent(&["ENOSYS"]),
    Probe::attempt(
        "kernel.kexec",
        "load another kernel",
        DENIED,
        "reaches_the_kernel(lambda: system_call('kexec_load', 0, 99, 0, 0))",
    )
    .absent(&["ENOSYS"]),
    Probe::attempt(
        "kernel.reboot",
        "restart the machine (the magic numbers are wrong on purpose)",
        DENIED,
        "reaches_the_kernel(lambda: system_call('reboot', 1, 2, 3, 0))",
    ),
    Probe::attempt(
        "kernel.host-name",
        "rename the machine",
        DENIED,
        "c('sethostname', b'probed', 6)",
    ),
    Probe::attempt(
        "kernel.log",
        "read the kernel's log",
        DENIED,
        "c('klogctl', 3, ctypes.create_string_buffer(64), 64)",
    ),
    Probe::attempt(
        "kernel.ports",
        "use the ports of the processor",
        DENIED,
        "in_child(lambda: c('ioperm', ctypes.c_ulong(0x80), ctypes.c_ulong(1), 1))",
    )
    .absent(&["ENOSYS"]),
    Probe::attempt(
        "kernel.segments",
        "write the processor's segment table",
        DENIED,
        r"
if os.uname().machine != 'x86_64':
    raise OSError(errno.ENOSYS, 'another processor')
in_child(lambda: checked(libc.syscall(154, 0, ctypes.create_string_buffer(64), 64)))
",
    )
    .absent(&["ENOSYS"]),
    Probe::attempt(
        "kernel.personality",
        "switch address randomisation off for what it starts",
        DENIED,
        "in_child(lambda: c('personality', ctypes.c_ulong(0x0040000)))",
    ),
    Probe::attempt(
        "kernel.32-bit-calls",
        "make calls in the numbers of 32 bits, which a filter may not know",
        DENIED,
        r"
import mmap
if os.uname().machine != 'x86_64':
    raise OSError(errno.ENOSYS, 'another processor')
page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
page.write(bytes.fromhex('53b814000000cd805bc3'))
getpid = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
def call():
    if getpid() != os.getpid():
        raise OSError(errno.ENOSYS, 'no such calls')
in_child(call)
",
    )
    .absent(&["ENOSYS", "EPERM"]),
    Probe::attempt(
        "kernel.x32-calls",
        "make calls in the numbers of x32",
        DENIED,
        "if os.uname().machine != 'x86_64':\n    raise OSError(errno.ENOSYS, 'another processor')\nin_child(lambda: checked(libc.syscall(0x40000000 + 39)))",
    )
    .absent(&["ENOSYS"]),
    Probe::attempt(
        "kernel.starve-supervisor",
        "take the descriptors of PID 1 away",
        DENIED,
        "import resource\nhard = resource.prlimit(1, resource.RLIMIT_NOFILE)[1]\nresource.prlimit(1, resource.RLIMIT_NOFILE, (300, hard))",
    ),
    Probe::attempt(
        "kernel.raise-limits",
        "raise one's own limits",
        &["EPERM", "ValueError"],
        "import resource\nhard = resource.getrlimit(resource.RLIMIT_CORE)[1]\nresource.setrlimit(resource.RLIMIT_CORE, (hard, -1))",
    ),
    Probe::attempt(
        "kernel.loosen",
        "take the filter or no_new_privs off",
        &["EACCES"],
        r"
libc.prctl(22, 0, 0, 0, 0)
libc.prctl(38, 0, 0, 0, 0)
status = dict(line.split(':\t', 1) for line in open('/proc/self/status').read().splitlines() if ':\t' in line)
if (status['NoNewPrivs'], status['Seccomp']) == ('1', '2'):
    refuse('both are on')
",
    ),
    Probe::attempt(
        "kernel.priority",
        "run before everybody else on the machine",
        &["EPERM", "EACCES"],
        "in_child(lambda: os.nice(-5))",
    ),
    Probe::attempt(
        "kernel.asynchronous-io",
        "take events of asynchronous input and output, of which the machine has few",
        DENIED,
        "system_call('io_setup', 1, ctypes.create_string_buffer(8))",
    )
    .absent(&["ENOSYS"]),
    Probe::attempt(
        "kernel.watches",
        "take instances of inotify, of which the machine's user has few",
        DENIED,
        "os.close(system_call('inotify_init1', 0))",
    ),
    Probe::attempt("kernel.sync", "write out every file system of the machine", DENIED, "system_call('sync')"),
    Probe::attempt(
        "kernel.sync-file-system",
        "write out the file system below a file",
        DENIED,
        "with open('/tmp/synced', 'w') as file:\n    c('syncfs', file.fileno())",
    ),
    Probe::attempt(
        "kernel.seccomp-listener",
        "answer system calls of other processes by a listener",
        DENIED,
        "program, held = filter_program(0x7fff0000)\nin_child(lambda: system_call('seccomp', 1, 8, program))",
    ),
    Probe::attempt(
        "kernel.audit-log",
        "flood the machine's audit log by a filter that logs each call",
        DENIED,
        r"
program, held = filter_program(0x7ffc0000)
c('prctl', 38, 1, 0, 0, 0)
in_child(lambda: c('prctl', 22, 2, program, 0, 0))
",
    ),
    Probe::attempt(
        "kernel.terminal-input",
        "type into a terminal as if its user did",
        DENIED,
        // Landlock lets nobody have a terminal. A pipe is no terminal, which the kernel says unless the filter refuses first.
        r"
import fcntl
reader, writer = os.pipe()
try:
    reaches_the_kernel(lambda: fcntl.ioctl(reader, 0x5412, b'x'))
finally:
    os.close(reader)
    os.close(writer)
",
    ),
    Probe::attempt(
        "kernel.memory-layout",
        "change what the kernel says of a process's memory",
        DENIED,
        "c('prctl', 35, 15, ctypes.create_string_buffer(8), 0, 0)",
    )
    .absent(&["EINVAL"]),
    Probe::attempt(
        "kernel.choose-tracer",
        "let another process trace this one",
        DENIED,
        "in_child(lambda: c('prctl', 0x59616d61, ctypes.c_long(-1), 0, 0, 0))",
    )
    .absent(&["EINVAL"]),
    Probe::attempt(
        "kernel.dumpable",
        "let other processes of the user trace a process that was protected",
        DENIED,
        "in_child(lambda: (c('prctl', 4, 0, 0, 0, 0), c('prctl', 4, 1, 0, 0, 0)))",
    ),
    Probe::attempt(
        "kernel.dispatch",
        "have system calls answered in the process itself",
        DENIED,
        "c('prctl', 59, 0, 0, 0, 0)",
    )
    .absent(&["EINVAL"]),
    Probe::attempt(
        "kernel.process-descriptor",
        "hold a descriptor of PID 1",
        DENIED,
        "os.close(os.pidfd_open(1))",
    ),
    Probe::attempt(
        "kernel.robust-list",
        "learn an address in the memory of PID 1",
        DENIED,
        "system_call('get_robust_list', 1, ctypes.create_string_buffer(8), ctypes.create_string_buffer(8))",
    ),
    Probe::attempt(
        "kernel.clone-parent",
        "make a process that is a child of PID 1",
        DENIED,
        r"
child = system_call('clone', 0x8000 | 17, 0, 0, 0, 0)
if child == 0:
    os._exit(0)
",
    ),
    Probe::attempt(
        "kernel.lease",
        "hold up whoever opens a file",
        DENIED,
        "import fcntl\nwith open('/tmp/leased', 'w') as file:\n    fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)",
    ),
    Probe::attempt(
        "kernel.lock-memory",
        "keep memory from being swapped out",
        DENIED,
        "c('mlock', ctypes.create_string_buffer(4096), ctypes.c_size_t(4096))",
    ),
    Probe::attempt(
        "kernel.merge-memory",
        "learn by merged pages what other processes of the machine hold",
        DENIED,
        "import mmap\nmmap.mmap(-1, 8192).madvise(12)",
    )
    .absent(&["EINVAL"]),
    Probe::attempt(
        "kernel.page-cache",
        "learn which files of the machine were read",
        DENIED,
        r"
import mmap
with open(os.__file__, 'rb') as file, mmap.mmap(file.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE) as mapped:
    held = ctypes.c_char.from_buffer(mapped)
    address_of_it = ctypes.addressof(held)
    del held
    c('mincore', ctypes.c_void_p(address_of_it), ctypes.c_size_t(4096), ctypes.create_string_buffer(8))
",
    ),
    Probe::attempt(
        "kernel.whiteout",
        "rename a file so that a device stays in its place",
        DENIED,
        "open('/dev/shm/whiteout', 'w').close()\n\
         c('renameat2', -100, b'/dev/shm/whiteout', -100, b'/dev/shm/renamed', 4)\nos.remove('/dev/shm/whiteout')",
    ),
    Probe::attempt(
        "kernel.open-how",
        "open a file by the call whose flags no filter can read",
        DENIED,
        r"
path, how = ctypes.create_string_buffer(b'/proc/self/status'), (ctypes.c_uint64 * 3)()
os.close(system_call('openat2', -100, path, how, 24))
",
    )
    .absent(&["ENOSYS"]),
];
