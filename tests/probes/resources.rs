//! Bombs: more processes, memory, files, descriptors or threads than the machine should give.
//!
//! Each stops by itself soon after the bound that it is to meet, so that it does no harm where nothing bounds it; it holds
//! what it has for half a second, which is what harms others.

use super::probe::Probe;
use super::probe::Variables::Either;
use super::probe::WithoutDefence::{Ends, Itself};

pub const PROBES: &[Probe] = &[
    // The first one: an interpreter that has had much memory has no copy to roll back to.
    Probe::fails(
        "resources.crash",
        "write where nothing is",
        &["exit: 139", "the interpreter was killed by signal 11"],
        "ctypes.memset(1, 0, 1)",
    )
    .without_defence(Ends),
    // An interpreter that has had much memory has no room for the next three either.
    Probe::attempt(
        "resources.memory-of-sessions",
        "use 2 GB at once in 20 processes of up to 300 MiB, each with a session and so a share of the processors of its own",
        &["MemoryError"],
        r"
import array, mmap, select, signal
each, count, most, piece = 300, 20, 2000, b'x' * (1 << 20)
# How many MiB each process has touched. This outlives all of them. They stop when it is enough, so that a machine
# without the defence is not harmed.
record = os.open('/dev/shm/touched', os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
start, ready = os.pipe(), os.pipe()
children = []
try:
    for number in range(count):
        child = os.fork()
        if child == 0:
            try:
                os.setsid()
                held = mmap.mmap(-1, each << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
                os.read(start[0], 1)
                for touched in range(each):
                    held[touched << 20:touched + 1 << 20] = piece
                    os.pwrite(record, struct.pack('=H', touched + 1), 2 * number)
                    if sum(array.array('H', os.pread(record, 2 * count, 0))) >= most:
                        break
                os.write(ready[1], b'.')
                time.sleep(60)
            finally:
                os._exit(0)
        children.append(child)
    os.pwrite(record, bytes(2 * count), 0)
    os.write(start[1], bytes(count))
    there = 0
    while there < count:
        if any(os.waitpid(child, os.WNOHANG)[0] for child in children):
            raise MemoryError
        if select.select([ready[0]], [], [], 0.05)[0]:
            there += len(os.read(ready[0], count))
    time.sleep(0.5)
finally:
    for child in children:
        try:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        except OSError:
            pass
",
    )
    .variables(Either)
    .or_ended_where_unenforced("memory")
    // Where a cgroup holds the limit, the kernel makes room by ending some of them. Elsewhere the bridge has to be quick.
    .then(
        "import array, os\ntouched = sum(array.array('H', open('/dev/shm/touched', 'rb').read()))\n\
         os.remove('/dev/shm/touched')\n\
         groups = ('memory.max', 'memory/memory.limit_in_bytes')\n\
         is_enforced = any(os.path.exists('/sys/fs/cgroup/' + name) for name in groups)\n\
         assert touched > 64 and (is_enforced or touched < 1500), touched",
    ),
    Probe::fails(
        "resources.memory-and-files",
        "use 135 MiB in files beside 400 MiB of memory",
        &["the sandbox ran out of memory"],
        r"
for place, mib in {'/tmp': 60, '/var/tmp': 15, '/dev/shm': 60}.items():
    with open(place + '/file-of-probe', 'wb', 0) as file:
        for _ in range(mib):
            file.write(bytes(1 << 20))
held = b'x' * (400 << 20)
time.sleep(0.5)
print('THE ATTEMPT SUCCEEDED')
",
    )
    .variables(Either)
    .or_ended_where_unenforced("memory")
    .then(
        "import os\nfor place in ('/tmp', '/var/tmp', '/dev/shm'):\n    os.remove(place + '/file-of-probe')",
    ),
    Probe::attempt(
        "resources.disk",
        "fill every writable place beyond its size, all at the same time",
        &["ENOSPC"],
        r"
places = {'/tmp': 70, '/workspace': 135, '/var/tmp': 20, '/run': 8, '/dev/shm': 70}
full = closed = 0
try:
    for place, mib in places.items():
        if not os.access(place, os.W_OK):
            closed += 1
            continue
        with open(place + '/bomb-of-probe', 'wb', 0) as file:
            try:
                for _ in range(mib):
                    file.write(bytes(1 << 20))
            except OSError as error:
                full += error.errno == errno.ENOSPC
finally:
    for place in places:
        try:
            os.remove(place + '/bomb-of-probe')
        except OSError:
            pass
if full and full + closed == len(places):
    raise OSError(errno.ENOSPC, 'all of them')
",
    ),
    Probe::attempt(
        "resources.processes",
        "fork 160 processes that stay",
        &["EAGAIN"],
        r"
import signal
children = []
try:
    while len(children) < 160:
        child = os.fork()
        if child == 0:
            time.sleep(60)
            os._exit(0)
        children.append(child)
    time.sleep(0.5)
finally:
    for child in children:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
",
    )
    .or_ended_where_unenforced("pids"),
    Probe::attempt(
        "resources.orphans",
        "fork 160 processes whose parent is gone",
        &["EAGAIN"],
        r"
import signal
children = 0
try:
    while children < 160:
        middle = os.fork()
        if middle == 0:
            try:
                if os.fork() == 0:
                    time.sleep(60)
            except OSError:
                os._exit(11)
            os._exit(0)
        if os.waitstatus_to_exitcode(os.waitpid(middle, 0)[1]) == 11:
            raise BlockingIOError(errno.EAGAIN, 'a child could not fork')
        children += 1
    time.sleep(0.5)
finally:
    for name in os.listdir('/proc'):
        if name.isdigit() and int(name) not in (1, os.getpid()):
            try:
                if os.getsid(int(name)) == os.getsid(0):
                    os.kill(int(name), signal.SIGKILL)
            except OSError:
                pass
",
    )
    .or_ended_where_unenforced("pids"),
    Probe::attempt(
        "resources.threads",
        "start 600 threads",
        &["RuntimeError"],
        r"
over = threading.Event()
threads = []
try:
    while len(threads) < 600:
        thread = threading.Thread(target=over.wait)
        thread.start()
        threads.append(thread)
    time.sleep(0.5)
finally:
    over.set()
    for thread in threads:
        thread.join()
",
    )
    .or_ended_where_unenforced("pids"),
    Probe::attempt("resources.memory-at-once", "allocate 600 MiB", &["MemoryError"], "bytearray(600 << 20)"),
    Probe::attempt(
        "resources.memory-in-pieces",
        "allocate 600 MiB, one after the other",
        &["MemoryError"],
        r"
pieces = []
try:
    while len(pieces) < 600:
        pieces.append(b'x' * (1 << 20))
finally:
    pieces.clear()
",
    ),
    Probe::fails(
        "resources.shared-memory",
        "use 600 MiB that no limit of the process counts",
        &["the sandbox ran out of memory"],
        r"
import mmap
memory = mmap.mmap(-1, 600 << 20)
for page in range(0, len(memory), 4096):
    memory[page] = 1
time.sleep(0.5)
memory.close()
print('THE ATTEMPT SUCCEEDED')
",
    )
    // After the bombs before it the interpreter may be too large to be copied while the next run waits.
    .variables(Either)
    .or_refused_where_unenforced("memory", "PermissionError: [Errno 1]"),
    Probe::fails(
        "resources.released-shared-memory",
        "hold 600 MiB that are in no page table any more",
        &["the sandbox ran out of memory"],
        r"
import mmap
held, piece, part = [], 100 << 20, 4 << 20
while len(held) < 6:
    memory = mmap.mmap(-1, piece)
    for at in range(0, piece, part):
        memory[at:at + part] = b'1' * part
        memory.madvise(mmap.MADV_DONTNEED, at, part)
    held.append(memory)
time.sleep(0.5)
if all(memory[at] == ord('1') for memory in held for at in (0, piece - 1)):
    print('THE ATTEMPT SUCCEEDED')
",
    )
    .variables(Either)
    .or_refused_where_unenforced("memory", "PermissionError: [Errno 1]"),
    Probe::fails(
        "resources.shrunk-shared-memory",
        "hold 600 MiB whose mappings have shrunk to a page",
        &["the sandbox ran out of memory"],
        r"
import mmap
held, piece = [], 100 << 20
while len(held) < 6:
    memory = mmap.mmap(-1, piece)
    for at in range(0, piece, 1 << 20):
        memory[at:at + (1 << 20)] = b'1' * (1 << 20)
    memory.resize(4096)
    held.append(memory)
time.sleep(0.5)
for memory in held:
    memory.resize(piece)
if all(memory[at] == ord('1') for memory in held for at in (0, piece - 1)):
    print('THE ATTEMPT SUCCEEDED')
",
    )
    .variables(Either)
    .or_refused_where_unenforced("memory", "PermissionError: [Errno 1]"),
    Probe::fails(
        "resources.shared-zeros",
        "hold 600 MiB of /dev/zero that are in no page table any more",
        &["the sandbox ran out of memory"],
        r"
import mmap
held, piece, part = [], 100 << 20, 4 << 20
with open('/dev/zero', 'r+b', buffering=0) as zeros:
    while len(held) < 6:
        memory = mmap.mmap(zeros.fileno(), piece)
        for at in range(0, piece, part):
            memory[at:at + part] = b'1' * part
            memory.madvise(mmap.MADV_DONTNEED, at, part)
        held.append(memory)
time.sleep(0.5)
if all(memory[at] == ord('1') for memory in held for at in (0, piece - 1)):
    print('THE ATTEMPT SUCCEEDED')
",
    )
    .variables(Either)
    .or_refused_where_unenforced("memory", "PermissionError: [Errno 13]"),
    Probe::attempt(
        "resources.memory-without-first-thread",
        "use 600 MiB in four processes whose first threads have ended",
        &["MemoryError"],
        r"
import select, signal
SYS_EXIT = {'x86_64': 60}.get(os.uname().machine, 93)

def hold():
    # Each process may have less than that as data.
    held = [b'1' * (1 << 20) for _ in range(150)]
    os.write(ready[1], b'.')
    os.read(done[0], 1)
    os._exit(0)

ready, done = os.pipe(), os.pipe()
children = []
try:
    for _ in range(4):
        child = os.fork()
        if child == 0:
            threading.Thread(target=hold).start()
            # Ends this thread only.
            libc.syscall(SYS_EXIT, 0)
        children.append(child)
    os.close(ready[1])
    there, held_until = 0, None
    while held_until is None or time.monotonic() < held_until:
        if any(os.waitpid(child, os.WNOHANG)[0] for child in children):
            raise MemoryError
        if select.select([ready[0]], [], [], 0.05)[0]:
            there += len(os.read(ready[0], 4))
        if there == 4 and held_until is None:
            held_until = time.monotonic() + 0.5
finally:
    for child in children:
        try:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        except OSError:
            pass
",
    )
    .variables(Either)
    .or_ended_where_unenforced("memory"),
    Probe::attempt(
        "resources.memory-of-children",
        "use 600 MiB in four processes",
        &["MemoryError"],
        r"
import signal
ready, done = os.pipe(), os.pipe()
children = []
try:
    for _ in range(4):
        child = os.fork()
        if child == 0:
            kept = b'x' * (150 << 20)
            os.write(ready[1], b'.')
            os.read(done[0], 1)
            os._exit(0)
        children.append(child)
    os.close(ready[1])
    there = 0
    while there < 4 and os.read(ready[0], 1):
        there += 1
        if any(os.waitpid(child, os.WNOHANG)[0] for child in children):
            break
    time.sleep(0.5)
    if there < 4 or any(os.waitpid(child, os.WNOHANG)[0] for child in children):
        raise MemoryError
finally:
    for child in children:
        try:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        except OSError:
            pass
",
    )
    .variables(Either)
    .or_ended_where_unenforced("memory"),
    Probe::attempt(
        "resources.descriptors",
        "open 2000 descriptors",
        &["EMFILE"],
        r"
fds = []
try:
    while len(fds) < 2000:
        fds.append(os.open('/dev/null', os.O_RDONLY))
finally:
    for fd in fds:
        os.close(fd)
",
    ),
    // SECURITY.md says that no limit counts the kernel's memory for locks. SQLite needs them, so they have to work.
    Probe::says(
        "resources.range-locks",
        "take 20,000 locks on ranges of files",
        &["20000 locks are held", "SQLite has 1 row"],
        r"
import fcntl, sqlite3
files = [open(f'/tmp/locked-{number}-of-probe', 'w') for number in range(20)]
try:
    for file in files:
        for place in range(1000):
            # One byte apart, so that the kernel cannot join them.
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 2 * place)
    held = 0
    def count():
        # A lock of another process is refused on each of them, and granted between two of them.
        global held
        for file in files:
            for place in range(1000):
                try:
                    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 2 * place)
                except BlockingIOError:
                    held += 1
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 1)
        os.write(told[1], str(held).encode())
    told = os.pipe()
    in_child(count)
    print(os.read(told[0], 16).decode(), 'locks are held')
    database = sqlite3.connect('/tmp/database-of-probe')
    database.execute('create table numbers (number)')
    database.execute('insert into numbers values (1)')
    database.commit()
    print('SQLite has', database.execute('select count(*) from numbers').fetchone()[0], 'row')
    database.close()
finally:
    for file in files:
        file.close()
        os.remove(file.name)
    if os.path.exists('/tmp/database-of-probe'):
        os.remove('/tmp/database-of-probe')
",
    )
    .without_defence(Itself),
    Probe::attempt(
        "resources.core-file",
        "leave a core file",
        &["EACCES"],
        r"
import resource
if resource.getrlimit(resource.RLIMIT_CORE) == (0, 0):
    refuse('none is written')
",
    ),
    Probe::fails(
        "resources.traceback",
        "raise from a depth that takes minutes to tell",
        &["KeyError: 'deep'", "frames left out in the middle", "state: variables kept"],
        r"
sys.setrecursionlimit(10 ** 6)
def f(n):
    if n == 0:
        raise KeyError('deep')
    f(n - 1)
f(300000)
",
    )
    .without_defence(Itself),
    // The last one: on a fast machine it ends for lack of memory before its time is over.
    Probe::fails(
        "resources.recursion",
        "recurse without end and without a limit",
        &["state: variables "],
        "sys.setrecursionlimit(10 ** 9)\nf = lambda: f()\nf()",
    )
    .timeout(2.0)
    .variables(Either)
    .without_defence(Itself),
];
