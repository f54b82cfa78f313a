"""Calls that stand in code are looked at before any of it runs: which are found, and what becomes of a wrong one."""

from __future__ import annotations

import ast
import sys
from typing import Any

import pytest

from belljar_sandbox.calls.literal_calls import literal_calls
from sandbox import Frame, Sandbox

SERVERS = ("git-hub", "fs")


def asked(sandbox: Sandbox, code: str, servers: tuple[str, ...] = SERVERS) -> list[Frame]:
    """What the bridge is asked of the code; it finds nothing wrong."""
    heard: list[Frame] = []

    def on_check(calls: list[Frame]) -> list[Frame | None]:
        heard.extend(calls)
        return []

    sandbox.on_check = on_check
    sandbox.run(code, servers, lambda call: {"content": []})
    return heard


def found(sandbox: Sandbox, code: str) -> list[tuple[str, str, list[str] | None]]:
    return [(call["server"], call["tool"], call["names"]) for call in asked(sandbox, code)]


def fault(code: str, message: str, hint: str = "") -> Frame:
    return {"code": code, "message": message, "hint": hint}


@pytest.mark.parametrize(
    "code",
    [
        "await mcp_git_hub.search(a=1, b=2)",
        "mcp_git_hub.search.sync(a=1, b=2)",
        "x = [await mcp_servers['git-hub'].search(a=i, b=2) for i in range(3)]",
        "from mcp import runtime\nawait runtime.call_tool('git-hub', 'search', {'a': 1, 'b': 2})",
        "runtime.call_tool_sync('git-hub', 'search', args={'a': 1, 'b': 2})",
        "runtime.call_tool_sync('git-hub', 'search', a=1, b=2)",
        "runtime.call_tool_sync('git-hub', 'search', {'a': 1}, b=2, handle=True)",
        "import mcp.runtime as r\nr.call_tool_sync(server='git-hub', tool='search', args={'a': 1, 'b': 2})",
        "from mcp.runtime import call_tool as c\nawait c('git-hub', 'search', {'a': 1, 'b': 2})",
        "import mcp\nmcp.runtime.call_tool_sync('git-hub', 'search', {'a': 1, 'b': 2})",
        "import asyncio\nasync def main():\n  return await asyncio.gather(mcp_git_hub.search(a=1, b=2))\nawait main()",
        "def f():\n  return mcp_git_hub.search.sync(a=1, b=2)\nf()",
        "def f():\n  def g():\n    return mcp_git_hub.search.sync(a=1, b=2)\n  return g()\nf()",
        "def f(n):\n  return n and f(n - 1) or mcp_git_hub.search.sync(a=1, b=2)\nf(1)",
        "with open('/dev/null') as f:\n  print(mcp_git_hub.search.sync(a=1, b=2))",
    ],
)
def test_a_call_is_found_in_every_form(sandbox: Sandbox, code: str) -> None:
    assert found(sandbox, code) == [("git-hub", "search", ["a", "b"])]


@pytest.mark.parametrize(
    "code",
    [
        "from mcp.servers.git_hub import search\nawait search(a=1, b=2)",
        "from mcp.servers import git_hub as g\ng.search.sync(a=1, b=2)",
        "import mcp.servers.git_hub\nawait mcp.servers.git_hub.search(a=1, b=2)",
        "import mcp.servers.git_hub as g\nawait g.search(a=1, b=2)",
    ],
)
def test_a_call_is_found_by_its_import(sandbox: Sandbox, code: str) -> None:
    assert found(sandbox, code) == [("git_hub", "search", ["a", "b"])]


def test_names_of_earlier_runs_are_known(sandbox: Sandbox) -> None:
    sandbox.run("import mcp.servers.fs\nfrom mcp.servers.fs import read\ng = mcp_git_hub; m = mcp.servers.fs", SERVERS)
    code = "mcp_fs\nread.sync(p=1)\ng.search.sync(q=1)\nm.read.sync()"
    assert found(sandbox, code) == [("fs", "read", ["p"]), ("git-hub", "search", ["q"]), ("fs", "read", [])]


def test_calls_that_code_may_not_come_to_are_not_certain(sandbox: Sandbox) -> None:
    code = (
        "mcp_fs.a.sync()\nif 1:\n  mcp_fs.b.sync()\ndef f():\n  mcp_fs.c.sync()\nf()\n"
        "def g():\n  mcp_fs.d.sync()\nif 1: g()\ndef h():\n  g()\n  if 1: mcp_fs.e.sync()\nh()"
    )
    certain = {call["tool"]: call["is_certain"] for call in asked(sandbox, code)}
    assert certain == {"a": True, "b": False, "c": True, "d": True, "e": False}


def test_names_that_are_not_known_are_not_told(sandbox: Sandbox) -> None:
    forms = [
        "mcp_fs.t.sync(x=1, **a)",
        "runtime.call_tool_sync('fs', 't', a)",
        "runtime.call_tool_sync('fs', 't', {**a})",
    ]
    code = "\n".join(["a = {}", *forms])
    assert found(sandbox, code) == [("fs", "t", None)] * 3
    [call] = asked(sandbox, "mcp_fs.t.sync('x')")
    assert (call["names"], call["by_place"]) == (None, True)
    [call] = asked(sandbox, "mcp_fs.t.sync(*[])")
    assert (call["names"], call["by_place"]) == (None, False)


@pytest.mark.parametrize(
    "code",
    [
        # Names of the code's own.
        "def f(mcp_fs):\n  mcp_fs.t.sync()",
        "mcp_fs = print\nmcp_fs.t",
        "for mcp_fs in []:\n  mcp_fs.t.sync()",
        "try:\n  pass\nexcept ValueError as mcp_fs:\n  mcp_fs.t.sync()",
        "from os import path as mcp_fs\nmcp_fs.t",
        "from mcp.servers import fs as x\nx = x\nx.t",
        "mcp_fs.t = print\nmcp_fs.t(1)",
        "mcp_servers['fs'] = 1\n",
        "from mcp.runtime import *\ncall_tool_sync('fs', 't')",
        "exec('mcp_fs = None')\nif mcp_fs: mcp_fs.t.sync()",
        "globals()['mcp_fs'] = None\nif mcp_fs: mcp_fs.t.sync()",
        "vars(mcp_fs)['t'] = print\nmcp_fs.t(1)",
        # What is not literal.
        "getattr(mcp_fs, 't').sync()",
        "s = 'fs'\nmcp_servers[s].t.sync()",
        "s = 't'\nruntime.call_tool_sync('fs', s)",
        "a = ('fs', 't')\nruntime.call_tool_sync(*a)",
        "a = {'server': 'fs', 'tool': 't'}\nruntime.call_tool_sync(**a)",
        # What is no call of a tool.
        "t = mcp_fs.t",
        "await mcp_fs.list_tools()",
        "runtime.list_servers_sync()",
        "mcp_fs.__repr__()",
        "text = 'mcp_fs.t.sync()'",
        # What this run does not call.
        "def f():\n  mcp_fs.t.sync()",
        "def f():\n  mcp_fs.t.sync()\ndef g():\n  f()",
        "def f():\n  f()\n  mcp_fs.t.sync()",
        "class C:\n  def f(self):\n    mcp_fs.t.sync()\n  def g(self):\n    f()\nf = C().g",
        "f = lambda: mcp_fs.t.sync()",
        "def retry(f): return f\n@retry\ndef f():\n  mcp_fs.t.sync()\nf",
        "async def f():\n  await mcp_fs.t()\njob = f",
        # What is expected to fail.
        "try:\n  mcp_fs.t.sync()\nexcept Exception:\n  pass",
        "import contextlib\nwith contextlib.suppress(Exception):\n  mcp_fs.t.sync()",
        "def f():\n  mcp_fs.t.sync()\ntry:\n  f()\nexcept* ValueError:\n  pass",
        "import asyncio\nawait asyncio.gather(mcp_fs.t(), return_exceptions=True)",
        "import asyncio\nawait asyncio.wait([asyncio.ensure_future(mcp_fs.t())])",
    ],
)
def test_what_is_not_certainly_a_call_that_must_succeed_is_left_alone(sandbox: Sandbox, code: str) -> None:
    ast.parse(code)
    assert asked(sandbox, code) == []


def test_what_user_code_set_on_a_server_is_no_tool(sandbox: Sandbox) -> None:
    sandbox.run("mcp_fs.t = lambda: 1", SERVERS)
    assert found(sandbox, "mcp_fs.t()\nmcp_fs.u.sync()") == [("fs", "u", [])]


def test_a_failure_that_is_caught_elsewhere_does_not_excuse_a_call(sandbox: Sandbox) -> None:
    code = "try:\n  int('x')\nexcept ValueError:\n  pass\nfinally:\n  mcp_fs.t.sync()"
    assert found(sandbox, code) == [("fs", "t", [])]


def test_wrong_calls_are_refused_together_before_anything_runs(sandbox: Sandbox) -> None:
    def on_check(calls: list[Frame]) -> list[Frame | None]:
        assert len(calls) == 3
        signature = "signature: read(*, path: str)"
        return [
            fault("unknown_tool", "Tool 'raed' not found for server fs; did you mean 'read'?", signature),
            None,
            fault("invalid_arguments", "fs.read, 2 problems:\n- unknown\n- missing", signature),
        ]

    sandbox.on_check = on_check
    calls: list[Frame] = []
    code = "print('begun')\nr = mcp_fs.raed.sync(path='x')\nmcp_fs.ok.sync()\nr = mcp_fs.read.sync(\n  pth='x')"
    done = sandbox.run(code, SERVERS, lambda call: calls.append(call))
    assert (done["outcome"], done["both"], calls) == ("raised", "", [])
    assert done["error"] == {
        "type": "mcp.runtime.InvalidCallError",
        "line": 2,
        "traceback": "",
        "traceback_chars": 0,
        "hint": "",
        "message": "nothing was run, since 2 calls in the code cannot succeed:\n"
        "line 2: r = mcp_fs.raed.sync(path='x')\n"
        "  Tool 'raed' not found for server fs; did you mean 'read'?\n  signature: read(*, path: str)\n"
        "line 4: r = mcp_fs.read.sync(\n"
        "  fs.read, 2 problems:\n  - unknown\n  - missing\n"
        "(A tool that an earlier line adds: call it in a later run, or in a `try`.)",
    }
    assert sandbox.run("'r' in dir()", SERVERS)["value"] == "False"


def test_an_import_of_a_tool_that_is_not_there_is_an_import_error(sandbox: Sandbox) -> None:
    sandbox.on_check = lambda calls: [
        fault("unknown_tool", f"Tool '{calls[0]['tool']}' not found; did you mean 'read'?")
    ]
    error = sandbox.run("x = 1\nfrom mcp.servers.fs import raed", SERVERS)["error"]
    assert (error["type"], error["line"]) == ("ImportError", 2)
    assert "an import in the code cannot succeed:\nline 2: from mcp.servers.fs import raed\n  Tool" in error["message"]
    assert found(sandbox, "from mcp.servers.fs import read, write, TOOLS\nwrite.sync(a=1)") == [
        ("fs", "read", None),
        ("fs", "write", ["a"]),
    ]
    assert found(sandbox, "try:\n  from mcp.servers.fs import raed\nexcept ImportError: pass") == []


@pytest.mark.parametrize("end", ["\r", "\r\n", "\n"])
def test_lines_are_those_that_python_counts_whatever_ends_them(sandbox: Sandbox, end: str) -> None:
    sandbox.on_check = lambda _calls: [fault("unknown_tool", "no")]
    error = sandbox.run(f"x = 'a\\{end}b'{end}await mcp_fs.nope(){end}", ("fs",))["error"]
    assert error["line"] == 3 and "\nline 3: await mcp_fs.nope()\n  no" in error["message"]
    sandbox.on_check = lambda _calls: []
    error = sandbox.run(f"y = 1{end}1 / 0  # here{end}")["error"]
    assert error["line"] == 2 and "1 / 0  # here" in error["traceback"]


def test_a_long_list_of_problems_is_bounded(sandbox: Sandbox) -> None:
    said = fault("invalid_arguments", "m" * 200, f"signature: {'s' * 600}")
    sandbox.on_check = lambda calls: [{**said, "hint": said["hint"] + str(at)} for at, _ in enumerate(calls)]
    done = sandbox.run("\n".join(f"mcp_fs.t.sync(a={'x' * 300!r})" for _ in range(300)), SERVERS)
    message = done["error"]["message"]
    assert message.startswith(
        "nothing was run, since 100 calls in the code cannot succeed:\nline 1: mcp_fs.t.sync(a='x"
    )
    assert message.endswith("\n(+95 more)") and message.count("signature") == 0 and len(message) < 2_000, message


@pytest.mark.parametrize(
    ("code", "is_refused"),
    [
        ("if 'x' in mcp_servers:\n  mcp_fs.t.sync()", False),
        ("1 and mcp_fs.t.sync()", False),
        ("if 1: raise SystemExit\nmcp_fs.t.sync()", False),
        ("import sys\nsys.exit()\nmcp_fs.t.sync()", False),
        ("def f():\n  mcp_fs.t.sync()", False),
        ("def f():\n  mcp_fs.t.sync()\nf()", True),
        ("def f():\n  mcp_fs.t.sync()\nif 1: f()", False),
        ("def f():\n  if 0: return mcp_fs.t.sync()\nf()", False),
        ("for _ in []:\n  mcp_fs.t.sync()", False),
        ("[mcp_fs.t.sync() for _ in ()]", False),
        ("for _ in (items := mcp_fs.t.sync()):\n  pass", True),
        ("for _ in [1]:\n  mcp_fs.t.sync()", True),
        ("[mcp_fs.t.sync() for _ in range(2)]", True),
        ("x = [1]\nfor _ in x:\n  mcp_fs.t.sync()", False),
        ("mcp_fs.t.sync()", True),
        ("mcp_fs.t.sync() or 1", True),
    ],
)
def test_only_what_will_run_is_refused(sandbox: Sandbox, code: str, is_refused: bool) -> None:
    for kind in ("server_unavailable", "unknown_tool", "invalid_arguments"):
        said = fault(kind, "no")
        # The bridge judges only certain calls.
        sandbox.on_check = lambda calls, said=said: [said if call["is_certain"] else None for call in calls]  # type: ignore[misc]
        done = sandbox.run(code, SERVERS, lambda call: {"content": []})
        refused = "nothing was run" in done.get("error", {"message": ""})["message"]
        assert refused == is_refused, (kind, done)


def test_a_server_that_is_no_name_at_all_is_asked_for(sandbox: Sandbox) -> None:
    assert found(sandbox, "if 0: mcp_githb.search.sync(q=1)") == [("githb", "search", ["q"])]


def test_a_check_that_fails_refuses_nothing(sandbox: Sandbox) -> None:
    sandbox.on_check = lambda calls: "nonsense"  # type: ignore[assignment, return-value]
    assert sandbox.run("mcp_fs.t.sync()", SERVERS, lambda call: {"content": []})["outcome"] == "finished"
    sandbox.on_check = lambda calls: []
    spoilt = sandbox.run("import ast\nast.keyword = None", SERVERS)
    assert spoilt["outcome"] == "finished", spoilt
    done = sandbox.run("mcp_fs.t.sync()", SERVERS, lambda call: {"content": []})
    assert done["outcome"] == "finished", done


def test_code_without_calls_asks_nothing(sandbox: Sandbox) -> None:
    assert asked(sandbox, "x = 1 + 1\nprint('mcp')") == []


def test_wrong_arguments_raise_what_is_an_mcp_error_and_a_type_error(sandbox: Sandbox) -> None:
    code = (
        "from mcp.runtime import InvalidCallError, MCPError\n"
        "try:\n  await mcp_fs.read(pth='x')\nexcept TypeError as e:\n  error = e\n"
        "(type(error) is InvalidCallError, isinstance(error, MCPError), error.code, str(error), error.line)"
    )
    run = sandbox.start(code, SERVERS)
    sandbox.fail(sandbox.wait("call"), "invalid_arguments", "nothing was sent to fs.read: ...", "signature: read()")
    done = sandbox.finish(run)
    said = "'nothing was sent to fs.read: ...\\nsignature: read()'"
    assert done["value"] == f"(True, True, 'invalid_arguments', {said}, None)", done
    run = sandbox.start("await mcp_fs.read(**{'pth': 'x'})", SERVERS)
    sandbox.fail(sandbox.wait("call"), "invalid_arguments", "nothing was sent to fs.read: ...", "signature: read()")
    done = sandbox.finish(run)
    assert "InvalidCallError: nothing was sent to fs.read: ...\nsignature: read()" in done["error"]["traceback"]


def test_deep_and_long_code_is_looked_at_without_recursion() -> None:
    namespace: dict[str, Any] = {}
    deep = "x = " + "+".join(["1"] * 900) + "\nawait mcp_fs.t()"
    before = sys.getrecursionlimit()
    assert [call.line for call in literal_calls(deep, namespace)] == [2]
    assert sys.getrecursionlimit() == before
    chain = "mcp_fs" + ".a" * 900 + "()"
    assert literal_calls(chain, namespace) == []
