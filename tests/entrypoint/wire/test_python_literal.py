"""Texts of Python lists and dicts, which some tools return instead of JSON."""

from __future__ import annotations

from ast import literal_eval

import pytest

from belljar_sandbox.wire.frames import Frame
from belljar_sandbox.wire.python_literal import CHARACTERS_MAX, DEPTH_MAX, literal
from sandbox import Sandbox


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "{ }",
        " [1, -2, 1.5e-07, True, False, None,]\n",
        "[{'name': 'orders', \"it's\": ('a', (1,), (1), ())}]",
        r"{'a': '\\ \' \n \x41 \u20ac \U0001f600 \101 €', 'b': u'x', 1: b'\x00\xff\'', (1, 2): {'a': {}}}",
        "['\\ud800', \"'\", '\"']",
        f"{'[' * DEPTH_MAX}{']' * DEPTH_MAX}",
    ],
)
def test_what_repr_writes_is_read_as_python_reads_it(text: str) -> None:
    assert repr(literal(text)) == repr(literal_eval(text.strip()))


@pytest.mark.parametrize(
    "text",
    [
        *("", "[x]", "{1, 2}", "(1, 2)", "'a'", "[1 2]", "[1,,2]", "[,]", "{,}", "{'a'}", "{'a':}", "{[]: 1}"),
        *("{([],): 1}", "[1]]", "[1] [2]", "[f()]", "['a", "['a]", "[01]", "[1_0]", "[1+2]", "[1.2.3]", "[1e]"),
        *("[--1]", r"['\q']", r"[b'\u0041']", "[b'€']", "['a\nb']", "['a' 'b']", "[Truex]", "[nan]", "[r'a']"),
        *(r"['\x4']", "[__import__('os').getpid()]", "[" + "9" * 4301 + "]"),
        *("[" * (DEPTH_MAX + 1) + "]" * (DEPTH_MAX + 1), "[" + "1," * (CHARACTERS_MAX // 2) + "]", "[" * 100_000),
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        literal(text)


def test_a_text_result_is_the_list_that_it_says(sandbox: Sandbox) -> None:
    def on_call(call: Frame) -> object:
        blocks = [{"type": "text", "text": text} for text in call["arguments"]["texts"]]  # type: ignore[index]
        return {"content": blocks}

    code = """
rows = await mcp_a.t(texts=["[{'name': 'orders'}]"])
print(rows[0]["name"], rows.raw["content"][0]["text"])
print(await mcp_a.t(texts=["{'a': 1}", "[done] (1 file)", "(1, 2)", '{"a": 1}\\n{"a": 2}']))
"""
    assert sandbox.run(code, ("a",), on_call)["stdout"] == (
        "orders [{'name': 'orders'}]\n[{'a': 1}, '[done] (1 file)', '(1, 2)', '{\"a\": 1}\\n{\"a\": 2}']\n"
    )
