"""Handles: which frames they make, and what code gets to see."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from belljar_sandbox.wire.frames import Frame
from sandbox import Sandbox

TOLD = {"handle": 3, "server": "a", "tool": "rows", "bytes": 1234567, "told": "a list of 2"}


def keeping(seen: list[Frame]) -> Callable[[Frame], object]:
    """Answers as the bridge does."""

    def on_call(call: Frame) -> object:
        seen.append(call)
        arguments: Any = call["arguments"]
        match call["tool"]:
            case "load_handle" if arguments.get("chars"):
                return "[1, "
            case "load_handle" if arguments["reference"]["path"]:
                return 2
            case "load_handle":
                return {"content": [], "structuredContent": [1, 2]}
            case "handles":
                return [TOLD]
        return TOLD if call.get("handle") else {"content": [{"type": "text", "text": "sent"}]}

    return on_call


def test_a_handle_is_asked_for_and_stands_in_arguments(sandbox: Sandbox) -> None:
    seen: list[Frame] = []
    code = """
h = await mcp_a.rows.handle(limit=2)
print(h, h[1]['x'].json)
await mcp_a.send(rows=h, deep=[{"one": h[-1]}], plain=1)
mcp_a.rows.handle_sync()
await runtime.call_tool("a", "rows", {"x": h.json}, handle=True)
await mcp_a.send(plain=1)
"""
    done = sandbox.run(code, ("a",), keeping(seen))
    assert done["outcome"] == "finished", done
    assert done["stdout"].splitlines() == [
        "<handle 3: a list of 2 from a.rows, 1,234,567 bytes> "
        "<[1]['x'].json of handle 3: a list of 2 from a.rows, 1,234,567 bytes>"
    ]
    flags = [(call["tool"], call.get("handle", False), call.get("handles", False)) for call in seen]
    assert flags == [
        ("rows", True, False),
        ("send", False, True),
        ("rows", True, False),
        ("rows", True, True),
        ("send", False, False),
    ]
    assert seen[1]["arguments"] == {
        "rows": {"belljar/handle": {"number": 3, "path": [], "json": False}},
        "deep": [{"one": {"belljar/handle": {"number": 3, "path": [-1], "json": False}}}],
        "plain": 1,
    }


def test_it_is_loaded_and_let_go(sandbox: Sandbox) -> None:
    seen: list[Frame] = []
    code = """
h = mcp_a.rows.handle_sync()
print(await h.load(), h.load(), await h[1].load(), await h.head(4), h.head_sync(4))
print(runtime.handles())
h.drop()
"""
    done = sandbox.run(code, ("a",), keeping(seen))
    assert done["stdout"].splitlines() == [
        "[1, 2] [1, 2] 2 [1,  [1, ",
        "<handle 3: a list of 2 from a.rows, 1,234,567 bytes>",
    ]
    whole = {"number": 3, "path": [], "json": False}
    assert [(call["tool"], call["arguments"]) for call in seen[1:]] == [
        ("load_handle", {"reference": whole}),
        ("load_handle", {"reference": whole}),
        ("load_handle", {"reference": {"number": 3, "path": [1], "json": False}}),
        ("load_handle", {"reference": whole, "chars": [0, 4]}),
        ("load_handle", {"reference": whole, "chars": [0, 4]}),
        ("handles", {}),
        ("drop_handle", {"number": 3}),
    ]


def test_what_it_is_not_is_said(sandbox: Sandbox) -> None:
    on_call = keeping([])
    sandbox.run("h = mcp_a.rows.handle_sync()", ("a",), on_call)
    for code, message in [
        ("list(h)", "a handle cannot be gone through: its result is on the host; handle.load() brings it here"),
        ("1 in h", "a handle cannot be looked into: its result is on the host; handle.load() brings it here"),
        ("len(h)", "a handle has no length here: its result is on the host; handle.load() brings it here"),
        ("h[1:]", "a handle takes keys and places of items, not slice; .load() it for more"),
        ("h[True]", "a handle takes keys and places of items, not bool; .load() it for more"),
        ("mcp_a.rows.handle_sync(1)", "a.rows takes keyword arguments only"),
    ]:
        error = sandbox.run(code, ("a",), on_call)["error"]
        assert error["type"] == "TypeError", error
        assert message in error["message"]
    assert sandbox.run("bool(h)", ("a",), on_call)["value"] == "True"


def test_a_tool_that_fails_raises(sandbox: Sandbox) -> None:
    def on_call(_call: Frame) -> object:
        return {"content": [{"type": "text", "text": "no such order"}], "isError": True}

    error = sandbox.run("await mcp_a.rows.handle()", ("a",), on_call)["error"]
    assert (error["type"], "no such order" in error["message"]) == ("mcp.runtime.ToolError", True)
