"""What the supervisor guarantees whatever the bridge sends and user code does: frames, interrupts, death, clean-up."""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from belljar_sandbox.boot.compile_ahead import NAMES
from belljar_sandbox.supervisor.bridge_pipes import BridgePipes
from belljar_sandbox.supervisor.bridge_writer import BridgeWriter
from belljar_sandbox.supervisor.supervisor import Supervisor
from belljar_sandbox.supervisor.workers import Worker, outputs_of_worker
from belljar_sandbox.wire.buffer import Buffer, unread_bytes
from belljar_sandbox.wire.output_record import OutputRecord
from sandbox import LIMITS, Frame, Sandbox


def gone(pid: int) -> bool:
    """Ended, though perhaps not yet reaped by its parent."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return True
    return state.rpartition(")")[2].split()[0] in "ZX"


def test_hello_reports_version_python_and_posture(sandbox: Sandbox) -> None:
    hello = sandbox.hello
    assert (hello["version"], hello["python"]) == (1, ".".join(map(str, sys.version_info[:3])))
    fixture = json.loads((Path(__file__).parents[2] / "fixtures/protocol/valid.json").read_text())
    golden = next(entry for entry in fixture if entry["name"] == "hello_from_supervisor")
    assert list(hello["posture"]) == list(golden["frame"]["posture"])
    assert hello["posture"]["uid"] == os.getuid()


def test_other_version_ends_the_sandbox_naming_both() -> None:
    with Sandbox(greet=False) as sandbox:
        sandbox.supervise({"type": "hello", "version": 2, "limits": LIMITS})
        assert sandbox.wait("fault")["message"] == "the bridge speaks version 2, the sandbox version 1"
        assert sandbox.process.wait(30) == 1


def test_frames_that_arrive_byte_by_byte_are_understood() -> None:
    with Sandbox(greet=False) as sandbox:
        hello = json.dumps({"type": "hello", "version": 1, "limits": LIMITS})
        run = json.dumps(
            {"type": "run", "run": 1, "worker": 1, "code": "print('é')", "servers": []}, ensure_ascii=False
        )
        for byte in f'S{hello}\nS{{"type":"ping","seq":5}}\n'.encode():
            sandbox.write(bytes([byte]))
        sandbox.wait("pong", seq=5)
        for byte in f"W{run}\n".encode():
            sandbox.write(bytes([byte]))
        assert sandbox.finish(1)["stdout"] == "é\n"


def test_bundle_hello_and_run_may_come_in_one_piece() -> None:
    with Sandbox(greet=False) as sandbox:
        sandbox.supervise({"type": "hello", "version": 1, "limits": LIMITS})
        sandbox.start("1")
        kinds = [sandbox.next()["type"] for _ in range(3)]
        assert kinds == ["hello", "worker_started", "done"]


@pytest.mark.parametrize(
    ("garbage", "fault"),
    [
        (b"\n", "a line from the bridge has no known address"),
        (b"X{}\n", "a line from the bridge has no known address"),
        (b"\x00\xff\xfe garbage\n", "a line from the bridge has no known address"),
        (b"S{}\n", "a frame for the supervisor was dropped: type"),
        (b"Snonsense\n", "a frame for the supervisor was dropped: not_json"),
        (b"S[]\n", "a frame for the supervisor was dropped: not_object"),
        (b'S{"type":"exec"}\n', "a frame for the supervisor was dropped: type"),
        (b'S{"type":"ping"}\n', "a frame for the supervisor was dropped: a field is missing"),
        (b"S" + b"[" * 1000 + b"\n", "a frame for the supervisor was dropped: depth"),
        (b"S" + b"x" * (2 << 20) + b"\n", "a frame for the supervisor is longer than 1 MiB"),
        (b'S{"type":"hello","version":1,"limits":{}}\n', "a hello was dropped: it is the second one, or has no limits"),
    ],
)
def test_garbage_from_the_bridge_is_dropped_and_named(sandbox: Sandbox, garbage: bytes, fault: str) -> None:
    sandbox.write(garbage)
    assert sandbox.wait("fault")["message"] == fault
    assert sandbox.run("1")["value"] == "1"


@pytest.mark.parametrize(
    "line",
    [b"", b"x", b"[]", b"{}", b"\xff", b'{"type":"run"}', b'{"type":"run","run":1,"worker":1,"code":5,"servers":[]}'],
)
def test_garbage_for_the_worker_is_ignored(sandbox: Sandbox, line: bytes) -> None:
    sandbox.write(b"W" + line + b"\n")
    assert sandbox.run("1")["value"] == "1"


def test_overlong_frame_for_the_worker_is_dropped_with_a_fault() -> None:
    with Sandbox(frame_to_sandbox_bytes=1000) as sandbox:
        sandbox.write(b'W{"type":"run","run":9,"worker":1,"servers":[],"code":"' + b"x" * 200_000 + b'"}\n')
        assert sandbox.wait("fault")["message"] == "a frame for the worker is longer than the limit"
        assert sandbox.run("1")["value"] == "1"


# The frame socket is the lowest one: event loops open theirs later.
FIND_SOCKET = (
    "import gc, os; gc.unfreeze()\nsock = next(o for o in gc.get_objects() if type(o).__name__ == 'Channel').fileno()\n"
)


def test_garbage_that_user_code_writes_to_its_socket_is_marked_as_the_workers(sandbox: Sandbox) -> None:
    done_line = '{"type":"worker_exited","worker":1}'
    run = sandbox.start(FIND_SOCKET + f"os.write(sock, b'nonsense\\n\\n[]\\n{done_line}\\n');")
    lines = [sandbox.wait("garbage")["line"] for _ in range(2)]
    assert lines == [b"Wnonsense", b"W[]"]
    forged = sandbox.next()
    assert forged["type"] == "worker_exited"  # its line begins with W, which this driver does not look at
    assert sandbox.finish(run)["outcome"] == "finished"


def test_overlong_line_from_the_worker_is_dropped_with_a_fault() -> None:
    with Sandbox(frame_to_bridge_bytes=10_000) as sandbox:
        run = sandbox.start(FIND_SOCKET + "os.write(sock, b'x' * 50_000 + b'\\n');")
        assert "longer than the limit" in sandbox.wait("fault")["message"]
        assert sandbox.finish(run)["outcome"] == "finished"


def test_worker_that_closes_its_socket_is_replaced(sandbox: Sandbox) -> None:
    sandbox.start(FIND_SOCKET + "import time\nos.closerange(3, 200)\ntime.sleep(99)")
    sandbox.wait("worker_exited")
    sandbox.wait("worker_started", worker=2)
    assert sandbox.run("1")["value"] == "1"


@pytest.mark.parametrize(
    "code",
    [
        "print('ready')\nwhile True: pass",
        "import time\nprint('ready')\ntime.sleep(99)",
        "import asyncio\nprint('ready')\nawait asyncio.sleep(99)",
        "import asyncio\nprint('ready')\nawait asyncio.sleep(0)\nwhile True: pass",
        "import asyncio\nprint('ready')\nasyncio.run(asyncio.sleep(99))",
        "import asyncio\nawait asyncio.sleep(0)\nprint('ready')\nasyncio.run(asyncio.sleep(99))",
        "import asyncio\nasync def spin():\n    while True: await asyncio.sleep(0)\nprint('ready')\nawait spin()",
        "import threading\nl = threading.Lock(); l.acquire()\nprint('ready')\nl.acquire()",
        "import re\nprint('ready')\nre.match('(a+)+$', 'a' * 40 + 'b')",
        "import subprocess\nprint('ready')\nsubprocess.run(['sleep', '99'])",
        "import asyncio\nasync def spin():\n    print('ready')\n    while True: pass\n"
        "t = asyncio.ensure_future(spin())\nawait asyncio.sleep(99)",
        "while True: print('ready' * 100)",
    ],
)
def test_interrupt_ends_the_run_and_keeps_variables(sandbox: Sandbox, code: str) -> None:
    run = sandbox.start("x = 7\n" + code)
    sandbox.wait_output("ready")
    sandbox.interrupt()
    done = sandbox.finish(run)
    assert (done["outcome"], done["error"]["type"]) == ("interrupted", "KeyboardInterrupt")
    assert sandbox.run("x")["value"] == "7"
    assert sandbox.run("import asyncio\nawait asyncio.sleep(0, 'alive')")["value"] == "'alive'"


def test_interrupt_that_comes_just_before_asyncio_run_waits_ends_the_run(sandbox: Sandbox) -> None:
    # A signal to another thread leaves the waiting one asleep, as one does that comes just before the wait.
    code = (
        "import asyncio, signal, threading\nx = 7\nasync def wait():\n"
        "    signal.pthread_kill(threading.get_ident(), signal.SIGINT)\n    await asyncio.sleep(99)\n"
        "await asyncio.sleep(0)\nasyncio.run(wait())"
    )
    assert sandbox.run(code)["error"]["type"] == "KeyboardInterrupt"
    assert sandbox.run("x")["value"] == "7"


def test_interrupted_coroutine_runs_its_finally_blocks(sandbox: Sandbox) -> None:
    code = "import asyncio\ntry:\n    print('ready'); await asyncio.sleep(99)\nfinally: print('cleaned up')"
    run = sandbox.start(code)
    sandbox.wait_output("ready")
    sandbox.interrupt()
    done = sandbox.finish(run)
    assert (done["outcome"], done["error"]["line"]) == ("interrupted", 3)
    assert "cleaned up\n" in done["stdout"]


def test_interrupt_between_runs_hits_no_run(sandbox: Sandbox) -> None:
    for number in range(50):
        sandbox.interrupt()
        assert sandbox.run(f"{number}")["value"] == str(number)
        sandbox.interrupt()
    sandbox.supervise({"type": "ping", "seq": 1})
    sandbox.wait("pong")


def test_interrupt_that_is_swallowed_leaves_replacing(sandbox: Sandbox) -> None:
    code = (
        "import time\nwhile True:\n    try:\n        print('ready')\n        time.sleep(99)\n"
        "    except BaseException: print('swallowed')"
    )
    sandbox.start(code)
    sandbox.wait_output("ready")
    sandbox.interrupt()
    sandbox.wait_output("swallowed")
    sandbox.supervise({"type": "replace", "worker": sandbox.worker, "restore": True})
    exited = sandbox.wait("worker_exited")
    assert exited == {"type": "worker_exited", "worker": 1, "signal": 9, "oom": False, "requested": True}
    sandbox.wait("worker_started", worker=2)
    assert sandbox.run("'code' in globals()")["value"] == "False"


@pytest.mark.parametrize(
    ("code", "end"),
    [
        ("import os; os._exit(7)", {"exit_code": 7}),
        ("import os; os.kill(os.getpid(), 9)", {"signal": 9}),
        ("import os; os.abort()", {"signal": 6}),
        ("import ctypes; ctypes.string_at(0)", {"signal": 11}),
        ("import os; os.execv('/bin/true', ['true'])", {"exit_code": 0}),
    ],
)
def test_death_of_the_worker_is_reported_after_its_output(sandbox: Sandbox, code: str, end: dict[str, int]) -> None:
    sandbox.start("print('last words')\n" + code)
    assert sandbox.next()["text"] == "last words\n"
    exited = sandbox.wait("worker_exited")
    assert exited == {"type": "worker_exited", "worker": 1, **end, "oom": False, "requested": False}
    sandbox.wait("worker_started", worker=2)
    assert sandbox.run("1")["value"] == "1"


@pytest.mark.parametrize("files_max", ["1 << 40", "0"])
def test_a_sandbox_with_too_many_files_ends_with_its_interpreter(files_max: str) -> None:
    if not Path("/dev/shm").is_mount():
        pytest.skip("nothing here is in memory")
    # Its root is a file, too.
    with Sandbox(change=("_FILES_MAX = 1 << 17", f"_FILES_MAX = {files_max}")) as sandbox:
        sandbox.start("import os; os.kill(os.getpid(), 9)")
        sandbox.wait("worker_exited")
        if files_max == "0":
            said = sandbox.wait("fault")["message"]
            assert said.endswith(" files in memory, of which nothing bounds the number")
        else:
            sandbox.wait("worker_started", worker=2)


def test_the_bridge_hears_what_workers_have_taken_or_lost(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[bytes] = []
    write = sandbox.write

    def counting(data: bytes) -> None:
        sent.append(data)
        write(data)

    monkeypatch.setattr(sandbox, "write", counting)
    result = b'W{"type":"result","call":9,"value":"' + b"x" * (4 << 20) + b'"}\n'
    for _ in range(3):
        sandbox.write(result)
    first = sandbox.wait("taken")["bytes"]
    assert isinstance(first, int) and 8 << 20 <= first <= 3 * len(result)
    # A worker that reads nothing takes nothing, and what is for the supervisor still gets through.
    sandbox.start("import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nprint('deaf')\ntime.sleep(99)")
    sandbox.wait_output("deaf")
    for _ in range(10):
        sandbox.write(result)
    sandbox.supervise({"type": "ping", "seq": 7})
    sandbox.wait("pong", seq=7)
    taken = [frame for frame in sandbox.seen if frame["type"] == "taken"]
    assert taken[-1]["bytes"] <= 3 * len(result) + (1 << 20)
    sandbox.supervise({"type": "replace", "worker": sandbox.worker, "restore": False})
    sandbox.wait("worker_exited")
    # To the byte: what is missing would be missing in the bridge's window for good.
    assert sandbox.wait("taken")["bytes"] == sum(len(data) for data in sent if data.startswith(b"W"))


def test_worker_killed_from_outside_while_idle_is_replaced(sandbox: Sandbox) -> None:
    pid = int(sandbox.run("import os\nos.getpid()")["value"])
    os.kill(pid, signal.SIGKILL)
    assert sandbox.wait("worker_exited")["signal"] == 9
    sandbox.wait("worker_started", worker=2)


def descendants_of_every_kind() -> str:
    return (
        "import os, subprocess, sys, time\n"
        "pids = [subprocess.Popen(['sleep', '999'], start_new_session=new).pid for new in (False, True)]\n"
        "r, w = os.pipe()\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork() == 0:\n"
        "        os.write(w, f'{os.getpid()} '.encode()); time.sleep(999)\n"
        "    os._exit(0)\n"
        "for _ in range(30):\n"
        "    pid = os.fork()\n"
        "    if pid == 0: time.sleep(999)\n"
        "    pids.append(pid)\n"
        "pids.append(int(os.read(r, 20)))\n"
        "pids"
    )


@pytest.mark.parametrize(
    "end",
    [
        lambda sandbox: sandbox.supervise({"type": "replace", "worker": sandbox.worker, "restore": True}),
        lambda sandbox: sandbox.start("os._exit(0)"),
        lambda sandbox: sandbox.supervise({"type": "shutdown"}),
        lambda sandbox: sandbox.process.stdin.close(),
    ],
    ids=["replace", "exit", "shutdown", "end_of_stdin"],
)
def test_descendants_die_with_the_worker(sandbox: Sandbox, end: Callable[[Sandbox], object]) -> None:
    pids = json.loads(sandbox.run(descendants_of_every_kind())["value"])
    assert len(pids) == 33 and not any(map(gone, pids))
    end(sandbox)
    if sandbox.process.stdin is None or sandbox.process.stdin.closed:
        assert sandbox.process.wait(30) == 0
    else:
        try:
            sandbox.wait("worker_exited")
        except AssertionError:
            assert sandbox.process.wait(30) == 0
    assert all(map(gone, pids))


def test_fork_bomb_is_cleaned_up(sandbox: Sandbox) -> None:
    code = (
        "import os, time\nos.makedirs('/tmp/belljar-bomb', exist_ok=True)\n"
        "for _ in range(6): os.fork()\n"
        "open(f'/tmp/belljar-bomb/{os.getpid()}', 'w').close()\n"
        "print('x')\ntime.sleep(999)"
    )
    sandbox.start(code)
    count = 0
    while count < 64:
        count += str(sandbox.wait("output").get("text", "")).count("x")
    pids = [int(path.name) for path in Path("/tmp/belljar-bomb").iterdir()]
    sandbox.supervise({"type": "replace", "worker": sandbox.worker, "restore": True})
    sandbox.wait("worker_started", worker=2)
    alive = [pid for pid in pids if not gone(pid)]
    for path in Path("/tmp/belljar-bomb").iterdir():
        path.unlink()
    assert len(pids) == 64 and alive == []


def test_orphans_are_reaped_while_the_worker_lives(sandbox: Sandbox) -> None:
    code = (
        "import os\n"
        "for _ in range(20):\n"
        "    pid = os.fork()\n"
        "    if pid == 0:\n"
        "        if os.fork() == 0: os._exit(0)\n"
        "        os._exit(0)\n"
        "    os.waitpid(pid, 0)\n"
        "os.getppid()"
    )
    supervisor = int(sandbox.run(code)["value"])
    sandbox.supervise({"type": "ping", "seq": 1})
    sandbox.wait("pong")
    deadline = time.monotonic() + 30
    while len(children(supervisor)) > 1:
        assert time.monotonic() < deadline, children(supervisor)
    assert len(children(supervisor)) == 1


def children(parent: int) -> list[int]:
    listed = subprocess.run(["ps", "--ppid", str(parent), "-o", "pid="], stdout=subprocess.PIPE, text=True, check=False)
    return [int(pid) for pid in listed.stdout.split()]


def test_worker_cannot_read_the_supervisors_memory_as_another_user() -> None:
    if os.getuid() != 0 or not Path("/usr/bin/setpriv").exists():
        pytest.skip("needs root and setpriv to become another user")
    prefix = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all", "--inh-caps=-all")
    with Sandbox(prefix=prefix) as sandbox:
        for name in ("environ", "mem", "fd/40"):
            done = sandbox.run(f"import os\nopen(f'/proc/{{os.getppid()}}/{name}', 'rb').read(1)")
            assert done["error"]["type"] == "PermissionError", name


def namespace_prefix() -> tuple[str, ...]:
    """Makes the supervisor PID 1, as it is in a container."""
    prefix = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
    if subprocess.run([*prefix, "true"], stderr=subprocess.DEVNULL, check=False).returncode != 0:
        pytest.skip("may not make a pid namespace")
    return prefix


def test_pid_1_is_not_ended_by_signals_of_its_worker() -> None:
    with Sandbox(prefix=namespace_prefix()) as sandbox:
        # Landlock refuses them from its version 6 on; before, PID 1 ignores them.
        code = (
            "import os\nfor number in range(1, 32):\n    try: os.kill(1, number)\n"
            "    except PermissionError: pass\nos.getppid()"
        )
        assert sandbox.run(code)["value"] == "1"
        assert sandbox.run("x = 1")["outcome"] == "finished"


def test_pid_1_kills_everything_with_the_worker() -> None:
    with Sandbox(prefix=namespace_prefix()) as sandbox:
        assert len(json.loads(sandbox.run(descendants_of_every_kind())["value"])) == 33
        sandbox.supervise({"type": "replace", "worker": sandbox.worker, "restore": True})
        sandbox.wait("worker_started", worker=2)
        listed = sandbox.run(
            "import os\nsorted(int(n) for n in os.listdir('/proc') if n.isdigit()) == [1, os.getpid()]"
        )
        assert listed["value"] == "True"
        sandbox.supervise({"type": "shutdown"})
        assert sandbox.process.wait(30) == 0


def test_supervisor_ends_with_its_standard_input(sandbox: Sandbox) -> None:
    sandbox.start("while True: pass")
    assert sandbox.process.stdin
    sandbox.process.stdin.close()
    assert sandbox.process.wait(30) == 0


def test_shutdown_ends_with_status_zero(sandbox: Sandbox) -> None:
    sandbox.supervise({"type": "shutdown"})
    assert sandbox.process.wait(30) == 0


def test_silence_of_the_bridge_ends_the_supervisor_which_says_so() -> None:
    with Sandbox(heartbeat_ms=300) as sandbox:
        for seq in range(5):
            sandbox.supervise({"type": "ping", "seq": seq})
            sandbox.wait("pong", seq=seq)
        assert sandbox.process.wait(30) == 0
        assert sandbox.stderr() == "it had heard nothing from belljar for 0.3 s, and took it for dead\n"


def test_a_supervisor_that_stood_still_itself_counts_what_came_meanwhile() -> None:
    with Sandbox(heartbeat_ms=300) as sandbox:
        os.kill(sandbox.process.pid, signal.SIGSTOP)
        sandbox.supervise({"type": "ping", "seq": 7})
        time.sleep(0.5)
        os.kill(sandbox.process.pid, signal.SIGCONT)
        sandbox.wait("pong", seq=7)
        assert sandbox.process.wait(30) == 0


def test_five_workers_that_die_before_a_run_end_the_sandbox(sandbox: Sandbox) -> None:
    for number in range(1, 6):
        os.kill(children(sandbox.process.pid)[0], signal.SIGKILL)
        sandbox.wait("worker_exited", worker=number)
        if number < 5:
            sandbox.wait("worker_started", worker=number + 1)
    assert sandbox.wait("fault")["message"] == "5 interpreters in a row died before their first run"
    assert sandbox.process.wait(30) == 1


def test_output_nobody_reads_stops_the_worker_not_the_supervisors_memory(sandbox: Sandbox) -> None:
    run = sandbox.start("import os\nwhile True: os.write(1, b'x' * 65536)")
    sandbox.wait("output")
    # Nothing is read here until the pipe, the backlog and the worker's pipe are full and all stand still.
    deadline, last = time.monotonic() + 30, -1
    while (now := cpu_ticks(sandbox.process.pid)) != last:
        last = now
        assert time.monotonic() < deadline
        subprocess.run(["sleep", "0.2"], check=True)
    status = Path(f"/proc/{sandbox.process.pid}/status").read_text()
    peak_kb = int(status.partition("VmHWM:")[2].split()[0])
    assert peak_kb < 40_000
    sandbox.interrupt()
    assert sandbox.finish(run)["outcome"] == "interrupted"


def cpu_ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def test_alternating_streams_make_no_frame_for_each_write(sandbox: Sandbox) -> None:
    # Each waits until the supervisor has read what the other stream holds.
    code = "import sys\nfor i in range(10_000):\n    print(i % 10, end='', flush=True)\n"
    code += "    print(i % 7, end='', file=sys.stderr, flush=True)"
    began = time.monotonic()
    sandbox.start(code)
    written, frames = {"stdout": "", "stderr": ""}, 0
    while (frame := sandbox.next())["type"] != "done":
        if frame["type"] == "output":
            written[frame["stream"]] += frame["text"]
            frames += 1
    assert written["stdout"] == "".join(str(i % 10) for i in range(10_000))
    assert written["stderr"] == "".join(str(i % 7) for i in range(10_000))
    # Of each second the first thousand changes, and two frames of each piece that was held back.
    assert frames < 1100 * (time.monotonic() - began + 2), frames


def test_streams_that_alternate_print_by_print_stay_in_order(sandbox: Sandbox) -> None:
    code = "import sys\nfor i in range(400):\n    print(i)\n    print(-i, file=sys.stderr)"
    assert sandbox.run(code)["both"] == "".join(f"{i}\n{-i}\n" for i in range(400))


def test_streams_stay_in_order_while_the_supervisor_does_not_run(sandbox: Sandbox) -> None:
    run = sandbox.start(
        "import sys, time\nprint('ready', flush=True)\ntime.sleep(0.3)\n"
        "print('first', file=sys.stderr)\nprint('second')"
    )
    sandbox.wait_output("ready")
    os.kill(sandbox.process.pid, signal.SIGSTOP)
    time.sleep(0.8)
    os.kill(sandbox.process.pid, signal.SIGCONT)
    assert sandbox.finish(run)["both"] == "first\nsecond\n"


@pytest.mark.parametrize("count", range(3))
def test_a_line_of_stdout_comes_before_a_later_one_of_stderr(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """Whenever they arrive: before the unread bytes of the first pipe are counted, of the second, or after both."""
    (stdout, to_stdout), (stderr, to_stderr), (sent, bridge) = os.pipe(), os.pipe(), os.pipe()
    reader = Supervisor.__new__(Supervisor)
    pipes = BridgePipes([sent, bridge], Buffer())
    reader.buffer, reader.record, reader.bridge_writer = Buffer(), OutputRecord(), BridgeWriter(pipes)
    worker = cast("Worker", SimpleNamespace(outputs=outputs_of_worker(stdout, stderr)))
    counted = 0

    def unread_bytes_at(pipe: int) -> int:
        nonlocal counted
        if counted == count:
            os.write(to_stdout, b"out")
            os.write(to_stderr, b"err")
        counted += 1
        return unread_bytes(pipe)

    monkeypatch.setattr("belljar_sandbox.supervisor.supervisor.unread_bytes", unread_bytes_at)
    for _ in range(2):
        reader.drain(worker)
    reader.bridge_writer.send_output()
    frames = [json.loads(line[1:]) for line in os.read(sent, 1 << 16).splitlines()]
    assert "".join(frame["text"] for frame in frames) == "outerr"
    for fd in (stdout, to_stdout, stderr, to_stderr, sent, bridge):
        os.close(fd)


def test_bytes_that_alternate_with_text_stay_in_order_within_their_stream(sandbox: Sandbox) -> None:
    code = (
        "import os, sys\nfor i in range(3_000):\n    sys.stdout.write('a'); sys.stdout.flush()\n"
        "    sys.stderr.write('b'); sys.stderr.flush()\n"
        "    os.write(1, b'\\xff')"
    )
    done = sandbox.run(code)
    assert done["stdout"] == "a\ufffd" * 3_000 and done["stderr"] == "b" * 3_000


def test_control_frames_pass_while_the_worker_does_not_read(sandbox: Sandbox) -> None:
    sandbox.start("import time\nprint('ready')\nwhile True:\n    try: time.sleep(99)\n    except BaseException: pass")
    sandbox.wait_output("ready")
    for call in range(5):
        sandbox.tell({"type": "result", "call": call, "value": "x" * (10 << 20)})
    sandbox.supervise({"type": "ping", "seq": 9})
    sandbox.wait("pong", seq=9)
    sandbox.supervise({"type": "replace", "worker": sandbox.worker, "restore": True})
    sandbox.wait("worker_started", worker=2)
    assert sandbox.run("1")["value"] == "1"


def test_frames_for_a_dead_worker_do_not_reach_the_next(sandbox: Sandbox) -> None:
    head = b'W{"type":"run","run":77,"worker":1,"servers":[],"code":"'
    sandbox.write(head + b"x = 1")
    pid = children(sandbox.process.pid)[0]
    os.kill(pid, signal.SIGKILL)
    sandbox.wait("worker_started", worker=2)
    sandbox.write(b'"}\n')
    assert sandbox.run("'x' in globals()")["value"] == "False"


def test_replacing_costs_little_more_than_starting_a_bare_interpreter(sandbox: Sandbox) -> None:
    def floor() -> float:
        begin = time.perf_counter()
        subprocess.run([sys.executable, "-I", "-c", "import asyncio"], check=True)
        return time.perf_counter() - begin

    def replace() -> float:
        sandbox.run("1")
        begin = time.perf_counter()
        sandbox.supervise({"type": "replace", "worker": sandbox.worker, "restore": True})
        sandbox.wait("worker_started")
        sandbox.run("1")
        return time.perf_counter() - begin

    measured = [(replace(), floor()) for _ in range(5)]
    # Both slow down on a busy machine, so that the bound grows with the floor.
    bound = 3 * statistics.median(base for _, base in measured) + 0.1
    assert statistics.median(taken for taken, _ in measured) < bound


def first_run(code: str, **bundle: Any) -> tuple[Sandbox, list[Frame]]:
    """Runs code that comes with the hello: nothing is imported for later runs before it."""
    with Sandbox(greet=False, **bundle) as sandbox:
        sandbox.supervise({"type": "hello", "version": 1, "limits": sandbox.limits, "workspace": ""})
        sandbox.start(code)
        assert sandbox.wait("done")["outcome"] == "finished"
        return sandbox, [frame for frame in sandbox.seen if frame["type"] == "code"]


def test_code_compiled_in_one_sandbox_starts_the_next_one() -> None:
    # Without names that anybody would have to look for.
    of = "next(vars(f) for f in vars(__import__('sys'))['meta_path'] if hasattr(f, 'sources'))"
    first, (code,) = first_run(f"print(*{of}['loaded'])", members={"code": None})
    types = [frame["type"] for frame in first.seen]
    assert types.index("hello") < types.index("code") < types.index("worker_started"), "no user code has run before it"
    loaded = "".join(frame["text"] for frame in first.seen if frame["type"] == "output").split()
    assert set(code["modules"]) | {"belljar_sandbox.boot.compile_ahead"} == set(loaded), "what was imported, no more"
    assert set(NAMES) < set(code["modules"])
    stored = {"magic": code["magic"], "modules": code["modules"]}
    # The source of this module could not be compiled.
    broken = ("Handles SIGINT depending", '""" no Python')
    assert first_run("1", members={"code": stored}, change=broken)[1] == []


def test_code_of_another_python_is_not_used() -> None:
    other = {"magic": "00000000", "modules": {"belljar_sandbox.boot.main": "AAAA"}}
    (code,) = first_run("1", members={"code": other})[1]
    assert code["magic"] != other["magic"]
    assert first_run("1", members={})[1] == [], "code is compiled ahead only for a bridge that stores it"


def test_what_a_first_run_waits_for_imports_no_module_that_takes_long() -> None:
    slow = {"ast", "asyncio", "json", "linecache", "re", "tokenize", "traceback"}

    def imported(before: str) -> set[str]:
        command = [sys.executable, "-I", "-c", f"import sys\n{before}\nprint(*sys.modules)"]
        return set(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split())

    entrypoint = Path(__file__).parents[3] / "entrypoint"
    names = ", ".join(("belljar_sandbox.supervisor.main", *NAMES))
    ours = imported(f"sys.path.insert(0, {str(entrypoint)!r})\nimport {names}")
    assert "mcp.runtime" in ours
    assert slow & ours == slow & imported("")


def test_bootstrap_is_small() -> None:
    bootstrap = Path(__file__).parents[3] / "entrypoint" / "bootstrap.py"
    assert bootstrap.stat().st_size < 4608
