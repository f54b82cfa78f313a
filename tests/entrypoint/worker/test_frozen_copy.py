"""Rolling back to the frozen copy when the worker is gone."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from belljar_sandbox.run.interpreter import LOST_THREADS
from helpers import children, copy_of, die, echo
from sandbox import Sandbox


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(frozen_copy_bytes=1 << 30) as started:
        yield started


@pytest.mark.parametrize(
    "death",
    [
        "os._exit(7)",
        "os.kill(os.getpid(), 9)",
        "ctypes.string_at(0)",
        "os.abort()",
        "os.close(next(o for o in gc.get_objects() if type(o).__name__ == 'Channel').fileno())",
    ],
)
def test_variables_are_as_before_the_run_that_killed_the_worker(sandbox: Sandbox, death: str) -> None:
    sandbox.run("import ctypes, gc, os, random\ngc.unfreeze()\nx = [1]\nrandom.seed(42)\nfirst = random.random()")
    expected = sandbox.run("s = random.getstate(); r = random.random(); random.setstate(s); r")["value"]
    before = sandbox.runs
    started = die(sandbox, f"x.append(2)\n{death}")
    assert (started["worker"], started["restored"]) == (2, before)
    assert sandbox.run("x")["value"] == "[1]"
    assert sandbox.run("random.random()")["value"] == expected


def test_a_woken_copy_is_a_whole_worker_and_rolls_back_again(sandbox: Sandbox) -> None:
    sandbox.run("x = 1\nimport asyncio\nasync def f(): return x\nawait f()")
    for number in range(2, 6):
        assert die(sandbox)["restored"] == sandbox.runs - 1
        assert sandbox.worker == number
        code = "x += 1\nprint(x)\nr = mcp_a.t.sync(i=x)['i'] + (await mcp_a.t(i=await f()))['i']\nr"
        assert sandbox.run(code, ("a",), echo)["value"] == str(2 * number)
    threads = (
        "import threading\nt = threading.Thread(target=lambda: seen.append(1)); seen = []; t.start(); t.join(); seen"
    )
    assert sandbox.run(threads)["value"] == "[1]"


def test_a_run_that_kills_the_worker_may_be_tried_again_and_again(sandbox: Sandbox) -> None:
    sandbox.run("x = 1")
    kept = sandbox.runs
    for _ in range(4):
        assert die(sandbox)["restored"] == kept
    assert sandbox.run("x")["value"] == "1"


def test_without_a_copy_the_next_worker_is_fresh() -> None:
    with Sandbox(frozen_copy_bytes=1) as small:
        small.run("x = 1")
        assert die(small)["restored"] is None
        assert small.run("'x' in globals()")["value"] == "False"


def test_a_copy_that_does_not_answer_is_let_go(sandbox: Sandbox) -> None:
    sandbox.run("import os, signal\nx = 1")
    pid = copy_of(sandbox)
    os.kill(pid, 19)
    assert die(sandbox)["restored"] is None
    assert sandbox.run("'x' in globals()")["value"] == "False"
    assert not os.path.exists(f"/proc/{pid}")


def test_a_copy_that_was_killed_is_no_copy(sandbox: Sandbox) -> None:
    sandbox.run("x = 1")
    os.kill(copy_of(sandbox), 9)
    assert die(sandbox)["restored"] is None


def test_a_reset_does_not_roll_back(sandbox: Sandbox) -> None:
    sandbox.run("x = 1")
    sandbox.supervise({"type": "replace", "worker": 1, "restore": False})
    sandbox.wait("worker_exited")
    assert sandbox.wait("worker_started")["restored"] is None
    assert sandbox.run("'x' in globals()")["value"] == "False"


def test_there_is_one_copy_however_many_runs(sandbox: Sandbox) -> None:
    for number in range(20):
        sandbox.run(f"x = {number}")
    copy_of(sandbox)
    sandbox.run("x = 0")
    # What was let go is reaped with the next one.
    copy_of(sandbox)
    sandbox.run("x = 1")
    copy_of(sandbox)
    assert len(children(children(sandbox.process.pid)[0])) <= 2


def test_what_only_looks_keeps_the_copy_and_counts_as_seen(sandbox: Sandbox) -> None:
    sandbox.run("x = 1")
    copy = copy_of(sandbox)
    for code in ("print(x)", "None", "print('a', x + 1)"):
        sandbox.run(code)
    assert copy_of(sandbox) == copy
    assert die(sandbox)["restored"] == sandbox.runs - 1


@pytest.mark.parametrize(
    "change",
    [
        "y = 1",
        "x.append(2);",
        "print(x.append(2))",
        "del x",
        "import json",
        "print([x := 3])",
        "def f(): pass",
        "class C:\n def __repr__(self): x.append(2); return ''\nc = C()",
        "print(c)",
        "1 + 1",
        "[x.append(i) for i in range(2)];",
        "for x in range(3): pass",
        "with open('/dev/null'): pass",
    ],
)
def test_what_may_change_something_renews_the_copy(sandbox: Sandbox, change: str) -> None:
    sandbox.run("x = [1]\nclass C:\n def __repr__(self): x.append(2); return ''\nc = C()")
    copy = copy_of(sandbox)
    sandbox.run(change)
    assert copy_of(sandbox) != copy


def test_user_code_that_forges_the_slate_only_loses_its_own_state(sandbox: Sandbox) -> None:
    find = "import gc\ngc.unfreeze()\nslate = next(o for o in gc.get_objects() if type(o).__name__ == 'Slate')\n"
    sandbox.run(find)
    for pid in (1, 0, 2**63, os.getpid()):
        sandbox.run("x = 1")
        started = die(sandbox, f"{find}slate.write({pid}, 3)\nimport os; os._exit(1)")
        assert started["restored"] is None
        sandbox.run(find)


def test_a_library_that_cannot_live_on_in_a_copy_is_named_after_a_rollback(sandbox: Sandbox) -> None:
    sandbox.run("import sys, types\nsys.modules['polars'] = types.ModuleType('polars')")
    die(sandbox)
    assert sandbox.run("1")["notes"] == [LOST_THREADS]
    assert sandbox.run("1")["notes"] == []
