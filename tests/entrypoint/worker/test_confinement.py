"""What one process of a session can do to the others: memory, signals, files in /proc, and the processor."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers import Bench, children, copy_of, die, returned
from sandbox import Frame, Sandbox

# As in a container: nobody may look into others by capabilities.
WITHOUT_CAPABILITIES = ("setpriv", "--bounding-set=-all", "--inh-caps=-all")
# As an engine does that was asked for this score.
WITH_RAISED_OOM_SCORE = ("sh", "-c", 'echo 500 >/proc/self/oom_score_adj && exec "$@"', "sh")
REFUSED = """
def refusal(attempt):
    try:
        attempt()
    except OSError as error:
        return type(error).__name__
    return 'none'
import os
"""


@pytest.fixture
def confined() -> Iterator[Sandbox]:
    with Sandbox(prefix=WITHOUT_CAPABILITIES, frozen_copy_bytes=1 << 30, jobs=3) as sandbox:
        yield sandbox


def started(sandbox: Sandbox) -> Frame:
    return next(frame for frame in reversed(sandbox.seen) if frame["type"] == "worker_started")


def has_landlock(sandbox: Sandbox) -> bool:
    return bool(sandbox.hello["posture"]["landlock"] >= 2)


def landlock_refuses_signals(sandbox: Sandbox) -> bool:
    return bool(sandbox.hello["posture"]["landlock"] >= 6)


def readable_below(folder: str) -> str:
    """A file that every user can read."""
    files = (path for path in Path(folder).iterdir() if path.is_file())
    return str(next(path for path in files if path.stat().st_mode & 0o444 == 0o444))


def test_memory_of_workers_is_closed_and_that_is_seen(confined: Sandbox) -> None:
    assert started(confined)["posture"]["memory_closed"] is True
    confined.run("x = 1")
    assert die(confined)["posture"]["memory_closed"] is True
    # Whoever may trace all processes still can, so that this is no mere claim.
    with Sandbox() as with_capabilities:
        assert started(with_capabilities)["posture"]["memory_closed"] is (os.geteuid() != 0)


def test_forked_processes_and_the_frozen_copy_are_closed(confined: Sandbox) -> None:
    confined.run(f"{REFUSED}x = 1")
    copy = copy_of(confined)
    # One run, since the copy may be another one after it.
    files = [("mem", "rb"), ("mem", "r+b"), ("environ", "rb"), ("maps", "rb")]
    code = f"[refusal(lambda: open(f'/proc/{copy}/{{name}}', mode).read(1)) for name, mode in {files}]"
    assert confined.run(code)["value"] == str(["PermissionError"] * len(files))
    fork = "child = os.fork()\nif child == 0:\n  while True: os.read(os.pipe()[0], 1)\n"
    refused = "refusal(lambda: open(f'/proc/{child}/mem', 'rb'))"
    assert confined.run(fork + refused)["value"] == "'PermissionError'"
    assert confined.run("os.kill(child, 9); os.waitpid(child, 0)[1]")["value"] == "9"


def test_runs_and_jobs_cannot_open_each_other(confined: Sandbox) -> None:
    bench = Bench(confined)
    code = (
        "worker = os.getpid()\n"
        "def f():\n"
        "    found = [refusal(lambda: open(f'/proc/{worker}/mem', 'r+b')), refusal(lambda: os.kill(worker, 0))]\n"
        "    import time\n    time.sleep(1)\n    return found\n"
        "job = runtime.spawn(f)\n0;"
    )
    assert bench.run(REFUSED + code)["outcome"] == "finished"
    worker, job = children(confined.process.pid)
    assert bench.run(f"os.getpid() == {worker}, refusal(lambda: open('/proc/{job}/mem', 'r+b'))")["value"] == (
        "(True, 'PermissionError')"
    )
    opened, signalled = returned(bench.done())
    assert opened == "PermissionError"
    assert signalled == ("PermissionError" if landlock_refuses_signals(confined) else "none")


def test_landlock_closes_what_files_leave_open(confined: Sandbox) -> None:
    if not has_landlock(confined):
        pytest.skip("this kernel has no Landlock")
    assert started(confined)["posture"]["landlock"] == confined.hello["posture"]["landlock"]
    confined.run(f"import subprocess, sys, tempfile\n{REFUSED}")
    for attempt in (
        "os.mkfifo('/tmp/fifo-of-test')",
        "os.mknod('/tmp/socket-of-test', 0o140600)",
        "open('/etc/hostname', 'a')",
        "os.openpty()",
        "open('/proc/self/comm', 'w')",
        # No engine has made a group for this sandbox, so that the groups are those of the machine.
        "open(next(f'{at}/cgroup.procs' for at, _, names in os.walk('/sys/fs/cgroup') if 'cgroup.procs' in names))",
        # Engines mask it, and nothing does here.
        f"open({readable_below('/sys/devices/system/cpu')!r})",
    ):
        assert confined.run(f"refusal(lambda: {attempt})")["value"] == "'PermissionError'", attempt
    signalled = "'PermissionError'" if landlock_refuses_signals(confined) else "'none'"
    assert confined.run("refusal(lambda: os.kill(os.getppid(), 0))")["value"] == signalled
    program = "open('/proc/self/oom_score_adj', 'w').write('500')"
    failed = confined.run(f"subprocess.run([sys.executable, '-c', {program!r}], capture_output=True).stderr[-80:]")
    assert "Permission denied" in failed["value"]
    for works in (
        "tempfile.TemporaryFile().write(b'x')",
        "open('/dev/null', 'w').write('x')",
        "os.kill(os.getpid(), 0) or 1",
        "subprocess.run(['sh', '-c', 'echo x >/dev/stderr; kill -0 $$; exit 1'], capture_output=True).returncode",
        "d = tempfile.mkdtemp(); os.mkdir(d + '/a'); open(d + '/f', 'w').close(); os.rename(d + '/f', d + '/a/f'); 1",
    ):
        assert confined.run(works)["value"] == "1", works


def test_a_worker_asks_to_be_killed_before_the_supervisor(confined: Sandbox) -> None:
    assert started(confined)["posture"]["oom_score_adj"] == 1000
    lower = f"{REFUSED}refusal(lambda: open('/proc/self/oom_score_adj', 'w').write('0'))"
    assert confined.run(lower)["value"] == "'PermissionError'"


def test_the_supervisor_lowers_its_own_oom_score() -> None:
    # Without capabilities a score can be lowered to where it was before it was raised.
    with Sandbox(prefix=(*WITHOUT_CAPABILITIES, *WITH_RAISED_OOM_SCORE)) as sandbox:
        assert sandbox.hello["posture"]["oom_score_adj"] < 500
        with open(f"/proc/{sandbox.process.pid}/oom_score_adj") as file:
            assert int(file.read()) == sandbox.hello["posture"]["oom_score_adj"]
        assert started(sandbox)["posture"]["oom_score_adj"] == 1000


def test_a_crowd_gets_a_lower_priority_and_a_pool_does_not(confined: Sandbox) -> None:
    own = os.getpriority(os.PRIO_PROCESS, 0)
    spin = "import os\nfor _ in range({}):\n    if os.fork() == 0:\n        while True: pass\n"
    confined.run(spin.format(2))
    confined.supervise({"type": "ping", "seq": 1})
    confined.wait("pong")
    assert set(priorities(confined)) == {own}
    # More than eight for each processor.
    confined.run(spin.format(8 * len(os.sched_getaffinity(0)) + 8) + "0;")
    end = time.monotonic() + 30
    while priorities(confined).count(10) <= 8 and time.monotonic() < end:
        confined.supervise({"type": "ping", "seq": 2})
        confined.wait("pong")
    seen = priorities(confined)
    assert seen.count(10) > 8, seen
    worker = children(confined.process.pid)[0]
    assert os.getpriority(os.PRIO_PROCESS, worker) == own
    # All of them die, and the copy does not. It was made before this run, which changes nothing.
    confined.run("None")
    confined.supervise({"type": "replace", "worker": 1, "restore": True})
    confined.wait("worker_exited")
    assert confined.wait("worker_started")["restored"] is not None


def test_the_worker_outweighs_a_crowd() -> None:
    assert weight_in_crowd(None) > 3 * weight_in_crowd(("_NICE_OF_CROWD = 10", "_NICE_OF_CROWD = 0"))


def weight_in_crowd(change: tuple[str, str] | None) -> float:
    """How much more processor time than one process of a crowd the worker gets. Other programs delay all of them."""
    with Sandbox(change=change) as sandbox:
        count = 8 * len(os.sched_getaffinity(0)) + 8
        sandbox.run(
            "import os, time\nspinning = []\n"
            f"while len(spinning) < {count}:\n  spinning.append(os.fork())\n  while spinning[-1] == 0: pass\n0;"
        )
        sandbox.supervise({"type": "ping", "seq": 1})
        sandbox.wait("pong")
        measured = sandbox.run(
            "def used():\n"
            "  fields = (open(f'/proc/{child}/stat').read().rpartition(')')[2].split() for child in spinning)\n"
            "  return sum(int(field[11]) + int(field[12]) for field in fields) / os.sysconf('SC_CLK_TCK')\n"
            "before, start = used(), time.process_time()\n"
            "while time.process_time() < start + 0.3: pass\n"
            "0.3 * len(spinning) / (used() - before)"
        )
        return float(measured["value"])


def priorities(sandbox: Sandbox) -> list[int]:
    found = []
    for child in children(children(sandbox.process.pid)[0]):
        try:
            found.append(os.getpriority(os.PRIO_PROCESS, child))
        except ProcessLookupError:
            pass
    return found
