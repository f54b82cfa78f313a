"""Resources and prompts as code gets them: what is asked of the bridge, and what becomes of the answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sandbox import Frame, Sandbox

CSV = {"uri": "x://a", "mimeType": "text/csv", "text": "[1, 2]"}
PIXEL = {"uri": "x://b", "mimeType": "image/png", "blob": "iVBORw=="}


def answering(asked: list[tuple[str, Frame]], value: object) -> Callable[[Frame], object]:
    def on_call(call: Frame) -> object:
        assert call["server"] is None
        asked.append((call["tool"], call["arguments"]))
        return value

    return on_call


@pytest.mark.parametrize("name", ["list_resources", "list_resource_templates", "list_prompts"])
def test_a_list_is_asked_for_by_server_and_comes_as_it_is(sandbox: Sandbox, name: str) -> None:
    asked: list[tuple[str, Frame]] = []
    items = [{"name": "a", "odd": [1]}]
    for code in (f"await runtime.{name}('a')", f"runtime.{name}_sync('a')"):
        assert sandbox.run(code, ("a",), answering(asked, items))["value"] == repr(items), code
        assert asked.pop() == (name, {"server": "a"})


def test_one_content_comes_by_itself_and_several_as_a_list_and_the_whole_is_kept(sandbox: Sandbox) -> None:
    def read(code: str, contents: list[Any]) -> Any:
        asked: list[tuple[str, Frame]] = []
        value = sandbox.run(code, ("a",), answering(asked, {"contents": contents}))["value"]
        return value, asked

    code = "r = await runtime.read_resource('x://a')\n"
    value, asked = read(code + "(r, r.json(), r.mime_type, r.raw['contents'][0]['uri'], isinstance(r, str))", [CSV])
    assert value == "('[1, 2]', [1, 2], 'text/csv', 'x://a', True)"
    assert asked == [("read_resource", {"uri": "x://a"})]
    broken = {**CSV, "text": "[1, 2"}
    value, _ = read(
        code.strip() + "\ntry:\n  r.json()\nexcept ValueError as error:\n  said = str(error)\nsaid", [broken]
    )
    assert "line 1 column 6" in value
    mine = "import sys, types\nsys.modules['json'] = types.SimpleNamespace(loads=lambda text: 'mine')\n"
    value, _ = read(mine + "try:\n  r.json()\nexcept ValueError as error:\n  said = repr(error)\nsaid", [broken])
    assert "mine" not in value
    code = "r = runtime.read_resource_sync('x://b', 'a')\n"
    value, asked = read(code + "(r.mime_type, r.data, r.raw['contents'][0]['uri'])", [PIXEL])
    assert value == "('image/png', b'\\x89PNG', 'x://b')"
    assert asked == [("read_resource", {"uri": "x://b", "server": "a"})]
    value, _ = read(code + "(r[0], r[1].data, r[2], len(r.raw['contents']))", [CSV, PIXEL, 7])
    assert value == "('[1, 2]', b'\\x89PNG', 7, 3)"
    assert read(code + "(r, r.raw)", [])[0] == "([], {'contents': []})"


def test_what_is_no_json_and_what_is_no_content_is_as_the_server_has_it(sandbox: Sandbox) -> None:
    deep = {"text": "[" * 500 + "]" * 500}
    code = (
        "r = await runtime.read_resource('x')\ntry:\n  r.json()\nexcept ValueError as error:\n  print(str(error)[:7])"
    )
    assert sandbox.run(code, ("a",), lambda _: {"contents": [deep]})["stdout"] == "nesting\n"
    assert sandbox.run("await runtime.read_resource('x')", ("a",), lambda _: {"odd": 1})["value"] == "{'odd': 1}"
    broken = {"blob": "abc!", "uri": "x"}
    assert sandbox.run("await runtime.read_resource('x')", ("a",), lambda _: {"contents": [broken]})["value"] == repr(
        broken
    )


def test_a_prompt_is_messages_of_role_and_content(sandbox: Sandbox) -> None:
    asked: list[tuple[str, Frame]] = []
    image = {"type": "image", "mimeType": "image/png", "data": "iVBORw=="}
    messages = [
        {"role": "user", "content": {"type": "text", "text": "[hi]"}},
        {"role": "assistant", "content": image},
        "odd",
    ]
    answer = {"description": "d", "messages": messages}
    for call in ("await runtime.get_prompt", "runtime.get_prompt_sync"):
        code = f"p = {call}('a', 'greet', {{'name': 'x'}})\n(p[0], p[1]['content'].data, p[2], p.raw['description'])"
        value = sandbox.run(code, ("a",), answering(asked, answer))["value"]
        assert value == "({'role': 'user', 'content': '[hi]'}, b'\\x89PNG', 'odd', 'd')"
        assert asked.pop() == ("get_prompt", {"server": "a", "name": "greet", "arguments": {"name": "x"}})
    sandbox.run("await runtime.get_prompt('a', 'p')", ("a",), answering(asked, answer))
    assert asked.pop() == ("get_prompt", {"server": "a", "name": "p", "arguments": {}})
