"""Jobs: processes that are forked in a run and go on beside later ones, over the frames that the bridge would see."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers import RUNTIME, Bench, returned
from sandbox import DEADLINE_SECONDS, Frame, Sandbox


@pytest.fixture
def bench() -> Iterator[Bench]:
    with Sandbox(jobs=3, frozen_copy_bytes=1 << 30) as sandbox:
        yield Bench(sandbox)


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] == b"Z"
    except FileNotFoundError:
        return True


def eventually_gone(*pids: int) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not all(map(is_gone, pids)):
        assert time.monotonic() < deadline, pids
        time.sleep(0.01)


@pytest.mark.parametrize(
    "spawned",
    [
        "async def f():\n    return x, 'a'\njob = runtime.spawn(f())",
        "async def f(a):\n    return x, a\njob = runtime.spawn(f, 'a')",
        "def f(*, a):\n    return x, a\njob = runtime.spawn(f, a='a', name='n')",
        "async def main():\n    return runtime.spawn(lambda: (x, 'a'))\njob = await main()",
        "async def f():\n    import asyncio\n    await asyncio.sleep(0)\n    return x, 'a'\n"
        "import asyncio\nawait asyncio.sleep(0)\njob = runtime.spawn(f())",
    ],
)
def test_a_job_has_the_variables_of_its_moment_and_returns_a_value(bench: Bench, spawned: str) -> None:
    done = bench.run(f"x = 1\n{spawned}\nx = 2")
    assert (done["outcome"], done["notes"]) == ("finished", [])
    assert bench.run("x")["value"] == "2"
    assert returned(bench.done()) == (1, "a")


def test_a_job_that_a_replay_answers_is_not_started(bench: Bench) -> None:
    def recorded(call: Frame) -> None:
        if call["tool"] == "spawn_job":
            bench.sandbox.answer(call, {"job": 7, "recorded": True})
        else:
            bench.on_call(call)

    code = "async def f():\n    print('never')\njob = runtime.spawn(f())\nprint(job.number)"
    done = bench.sandbox.run(RUNTIME + code, (), recorded)
    assert (done["stdout"], done["stderr"]) == ("7\n", "")
    assert not bench.sandbox.of_jobs


def test_a_call_of_a_tool_is_a_job_without_being_said_to_be_forgotten(bench: Bench) -> None:
    done = bench.run("job = runtime.spawn(mcp_a.fetch(url='u'))", ("a",))
    assert (done["outcome"], done["notes"]) == ("finished", [])
    call = bench.of_job("call")
    assert (call["run"], call["server"], call["tool"], call["arguments"]) == (1, "a", "fetch", {"url": "u"})
    # Beside a later run, which has calls of its own.
    assert bench.run("1 + 1")["value"] == "2"
    bench.sandbox.answer(call, {"content": [{"type": "text", "text": "page"}]})
    assert returned(bench.done()) == "page"


@pytest.mark.parametrize(
    ("spawned", "error"),
    [
        ("runtime.spawn(3)", "takes a function, or the call of an async one, not int"),
        ("async def f(): pass\nc = f(); await c\nruntime.spawn(c)", "has begun or ended already"),
        ("async def f(): pass\nruntime.spawn(f(), 1)", "has its arguments already"),
        (
            "import asyncio\nasync def f(): pass\nt = asyncio.ensure_future(f())\nruntime.spawn(t)",
            "a Task belongs to this interpreter's event loop",
        ),
        (
            "import asyncio\nasync def f(): pass\ng = asyncio.gather(f())\nruntime.spawn(g)",
            "belongs to this interpreter's event loop",
        ),
        (
            "import threading\nfailed = []\n"
            "def f():\n    try: runtime.spawn(print)\n    except RuntimeError as e: failed.append(e)\n"
            "t = threading.Thread(target=f); t.start(); t.join()\nraise failed[0]",
            "is for the main thread",
        ),
    ],
)
def test_what_can_be_no_job_is_refused_with_what_to_do(bench: Bench, spawned: str, error: str) -> None:
    done = bench.run(spawned)
    assert error in done["error"]["message"]
    assert bench.given == 0


def test_an_error_of_a_job_has_its_type_message_and_traceback(bench: Bench) -> None:
    bench.run("def f():\n    raise ValueError('no page')\njob = runtime.spawn(f)")
    done = bench.done()
    error = done["error"]
    assert (done["outcome"], error["type"], error["message"]) == ("raised", "ValueError", "no page")
    assert "in f" in error["traceback"] and "belljar_sandbox" not in error["traceback"]
    bench.run("def f():\n    raise SystemExit(4)\njob = runtime.spawn(f)")
    done = bench.done(2)
    assert (done["outcome"], done["exit_code"]) == ("exited", 4)


@pytest.mark.parametrize(
    ("result", "error", "followed"),
    [
        ("(i for i in 'ab')", "what it returned cannot be pickled (generator: ", "list('ab')"),
        (
            "bytes(9 << 20)",
            "more than 8,388,608: write it to a file in /workspace",
            "open('/dev/null', 'wb').write(bytes(9 << 20))",
        ),
    ],
)
def test_a_result_that_cannot_be_passed_on_is_said(bench: Bench, result: str, error: str, followed: str) -> None:
    bench.run(f"job = runtime.spawn(lambda: {result})")
    assert error in bench.done()["error"]["message"]
    bench.run(f"job = runtime.spawn(lambda: {followed})")
    assert returned(bench.done(2)) in (["a", "b"], 9 << 20)


def test_output_of_a_job_keeps_its_order_and_comes_as_it_is_written(bench: Bench) -> None:
    code = (
        "import os, sys, time\ndef f():\n"
        "    print('one'); print('two', file=sys.stderr); os.system('echo three'); print('four', end='', flush=True)\n"
        "    time.sleep(60)\njob = runtime.spawn(f)\nprint('of the run')"
    )
    assert bench.run(code)["stdout"] == "of the run\n"
    written = ""
    while written != "one\ntwo\nthree\nfour":
        written += bench.of_job("job_output")["text"]
    bench.end(1, kill=True)
    bench.of_job("job_ended")


def test_a_flood_of_a_job_starves_neither_the_run_nor_another_job(bench: Bench) -> None:
    bench.run("def f():\n    while True: print('x' * 1000)\njob = runtime.spawn(f)")
    assert bench.run("1 + 1")["value"] == "2"
    bench.run("job = runtime.spawn(lambda: 'done')")
    assert returned(bench.done(2)) == "done"
    bench.end(1, kill=True)
    bench.of_job("job_ended")


def test_a_job_that_is_interrupted_may_still_say_something(bench: Bench) -> None:
    code = (
        "import time\ndef f():\n    print('up', flush=True)\n    try: time.sleep(60)\n"
        "    except KeyboardInterrupt: return 'so far'\njob = runtime.spawn(f)"
    )
    bench.run(code)
    bench.of_job("job_output")
    bench.end(1, kill=False)
    assert returned(bench.done()) == "so far"
    coroutine = (
        "async def f():\n    import asyncio\n    print('up', flush=True)\n    await asyncio.sleep(60)\n"
        "job = runtime.spawn(f())"
    )
    bench.run(coroutine)
    bench.of_job("job_output", 2)
    bench.end(2, kill=False)
    assert bench.done(2)["outcome"] == "interrupted"


def test_a_killed_job_takes_all_with_it_also_what_has_left_its_session(bench: Bench) -> None:
    code = (
        "import os, subprocess, time\ndef f():\n"
        "    if os.fork() == 0:\n        os.setsid()\n        if os.fork() == 0: time.sleep(600)\n        os._exit(0)\n"
        "    child = subprocess.Popen(['sleep', '600'], start_new_session=True)\n"
        "    time.sleep(0.2)\n"
        "    own = os.getpid()\n"
        "    below = open(f'/proc/{own}/task/{own}/children').read().split()\n"
        "    print(own, *below, flush=True)\n    time.sleep(600)\njob = runtime.spawn(f)"
    )
    bench.run(code)
    pids = [int(pid) for pid in bench.of_job("job_output")["text"].split()]
    assert len(pids) >= 3, "the orphan of its child is its own"
    bench.end(1, kill=True)
    bench.of_job("job_ended")
    eventually_gone(*pids)


def test_a_fork_bomb_in_a_job_ends_with_it(bench: Bench) -> None:
    code = (
        "import os, time\ndef f():\n    print(os.getpid(), flush=True)\n    while True:\n"
        "        try:\n            if os.fork() == 0:\n                time.sleep(0.001)\n"
        "        except OSError: pass\n        time.sleep(0.02)\njob = runtime.spawn(f)"
    )
    bench.run(code)
    session = int(bench.of_job("job_output")["text"])
    time.sleep(0.2)
    bench.end(1, kill=True)
    bench.of_job("job_ended")
    assert bench.run("1 + 1")["value"] == "2"

    def of_session() -> list[int]:
        found = []
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = stat.read_bytes().rpartition(b")")[2].split()
            except OSError:
                continue
            if int(fields[3]) == session and fields[0] != b"Z":
                found.append(int(stat.parent.name))
        return found

    deadline = time.monotonic() + DEADLINE_SECONDS
    while left := of_session():
        assert time.monotonic() < deadline, left
        time.sleep(0.01)


def test_a_job_that_ends_by_itself_says_how_and_leaves_nothing_behind(bench: Bench) -> None:
    code = (
        "import os, subprocess\ndef f():\n    child = subprocess.Popen(['sleep', '600'])\n"
        "    print(child.pid, flush=True)\n    os._exit(3)\njob = runtime.spawn(f)"
    )
    bench.run(code)
    pid = int(bench.of_job("job_output")["text"])
    ended = bench.of_job("job_ended")
    assert (ended["exit_code"], ended["requested"], ended["oom"]) == (3, False, False)
    eventually_gone(pid)


@pytest.mark.parametrize("restored", [True, False])
def test_a_job_outlives_the_worker_that_started_it(bench: Bench, restored: bool) -> None:
    waits = "import time\ndef f():\n    print('up', flush=True)\n    time.sleep(0.5)\n    return x\n"
    bench.run(f"x = 'of then'\n{waits}job = runtime.spawn(f)")
    bench.of_job("job_output")
    # What else was left running goes with the worker.
    pid = int(bench.run("import subprocess\nleft = subprocess.Popen(['sleep', '600'])\nleft.pid")["value"])
    if restored:
        # By itself: the copy of the run before is there when a run begins.
        bench.sandbox.start("import os; os._exit(1)")
    else:
        bench.sandbox.supervise({"type": "replace", "worker": bench.sandbox.worker, "restore": False})
    started = bench.sandbox.wait("worker_started")
    assert (started["restored"] is not None) == restored
    eventually_gone(pid)
    assert bench.run("1 + 1")["value"] == "2"
    assert returned(bench.done()) == "of then"


def test_jobs_end_with_the_sandbox(bench: Bench) -> None:
    bench.run(
        "import os, time\ndef f():\n    print(os.getpid(), flush=True)\n    time.sleep(600)\njob = runtime.spawn(f)"
    )
    pid = int(bench.of_job("job_output")["text"])
    bench.sandbox.supervise({"type": "shutdown"})
    bench.sandbox.process.wait(DEADLINE_SECONDS)
    eventually_gone(pid)


def test_the_supervisor_takes_no_more_jobs_over_than_it_may(bench: Bench) -> None:
    bench.run("import time\nfor _ in range(3): runtime.spawn(time.sleep, 600)")
    done = bench.run("runtime.spawn(time.sleep, 600)")
    assert done["error"]["message"] == "the job could not be started: 3 jobs run already"
    assert bench.asked[-1]["tool"] == "cancel_job"
    for job in (1, 2, 3):
        bench.end(job, kill=True)
        bench.of_job("job_ended", job)


def test_a_job_starts_no_jobs_and_has_none_of_the_workers_ends(bench: Bench) -> None:
    code = (
        "import os\ndef f():\n"
        "    try: runtime.spawn(print)\n    except RuntimeError as error: said = str(error)\n"
        "    kinds = sorted(os.readlink(f'/proc/self/fd/{fd}').partition(':')[0] for fd in os.listdir('/proc/self/fd')"
        " if int(fd) > 2 and os.path.exists(f'/proc/self/fd/{fd}'))\n"
        "    return said, kinds.count('socket')\njob = runtime.spawn(f)"
    )
    bench.run(code)
    said, sockets = returned(bench.done())
    assert said == "a job cannot start jobs: start them in a run"
    # Its frames', and two that are a pair of its own.
    assert sockets == 3


_HAND_OVER = """
import array, os, socket
from belljar_sandbox.wire import fd_passing
[end] = [fd for fd in map(int, os.listdir("/proc/self/fd")) if os.path.exists(f"/proc/self/fd/{fd}")
         and os.readlink(f"/proc/self/fd/{fd}").startswith("socket")
         and socket.socket(fileno=os.dup(fd)).type == socket.SOCK_SEQPACKET]
one, other = socket.socketpair()
read, write = os.pipe()
child = os.fork()
if not child:
    import time; time.sleep(600)
told, tell = os.pipe()
parent = os.fork()
if not parent:
    if not os.fork():
        os.setsid()
        os.write(tell, b"%d" % os.getpid())
        import time; time.sleep(600)
    os._exit(0)
os.waitpid(parent, 0)
# This process can become a job. The descriptor looks like a socket and is not one.
orphan = int(os.read(told, 20))
no_socket = os.open(f"/proc/self/fd/{one.fileno()}", os.O_PATH)
answers = [fd_passing.give(end, words, *fds) for words, fds in (
    ("job", ()),
    ("job 1", (one.fileno(), read)),
    ("job 1 x", (one.fileno(), read)),
    (f"job 1 {child}", (one.fileno(),)),
    (f"job 1 {child}", (read, one.fileno())),
    ("job 1 1", (one.fileno(), read)),
    (f"job 1 {os.getpid()}", (one.fileno(), read)),
    (f"job 1 {child}", (one.fileno(), read)),
    (f"job 1 {orphan}", (no_socket, read)),
)]
os.kill(child, 9)
os.kill(orphan, 9)
print(*answers, sep="\\n")
"""


def test_what_is_no_job_is_not_taken_over(bench: Bench) -> None:
    answers = bench.run(_HAND_OVER)["stdout"].splitlines()
    assert len(answers) == 9
    assert "Bad file descriptor" in answers[-1]
    assert all(answer.startswith("refused: ") for answer in answers), answers
    assert bench.run("1 + 1")["value"] == "2"


def test_who_does_not_read_what_it_is_sent_is_told_of_and_nothing_else_waits(bench: Bench) -> None:
    code = (
        "import time\nasync def f():\n    import asyncio\n    page = asyncio.ensure_future(mcp_a.fetch())\n"
        "    await asyncio.sleep(0.01)\n    print('waits', flush=True)\n    time.sleep(1)\n    return len(await page)\n"
        "job = runtime.spawn(f)"
    )
    bench.run(code, ("a",))
    call = bench.of_job("call")
    bench.sandbox.answer(call, {"content": [{"type": "text", "text": "x" * (9 << 20)}]})
    assert bench.run("1 + 1")["value"] == "2"
    assert bench.of_job("job_taken")["bytes"] >= 4 << 20
    assert returned(bench.done()) == 9 << 20
    # For one that is gone nothing is kept, and lines stay whole.
    bench.sandbox.answer(call, {"content": []})
    assert bench.run("1 + 1")["value"] == "2"
