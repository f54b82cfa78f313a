//! Runs that do not end, interpreters that do, and what user code may leave behind for the next run.

use super::probe::Probe;
use super::probe::Variables::Reset;
use super::probe::WithoutDefence::{Ends, Hangs, Interrupts, Itself};

const ROLLED_BACK: &str = "state: variables as before this run";
const KEPT: &str = "state: variables kept";
const TIMEOUT: &str = "status: timeout";

pub const PROBES: &[Probe] = &[
    Probe::fails(
        "lifecycle.exit",
        "end the interpreter",
        &["exit: 7", "the interpreter exited (7) in the middle of the run", ROLLED_BACK],
        "os._exit(7)",
    )
    .without_defence(Ends),
    Probe::fails("lifecycle.system-exit", "exit as a script does", &["exit: 3", "SystemExit(3)", KEPT], "sys.exit(3)")
        .without_defence(Ends),
    Probe::fails(
        "lifecycle.kill-itself",
        "kill its own process",
        &["exit: 137", "the interpreter was killed by signal 9", ROLLED_BACK],
        "os.kill(os.getpid(), 9)",
    )
    .without_defence(Ends),
    Probe::fails(
        "lifecycle.kill-group",
        "kill its process group",
        &["the interpreter was killed by signal 9", ROLLED_BACK],
        "os.killpg(0, 9)",
    )
    .without_defence(Ends),
    Probe::says(
        "lifecycle.kill-all",
        "kill every process that it may",
        &["still here"],
        r"
import signal
try:
    os.kill(-1, 9)
except ProcessLookupError:
    pass
print('still here')
",
    )
    .without_defence(Itself),
    Probe::says(
        "lifecycle.kill-supervisor",
        "kill and stop PID 1",
        &["sent"],
        r"
for number in (9, 19):
    try:
        os.kill(1, number)
    except PermissionError:
        pass
print('sent')
",
    )
    .without_defence(Itself),
    Probe::says(
        "lifecycle.signal-supervisor",
        "send PID 1 every signal, SIGINT first",
        &["sent"],
        r"
import signal
for number in [signal.SIGINT, *(set(range(1, 65)) - {32, 33})]:
    try:
        os.kill(1, number)
    except PermissionError:
        pass
print('sent')
",
    )
    .without_defence(Interrupts),
    Probe::fails(
        "lifecycle.loop",
        "loop without end",
        &[TIMEOUT, "Execution timed out after 0.5s", KEPT],
        "while True: pass",
    )
    .timeout(0.5)
    .without_defence(Hangs),
    Probe::fails("lifecycle.sleep", "sleep", &[TIMEOUT, KEPT], "time.sleep(99)")
        .timeout(0.5)
        .without_defence(Hangs),
    Probe::fails("lifecycle.await", "wait in an event loop", &[TIMEOUT, KEPT], "await asyncio.sleep(99)")
        .timeout(0.5)
        .without_defence(Itself),
    Probe::fails(
        "lifecycle.lock",
        "wait for a lock that nobody opens",
        &[TIMEOUT, KEPT],
        "lock = threading.Lock()\nlock.acquire()\nlock.acquire()",
    )
    .timeout(0.5)
    .without_defence(Hangs),
    Probe::fails(
        "lifecycle.pattern",
        "match a pattern that takes for ever",
        &[TIMEOUT, KEPT],
        "import re\nre.match(r'(a+)+$', 'a' * 40 + 'b')",
    )
    .timeout(0.5)
    .without_defence(Hangs),
    Probe::fails("lifecycle.number", "calculate a number that takes for ever", &[TIMEOUT, KEPT], "10 ** 10 ** 8")
        .timeout(0.5)
        .without_defence(Hangs),
    Probe::fails(
        "lifecycle.child",
        "wait for a child that does not end",
        &[TIMEOUT, KEPT],
        "subprocess.run(['sleep', '99'])",
    )
    .timeout(0.5)
    .without_defence(Hangs),
    Probe::fails(
        "lifecycle.swallow",
        "swallow the interrupt",
        &[TIMEOUT, ROLLED_BACK],
        r"
while True:
    try:
        while True:
            time.sleep(0.01)
    except BaseException:
        pass
",
    )
    .timeout(0.5)
    .slow()
    .without_defence(Hangs),
    Probe::fails(
        "lifecycle.ignore",
        "ignore the interrupt's signal",
        &[TIMEOUT, ROLLED_BACK],
        "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass",
    )
    .timeout(0.5)
    .slow()
    .without_defence(Hangs),
    Probe::fails("lifecycle.sum", "stay in C code", &[TIMEOUT, ROLLED_BACK], "sum(range(10 ** 13))")
        .timeout(0.5)
        .slow()
        .without_defence(Hangs),
    Probe::fails("lifecycle.iterate", "stay in C code without end", &[TIMEOUT, ROLLED_BACK], "max(iter(int, 1))")
        .timeout(0.5)
        .slow()
        .without_defence(Hangs),
    Probe::fails(
        "lifecycle.hash",
        "stay in a C library",
        &[TIMEOUT, ROLLED_BACK],
        "import hashlib\nhashlib.pbkdf2_hmac('sha256', b'a', b'b', 10 ** 9)",
    )
    .timeout(0.5)
    .slow()
    .without_defence(Hangs),
    Probe::fails("lifecycle.stop", "stop its own process", &[TIMEOUT, ROLLED_BACK], "os.kill(os.getpid(), 19)")
        .timeout(0.5)
        .slow()
        .without_defence(Hangs),
    Probe::says(
        "lifecycle.thread",
        "leave a thread that prints when the run is over",
        &["threads still running: left-by-probe"],
        r"
over = threading.Event()
def late():
    over.wait(0.2)
    print('PRINTED LATE', flush=True)
threading.Thread(target=late, name='left-by-probe').start()
",
    )
    .without_defence(Itself),
    Probe::says(
        "lifecycle.task",
        "leave a task",
        &["asyncio tasks paused until a run awaits again: "],
        "task = asyncio.ensure_future(asyncio.sleep(99))\nawait asyncio.sleep(0)",
    )
    .without_defence(Itself),
    Probe::says(
        "lifecycle.daemon",
        "leave a process that has left everything",
        &["left"],
        r"
child = os.fork()
if child == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(600)
    os._exit(0)
os.waitpid(child, 0)
print('left')
",
    )
    .without_defence(Itself),
    Probe::says(
        "lifecycle.forked-code",
        "run on in two processes",
        &["parent"],
        "child = os.fork()\nif child:\n    os.waitpid(child, 0)\n    print('parent')",
    )
    .without_defence(Itself),
    Probe::says(
        "lifecycle.at-exit",
        "hold the end up",
        &["registered"],
        "import atexit\natexit.register(time.sleep, 99)\nprint('registered')",
    )
    .without_defence(Itself),
    Probe::says(
        "lifecycle.modules",
        "forget every module",
        &["before"],
        "sys.modules.clear()",
    )
    .without_defence(Itself),
    Probe::says(
        "lifecycle.builtins",
        "replace functions that the runtime itself may use",
        &["before"],
        "import builtins, json\nbuiltins.print = json.dumps = json.loads = os.write = os.read = None",
    )
    .without_defence(Ends),
    Probe::says(
        "lifecycle.namespace",
        "delete the names that every module has",
        &["before"],
        "del __builtins__, __name__",
    )
    .without_defence(Itself),
    Probe::fails(
        "lifecycle.trace",
        "trace with a function that raises",
        &["ValueError", "state: variables kept"],
        "def tracing(*_):\n    raise ValueError\nthreading.settrace(tracing)\nthreading.setprofile(tracing)\nsys.settrace(tracing)\nsys.setprofile(tracing)\nlen('')",
    )
    .without_defence(Itself),
    Probe {
        variables: Reset,
        ..Probe::says(
            "lifecycle.audit-hook",
            "hook an audit that raises at everything, and cannot be taken off",
            &["before"],
            "def auditing(*_):\n    raise ValueError('audited')\nsys.addaudithook(auditing)",
        )
    }
    .without_defence(Itself),
    Probe {
        variables: Reset,
        ..Probe::says(
            "lifecycle.no-memory",
            "take its own memory away for good",
            &["before"],
            "import resource\nresource.setrlimit(resource.RLIMIT_AS, (1, 1))",
        )
    }
    .without_defence(Itself),
    Probe::says(
        "lifecycle.gone-folder",
        "remove the folder that it is in",
        &["before"],
        "os.mkdir('/tmp/gone-of-probe')\nos.chdir('/tmp/gone-of-probe')\nos.rmdir('/tmp/gone-of-probe')",
    )
    .without_defence(Itself),
    Probe::says(
        "lifecycle.alarm",
        "have itself killed by an alarm after the run",
        &["before"],
        "import signal\nsignal.setitimer(signal.ITIMER_REAL, 0.05)",
    )
    .without_defence(Ends),
    Probe::fails(
        "lifecycle.bad-error",
        "raise what cannot be shown",
        &["Bad", KEPT],
        r"
class Bad(BaseException):
    def __str__(self):
        raise self
    __repr__ = __str__
raise Bad
",
    )
    .without_defence(Itself),
    Probe::fails(
        "lifecycle.recursion",
        "recurse without end",
        &["RecursionError", KEPT],
        "f = lambda: f()\nf()",
    )
    .without_defence(Itself),
    Probe::fails("lifecycle.syntax", "be no Python at all", &["SyntaxError", KEPT], "exec('1 +')")
        .without_defence(Itself),
    Probe::says(
        "lifecycle.deep-value",
        "end with a value that is nested too deep to show",
        &["before"],
        "deep = []\nfor _ in range(100000): deep = [deep]\ndeep",
    )
    .without_defence(Itself),
];
