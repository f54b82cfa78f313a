"""Checkpoints: made in the middle of runs, gone back to any number of times, bounded, and hostile code around them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from belljar_sandbox.run.checkpoint_api import Checkpoints
from belljar_sandbox.wire.names import is_checkpoint_name
from helpers import children, die, echo, is_dead
from sandbox import Frame, Sandbox


def limited(checkpoints: int = 8, checkpoint_bytes: int = 1 << 30) -> Sandbox:
    return Sandbox(frozen_copy_bytes=1 << 30, checkpoints=checkpoints, checkpoint_bytes=checkpoint_bytes)


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    with limited() as started:
        yield started


def stay_in_a_run(sandbox: Sandbox) -> None:
    """Begins a run that does not end. The copy of the run before it is made before it begins."""
    sandbox.start("print('begun', flush=True)\nimport time\ntime.sleep(60)")
    sandbox.wait_output("begun")


def go_back(sandbox: Sandbox, name: str) -> Frame:
    """As the bridge does between two runs; the `worker_started` after it."""
    sandbox.supervise({"type": "replace", "worker": sandbox.worker, "restore": True, "checkpoint": name})
    sandbox.wait("worker_exited")
    return sandbox.wait("worker_started")


def make(sandbox: Sandbox, name: str) -> Frame:
    done = sandbox.run(f"from mcp import runtime\nruntime.checkpoint({name!r})")
    assert done["value"] == repr(f"checkpoint {name!r}"), done
    return next(frame for frame in reversed(sandbox.seen) if frame["type"] == "checkpoint")


def value(sandbox: Sandbox, code: str) -> str:
    return str(sandbox.run(code)["value"])


def failure(done: Frame) -> str:
    return str(done["error"]["message"])


def test_one_checkpoint_is_gone_back_to_many_times(sandbox: Sandbox) -> None:
    sandbox.run("import random\nx = [0]\nrandom.seed(1)")
    made = make(sandbox, "a")
    assert (made["line"], made["name"]) == (2, "a")
    assert 1 << 20 < made["bytes"] < 1 << 30
    expected = value(sandbox, "random.random()")
    for number in range(2, 6):
        sandbox.run("x.append(1); y = 1")
        started = go_back(sandbox, "a")
        assert (started["checkpoint"], started["restored"], started["worker"]) == ("a", None, number)
        assert value(sandbox, "x, 'y' in globals()") == "([0], False)"
        assert value(sandbox, "random.random()") == expected


NESTED = """
import asyncio, contextlib
events = []
async def deep(n):
    if n:
        return await deep(n - 1)
    with contextlib.suppress(ValueError):
        try:
            raise KeyError("handled")
        except KeyError:
            kept.append("before")
            mcp_a.t.sync(i=1)
            runtime.checkpoint("deep")
            kept.append("after")
        finally:
            events.append("finally")
kept = []
background = asyncio.create_task(asyncio.sleep(100))
await asyncio.gather(deep(5), mcp_a.t(i=2))
"""


def test_it_is_made_inside_await_and_functions_and_nothing_of_that_run_goes_on(sandbox: Sandbox) -> None:
    sandbox.run("from mcp import runtime")
    assert sandbox.run(NESTED, ("a",), echo)["outcome"] == "finished"
    assert value(sandbox, "kept, events") == "(['before', 'after'], ['finally'])"
    for _ in range(3):
        go_back(sandbox, "deep")
        assert value(sandbox, "kept, events") == "(['before'], [])"
        # A whole worker: it awaits, calls, has no task of then, and its errors know nothing of what was handled.
        code = "t = await asyncio.gather(mcp_a.t(i=3), asyncio.sleep(0, 4))\n(t[0]['i'], mcp_a.t.sync(i=5)['i'], t[1])"
        assert sandbox.run(code, ("a",), echo)["value"] == "(3, 5, 4)"
        assert value(sandbox, "await asyncio.sleep(0); len(asyncio.all_tasks())") == "1"
        assert value(sandbox, "asyncio.run(asyncio.sleep(0, 1))") == "1"
        failed = sandbox.run("1 / 0")["error"]["traceback"]
        assert "ZeroDivisionError" in failed and "KeyError" not in failed, failed
        assert sandbox.run("raise KeyboardInterrupt")["outcome"] == "interrupted"
    sandbox.start("import time\nprint('slow')\nwhile True: time.sleep(0.01)")
    sandbox.wait_output("slow")
    sandbox.interrupt()
    assert sandbox.wait("done")["outcome"] == "interrupted"


def test_what_is_written_comes_once_and_where_it_belongs(sandbox: Sandbox) -> None:
    done = sandbox.run("from mcp import runtime\nprint('before', end='')\nruntime.checkpoint('a')\nprint('after')")
    assert done["stdout"] == "beforeafter\n"
    go_back(sandbox, "a")
    assert sandbox.run("import sys\nprint('new')\nsys.stderr.write('error')\n0;")["both"] == "new\nerror"
    redirected = (
        "import os\nown = os.dup(1)\nos.dup2(os.open('/dev/null', os.O_WRONLY), 1)\nruntime.checkpoint('b')\n0;"
    )
    sandbox.run(redirected)
    go_back(sandbox, "b")
    assert sandbox.run("print('seen')")["stdout"] == "seen\n"


def test_a_run_that_goes_back_says_so_whatever_its_code_does_then(sandbox: Sandbox) -> None:
    make(sandbox, "a")
    sandbox.run("after = []")
    plain = sandbox.run("runtime.restore('a')\nafter.append('no')")
    assert (plain["outcome"], plain["restore"]) == ("exited", "a")
    caught = sandbox.run("try:\n    runtime.restore('a')\nexcept Exception:\n    after.append('no')")
    assert caught["restore"] == "a"
    swallowed = sandbox.run("try:\n    runtime.restore('a')\nexcept BaseException:\n    pass\n1 / 0")
    assert (swallowed["outcome"], swallowed["restore"]) == ("raised", "a")
    in_task = "import asyncio\nasync def f(): runtime.restore('a')\nawait asyncio.gather(f(), asyncio.sleep(30))"
    assert sandbox.run(in_task)["restore"] == "a"
    # The worker goes on until it is replaced: it may be that there is nothing to put in its place.
    done = sandbox.run("after")
    assert (done["value"], "restore" in done) == ("[]", False)


def test_an_unknown_name_is_an_error_of_the_code(sandbox: Sandbox) -> None:
    def refuse(call: Frame) -> object:
        assert (call["tool"], call["arguments"]) == ("find_checkpoint", {"name": "no"})
        sandbox.fail(call, "invalid_arguments", "there is no checkpoint 'no'", "make one")
        return ...

    done = sandbox.run("from mcp import runtime\nruntime.restore('no')", (), refuse)
    assert "there is no checkpoint 'no'" in failure(done)
    assert "restore" not in done


def test_checkpoints_outlive_a_crash_a_rollback_and_a_reset(sandbox: Sandbox) -> None:
    sandbox.run("x = 1")
    make(sandbox, "a")
    sandbox.run("x = 2")
    assert die(sandbox)["restored"] == sandbox.runs - 1
    assert value(sandbox, "x") == "2"
    sandbox.supervise({"type": "replace", "worker": sandbox.worker, "restore": False})
    sandbox.wait("worker_exited")
    assert sandbox.wait("worker_started")["restored"] is None
    assert value(sandbox, "'x' in globals()") == "False"
    make(sandbox, "b")
    go_back(sandbox, "a")
    assert value(sandbox, "x") == "1"
    # What goes wrong right after it takes nothing away either.
    assert "restored" in die(sandbox)
    assert value(sandbox, "x") == "1"
    go_back(sandbox, "b")
    assert value(sandbox, "'x' in globals()") == "False"


def test_the_same_name_is_replaced_and_a_forgotten_one_is_gone(sandbox: Sandbox) -> None:
    for number in range(3):
        sandbox.run(f"x = {number}")
        make(sandbox, "a b'")
    go_back(sandbox, "a b'")
    assert value(sandbox, "x") == "2"
    sandbox.supervise({"type": "forget", "name": "a b'"})
    sandbox.supervise({"type": "replace", "worker": sandbox.worker, "restore": True, "checkpoint": "a b'"})
    sandbox.run("x = 5")
    assert value(sandbox, "x") == "5"
    assert sandbox.worker == 2
    assert eventually_alone(sandbox)


def test_there_are_so_many_and_no_more() -> None:
    with limited(checkpoints=2) as few:
        make(few, "a")
        make(few, "b")
        refused = failure(few.run("runtime.checkpoint('c')"))
        assert refused == (
            "checkpoint 'c' was not made: there are 2 checkpoints already (a, b), which is the limit; "
            "runtime.forget_checkpoint(name) deletes one"
        )
        make(few, "b")
    with limited(checkpoints=0) as none:
        code = "from mcp import runtime\ntry: runtime.checkpoint('c')\nexcept runtime.CheckpointError: raise"
        refused = failure(none.run(code))
        assert "0 checkpoints are kept already" not in refused and "are turned off" in refused


def test_what_is_too_large_is_refused_and_costs_nothing() -> None:
    with limited(checkpoint_bytes=150 << 20) as small:
        small.run("import os\nblock = os.urandom(50 << 20)")
        make(small, "a")
        # It keeps what the worker changes now.
        small.run("block = os.urandom(50 << 20)")
        refused = failure(small.run("runtime.checkpoint('b')"))
        assert "with 1 other checkpoints, and once all of it has changed" in refused, refused
        assert "more than the limit of 150 MiB" in refused
        small.run("del block")
        make(small, "b")
        assert "more than the limit of 150 MiB" in failure(
            small.run("block = os.urandom(90 << 20)\nruntime.checkpoint('c')")
        )
        small.run("del block")
        small.supervise({"type": "forget", "name": "a"})
        small.supervise({"type": "forget", "name": "b"})
        assert eventually_alone(small)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("runtime.checkpoint('')", "1 to 64 printable"),
        ("runtime.checkpoint('x' * 65)", "1 to 64 printable"),
        ("runtime.checkpoint('a\\nb')", "1 to 64 printable"),
        ("runtime.checkpoint(3)", "is a str, not int"),
        ("runtime.restore(None)", "is a str, not NoneType"),
        (
            "def deep(n): return deep(n - 1) if n else runtime.checkpoint('a')\n"
            "import sys; sys.setrecursionlimit(5000); deep(1500)",
            "calls deep, at most 1,000",
        ),
        (
            "import concurrent.futures as f\nf.ThreadPoolExecutor(1).submit(runtime.checkpoint, 'a').result()",
            "only be made on the main thread",
        ),
    ],
)
def test_what_cannot_be_one_says_why(sandbox: Sandbox, code: str, said: str) -> None:
    assert said in failure(sandbox.run(f"from mcp import runtime\n{code}"))
    make(sandbox, "a")


def test_a_forked_process_makes_none(sandbox: Sandbox) -> None:
    code = (
        "import os\nfrom mcp import runtime\nif os.fork() == 0:\n"
        "    try:\n        runtime.checkpoint('a')\n    except Exception as e:\n        print(e, flush=True)\n"
        "    os._exit(0)\n"
        "import time; time.sleep(0.5)"
    )
    assert "only be made by the main process" in sandbox.run(code)["stdout"]


def test_it_can_be_made_above_an_earlier_one_again_and_again(sandbox: Sandbox) -> None:
    sandbox.run("from mcp import runtime\ndepth = 0")
    for number in range(30):
        assert (
            sandbox.run(f"def f(): runtime.checkpoint('a'); return 1\ndepth = {number}\nf()")["outcome"] == "finished"
        )
        go_back(sandbox, "a")
    assert value(sandbox, "depth") == "29"
    # There is as much room for calls as ever.
    assert value(sandbox, "def r(n): return r(n - 1) if n else 'deep'\nr(900)") == "'deep'"


def eventually_alone(sandbox: Sandbox) -> bool:
    """Whether no copy but the frozen one is left."""
    for _ in range(200):
        sandbox.run("None")
        descendants = children(sandbox.process.pid)
        for pid in descendants:
            descendants.extend(children(pid))
        if len([pid for pid in descendants if not is_dead(pid)]) <= 2:
            return True
    return False


OWN_COPIES = "[int(p) for p in open(f'/proc/{os.getpid()}/task/{os.getpid()}/children').read().split()]"


def test_who_kills_them_finds_them_gone(sandbox: Sandbox) -> None:
    sandbox.run("import os, signal\nx = 1")
    make(sandbox, "a")
    sandbox.run(f"for pid in {OWN_COPIES}: os.kill(pid, 9)\nimport time; time.sleep(0.1)")
    sandbox.supervise({"type": "replace", "worker": 1, "restore": True, "checkpoint": "a"})
    assert sandbox.wait("checkpoint_gone")["name"] == "a"
    assert value(sandbox, "x") == "1"
    assert sandbox.worker == 1


def test_one_that_ends_with_the_worker_is_not_told_of_before_its_end(sandbox: Sandbox) -> None:
    """Which the bridge would take for the worker's staying."""
    make(sandbox, "a")
    before = len(sandbox.seen)
    die(sandbox, f"import os, time\nfor pid in {OWN_COPIES}: os.kill(pid, 9)\ntime.sleep(0.1)\nos._exit(7)")
    told = [frame["type"] for frame in sandbox.seen[before:]]
    assert "checkpoint_gone" not in told[: told.index("worker_exited")]
    sandbox.supervise({"type": "replace", "worker": 2, "restore": True, "checkpoint": "a"})
    assert sandbox.wait("checkpoint_gone")["name"] == "a"
    assert value(sandbox, "2") == "2"


def test_one_that_was_stopped_is_let_go_and_the_variables_stay(sandbox: Sandbox) -> None:
    sandbox.run("import os, signal\nx = 1")
    make(sandbox, "a")
    sandbox.run(f"for pid in {OWN_COPIES}: os.kill(pid, signal.SIGSTOP)\nx = 2")
    stay_in_a_run(sandbox)
    # The kernel ends what stands still when its parent goes.
    assert go_back(sandbox, "a")["restored"] == sandbox.runs - 1
    assert value(sandbox, "x") == "2"
    assert eventually_alone(sandbox)


FIND_HANDOVER = """
import array, os, socket, gc
from mcp import runtime
def ends():
    for fd in map(int, os.listdir("/proc/self/fd")):
        try:
            end = socket.socket(fileno=os.dup(fd))
        except OSError:
            continue
        if end.family == socket.AF_UNIX and end.type == socket.SOCK_SEQPACKET:
            yield fd, end
[(fd, end)] = ends()
"""


def test_without_the_socket_to_the_supervisor_it_is_an_error_and_leaves_no_process(sandbox: Sandbox) -> None:
    sandbox.run(FIND_HANDOVER + "end.close()\nos.close(fd)\nx = 1")
    assert "checkpoint 'a' could not be made: " in failure(sandbox.run("runtime.checkpoint('a')"))
    assert eventually_alone(sandbox)
    assert value(sandbox, "x") == "1"


@pytest.mark.parametrize("pid", ["1", "99999999", "os.getpid()", "fake"])
def test_a_claim_that_is_none_wakes_nobody_and_the_session_goes_on(sandbox: Sandbox, pid: str) -> None:
    claim = (
        "import time\n"
        "mine, theirs = socket.socketpair()\n"
        f"is_fake = {pid == 'fake'}\n"
        "fake = os.fork() if is_fake else 1\n"
        "while not fake: time.sleep(0.01)\n"
        f"words = f'checkpoint {{{pid}}} 1 forged'.encode()\n"
        "end.sendmsg([words], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [theirs.fileno()]))])\n"
        "end.recv(500).decode()"
    )
    sandbox.run("kept = 1")
    answer = value(sandbox, FIND_HANDOVER + claim)
    # Otherwise nothing ends the worker, and with it the run.
    if answer == "'kept'":
        stay_in_a_run(sandbox)
    sandbox.supervise({"type": "replace", "worker": 1, "restore": True, "checkpoint": "forged"})
    assert sandbox.wait("checkpoint_gone", 10)["name"] == "forged"
    if answer == "'kept'":
        # It was taken for one, and did not answer.
        assert sandbox.wait("worker_started")["restored"] == sandbox.runs - 1
    assert value(sandbox, "kept") == "1"
    assert eventually_alone(sandbox)


def test_thousands_of_forks_do_not_outlive_the_worker(sandbox: Sandbox) -> None:
    sandbox.run("import os\nx = 1")
    make(sandbox, "a")
    sandbox.start(
        "import time\nend = time.monotonic() + 20\nif os.fork() == 0:\n    os.setsid()\n"
        "    while time.monotonic() < end:\n        if os.fork(): os._exit(0)\nos._exit(3)"
    )
    sandbox.wait("worker_exited")
    sandbox.wait("worker_started")
    told_gone = [frame["name"] for frame in sandbox.seen if frame["type"] == "checkpoint_gone"]
    assert value(sandbox, "1 + 1") == "2"
    if not told_gone:
        go_back(sandbox, "a")
        assert value(sandbox, "x") == "1"
        sandbox.supervise({"type": "forget", "name": "a"})
    assert eventually_alone(sandbox)


def test_they_are_listed_as_a_table() -> None:
    one = {"name": "clean", "run": 3, "line": 7, "seconds": 4000, "bytes": 34 << 20, "sleeps": True}
    lost = {"name": "raw'", "run": 12, "line": None, "seconds": 61, "bytes": 5 << 20, "sleeps": False}
    assert repr(Checkpoints([one, lost])).splitlines() == [
        "name     made in        age        interpreter",
        "'clean'  run 3, line 7  1 h 6 min  34 MiB",
        '"raw\'"   run 12         1 min      5 MiB        lost with its sandbox',
    ]
    assert repr(Checkpoints([])) == "no checkpoints"


def test_names() -> None:
    assert is_checkpoint_name("a b") and is_checkpoint_name("é" * 64)
    assert not any(map(is_checkpoint_name, ("", " a", "a ", "a\tb", "x" * 65, "\x1b[2J", "\u202e")))
