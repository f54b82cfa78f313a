"""Calls of tools and helpers: arguments, results, many at once, and what becomes of those that nobody awaits."""

from __future__ import annotations

import ast
import base64
import re
from pathlib import Path
from typing import Any

import pytest

from helpers import echo
from sandbox import Frame, Sandbox


def text(value: str) -> Frame:
    return {"content": [{"type": "text", "text": value}]}


def test_call_names_server_tool_and_arguments(sandbox: Sandbox) -> None:
    calls: list[Frame] = []
    code = (
        "import mcp.runtime as runtime\nfrom mcp.servers.git_hub import search as s\nfrom mcp.servers import git_hub\n"
        "await mcp_git_hub.search(a=1)\nawait mcp_servers['git-hub'].search(a=2)\nawait s(a=3)\n"
        "mcp_git_hub.search.sync(a=4)\nawait runtime.call_tool('git-hub', 'search', {'a': 5})\n"
        "runtime.call_tool_sync('git-hub', 'search', {'a': 6})\nawait git_hub.search(a=7)\n"
        "await runtime.call_tool('git-hub', 'search', a=8)"
    )
    done = sandbox.run(code, ("git-hub",), lambda call: calls.append(call))
    assert done["outcome"] == "finished", done
    assert [(call["server"], call["tool"], call["arguments"]) for call in calls] == [
        ("git-hub", "search", {"a": number}) for number in range(1, 9)
    ]
    assert {call["run"] for call in calls} == {1} and len({call["call"] for call in calls}) == 8


@pytest.mark.parametrize(
    ("result", "value"),
    [
        ({"content": []}, None),
        (text("plain"), "'plain'"),
        (text('{"a": [1]}'), "{'a': [1]}"),
        (text(" [1, 2]"), "[1, 2]"),
        (text("5"), "'5'"),
        (text("{broken"), "'{broken'"),
        ({"content": [{"type": "text", "text": "x"}], "structuredContent": {"n": 1}}, "{'n': 1}"),
        ({"content": [{"type": "text", "text": "x"}], "structuredContent": None}, "'x'"),
        ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "[1]"}]}, "['a', [1]]"),
        ({"content": [{"type": "resource", "resource": {"uri": "u", "text": "{}"}}]}, "'{}'"),
        (
            {"content": [{"type": "image", "mimeType": "image/png", "data": "AAEC"}]},
            "<image/png, 3 bytes: .data, .save(path), .show()>",
        ),
        ({"content": [{"type": "resource_link", "uri": "u"}]}, "{'type': 'resource_link', 'uri': 'u'}"),
        # What servers send that no version of the protocol has.
        ({"content": "plain"}, "'plain'"),
        ({"content": {"type": "text", "text": "[1]"}}, "[1]"),
        ({"content": ["a", "[1]", 5, None]}, "['a', [1], 5]"),
        ({"content": 5}, "5"),
        ({"toolResult": {"n": 1}, "isError": False}, "{'toolResult': {'n': 1}}"),
        ({"content": [], "isError": "no"}, None),
        ({"content": None, "_meta": {}}, None),
    ],
)
def test_result_is_unwrapped(sandbox: Sandbox, result: Frame, value: str | None) -> None:
    assert sandbox.run("await mcp_a.t()", ("a",), lambda call: result)["value"] == value


def test_whole_result_stays_reachable(sandbox: Sandbox) -> None:
    code = "r = mcp_a.t.sync()\nr.raw['content'][0]['text'], type(r).__mro__[1].__name__"
    assert sandbox.run(code, ("a",), lambda call: text("[1]"))["value"] == "('[1]', 'list')"
    assert sandbox.run(code, ("a",), lambda call: text("{}"))["value"] == "('{}', 'dict')"
    assert sandbox.run(code, ("a",), lambda call: text("x"))["value"] == "('x', 'str')"


def test_image_can_be_saved(sandbox: Sandbox, tmp_path: Any) -> None:
    data = base64.b64encode(b"image").decode()
    result = {"content": [{"type": "image", "mimeType": "image/png", "data": data}]}
    path = tmp_path / "image.png"
    sandbox.run(f"mcp_a.t.sync().save({str(path)!r})", ("a",), lambda call: result)
    assert path.read_bytes() == b"image"


def image(data: bytes, mime_type: str = "image/png") -> Frame:
    block = {"type": "image", "mimeType": mime_type, "data": base64.b64encode(data).decode()}
    return {"content": [block]}


PICTURE = {"type": "image", "mimeType": "image/png", "data": "UFBQ"}
PDF = {"type": "resource", "resource": {"uri": "file:///a.pdf", "mimeType": "application/pdf", "blob": "UERG"}}


@pytest.mark.parametrize(
    ("structured", "value"),
    [
        ({"content": [PDF]}, "{'content': [<pdf>]}"),
        # As models of a library write them, with what is not there.
        ({"result": {**PICTURE, "annotations": None}, "n": [1]}, "{'result': <image>, 'n': [1]}"),
        ({"width": 5, "type": "image"}, "{'width': 5, 'type': 'image'}"),
    ],
)
def test_binary_content_is_never_base64_in_structured_content_or_the_whole(
    sandbox: Sandbox, structured: Frame, value: str
) -> None:
    result = {"content": [text("a")["content"][0], PICTURE, PDF], "structuredContent": structured}
    done = sandbox.run("r = await mcp_a.t()\nprint(r.raw)\nr", ("a",), lambda call: result)
    for short, shown in (
        ("<image>", "<image/png, 3 bytes: .data, .save(path), .show()>"),
        ("<pdf>", "<application/pdf, 3 bytes: .data, .save(path)>"),
    ):
        value = value.replace(short, shown)
        assert shown in done["stdout"]
    assert done["value"] == value
    assert not re.search("UFBQ|UERG", done["stdout"])
    assert sandbox.run("await r.raw['content'][1].save('/dev/null')")["value"] == "'/dev/null'"
    assert sandbox.run("[blob.data for blob in r.raw['content'][1:]]")["value"] == "[b'PPP', b'PDF']"
    assert sandbox.run("r.raw['content'][1].show()")["images"] == [{"mime_type": "image/png", "base64": "UFBQ"}]


def test_binary_content_has_the_keys_that_the_schema_of_its_tool_promises(sandbox: Sandbox) -> None:
    result = {"content": [PICTURE, PDF], "structuredContent": {"content": [PICTURE, PDF]}}
    code = (
        "p, d = (await mcp_a.t())['content']\n"
        "p['data'], p.get('mimeType'), {**p} == %r, d['resource']['blob'], p != d, {p: 1}[p]"
    )
    done = sandbox.run(code % PICTURE, ("a",), lambda call: result)
    assert done["value"] == "('UFBQ', 'image/png', True, 'UERG', True, 1)"


def test_server_that_is_not_there_is_told_with_the_nearest_and_bounded(sandbox: Sandbox) -> None:
    names = ("github", *(f"s{number}" for number in range(50)))
    for code in ("from mcp.servers.gihub import x", "mcp_servers['gihub']"):
        error = sandbox.run(f"n = 'x'\ntry:\n  {code}\nexcept Exception as e:\n  n = str(e)\nprint(n)", names)["stdout"]
        assert "Server 'gihub' is not available" in error and "Did you mean 'github'? In this run: github" in error
        assert "and 31 more." in error
    failed = sandbox.run("from mcp.servers.gihub import x", names)
    assert failed["error"]["hint"] == ""


def test_binary_result_goes_on_as_an_argument_without_being_seen(sandbox: Sandbox) -> None:
    calls: list[Frame] = []

    def on_call(call: Frame) -> Frame:
        calls.append(call)
        return image(b"PPP") if call["tool"] == "get" else text("kept")

    code = "picture = await mcp_a.get()\nawait mcp_a.put(content=picture, parts=[{'body': picture}])"
    done = sandbox.run(code, ("a",), on_call)
    assert (done["value"], done["images"]) == ("'kept'", [])
    assert calls[1]["arguments"] == {"content": "UFBQ", "parts": [{"body": "UFBQ"}]}
    deep = "nested = picture\nfor _ in range(200): nested = [nested]\nawait mcp_a.put(content=nested)"
    assert "nesting > 128" in sandbox.run(deep, ("a",), on_call)["error"]["message"]


def test_binary_value_is_not_sent_to_a_server_that_takes_none(sandbox: Sandbox) -> None:
    calls: list[Frame] = []

    def on_call(call: Frame) -> Frame:
        calls.append(call)
        return image(b"PPP")

    code = "picture = await mcp_a.get()\nawait mcp_b.put(text='x', parts=[{'body': picture}])"
    error = sandbox.finish(sandbox.start(code, ("a", "b"), without_files=("b",)), on_call)["error"]
    assert error["type"] == "mcp.runtime.InvalidCallError"
    assert error["message"] == (
        "nothing was sent to b.put: arguments['parts'][0]['body'] is a binary value of the sandbox, which its entry "
        "keeps from this server (sandbox_files = false)\nthe user decides that in the server's entry"
    )
    assert [(call["server"], call["tool"]) for call in calls] == [("a", "get")]
    # The same server, where it takes them; and text, wherever.
    for without_files, value in (((), "picture"), (("b",), "'UFBQ'")):
        run = sandbox.start(f"await mcp_b.put(body={value})", ("b",), without_files=without_files)
        assert sandbox.finish(run, on_call)["outcome"] == "finished"
        assert calls.pop()["arguments"] == {"body": "UFBQ"}


def test_shown_image_is_among_those_of_the_run_that_shows_it(sandbox: Sandbox) -> None:
    done = sandbox.run("kept = mcp_a.t.sync()\nkept.show()", ("a",), lambda call: image(b"PPP", "image/webp"))
    assert (done["value"], done["images"]) == (None, [{"mime_type": "image/webp", "base64": "UFBQ"}])
    assert sandbox.run("1")["images"] == []
    failed = sandbox.run("kept.show()\n1 / 0")
    assert (failed["outcome"], len(failed["images"]), failed["notes"]) == ("raised", 1, [])


def test_images_beyond_the_bounds_are_files_that_are_named(sandbox: Sandbox) -> None:
    bounds = "a reply shows 4 images of 2 MB in all"
    show = "b = mcp_a.t.sync()\nb.show()\n"
    done = sandbox.run(show + show, ("a",), lambda call: image(b"P" * 900_000))
    assert len(done["images"]) == 1
    saved = re.fullmatch(rf"images saved as files: (/\w+/image-1-2.png) \({bounds}\)", done["notes"][0])
    assert saved
    assert sandbox.run(f"import os\nlen(open({saved[1]!r}, 'rb').read()), os.remove({saved[1]!r})")["value"] == (
        "(900000, None)"
    )
    done = sandbox.run("b = mcp_a.t.sync()\nfor _ in range(4 + 16 + 7): b.show()", ("a",), lambda call: image(b"P"))
    assert len(done["images"]) == 4
    assert done["notes"][0].count("/image-3-") == 16
    assert done["notes"][1:] == [f"images left out: 7 ({bounds}, and saves 16)"]
    files = re.findall(r"/\w+/image-3-\d+.png", done["notes"][0])
    assert sandbox.run(f"for file in {files}: os.remove(file)")["outcome"] == "finished"


PIXEL = b"\x89PNG\r\n\x1a\nrest"


@pytest.mark.parametrize(
    ("data", "named", "shown"),
    [
        (PIXEL, "application/png", "image/png"),
        (PIXEL, "application/octet-stream", "image/png"),
        (PIXEL, "image/jpeg", "image/png"),
        (b"GIF89a", "", "image/gif"),
        (b"P", "Image/PNG; charset=binary", "image/png"),
    ],
)
def test_image_is_known_by_its_first_bytes_else_by_its_type_however_written(
    sandbox: Sandbox, data: bytes, named: str, shown: str
) -> None:
    done = sandbox.run("mcp_a.t.sync().show()", ("a",), lambda call: image(data, named))
    assert [each["mime_type"] for each in done["images"]] == [shown], done


def test_image_beside_structured_content_is_noted_unless_the_value_has_it(sandbox: Sandbox) -> None:
    beside = {"content": [*text("a caption")["content"], PICTURE], "structuredContent": {"n": 1}}
    done = sandbox.run("r = await mcp_a.t()\nr = await mcp_a.t()\nr", ("a",), lambda call: beside)
    note = (
        "beside the value, results have images or files, in .raw['content']: a.t (1); "
        ".show() or .save(path) of such a block"
    )
    assert (done["value"], done["notes"]) == ("{'n': 1}", [note])
    assert sandbox.run("r.raw['content'][1].show()")["images"] == [{"mime_type": "image/png", "base64": "UFBQ"}]
    inside = {**beside, "structuredContent": {"picture": PICTURE}}
    assert sandbox.run("await mcp_a.t()", ("a",), lambda call: inside)["notes"] == []


@pytest.mark.parametrize("said", [True, 1, "true"])
def test_error_of_a_tool_is_one_however_the_server_says_so(sandbox: Sandbox, said: object) -> None:
    done = sandbox.run("await mcp_a.t()", ("a",), lambda call: {"content": "bad thing", "isError": said})
    assert (done["error"]["type"], done["error"]["message"]) == ("mcp.runtime.ToolError", "bad thing")


def test_image_that_no_client_shows_is_a_file(sandbox: Sandbox) -> None:
    done = sandbox.run("mcp_a.t.sync().show()", ("a",), lambda call: image(b"<svg/>", "image/svg+xml"))
    saved = re.match(r"images saved as files: (/\w+/image-1-1.svg) ", done["notes"][0])
    assert saved and done["images"] == []
    assert sandbox.run(f"import os\nopen({saved[1]!r}).read(), os.remove({saved[1]!r})")["value"] == "('<svg/>', None)"


def test_call_without_await_is_noted_with_its_tool(sandbox: Sandbox) -> None:
    advice = "put `await` before it, or use .sync(...)"
    done = sandbox.run("mcp_a.t(x=1)\nx = mcp_a.u()\ny = mcp_a.u()\nprint(1)", ("a",))
    assert done["notes"] == [f"called without `await`, hence not sent: a.t, a.u x 2; {advice}"]
    assert "coroutine 'a.t' was never awaited" in done["stderr"]
    assert sandbox.run("await x, await y", ("a",), lambda call: text("1"))["notes"] == []
    assert sandbox.run("mcp_a.t()", ("a",))["notes"] == [f"called without `await`, hence not sent: a.t; {advice}"]
    assert sandbox.run("z = mcp_a.t()", ("a",))["bound"] == ["z: coroutine, not awaited: z = await …"]


def test_coroutine_that_goes_from_the_last_value_is_warned_of_where_it_was_made(sandbox: Sandbox) -> None:
    sandbox.run("async def f(): pass\n\n[f()]")
    done = sandbox.run("print(1)\n2")
    assert done["stdout"] == "1\n"
    assert done["stderr"].startswith("<run 1>:3: RuntimeWarning: coroutine 'f' was never awaited\n  [f()]\n")
    assert "<belljar>" not in done["stderr"]
    # It may be gone by then.
    assert sandbox.run("del _\n3")["value"] == "3"


def test_only_images_can_be_shown(sandbox: Sandbox) -> None:
    error = sandbox.run("mcp_a.t.sync().show()", ("a",), lambda call: image(b"P", "audio/wav"))["error"]
    assert (error["type"], error["message"]) == ("TypeError", "only images can be shown, not audio/wav; .save(path)")


def test_error_of_a_tool_is_raised_with_its_text(sandbox: Sandbox) -> None:
    code = (
        "from mcp.runtime import MCPError, ToolError\n"
        "try: await mcp_a.t()\nexcept MCPError as e: r = type(e) is ToolError, e.server, e.tool, e.message, e.code\nr"
    )
    done = sandbox.run(code, ("a",), lambda call: {**text("bad thing"), "isError": True})
    assert done["value"] == "(True, 'a', 't', 'bad thing', 'tool_error')"


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (
            {"content": [], "structuredContent": {"code": "OVER_LIMIT", "seconds": 45}},
            "{'code': 'OVER_LIMIT', 'seconds': 45}",
        ),
        ({**text("slow down"), "structuredContent": {"seconds": 45}}, "slow down\n{'seconds': 45}"),
        ({**text('{"seconds": 45}'), "structuredContent": {"seconds": 45}}, '{"seconds": 45}'),
        ({"content": [{"type": "resource", "resource": {"uri": "x:y", "text": "row 7 is bad"}}]}, "row 7 is bad"),
        ({"content": [{"type": "resource_link", "uri": "x:log"}]}, "{'type': 'resource_link', 'uri': 'x:log'}"),
        (
            {**text("more is needed"), "_meta": {"mcp/www_authenticate": ['Bearer scope="files:write"']}},
            "more is needed\nthe server asks for other credentials: ['Bearer scope=\"files:write\"']",
        ),
        ({"content": [image(b"P")["content"][0]]}, "the tool reported an error without text"),
        ({}, "the tool reported an error without text"),
    ],
)
def test_error_of_a_tool_has_all_its_words(sandbox: Sandbox, result: dict[str, Any], words: str) -> None:
    code = "try: await mcp_a.t()\nexcept mcp.runtime.ToolError as e: r = e.message\nr"
    done = sandbox.run(code, ("a",), lambda call: {**result, "isError": True})
    assert done["value"] == repr(words)


def test_data_of_a_refusal_is_an_attribute(sandbox: Sandbox) -> None:
    run = sandbox.start("try: await mcp_a.t()\nexcept mcp.runtime.MCPError as e: r = e.data, e.code\nr", ("a",))
    sandbox.fail(sandbox.wait("call"), "tool_error", "no", data={"why": [1]})
    assert sandbox.finish(run)["value"] == "({'why': [1]}, 'tool_error')"


def test_long_structured_error_is_shortened(sandbox: Sandbox) -> None:
    error = "except mcp.runtime.ToolError as e: r = len(e.message), len(e.raw['structuredContent'])\nr"
    code = f"try: await mcp_a.t()\n{error}"
    result = {"content": [], "structuredContent": {str(key): key for key in range(9_000)}, "isError": True}
    length, members = ast.literal_eval(sandbox.run(code, ("a",), lambda call: result)["value"])
    assert 1_900 <= length <= 2_000 and members == 9_000


def test_uncaught_error_of_a_tool_has_no_frame_of_ours(sandbox: Sandbox) -> None:
    done = sandbox.run("x = 1\nawait mcp_a.t()", ("a",), lambda call: {**text("bad"), "isError": True})
    assert (done["error"]["line"], done["error"]["message"]) == (2, "bad")
    assert done["error"]["traceback"].count("File ") == 1


def test_fault_is_raised_with_code_and_hint(sandbox: Sandbox) -> None:
    run = sandbox.start(
        "try: mcp_a.serch.sync()\nexcept mcp.runtime.MCPError as e: r = e.code, e.hint, str(e)\nr", ("a",)
    )
    sandbox.fail(sandbox.wait("call"), "unknown_tool", "no tool 'serch'", "did you mean 'search'?")
    expected = ("unknown_tool", "did you mean 'search'?", "no tool 'serch'\ndid you mean 'search'?")
    assert sandbox.finish(run)["value"] == repr(expected)


@pytest.mark.parametrize(
    ("argument", "error", "message"),
    [
        ("(l := [], l.append(l))[0]", "ValueError", "circular reference: arguments['x'][0] contains arguments['x']"),
        (
            "(__import__('sys').setrecursionlimit(10**9), l := [], l.append(l))[1]",
            "ValueError",
            "circular reference: arguments['x'][0] contains arguments['x']",
        ),
        ("[1, float('nan')]", "ValueError", "arguments['x'][1] is nan"),
        ("{'k': float('-inf')}", "ValueError", "arguments['x']['k'] is -inf"),
        ("'\\ud800'", "ValueError", "arguments['x'] has a lone surrogate at position 0"),
        ("{'\\ud800': 1}", "ValueError", "a key of arguments['x'] has a lone surrogate"),
        ("b'1'", "TypeError", "arguments['x'] is bytes, which JSON cannot hold; decode it"),
        ("{'a': [{1}]}", "TypeError", "arguments['x']['a'][0] is set, which JSON cannot hold; send a list"),
        ("__import__('datetime').datetime(2020, 1, 1)", "TypeError", "arguments['x'] is datetime"),
        ("{(1, 2): 3}", "TypeError", "arguments['x'] has a key of type tuple"),
        ("'x' * (8 << 20)", "ValueError", "limit 8 MiB"),
        ("__import__('functools').reduce(lambda a, _: [a], range(126), 1)", None, None),
        ("__import__('functools').reduce(lambda a, _: [a], range(127), 1)", "ValueError", "nesting > 128"),
        ("__import__('functools').reduce(lambda a, _: [a], range(100_000), 1)", "ValueError", "nesting > 128"),
        ("{1: 'int', None: 'none', True: (1, 2)}", None, None),
    ],
)
def test_argument_without_json_form_is_refused_by_path(
    sandbox: Sandbox, argument: str, error: str | None, message: str | None
) -> None:
    calls: list[Frame] = []
    done = sandbox.run(f"mcp_a.t.sync(x={argument})\nNone", ("a",), lambda call: calls.append(call))
    if error is None:
        assert (done["outcome"], len(calls)) == ("finished", 1)
    else:
        assert (done["error"]["type"], calls) == (error, [])
        assert "another exception" not in done["error"]["traceback"]
        assert message is not None and message in done["error"]["message"]


def test_positional_arguments_are_refused(sandbox: Sandbox) -> None:
    assert sandbox.run("mcp_a.t(1)", ("a",))["error"]["message"] == "a.t takes keyword arguments only"


def test_a_tool_is_named_after_its_server(sandbox: Sandbox) -> None:
    error = sandbox.run("name = 'a.t'\nmcp.runtime.call_tool_sync(name, {'i': 1})", ("a",))["error"]
    assert error["message"].startswith("the name of the tool comes second: call_tool('server', 'tool', ")


def test_server_outside_the_run_is_not_available(sandbox: Sandbox) -> None:
    sandbox.run("kept = mcp_a", ("a", "b"))
    error = sandbox.run("mcp_servers['a']", ("b",))["error"]
    assert error["type"] == "mcp.runtime.MCPError"
    assert error["message"] == "Server 'a' is not available\nIn this run: b."
    for code in ("kept.t.sync()", "await kept.t()", "name = 'a'\nmcp.runtime.call_tool_sync(name, 't')"):
        # The bridge refuses it: only it knows why.
        run = sandbox.start(code, ("b",))
        call = sandbox.wait("call", server="a")
        sandbox.fail(call, "server_unavailable", "server 'a' is configured, but is not used", "why")
        error = sandbox.finish(run)["error"]
        assert error["type"] == "mcp.runtime.MCPError"
        assert error["message"] == "server 'a' is configured, but is not used\nwhy"
    assert sandbox.run("LOADED_MCP_SERVERS", ("b",))["value"] == "('b',)"


def test_import_of_a_server_outside_the_run_names_those_there_are(sandbox: Sandbox) -> None:
    assert sandbox.run("from mcp.servers import a, b_c\nimport mcp.servers.a", ("a", "b-c"))["outcome"] == "finished"
    for name in ("nosuch", "a"):
        for code in (
            f"from mcp.servers import {name}",
            f"import mcp.servers.{name}",
            f"from mcp.servers.{name} import t",
        ):
            report = sandbox.run(f"try: {code}\nexcept ImportError as e: r = str(e)\nr", ("b-c",))
            assert report["value"] == repr(f"Server {name!r} is not available. In this run: b_c.")
        assert sandbox.run(f"hasattr(mcp.servers, {name!r})", ("b-c",))["value"] == "False"
    code = "import mcp.servers.a\nfrom mcp.servers import a\na is mcp.servers.a, (await a.t(i=1))['i']"
    assert sandbox.run(code, ("a",), echo)["value"] == "(True, 1)"


def test_servers_of_the_run_are_those_that_a_star_import_brings(sandbox: Sandbox) -> None:
    assert sandbox.run("mcp.servers.__all__", ("a", "b-c"))["value"] == "['a', 'b_c']"
    assert sandbox.run("mcp.servers.__all__", ("b-c",))["value"] == "['b_c']"
    assert sandbox.run("from mcp.servers import *\n(await b_c.t(i=2))['i']", ("b-c",), echo)["value"] == "2"
    assert sandbox.run("mcp.servers.__all__")["value"] == "[]"


def test_module_of_a_server_has_the_metadata_of_its_tools(sandbox: Sandbox) -> None:
    tools = [{"name": "t-1", "alias": "t_1", "description": "One."}, {"name": "t", "alias": "t", "description": ""}]
    code = "from mcp.servers.a import TOOLS, TOOL_MAP\nTOOLS, TOOL_MAP"
    expected = (tools, {"t_1": tools[0], "t": tools[1]})
    assert ast.literal_eval(sandbox.run(code, ("a",), lambda call: tools)["value"]) == expected


def test_parallel_calls_are_sent_together_and_answered_in_any_order(sandbox: Sandbox) -> None:
    code = "import asyncio\n[r['i'] for r in await asyncio.gather(*[mcp_a.t(i=i) for i in range(10)])]"
    run = sandbox.start(code, ("a",))
    calls = [sandbox.wait("call") for _ in range(10)]
    for call in reversed(calls):
        sandbox.answer(call, echo(call))
    assert sandbox.finish(run)["value"] == str(list(range(10)))


def test_ten_thousand_parallel_calls_out_of_order_each_get_their_answer(sandbox: Sandbox) -> None:
    code = (
        "import asyncio\nrs = await asyncio.gather(*[mcp_a.t(i=i) for i in range(10_000)])\n"
        "[r['i'] for r in rs] == list(range(10_000))"
    )
    run = sandbox.start(code, ("a",))
    waiting: list[Frame] = []
    answered = 0
    while answered < 10_000:
        waiting.append(sandbox.wait("call"))
        if len(waiting) == 64 or answered + len(waiting) == 10_000:
            if answered == 0:
                # No more come while none of these is answered.
                sandbox.supervise({"type": "ping", "seq": 1})
                sandbox.wait("pong")
                assert not [frame for frame in sandbox.frames if frame["type"] == "call"]
            for call in waiting[::-1]:
                sandbox.answer(call, echo(call))
            answered += len(waiting)
            waiting = []
    assert sandbox.finish(run)["value"] == "True"


def test_sync_calls_from_many_threads_work(sandbox: Sandbox) -> None:
    code = (
        "from concurrent.futures import ThreadPoolExecutor\n"
        "with ThreadPoolExecutor(8) as pool:\n    rs = list(pool.map(lambda i: mcp_a.t.sync(i=i)['i'], range(300)))\n"
        "rs == list(range(300))"
    )
    assert sandbox.run(code, ("a",), echo)["value"] == "True"


def test_calls_work_in_any_event_loop(sandbox: Sandbox) -> None:
    code = (
        "import asyncio, threading\nasync def many(): return await asyncio.gather(*[mcp_a.t(i=i) for i in range(5)])\n"
        "got = []\nt = threading.Thread(target=lambda: got.extend(asyncio.run(many()))); t.start()\n"
        "here = await many(); inside = asyncio.run(many()); t.join()\nlen(here) + len(inside) + len(got)"
    )
    assert sandbox.run(code, ("a",), echo)["value"] == "15"


@pytest.mark.parametrize(
    "spoil",
    [
        "os.write(c._waker.fileno(), b'x' * 1000)",
        "os.set_blocking(c._waker.fileno(), False)\ntry:\n    while True: os.write(c._waker.fileno(), b'x' * 4096)\n"
        "except BlockingIOError: pass",
        "os.close(c._wake.fileno()); os.close(c._waker.fileno())",
        "os.close(c._waker.fileno())",
        "import threading\nos.set_blocking(c._wake.fileno(), True)\n"
        "def steal():\n    while True: os.read(c._wake.fileno(), 1)\n"
        "threading.Thread(target=steal, daemon=True).start()",
    ],
)
def test_calls_work_whatever_user_code_does_to_the_wake_up(sandbox: Sandbox, spoil: str) -> None:
    find = "import gc, os\ngc.unfreeze()\nc = next(o for o in gc.get_objects() if type(o).__name__ == 'Channel')\n"
    code = (
        "from concurrent.futures import ThreadPoolExecutor\n"
        "with ThreadPoolExecutor(2) as pool: r = sum(pool.map(lambda i: mcp_a.t.sync(i=i)['i'], range(4)))\n"
        "r + mcp_a.t.sync(i=1)['i']"
    )
    assert sandbox.run(find + spoil + "\n" + code, ("a",), echo)["value"] == "7"
    assert sandbox.run(code, ("a",), echo)["value"] == "7"
    assert sandbox.run("(await mcp_a.t(i=5))['i']", ("a",), echo)["value"] == "5"
    assert sandbox.run(code, ("a",), echo)["value"] == "7"


def test_sync_call_inside_a_coroutine_works(sandbox: Sandbox) -> None:
    assert sandbox.run("import asyncio\nawait asyncio.sleep(0)\nmcp_a.t.sync(i=3)['i']", ("a",), echo)["value"] == "3"


def test_cancelled_task_sends_cancel(sandbox: Sandbox) -> None:
    run = sandbox.start("import asyncio\nawait asyncio.wait_for(mcp_a.t(), 0.01)", ("a",))
    call = sandbox.wait("call")
    assert sandbox.wait("cancel")["call"] == call["call"]
    sandbox.answer(call, None)
    assert sandbox.finish(run)["error"]["type"] == "TimeoutError"


def test_cancelled_calls_make_room_for_those_that_wait() -> None:
    with Sandbox(calls_in_flight=2) as sandbox:
        code = (
            "import asyncio\ntasks = [asyncio.ensure_future(mcp_a.t(i=i)) for i in range(4)]\n"
            "await asyncio.sleep(0.01)\nfor t in tasks[:3]: t.cancel()\nr = (await tasks[3])['i']\nr"
        )
        run = sandbox.start(code, ("a",))
        assert [sandbox.wait("call")["arguments"]["i"] for _ in range(2)] == [0, 1]
        sandbox.wait("cancel")
        # The room of the first goes to the third, until that is cancelled too.
        last = sandbox.wait("call")
        while last["arguments"]["i"] != 3:
            last = sandbox.wait("call")
        sandbox.answer(last, echo(last))
        assert sandbox.finish(run)["value"] == "3"


def test_call_left_behind_is_cancelled_and_fails_in_the_next_run(sandbox: Sandbox) -> None:
    run = sandbox.start("import asyncio\nt = asyncio.ensure_future(mcp_a.t())\nawait asyncio.sleep(0)", ("a",))
    call = sandbox.wait("call")
    assert sandbox.wait("cancel") == {"type": "cancel", "run": run, "call": call["call"]}
    assert sandbox.finish(run)["outcome"] == "finished"
    error = sandbox.run("await t", ("a",))["error"]
    assert error["message"] == "the run that made this call has ended; whether the call took effect is unknown"
    assert sandbox.run("t.exception().code")["value"] == "'cancelled'"


def test_call_left_behind_that_was_never_sent_is_told_so() -> None:
    with Sandbox(calls_in_flight=1) as sandbox:
        code = "import asyncio\nt = [asyncio.ensure_future(mcp_a.t(i=i)) for i in (0, 1)]\nawait asyncio.sleep(0.1)"
        run = sandbox.start(code, ("a",))
        assert sandbox.wait("call")["arguments"] == {"i": 0}
        assert sandbox.finish(run)["outcome"] == "finished"
        sandbox.run("await asyncio.gather(*t, return_exceptions=True)", ("a",))
        assert sandbox.run("[e.exception().code for e in t]")["value"] == "['cancelled', 'not_running']"


def test_thread_that_outlives_its_run_cannot_call(sandbox: Sandbox, tmp_path: Path) -> None:
    go = tmp_path / "go"
    code = (
        f"import os, threading, time\ndef work():\n    while not os.path.exists({str(go)!r}): time.sleep(0.001)\n"
        "    try: mcp_a.t.sync()\n    except Exception as e: print(e)\nthreading.Thread(target=work).start()\n"
    )
    sandbox.run(code, ("a",))
    go.touch()
    sandbox.wait_output("no run is active: the run that started this code has ended")


LEFT_BEHIND = {
    "thread": "threading.Thread(target=work).start()",
    "thread of a thread": "def begin():\n    go.wait()\n    threading.Thread(target=work).start()\n"
    "threading.Thread(target=begin).start()",
    "raw thread": "import _thread\n_thread.start_new_thread(work, ())",
    "timer": "class Late(threading.Timer):\n    def run(self):\n        go.wait()\n        self.function()\n"
    "Late(0, work).start()",
    "pool": "from concurrent.futures import ThreadPoolExecutor\nThreadPoolExecutor(1).submit(work)",
    "asyncio task": "async def late():\n    while not go.is_set():\n        await asyncio.sleep(0.001)\n    work()\n"
    "task = asyncio.ensure_future(late())\nawait asyncio.sleep(0)",
    "callback of the event loop": "def late():\n    work() if go.is_set() else loop.call_later(0.001, late)\n"
    "loop = asyncio.get_running_loop()\nlate()\nawait asyncio.sleep(0)",
    "helper": "from mcp import runtime\ncall = runtime.list_servers_sync\nthreading.Thread(target=work).start()",
}


@pytest.mark.parametrize("left", LEFT_BEHIND.values(), ids=LEFT_BEHIND)
def test_what_an_earlier_run_left_behind_cannot_call(sandbox: Sandbox, left: str) -> None:
    begin = (
        "import asyncio, threading\ngo, ended, said = threading.Event(), threading.Event(), []\n"
        "call = lambda: mcp_b.t.sync()\ndef work():\n    go.wait()\n    try: said.append(call())\n"
        "    except Exception as error: said.append((error.code, str(error)))\n    ended.set()\n"
    )
    sandbox.run(begin + left, ("a",))
    calls: list[Frame] = []

    def on_call(call: Frame) -> Frame:
        calls.append(call)
        return echo(call)

    go_on = "go.set()\nfor _ in range(10_000):\n    if ended.is_set(): break\n    await asyncio.sleep(0.001)\nsaid"
    done = sandbox.run(go_on, ("a", "b"), on_call)
    said = "this call cannot be made: it comes from a thread or task that run 1 started, and that run has ended"
    assert "'not_running'" in done["value"] and said in done["value"], done
    assert calls == []
    assert sandbox.run("mcp_b.t.sync(i=1)['i']", ("b",), echo)["value"] == "1"


def test_work_given_to_an_earlier_runs_pool_is_of_the_run_that_gives_it(sandbox: Sandbox) -> None:
    sandbox.run(
        "import asyncio\nfrom concurrent.futures import ThreadPoolExecutor\npool = ThreadPoolExecutor(1)\n"
        "pool.submit(int).result()\nawait asyncio.to_thread(int)\n"
        "await asyncio.get_running_loop().run_in_executor(None, int)"
    )
    code = (
        "import asyncio\nf = lambda: mcp_a.t.sync(i=1)['i']\n"
        "[pool.submit(f).result(), await asyncio.to_thread(f), "
        "await asyncio.get_running_loop().run_in_executor(None, f), *pool.map(lambda _: f(), range(2))]"
    )
    assert sandbox.run(code, ("a",), echo)["value"] == "[1, 1, 1, 1, 1]"


def test_large_calls_wait_in_the_sandbox_for_each_other_and_small_ones_do_not() -> None:
    with Sandbox(arguments_in_flight_bytes=1_000_000) as sandbox:
        code = (
            "import asyncio\nlarge = [asyncio.ensure_future(mcp_a.large(text='x' * 300_000)) for _ in range(10)]\n"
            "huge = asyncio.ensure_future(mcp_a.large(text='x' * 2_000_000))\nawait asyncio.sleep(0)\n"
            "small = await mcp_a.small()\nawait huge\nlen(await asyncio.gather(*large))"
        )
        run = sandbox.start(code, ("a",))
        first = [sandbox.wait("call") for _ in range(4)]
        assert sorted(call["tool"] for call in first) == ["large"] * 3 + ["small"]
        for call in first:
            sandbox.answer(call, text("ended"))
        further = []

        def on_call(call: Frame) -> Frame:
            further.append(len(call["arguments"]["text"]))
            return text("ended")

        assert sandbox.finish(run, on_call)["value"] == "10"
        assert sorted(further) == [300_000] * 7 + [2_000_000]


def test_large_calls_that_are_given_up_make_room_for_others() -> None:
    with Sandbox(arguments_in_flight_bytes=100_000) as sandbox:
        code = (
            "import asyncio\ncalls = [asyncio.wait_for(mcp_a.t(text='x' * 90_000), 0.02) for _ in range(5)]\n"
            "ends = await asyncio.gather(*calls, return_exceptions=True)\n"
            "{type(end).__name__ for end in ends}, (await mcp_a.t(i=1, text='x' * 90_000))['i']"
        )
        done = sandbox.run(code, ("a",), lambda call: echo(call) if "i" in call["arguments"] else ...)
        assert done["value"] == "({'TimeoutError'}, 1)"


def test_interrupted_call_is_cancelled_and_the_next_call_works(sandbox: Sandbox) -> None:
    for code in ("mcp_a.t.sync()", "await mcp_a.t()"):
        run = sandbox.start(code, ("a",))
        call = sandbox.wait("call")
        sandbox.interrupt()
        assert sandbox.wait("cancel")["call"] == call["call"]
        assert sandbox.finish(run)["outcome"] == "interrupted"
        assert sandbox.run("(await mcp_a.t(i=1))['i']", ("a",), echo)["value"] == "1"


def test_result_of_32_megabytes_arrives(sandbox: Sandbox) -> None:
    done = sandbox.run("len(await mcp_a.t())", ("a",), lambda call: text("x" * (32 << 20)))
    assert done["value"] == str(32 << 20)


def test_result_without_memory_for_it_fails_the_call_and_keeps_variables() -> None:
    with Sandbox(memory_bytes=120 << 20) as sandbox:
        done = sandbox.run("x = 7\nawait mcp_a.t()", ("a",), lambda call: text("x" * (60 << 20)))
        assert done["error"]["message"].startswith("a result was lost: there was no memory left for it")
        assert sandbox.run("x + mcp_a.t.sync(i=1)['i']", ("a",), echo)["value"] == "8"


def test_result_with_an_integer_of_too_many_digits_fails_the_call_at_once(sandbox: Sandbox) -> None:
    run = sandbox.start("await mcp_a.t()", ("a",))
    call = sandbox.wait("call")
    sandbox.write(
        b'W{"type":"result","call":%d,"value":{"structuredContent":{"x":%s}}}\n' % (call["call"], b"9" * 5000)
    )
    assert (
        "a result was lost: it has an integer of more digits than Python reads"
        in sandbox.finish(run)["error"]["message"]
    )
    assert sandbox.run("(await mcp_a.t(i=1))['i']", ("a",), echo)["value"] == "1"


def test_calls_that_wait_for_room_are_sent_after_a_lost_result() -> None:
    with Sandbox(memory_bytes=120 << 20, calls_in_flight=1) as sandbox:
        code = (
            "import asyncio\ncalls = [mcp_a.t(i=i) for i in range(3)]\n"
            "[type(each).__name__ for each in await asyncio.gather(*calls, return_exceptions=True)]"
        )
        sizes = iter([60 << 20, 1, 1])
        done = sandbox.run(code, ("a",), lambda call: text("x" * next(sizes)))
        assert done["value"] == "['MCPError', 'StrResult', 'StrResult']"


def test_unknown_and_repeated_results_are_ignored(sandbox: Sandbox) -> None:
    run = sandbox.start("await mcp_a.t()", ("a",))
    call = sandbox.wait("call")
    for stray in (999, "x", None, [1], call["call"], call["call"]):
        sandbox.tell({"type": "result", "call": stray, "value": text("first")})
    assert sandbox.finish(run)["value"] == "'first'"


def test_helpers_ask_the_bridge_by_parameter_name(sandbox: Sandbox) -> None:
    answers: dict[str, Any] = {
        "discovered_servers": ["a", "b"],
        "list_servers": ["a"],
        "list_tools": [{"name": "t-1", "alias": "t_1"}],
        "query_tool_docs": [{"tool": "t-1"}],
        "describe_server": {"name": "a"},
        "list_loaded_server_metadata": [{"name": "a"}],
        "capability_summary": "the manual",
    }
    asked = []

    def on_call(call: Frame) -> object:
        asked.append((call["tool"], call["arguments"]))
        assert call["server"] is None
        return answers[call["tool"]]

    for code, value, tool, arguments in [
        ("runtime.discovered_servers()", ("a", "b"), "discovered_servers", {"detailed": False}),
        ("await runtime.list_servers()", ("a",), "list_servers", {}),
        ("runtime.list_servers_sync()", ("a",), "list_servers", {}),
        ("await runtime.list_tools('a')", [{"name": "t-1", "alias": "t_1"}], "list_tools", {"server": "a"}),
        ("runtime.list_tools_sync('a')", [{"name": "t-1", "alias": "t_1"}], "list_tools", {"server": "a"}),
        (
            "await runtime.query_tool_docs('a', 't')",
            {"tool": "t-1"},
            "query_tool_docs",
            {"server": "a", "tool": "t", "detail": "summary"},
        ),
        (
            "runtime.query_tool_docs_sync('a')",
            [{"tool": "t-1"}],
            "query_tool_docs",
            {"server": "a", "detail": "summary"},
        ),
        ("runtime.describe_server('a')", {"name": "a"}, "describe_server", {"name": "a"}),
        ("runtime.list_loaded_server_metadata()", ({"name": "a"},), "list_loaded_server_metadata", {}),
        ("runtime.capability_summary()", "the manual", "capability_summary", {}),
    ]:
        assert sandbox.run(code, ("a",), on_call)["value"] == repr(value), code
        assert asked.pop() == (tool, arguments)


def test_every_helper_of_the_manual_exists_with_its_sync_name() -> None:
    manual = (Path(__file__).parents[3] / "crates/belljar-tools/src/catalog/manual.rs").read_text()
    helpers = manual.partition("every helper works with and without")[2].partition("\n\n")[0]
    # Without the methods of what they return: job.tail().
    names = {*re.findall(r"(?<![.\w])(\w+)\(", helpers), *re.findall(r"runtime\.(\w+)\(", manual)}
    # Python's own, and the function of an example.
    names -= {"print", "func"}
    assert {"call_tool", "search_tool_docs", "list_loaded_server_metadata", "save_tool", "spawn"} <= names
    names |= {f"{name.removesuffix('_sync')}_sync" for name in names}
    code = f"sorted(n for n in {names} if not callable(getattr(runtime, n, None)) or n not in dir(runtime))"
    with Sandbox(jobs=1, frozen_copy_bytes=1 << 30) as sandbox:
        assert sandbox.run(code)["value"] == "[]"


def test_sync_twins_of_helpers_that_return_at_once_are_the_same(sandbox: Sandbox) -> None:
    assert (
        sandbox.run("runtime.describe_server_sync('a')", (), lambda call: call["arguments"])["value"] == "{'name': 'a'}"
    )


def test_star_import_brings_the_tools_of_the_server(sandbox: Sandbox) -> None:
    def on_call(call: Frame) -> object:
        return [{"tool": "t-1", "toolAlias": "t_1"}] if call["server"] is None else echo(call)

    assert sandbox.run("from mcp.servers.a import *\nt_1.sync(i=4)['i']", ("a",), on_call)["value"] == "4"


def test_own_mcp_package_wins_over_an_installed_one(sandbox: Sandbox, tmp_path: Any) -> None:
    (tmp_path / "mcp").mkdir()
    (tmp_path / "mcp" / "__init__.py").write_text("installed = True\n")
    first_on_path = f"import sys\nsys.path.insert(0, {str(tmp_path)!r})\nsys.modules.pop('mcp')\n"
    code = first_on_path + "import mcp\nhasattr(mcp, 'installed')"
    assert sandbox.run(code)["value"] == "False"


@pytest.mark.parametrize("data", ["+/+/", "-_-_", "+/\n+/", "-_-", "+/-_AA=="])
def test_base64_of_every_kind_is_decoded(sandbox: Sandbox, data: str) -> None:
    answer = {"content": [{"type": "image", "data": data, "mimeType": "image/png"}]}
    expected = {"+/+/": "fbffbf", "-_-": "fbff", "+/-_AA==": "fbffbf00"}.get(data, "fbffbf")
    assert sandbox.run("(await mcp_a.t()).data.hex()", ("a",), lambda _: answer)["value"] == repr(expected)


def test_what_is_no_base64_stays_as_it_was_sent(sandbox: Sandbox) -> None:
    block = {"type": "image", "data": "no base64!", "mimeType": "image/png"}
    assert sandbox.run("(await mcp_a.t())['data']", ("a",), lambda _: {"content": [block]})["value"] == "'no base64!'"
