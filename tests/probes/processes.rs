//! Other processes of the session: their memory, what the kernel says of them, signals, and who is ended or runs first.

use super::probe::Probe;
use super::probe::WithoutDefence::Itself;

/// Refusals of a file in /proc.
const CLOSED: &[&str] = &["EACCES", "EPERM"];

/// What follows happens beside a process that is forked from the interpreter, as a job or a copy of it is.
macro_rules! beside_another {
    ($attempt:literal) => {
        concat!(
            "\nimport signal\nother = os.fork()\nif other == 0:\n    time.sleep(60)\n    os._exit(0)\ntry:\n    ",
            $attempt,
            "\nfinally:\n    os.kill(other, signal.SIGKILL)\n    os.waitpid(other, 0)\n"
        )
    };
}

pub const PROBES: &[Probe] = &[
    Probe::attempt(
        "processes.read-memory",
        "open the memory of another process of the session",
        CLOSED,
        beside_another!("open(f'/proc/{other}/mem', 'rb').close()"),
    ),
    Probe::attempt(
        "processes.write-memory",
        "open it to write, past every filter of system calls",
        CLOSED,
        beside_another!("open(f'/proc/{other}/mem', 'r+b').close()"),
    ),
    Probe::attempt(
        "processes.write-own-memory",
        "open its own memory to write, past the protection of its pages",
        CLOSED,
        "open('/proc/self/mem', 'r+b').close()",
    ),
    Probe::attempt(
        "processes.every-memory",
        "open the memory of any process that there is",
        CLOSED,
        r"
opened = [name for name in os.listdir('/proc') if name.isdigit() and os.access(f'/proc/{name}/mem', os.R_OK)]
if not opened:
    refuse('none')
",
    ),
    Probe::attempt(
        "processes.environment",
        "read the environment of another process of the session",
        CLOSED,
        beside_another!("open(f'/proc/{other}/environ').read()"),
    ),
    Probe::attempt(
        "processes.maps",
        "read where the memory of another process of the session is",
        CLOSED,
        beside_another!("open(f'/proc/{other}/maps').read()"),
    ),
    Probe::attempt(
        "processes.descriptors",
        "take a descriptor of another process of the session",
        CLOSED,
        beside_another!("os.listdir(f'/proc/{other}/fd')"),
    ),
    Probe::attempt(
        "processes.memory-of-a-program",
        "open the memory of a program that the session has started, to write",
        CLOSED,
        r"
program = subprocess.Popen(['sleep', '60'])
try:
    open(f'/proc/{program.pid}/mem', 'r+b').close()
finally:
    program.kill()
    program.wait()
",
    )
    .by_landlock(),
    Probe::attempt(
        "processes.signal-supervisor",
        "learn whether PID 1 takes its signals",
        &["EPERM"],
        "os.kill(1, 0)",
    )
    .by_landlock(),
    Probe::attempt(
        "processes.oom-score",
        "have the kernel end PID 1 before the interpreter when memory runs out",
        CLOSED,
        "open('/proc/self/oom_score_adj', 'w').write('500')",
    ),
    Probe::attempt(
        "processes.oom-score-of-a-program",
        "the same for a program that it starts",
        &["CalledProcessError"],
        "subprocess.run(['sh', '-c', 'echo 500 >/proc/self/oom_score_adj'], check=True, capture_output=True)",
    )
    .by_landlock(),
    Probe::attempt(
        "processes.login",
        "claim a login, which writes to the host's audit log",
        &["CalledProcessError"],
        "subprocess.run(['sh', '-c', 'echo 65534 >/proc/self/loginuid'], check=True, capture_output=True)",
    ),
    Probe::says(
        "processes.crowd",
        "leave 100 processes that take every processor",
        &["left"],
        r"
spinning = []
while len(spinning) < 100:
    child = os.fork()
    if child == 0:
        while True:
            pass
    spinning.append(child)
print('left')
",
    )
    // Their weight is a ninth of the interpreter's. Without the lower priority each has as much of a processor.
    .then(
        r"
import signal
def used():
    clocks = (open(f'/proc/{child}/stat').read().rpartition(')')[2].split()[11:13] for child in spinning)
    return sum(int(part) for parts in clocks for part in parts) / os.sysconf('SC_CLK_TCK') / len(spinning)
before, start = used(), time.process_time()
while time.process_time() < start + 0.2:
    pass
each = used() - before
# First all of them: one that dies waits for a processor as long as the others take it.
for child in spinning:
    os.kill(child, signal.SIGKILL)
for child in spinning:
    os.waitpid(child, 0)
assert each < 0.2 / 3, each
",
    )
    .slow()
    .without_defence(Itself),
    Probe::fails(
        "processes.crowd-and-loop",
        "loop without end beside 100 processes that take every processor",
        &["status: timeout", "state: variables "],
        r"
spinning = []
while len(spinning) < 100:
    child = os.fork()
    if child == 0:
        while True:
            pass
    spinning.append(child)
while True:
    pass
",
    )
    .then(
        "import signal\nspinning = globals().get('spinning', [])\nfor child in spinning:\n    \
         os.kill(child, signal.SIGKILL)\nfor child in spinning:\n    os.waitpid(child, 0)",
    )
    .timeout(10.0)
    .slow()
    .without_defence(Itself),
];
