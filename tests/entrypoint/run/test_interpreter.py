"""What a run does and reports: values, errors, output, and what the next run finds."""

from __future__ import annotations

import base64
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

from sandbox import ENTRYPOINT, Sandbox

sys.path.insert(0, str(ENTRYPOINT))
from belljar_sandbox.worker.after_import import AfterImport
from belljar_sandbox.worker.fork_start_method import fork_by_default


def test_variables_persist(sandbox: Sandbox) -> None:
    sandbox.run("x = [1, 2]")
    assert sandbox.run("x + [3]")["value"] == "[1, 2, 3]"


def test_none_and_a_trailing_semicolon_echo_nothing(sandbox: Sandbox) -> None:
    assert sandbox.run("None")["value"] is None
    assert sandbox.run("5;")["value"] is None


def test_top_level_await_runs_on_one_persistent_loop(sandbox: Sandbox) -> None:
    first = sandbox.run("import asyncio\nawait asyncio.sleep(0)\nid(asyncio.get_running_loop())")
    assert sandbox.run("await asyncio.sleep(0)\nid(asyncio.get_running_loop())")["value"] == first["value"]


def test_asyncio_run_works_without_top_level_await(sandbox: Sandbox) -> None:
    assert sandbox.run("import asyncio\nasyncio.run(asyncio.sleep(0, 'ok'))")["value"] == "'ok'"


def test_asyncio_run_works_beside_top_level_await(sandbox: Sandbox) -> None:
    code = "import asyncio\nawait asyncio.sleep(0)\nasyncio.run(asyncio.sleep(0, 'ok'))"
    assert sandbox.run(code)["value"] == "'ok'"
    assert sandbox.run(code.replace("asyncio.sleep(0, 'ok')", "1 / 0"))["error"]["type"] == "ZeroDivisionError"


def test_asyncio_is_there_without_an_import(sandbox: Sandbox) -> None:
    assert sandbox.run("async def f(): return await asyncio.gather(asyncio.sleep(0, 1))")["outcome"] == "finished"
    assert sandbox.run("await f()")["value"] == "[1]"


def test_own_name_asyncio_stays(sandbox: Sandbox) -> None:
    assert sandbox.run("asyncio = 5\nasyncio")["value"] == "5"
    assert sandbox.run("asyncio")["value"] == "5"


def test_asyncio_is_not_imported_by_code_that_does_not_name_it() -> None:
    with Sandbox(greet=False) as sandbox:
        # With the greeting, so that the worker has no idle moment to import it in.
        sandbox.supervise({"type": "hello", "version": 1, "limits": sandbox.limits})
        assert sandbox.run("import sys\n'async' 'io' in sys.modules")["value"] == "False"


def test_value_of_ten_million_items_is_bounded(sandbox: Sandbox) -> None:
    value = sandbox.run("list(range(10**7))")["value"]
    assert len(value) <= 4_000
    assert value.startswith("[0, 1, 2, ") and " more]" in value


@pytest.mark.parametrize(
    ("code", "value"),
    [
        ("(1,)", "(1,)"),
        ("{'a': {1, 2}, 'b': frozenset({3})}", "{'a': {1, 2}, 'b': frozenset({3})}"),
        ("[], {}, set(), ()", "([], {}, set(), ())"),
        ("x = []; x.append(x); x", "..."),
    ],
)
def test_value_is_the_repr(sandbox: Sandbox, code: str, value: str) -> None:
    assert value in sandbox.run(code)["value"]


def test_value_whose_repr_raises_is_described(sandbox: Sandbox) -> None:
    done = sandbox.run("class Bad:\n    def __repr__(self): raise ValueError\nBad()")
    assert (done["outcome"], done["value"]) == ("finished", "<Bad object, whose repr raises ValueError>")


def test_error_names_line_and_source_and_no_frame_of_ours(sandbox: Sandbox) -> None:
    sandbox.run("def divide(a):\n    return a / 0")
    error = sandbox.run("x = 1\ndivide(x)\n")["error"]
    assert error.pop("traceback_chars") == len(error["traceback"])
    # From Python 3.13 on a call has marks too.
    error["traceback"] = error["traceback"].replace("    ~~~~~~^^^\n", "")
    assert error == {
        "type": "ZeroDivisionError",
        "message": "division by zero",
        "hint": "",
        "line": 2,
        "traceback": "Traceback (most recent call last):\n"
        '  File "<run 2>", line 2, in <module>\n    divide(x)\n'
        '  File "<run 1>", line 2, in divide\n    return a / 0\n           ~~^~~\n'
        "ZeroDivisionError: division by zero",
    }


def test_error_after_await_has_no_frame_of_ours(sandbox: Sandbox) -> None:
    error = sandbox.run("import asyncio\nawait asyncio.sleep(0)\n1/0")["error"]
    assert error["line"] == 3
    assert "belljar" not in error["traceback"] and error["traceback"].count("File") == 1


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        ("class E(Exception):\n  @property\n  def __class__(self): exit(3)\n", "E this"),
        ("class M(type):\n  @property\n  def __module__(cls): exit(3)\nclass E(Exception, metaclass=M): pass\n", ""),
        ("class E(SystemExit):\n  @property\n  def code(self): 1/0\n", "E this"),
    ],
)
def test_an_error_that_breaks_whoever_looks_at_it_costs_no_variables(sandbox: Sandbox, error: str, shown: str) -> None:
    done = sandbox.run(f"{error}x = 1\nraise E('this')")
    assert done["outcome"] == "raised"
    assert (shown or "cannot be shown") in f"{done['error']['type']} {done['error']['message']}"
    assert sandbox.run("x")["value"] == "1"


def test_asyncio_that_cannot_be_imported_is_the_runs_own_error(sandbox: Sandbox) -> None:
    sandbox.run("import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (0, 0))\nx = 1")
    assert sandbox.run("asyncio.run(None)")["error"]["type"] == "OSError"
    assert sandbox.run("x")["value"] == "1"


def test_syntax_error_names_the_line(sandbox: Sandbox) -> None:
    error = sandbox.run("x = 1\nif x\n")["error"]
    assert (error["type"], error["line"]) == ("SyntaxError", 2)


@pytest.mark.parametrize(
    "code",
    [
        "class E(BaseException):\n    def __str__(self): raise self\n    __repr__ = __str__\nraise E",
        "raise type('E', (Exception,), {'__str__': lambda self: 5})",
        "raise ExceptionGroup('g', [ValueError(1), ExceptionGroup('h', [KeyError(2)])])",
        "e = ValueError('x'); e.__cause__ = e; raise e",
        "raise ValueError('\\ud800')",
        "raise ValueError('x' * 10**6)",
    ],
)
def test_hostile_exception_is_reported(sandbox: Sandbox, code: str) -> None:
    assert sandbox.run(code)["outcome"] == "raised"
    assert sandbox.run("1")["value"] == "1"


def test_endless_recursion_keeps_variables(sandbox: Sandbox) -> None:
    assert sandbox.run("x = 7\nf = lambda: f()\nf()")["error"]["type"] == "RecursionError"
    assert sandbox.run("x")["value"] == "7"


def test_traceback_of_a_million_frames_is_cut_in_its_middle(sandbox: Sandbox) -> None:
    deep = "def f(n):\n  if n == 0: raise KeyError('deep')\n  f(n - 1)\nf(300_000)"
    error = sandbox.run(f"import sys\nsys.setrecursionlimit(10**6)\n{deep}")["error"]
    # Those of the runtime, a few, are counted too.
    cut = r"\(296,00\d frames left out in the middle\)\nTraceback \(most recent call last\):\n"
    assert re.match(cut, error["traceback"])
    assert error["traceback"].endswith("\nKeyError: 'deep'")
    assert "line 6, in <module>" in error["traceback"] and "line 4, in f" in error["traceback"]
    assert error["line"] == 4


@pytest.mark.parametrize(
    ("argument", "code", "stderr"),
    [("", 0, ""), ("3", 3, ""), ("-1", 255, ""), ("'text'", 1, "text\n"), ("True", 1, "")],
)
def test_exit_reports_its_code_and_keeps_variables(sandbox: Sandbox, argument: str, code: int, stderr: str) -> None:
    done = sandbox.run(f"import sys\nx = 7\nprint('part')\nsys.exit({argument})")
    assert (done["outcome"], done["exit_code"], done["stdout"], done["stderr"]) == ("exited", code, "part\n", stderr)
    assert sandbox.run("x")["value"] == "7"


def test_exit_after_await_and_in_a_task_ends_the_run(sandbox: Sandbox) -> None:
    assert sandbox.run("import asyncio, sys\nawait asyncio.sleep(0)\nsys.exit(4)")["exit_code"] == 4
    code = "async def leave(): sys.exit(5)\nt = asyncio.ensure_future(leave())\nawait asyncio.sleep(99)"
    assert sandbox.run(code)["exit_code"] == 5
    assert sandbox.run("await asyncio.sleep(0, 'alive')")["value"] == "'alive'"


def test_quit_leaves_a_usable_stdin(sandbox: Sandbox) -> None:
    assert sandbox.run("quit()")["outcome"] == "exited"
    assert sandbox.run("import sys\nsys.stdin.read()")["value"] == "''"


def test_stdin_is_at_its_end(sandbox: Sandbox) -> None:
    assert sandbox.run("input('?')")["error"]["type"] == "EOFError"
    assert sandbox.run("import os\nos.read(0, 1)")["value"] == "b''"


def test_closed_descriptors_are_back_in_the_next_run(sandbox: Sandbox) -> None:
    sandbox.run("import os\nfor fd in (0, 1, 2): os.close(fd)")
    done = sandbox.run("import sys\nprint('out'); print('err', file=sys.stderr)\nos.read(0, 1)")
    assert (done["stdout"], done["stderr"], done["value"]) == ("out\n", "err\n", "b''")


def test_descriptors_wait_again_in_the_next_run(sandbox: Sandbox) -> None:
    nonblocking = "import os\nfor fd in map(int, os.listdir('/proc/self/fd')):\n  try: os.set_blocking(fd, False)\n  "
    sandbox.run(nonblocking + "except OSError: pass")
    done = sandbox.run("print('x' * 3_000_000)\nprint('end')")
    assert (done["outcome"], len(done["stdout"])) == ("finished", 3_000_005)


def test_hooks_that_raise_end_with_the_run(sandbox: Sandbox) -> None:
    hooks = (
        "import sys\nx = 1\ndef hook(*_): raise ValueError('hook')\nsys.settrace(hook)\nsys.setprofile(hook)\nlen('')"
    )
    done = sandbox.run(hooks)
    assert (done["outcome"], done["error"]["message"]) == ("raised", "hook")
    assert sandbox.run("(sys.gettrace(), sys.getprofile(), x)")["value"] == "(None, None, 1)"


@pytest.mark.parametrize(
    "code",
    [
        "import sys; sys.stdout.close(); sys.stderr.close()",
        "import sys; sys.stdout.detach()",
        "import sys; sys.stdout = sys.stderr = None",
        "import sys; sys.displayhook = sys.excepthook = None",
        "import sys; sys.modules.clear()",
        "import sys; sys.meta_path.clear(); sys.modules.pop('mcp')",
        "import sys; sys.meta_path = sys.modules = None",
        "import sys\ndel sys.meta_path, sys.modules",
        "import builtins, json, os\nbuiltins.print = json.dumps = json.loads = os.write = os.read = None",
        "import builtins\nfor name in ('len', 'isinstance', 'str', 'type', 'bytes'): setattr(builtins, name, None)",
        "import builtins\nvars(builtins).clear()",
        "import asyncio\nasyncio.get_event_loop_policy().get_event_loop().close()",
        "import sys\nsys.setrecursionlimit(60)",
        "import sys\nsys.settrace(lambda *a: 1 / 0)",
        "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nsignal.signal(signal.SIGALRM, lambda *a: 1 / 0)\n"
        "signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)",
        "__builtins__ = None",
        "import mcp.runtime, belljar_sandbox.wire.frames as frames\nvars(frames)['x'] = 1\ndel mcp.runtime.__name__",
    ],
)
def test_whatever_user_code_rebinds_the_next_run_works(sandbox: Sandbox, code: str) -> None:
    sandbox.run(code)
    done = sandbox.run("import asyncio, mcp.runtime\nawait asyncio.sleep(0)\nprint('alive')\nlen('xy')")
    assert (done["outcome"], done["stdout"], done["value"]) == ("finished", "alive\n", "2")


def test_whatever_user_code_rebinds_parts_of_the_runtime_can_still_be_imported(sandbox: Sandbox) -> None:
    sandbox.run("import builtins\nfor name in ('str', 'compile', 'exec', 'vars', 'len'): setattr(builtins, name, None)")
    assert sandbox.run("list(runtime.chunk('ab', size=1))")["outcome"] == "finished"


def test_run_interrupted_before_its_first_step_does_not_go_on_in_a_later_run(sandbox: Sandbox) -> None:
    sandbox.run(
        "import asyncio, signal\n"
        "def interrupted(loop, coroutine, **options):\n"
        "    loop.set_task_factory(None)\n"
        "    task = asyncio.Task(coroutine, loop=loop, **options)\n"
        "    signal.raise_signal(signal.SIGINT)\n"
        "    return task\n"
        "await asyncio.sleep(0)\n"
        "asyncio.get_running_loop().set_task_factory(interrupted)"
    )
    interrupted = sandbox.run("print('too late')\nawait asyncio.sleep(0)")
    later = sandbox.run("await asyncio.sleep(0)\nprint('later')")
    assert (interrupted["outcome"], interrupted["stdout"], later["stdout"]) == ("interrupted", "", "later\n")


def test_a_part_of_the_runtime_that_could_not_be_imported_is_imported_again(sandbox: Sandbox) -> None:
    done = sandbox.run("import sys\nfrom mcp import runtime\nsys.modules['array'] = None\nruntime.chunk('x')")
    assert done["error"]["type"] == "ModuleNotFoundError"
    assert sandbox.run("del sys.modules['array']\nlist(runtime.chunk('x'))")["value"] == "['x']"


def test_output_of_both_streams_keeps_its_order(sandbox: Sandbox) -> None:
    code = "import sys\nfor i in range(50):\n    print('o', i)\n    print('e', i, file=sys.stderr)"
    assert sandbox.run(code)["both"] == "".join(f"o {i}\ne {i}\n" for i in range(50))


def test_unfinished_line_comes_before_the_other_stream(sandbox: Sandbox) -> None:
    assert sandbox.run("import sys\nprint('a', end='')\nsys.stderr.write('b')\nprint('c', end='')")["both"] == "abc"


def test_subprocess_output_is_on_the_right_stream_and_in_order(sandbox: Sandbox) -> None:
    shell = "subprocess.run(['sh', '-c', 'echo out; echo err >&2'])"
    code = f"import subprocess\nprint('before', end=' ')\n{shell}\nprint('after')"
    done = sandbox.run(code)
    assert (done["stdout"], done["stderr"]) == ("before out\nafter\n", "err\n")


def test_output_of_c_code_is_flushed(sandbox: Sandbox) -> None:
    assert sandbox.run("import ctypes\nctypes.CDLL(None).printf(b'from C')\nNone")["stdout"] == "from C"


def test_output_before_a_call_arrives_before_the_call(sandbox: Sandbox) -> None:
    for _ in range(20):
        sandbox.start("print('before', end='')\nmcp_a.t.sync()\nprint('after')", ("a",))
        kinds = [sandbox.next() for _ in range(2)]
        assert [frame["type"] for frame in kinds] == ["output", "call"]
        sandbox.answer(kinds[1], None)
        assert sandbox.next()["text"] == "after\n"
        assert sandbox.next()["type"] == "done"


def test_binary_output_is_base64_and_whole(sandbox: Sandbox) -> None:
    run = sandbox.start("import os\nos.write(1, b'\\xff\\x00\\xfe');")
    assert base64.b64decode(sandbox.wait("output")["base64"]) == b"\xff\x00\xfe"
    sandbox.finish(run)


def test_character_split_between_writes_is_put_together(sandbox: Sandbox) -> None:
    run = sandbox.start("import os, time\nfor b in '€é😀'.encode(): os.write(1, bytes([b])); time.sleep(0.002)")
    assert sandbox.finish(run)["stdout"] == "€é😀"
    frames = [frame for frame in sandbox.seen if frame["type"] == "output"]
    assert all("text" in frame for frame in frames)


def test_incomplete_character_at_the_end_of_a_run_is_not_lost(sandbox: Sandbox) -> None:
    run = sandbox.start("import os\nos.write(1, b'a\\xe2\\x82');")
    assert sandbox.wait("output")["text"] == "a"
    assert base64.b64decode(sandbox.wait("output")["base64"]) == b"\xe2\x82"
    sandbox.finish(run)


def test_lone_surrogate_is_printed_escaped(sandbox: Sandbox) -> None:
    done = sandbox.run("print('\\ud800')\n'\\ud800'")
    assert (done["stdout"], done["value"]) == ("\\ud800\n", "'\\ud800'")


def test_hundred_megabytes_of_output_arrive_in_order(sandbox: Sandbox) -> None:
    run = sandbox.start("for i in range(100): print(str(i % 10) * 999_999)")
    seen, outputs = 0, []
    while (frame := sandbox.next())["type"] == "output":
        outputs.append(len(frame["text"]))
        seen += outputs[-1]
    assert (frame["run"], seen) == (run, 100 * 1_000_000)
    assert max(outputs) <= 65_536 + 3


def test_threads_and_subprocesses_of_multiprocessing_work(sandbox: Sandbox) -> None:
    code = (
        "import multiprocessing, threading\n"
        "def double(x): return 2 * x\n"
        "with multiprocessing.get_context('fork').Pool(2) as pool: print(pool.map(double, [1, 2]))\n"
        "t = threading.Thread(target=print, args=('thread',)); t.start(); t.join()"
    )
    assert sandbox.run(code)["stdout"] == "[2, 4]\nthread\n"


def test_multiprocessing_forks_where_the_default_of_python_is_another(tmp_path: Path) -> None:
    # As Python 3.14 has it.
    (tmp_path / "context.py").write_text(
        "class DefaultContext:\n    def __init__(self, context): self.context = context\n"
        "_concrete_contexts = {'fork': 'fork', 'forkserver': 'forkserver'}\n"
        "_default_context = DefaultContext(_concrete_contexts['forkserver'])\n"
    )
    by_fork = AfterImport("multiprocessing.context", fork_by_default)
    spec = by_fork.find_spec("multiprocessing.context", [str(tmp_path)])
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module._default_context.context == "fork"
    assert by_fork.find_spec("multiprocessing.pool", [str(tmp_path)]) is None


def test_multiprocessing_forks_by_default(sandbox: Sandbox) -> None:
    code = "import multiprocessing.context\nsys_loader = type(multiprocessing.context.__loader__).__module__\n"
    assert sandbox.run(code + "sys_loader, multiprocessing.get_start_method()")["value"] == (
        "('belljar_sandbox.worker.after_import', 'fork')"
    )


def test_forked_child_ends_with_the_code_and_sends_no_frame(sandbox: Sandbox) -> None:
    code = (
        "import os\npid = os.fork()\n"
        "if pid == 0:\n    print('child')\n"
        "else:\n    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))"
    )
    assert sandbox.run(code)["stdout"] == "child\n0\n"
    assert sandbox.run(code.replace("print('child')", "raise ValueError"))["stdout"] == "1\n"
    assert sandbox.run(code.replace("print('child')", "os.sys.exit(9)"))["stdout"] == "9\n"
    assert sandbox.run("1")["value"] == "1"


def test_calls_from_a_forked_child_are_refused(sandbox: Sandbox) -> None:
    done = sandbox.run(
        "import os\npid = os.fork()\nif pid == 0:\n    mcp_a.t.sync()\nelse:\n    os.waitpid(pid, 0)\n", ("a",)
    )
    assert "only be made by the main process" in done["stderr"]


def test_threads_and_tasks_that_outlive_the_run_are_named_once(sandbox: Sandbox) -> None:
    code = (
        "import asyncio, threading\nstop = threading.Event()\n"
        "threading.Thread(target=stop.wait, name='waiter').start()\n"
        "async def later(): await asyncio.sleep(99)\n"
        "task = asyncio.create_task(later(), name='t1')\nawait asyncio.sleep(0)"
    )
    assert sandbox.run(code)["notes"] == [
        "threads still running: waiter",
        "asyncio tasks paused until a run awaits again: later (t1)",
    ]
    assert sandbox.run("stop.set()")["notes"] == []


def test_unawaited_coroutine_as_value_is_noted(sandbox: Sandbox) -> None:
    done = sandbox.run("import asyncio\nasyncio.sleep(0)")
    assert done["notes"] == ["the last expression is a coroutine that was not awaited: put `await` before it"]


def test_memory_error_keeps_variables() -> None:
    with Sandbox(memory_bytes=400 << 20) as sandbox:
        assert sandbox.run("x = 7\nbytearray(10**10)")["error"]["type"] == "MemoryError"
        assert sandbox.run("x")["value"] == "7"


def test_open_files_are_limited() -> None:
    with Sandbox(open_files=100) as sandbox:
        done = sandbox.run("import os\nfds = []\nwhile True: fds.append(os.open('/dev/null', 0))")
        assert "Too many open files" in done["error"]["message"]
        assert sandbox.run("print('alive')")["stdout"] == "alive\n"


def test_worker_sees_no_descriptor_of_the_supervisor(sandbox: Sandbox) -> None:
    done = sandbox.run("import os\nsorted({os.readlink(f'/proc/self/fd/{fd}').split(':')[0] for fd in range(3, 60) if"
                       " os.path.exists(f'/proc/self/fd/{fd}') or os.path.islink(f'/proc/self/fd/{fd}')})")  # fmt: skip
    # What the interpreter itself has open for a library of its.
    listed = (
        "import _ctypes, os; print([os.path.realpath(f.path) for f in os.scandir('/proc/self/fd') if int(f.name) > 2])"
    )
    of_libraries = eval(subprocess.run([sys.executable, "-c", listed], stdout=subprocess.PIPE, check=True).stdout)
    assert set(eval(done["value"])) <= {"socket", "pipe", "/dev/null", "anon_inode", *of_libraries}
    assert sandbox.run("os.readlink('/proc/self/fd/0')")["value"] == "'/dev/null'"


def test_inspect_finds_the_source_of_an_earlier_run(sandbox: Sandbox) -> None:
    sandbox.run("def f():\n    return 1  # here")
    assert "# here" in sandbox.run("import inspect\ninspect.getsource(f)")["value"]


def unprepared(memory_bytes: int = 0) -> Sandbox:
    """Nothing is imported for its first run but what every run needs."""
    sandbox = Sandbox(greet=False, memory_bytes=memory_bytes)
    sandbox.supervise({"type": "hello", "version": 1, "limits": sandbox.limits, "workspace": ""})
    return sandbox


@pytest.mark.parametrize("before", ["", "import linecache", "import linecache, sys\nsys.modules.clear()"])
def test_what_user_code_imports_finds_the_sources_of_all_runs(before: str) -> None:
    with unprepared() as sandbox:
        for code in ("def f():\n    return 1  # first", before, "def g():\n    return 1  # later"):
            assert sandbox.run(code)["outcome"] == "finished"
        found = sandbox.run("import inspect\ninspect.getsource(f) + inspect.getsource(g)")
        assert "# first" in found["value"] and "# later" in found["value"]


NO_IMPORTS = "import sys\nsys.meta_path.clear(); sys.modules.clear()\n"


def test_what_failed_is_told_also_where_code_has_broken_imports_before_that_is_imported() -> None:
    with unprepared() as sandbox:
        error = sandbox.run(NO_IMPORTS + "1 / 0")["error"]
        assert error["message"] == "division by zero"
        assert error["traceback"].startswith("Traceback") and "<run 1>" in error["traceback"]


@pytest.mark.parametrize(
    "code",
    [
        "import os\nwhile True: os.dup(1)",
        "kept = []\nwhile True: kept.append(bytearray(1 << 16))",
    ],
)
def test_what_failed_is_told_also_where_nothing_is_left_to_import_with(code: str) -> None:
    with unprepared(memory_bytes=200 << 20) as sandbox:
        error = sandbox.run(code)["error"]
        assert error["traceback"].startswith("Traceback") and "<run 1>" in error["traceback"]


@pytest.mark.parametrize(
    "broken",
    [
        "sys.path = []",
        "sys.path_hooks.clear(); sys.path_importer_cache.clear()",
        "sys.meta_path.pop()",
        "sys.modules.clear(); import re",
        "sys.modules['ast'] = sys.modules['traceback'] = sys.modules['json'] = None",
        "sys.meta_path.insert(0, type('Bad', (), {'__eq__': lambda *_: exit(3), 'find_spec': lambda *_: None})())",
    ],
)
def test_broken_imports_harm_nothing_but_imports(broken: str) -> None:
    with unprepared() as sandbox:
        # As text, so that nothing in it is looked at beforehand.
        sandbox.run(f"exec({f'import sys; {broken}'!r})")
        done = sandbox.run("x = [1]\nx.append(2)\nprint(x)")
        assert done["stdout"] == "[1, 2]\n", done
        error = sandbox.run("x.nothing\n")["error"]
        assert error["message"].startswith("'list' object has no attribute 'nothing'"), error
        assert error["traceback"].startswith("Traceback") and "x.nothing" in error["traceback"]
        blocks = {"content": [{"type": "text", "text": "{'a': 1}"}]}
        text = sandbox.run("print(mcp_a.t.sync())", ("a",), lambda call: None if call["server"] is None else blocks)
        assert text["stdout"] == "{'a': 1}\n", text
        assert sandbox.worker == 1


@pytest.mark.parametrize(
    "anew",
    [
        "del sys.modules['linecache']; import linecache",
        "old = sys.modules.pop('linecache'); import linecache; sys.modules['linecache'] = old",
        "importlib.reload(linecache)",
    ],
)
def test_tracebacks_have_their_lines_also_after_linecache_was_imported_anew(sandbox: Sandbox, anew: str) -> None:
    sandbox.run(f"import importlib, linecache, sys\n{anew}")
    assert "x = 1 / 0" in sandbox.run("x = 1 / 0")["error"]["traceback"]


def test_a_value_is_shown_also_where_code_has_broken_imports_before_that_is_imported() -> None:
    with unprepared() as sandbox:
        assert sandbox.run(NO_IMPORTS + "[1]")["value"] == "[1]"
        assert sandbox.run("import sys\nsys.meta_path = None\n[2]")["value"] == "[2]"
        assert sandbox.run("import sys\nsys.modules = None\n1 / 0")["error"]["message"] == "division by zero"


def test_what_is_printed_to_a_closed_descriptor_is_not_in_the_next_reply(sandbox: Sandbox) -> None:
    closed = sandbox.run("import os, sys\nos.close(1)\nsys.stdout.write('five')")
    assert closed["stdout"] == "five"
    assert sandbox.run("print('six')")["stdout"] == "six\n"


def test_the_source_of_classes_is_found(sandbox: Sandbox) -> None:
    sandbox.run("class Plain:\n    x: int\n\nclass Other:\n    def f(self):\n        return 1")
    found = sandbox.run("import inspect\nprint(inspect.getsource(Plain) + inspect.getsource(Other))")
    assert found["stdout"] == "class Plain:\n    x: int\nclass Other:\n    def f(self):\n        return 1\n\n"
    sandbox.run("class Plain: y = 2")
    assert sandbox.run("inspect.getsource(Plain)")["value"] == "'class Plain: y = 2\\n'"
    assert sandbox.run("inspect.getsource(int)")["error"]["type"] == "TypeError"


def test_code_with_a_byte_order_mark_runs(sandbox: Sandbox) -> None:
    assert sandbox.run("\ufeffprint('ran')\r\n")["stdout"] == "ran\n"


def test_repeated_warnings_are_counted(sandbox: Sandbox) -> None:
    code = "import warnings\nwarnings.simplefilter('always')\nfor at in range(200):\n    warnings.warn(f'old {at}')"
    warned = sandbox.run(code)["stderr"]
    assert warned.count("UserWarning: old") == 1 and warned.endswith("(199 more UserWarning from line 4)\n")
    recorded = sandbox.run(
        "with warnings.catch_warnings(record=True) as seen:\n    for _ in range(5): warnings.warn('x')\nlen(seen)"
    )
    assert (recorded["value"], recorded["stderr"]) == ("5", "")


def test_a_program_that_a_run_leaves_behind_is_named_and_its_output_marked(sandbox: Sandbox) -> None:
    left = sandbox.run("import subprocess\np = subprocess.Popen(['sh', '-c', 'read x; echo stray; read x'], stdin=-1)")
    assert any("sh -c read x; echo stray; read x (process " in note for note in left["notes"]), left["notes"]
    assert sandbox.run("print('quiet')")["notes"] == []
    spoke = sandbox.run("p.stdin.write(b'\\n'); p.stdin.flush()\nimport time; time.sleep(0.2)")
    assert any("earlier runs left: sh -c" in note and "(run 1)" in note for note in spoke["notes"]), spoke["notes"]
    ended = sandbox.run("p.kill(); p.wait(); None")
    assert any("(run 1, ended since)" in note for note in ended["notes"]), ended["notes"]
    assert sandbox.run("print('over')")["notes"] == []
    assert sandbox.run("subprocess.run(['true'], check=True); None")["notes"] == []


@pytest.mark.parametrize(
    ("leave", "go_on"),
    [
        (
            "import threading\nasked = threading.Event()\ndef speak(): asked.wait(); print('stray')\n"
            "t = threading.Thread(target=speak); t.start()",
            "asked.set(); t.join()",
        ),
        (
            "import threading\nasked = threading.Event()\ndef speak(): asked.wait(); raise ValueError('stray')\n"
            "t = threading.Thread(target=speak); t.start()",
            "asked.set(); t.join()",
        ),
        (
            "import asyncio\nasked = asyncio.Event()\nasync def speak(): await asked.wait(); print('stray')\n"
            "t = asyncio.create_task(speak())\nawait asyncio.sleep(0)",
            "asked.set(); await t",
        ),
        (
            "from concurrent.futures import ThreadPoolExecutor\nimport threading\nasked = threading.Event()\n"
            "pool = ThreadPoolExecutor(1)\ndef speak(): asked.wait(); print('stray')\nt = pool.submit(speak)",
            "asked.set(); t.result()",
        ),
    ],
    ids=["thread", "failing-thread", "task", "pool"],
)
def test_output_of_what_an_earlier_run_left_is_marked(sandbox: Sandbox, leave: str, go_on: str) -> None:
    marked = "some of this output is that of threads or tasks which earlier runs left: run 1"
    sandbox.run(leave)
    assert marked not in sandbox.run("print('quiet')")["notes"]
    spoke = sandbox.run(f"{go_on}\nNone")
    assert "stray" in spoke["both"] and marked in spoke["notes"], spoke
    own = sandbox.run(
        "t = threading.Thread(target=print, args=['own']) if 'threading' in dir() else None\n"
        "t and (t.start(), t.join())\nprint('over')"
    )
    assert marked not in own["notes"]


def test_the_error_of_a_task_that_a_run_left_is_a_note(sandbox: Sandbox) -> None:
    fail = "import asyncio, gc\nasync def fail(): raise ValueError('late')\n"
    assert (
        "late"
        in sandbox.run(f"{fail}asyncio.create_task(fail())\nawait asyncio.sleep(0.01)\ngc.collect(); None")["stderr"]
    )
    sandbox.run(f"{fail}kept = asyncio.create_task(fail())\nawait asyncio.sleep(0.01)")
    later = sandbox.run("del kept\ngc.collect(); None")
    assert later["stderr"] == ""
    (note,) = later["notes"]
    assert re.fullmatch(r"the asyncio task fail \(Task-\d+\) of run 2 has failed: ValueError: late", note)


def test_marks_do_not_repeat_a_long_line(sandbox: Sandbox) -> None:
    for terms, is_marked in ((5, True), (40, False)):
        code = f"x = {' + '.join(['1'] * terms)} + 1 / 0 + {' + '.join(['1'] * terms)}"
        assert ("^" in sandbox.run(code)["error"]["traceback"]) == is_marked


def test_a_figure_of_a_failed_run_is_not_in_the_next_reply(sandbox: Sandbox) -> None:
    fake = """
import sys, types
pyplot = types.ModuleType('matplotlib.pyplot'); pyplot.open = []
pyplot.get_fignums = lambda: pyplot.open
pyplot.close = lambda what: pyplot.open.clear()
sys.modules['matplotlib.pyplot'] = pyplot
"""
    sandbox.run(fake)
    assert sandbox.run("pyplot.open.append(1)\n1 / 0")["outcome"] == "raised"
    assert sandbox.run("pyplot.open")["value"] == "[]"


def test_a_text_of_which_no_table_can_be_made_is_named(sandbox: Sandbox) -> None:
    code = "rows = await mcp_a.t()\nraise ValueError('DataFrame constructor not properly called!')"
    answer = {"content": [{"type": "text", "text": "[<Row 1>, <Row 2>]"}]}
    hint = sandbox.run(code, ("a",), lambda _: answer)["error"]["hint"]
    assert hint == "rows is text, left as the tool sent it: parse it first, it begins with '[<Row 1>, <Row 2>]'"
    answer = {"content": [{"type": "text", "text": "[(datetime.date(2025, 1, 1),)]"}]}
    read = sandbox.run("(await mcp_a.t())[0][0].year", ("a",), lambda _: answer)
    assert read["value"] == "2025"


def test_a_traceback_can_be_read_whole_in_the_next_run(sandbox: Sandbox) -> None:
    done = sandbox.run("print('before')\nraise ValueError('y' * 3_000_000)")
    kept = done["error"]["traceback_chars"]
    assert kept > 3_000_000 > 70_000 > len(done["error"]["traceback"])
    done = sandbox.run(
        f"from mcp import runtime\nout = runtime.last_output()\n(out[:7], out[-{kept}:][:9], out[-{kept}:].count('y'))"
    )
    assert done["value"] == "('before\\n', 'Traceback', 3000001)"
    assert sandbox.run("runtime.last_output()")["value"] == "''"
