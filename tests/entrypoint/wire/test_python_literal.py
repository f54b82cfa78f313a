"""Texts of Python lists and dicts, which some tools return instead of JSON."""

from __future__ import annotations

import datetime
import warnings
from ast import literal_eval
from decimal import Decimal
from random import Random
from uuid import UUID

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
        *("[--1]", r"['\q']", r"[b'\u0041']", "[b'€']", "['a\nb']", "['a' 'b']", "[Truex]", "[nano]", "[r'a']"),
        *("['a\rb']", "['a\0b']", "[b'a\rb']", "[b'a\0b']", "['a\\\rb']", "['a\\\0b']"),
        *(r"['\x4']", "[__import__('os').getpid()]", "[" + "9" * 4301 + "]"),
        *("[" * (DEPTH_MAX + 1) + "]" * (DEPTH_MAX + 1), "[" + "1," * (CHARACTERS_MAX // 2) + "]", "[" * 100_000),
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        literal(text)


@pytest.mark.parametrize(
    "value",
    [
        [(datetime.date(2025, 1, 1), datetime.datetime(2025, 1, 2, 3, 4, 5, 6), datetime.time(1, 2))],
        [
            datetime.datetime(2025, 1, 1, tzinfo=datetime.UTC),
            datetime.timedelta(days=1, seconds=2),
            datetime.timedelta(0),
        ],
        [datetime.datetime(2025, 1, 1, fold=1, tzinfo=datetime.timezone(datetime.timedelta(hours=2), "X"))],
        [{"price": Decimal("1.50"), "id": UUID(int=7)}, float("nan"), float("inf"), -float("inf")],
    ],
)
def test_values_of_databases_are_read(value: object) -> None:
    assert repr(literal(repr(value))) == repr(value)


def test_numbers_of_numpy_are_read_as_pythons() -> None:
    assert literal("[np.float64(1.5), np.int64(3), np.uint8(4), np.str_('x')]") == [1.5, 3, 4, "x"]


@pytest.mark.parametrize(
    "text",
    [
        *(
            "[datetime.date(2025)]",
            "[datetime.date(2025, 13, 1)]",
            "[Decimal('x')]",
            "[Decimal(1, 2, 3)]",
            "[UUID('x')]",
        ),
        *(
            "[Decimal]",
            "[Decimal('1']",
            "[datetime.date.today()]",
            "[nan()]",
            "[inf.x]",
            "[days=1]",
            "[date(2025, 1, 1)]",
        ),
        *("[UUID('1' 2)]", "[datetime.timedelta(weeks=1)]", "[datetime.date(2025, 1, 1).year]", "[np.int64('x')]"),
        "[" + "Decimal(" * 200 + "1" + ")" * 200 + "]",
    ],
)
def test_other_constructors_are_refused(text: str) -> None:
    with pytest.raises(ValueError):
        literal(text)


_CHARACTERS = "'\"\\\r\n\t\0\f\x7f\u2028€😀abnuxN0179-+.eE_,:;#()[]{} "


def _value(random: Random, depth: int = 0) -> object:
    text = "".join(random.choices(_CHARACTERS, k=random.randrange(6)))
    scalars = (text, text.encode(), random.randrange(-99, 99), random.uniform(-1e9, 1e9), random.random() < 0.5, None)
    kind = random.randrange(9 if depth < 3 else 6)
    if kind < 6:
        return scalars[kind]
    items = [_value(random, depth + 1) for _ in range(random.randrange(4))]
    return dict(zip("a'\r\0", items, strict=False)) if kind == 6 else tuple(items) if kind == 7 else items


def _as_python(text: str) -> str | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return repr(literal_eval(text.strip(" \t\r\n")))
        except (ValueError, SyntaxError, TypeError):
            return None


def test_every_repr_is_read_and_nothing_that_python_does_not_read_alike() -> None:
    random = Random(7)
    read = 0
    for _ in range(3000):
        text = repr([_value(random)])
        assert repr(literal(text)) == text
        at = random.randrange(len(text))
        mutated = text[:at] + random.choice(_CHARACTERS) + text[at + random.randrange(2) :]
        try:
            value = literal(mutated)
        except ValueError:
            continue
        read += 1
        assert repr(value) == _as_python(mutated), mutated
    assert read > 100


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
