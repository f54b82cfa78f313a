"""What code asks of a model: how it reaches the bridge, and what code gets."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sandbox import Frame, Sandbox

USAGE = {"prompt_tokens": 7, "completion_tokens": 1, "total_tokens": 8, "estimated": False}


def answering(asked: list[Frame]) -> Callable[[Frame], object]:
    """A model that says the last line of what it is asked, or the last but one of a context."""

    def on_call(call: Frame) -> object:
        assert (call["server"], call["tool"]) == (None, "ask_llm")
        asked.append(call["arguments"])
        lines = call["arguments"]["prompt"].splitlines()
        text = lines[-2] if lines[-1] == "</context>" else lines[-1]
        return {"text": text.upper(), "model": "m-1", "stop_reason": "end_turn", "usage": USAGE}

    return on_call


@pytest.mark.parametrize("call", ["await runtime.ask_llm", "runtime.ask_llm_sync"])
def test_an_answer_is_text_that_knows_whose_it_is_and_what_it_cost(sandbox: Sandbox, call: str) -> None:
    asked: list[Frame] = []
    code = f"a = {call}('Say hi')\n(a, isinstance(a, str), a.model, a.stop_reason, a.usage['total_tokens'])"
    assert sandbox.run(code, (), answering(asked))["value"] == "('SAY HI', True, 'm-1', 'end_turn', 8)"
    assert asked == [{"prompt": "Say hi", "max_tokens": 1024}]
    asked.clear()
    sandbox.run(f"{call}('p', {{'a': [1]}}, 5, system='s', temperature=0.5)", (), answering(asked))
    whole = 'p\n\n<context>\n{"a":[1]}\n</context>'
    assert asked == [{"prompt": whole, "max_tokens": 5, "system": "s", "temperature": 0.5}]


@pytest.mark.parametrize(
    ("context", "text"),
    [
        ("'a text'", "a text"),
        ("b'bytes'", "bytes"),
        ("bytearray('größe'.encode())", "größe"),
        ("['a', None, 1.5]", '["a",null,1.5]'),
        ("(1, 2)", "[1,2]"),
        ("Frame()", "a,b\n1,2\n"),
        ("''", ""),
    ],
)
def test_a_context_is_text_or_becomes_it(sandbox: Sandbox, context: str, text: str) -> None:
    asked: list[Frame] = []
    frame = "class Frame:\n  def to_csv(self): return 'a,b\\n1,2\\n'\n"
    sandbox.run(f"{frame}runtime.ask_llm_sync('p', {context})", (), answering(asked))
    assert asked[0]["prompt"] == f"p\n\n<context>\n{text}\n</context>"


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("ask_llm_sync(7)", "TypeError: the prompt is text, not int; what it is about is the context"),
        (
            "ask_llm_sync('p', {1, 2})",
            "TypeError: context is set; give text, bytes of UTF-8, a dict, a list, or a DataFrame",
        ),
        (
            "ask_llm_sync('p', __import__('pathlib').Path('x'))",
            "TypeError: context is PosixPath; give text, bytes of UTF-8, a dict, a list, or a DataFrame; of a file its "
            "text: path.read_text()",
        ),
        (
            "ask_llm_sync('p', b'ab\\xff')",
            "ValueError: context is bytes that are no UTF-8 (byte 2); give the text that they hold",
        ),
        (
            "ask_llm_sync('p', {'a': {1}})",
            "TypeError: arguments['context']['a'] is set, which JSON cannot hold; send a list",
        ),
        ("ask_llm_sync('p', max_tokens=1.5)", "TypeError: max_tokens is a whole number, not float"),
        ("ask_llm_sync('p', system=1)", "TypeError: system is text, not int"),
        (
            "map_llm_sync('a text', 'p')",
            "TypeError: map_llm takes several chunks, as runtime.chunk(text) cuts them, or a list; not str",
        ),
        ("map_llm_sync(['a'], 'p', concurrency=0)", "ValueError: concurrency is 0, no whole number from 1 to 64"),
        ("map_llm_sync(['a'], 'p', on_error='skip')", "ValueError: on_error is 'skip'; it is 'raise' or 'return'"),
        (
            "map_llm_sync([1j], 'of {chunk}')",
            "TypeError: a chunk is complex; give text, bytes of UTF-8, a dict, a list, or a DataFrame",
        ),
    ],
)
def test_what_cannot_be_asked_is_said_and_nothing_is_sent(sandbox: Sandbox, call: str, said: str) -> None:
    asked: list[Frame] = []
    code = f"try:\n  runtime.{call}\nexcept Exception as error:\n  print(f'{{type(error).__name__}}: {{error}}')"
    assert sandbox.run(code, (), answering(asked))["stdout"] == said + "\n"
    assert asked == []


@pytest.mark.parametrize("call", ["await runtime.map_llm", "runtime.map_llm_sync"])
def test_many_are_asked_at_once_but_no_more_than_wanted_and_answers_are_in_order(sandbox: Sandbox, call: str) -> None:
    held: list[Frame] = []
    most = 0
    done = 0

    def on_call(frame: Frame) -> object:
        nonlocal most, done
        held.append(frame)
        most = max(most, len(held))
        # Three are under way before one is answered, and the last of them first.
        if len(held) == 3 or done + len(held) == 7:
            while held:
                last = held.pop()
                done += 1
                text = last["arguments"]["prompt"].upper()
                sandbox.answer(last, {"text": text, "model": None, "stop_reason": None, "usage": {}})
        return ...

    code = f"{call}((str(n) for n in range(7)), 'of {{chunk}}, {{chunk}}', concurrency=3)"
    expected = [f"OF {n}, {n}" for n in range(7)]
    assert sandbox.run(code, (), on_call)["value"] == repr(expected)
    assert most == 3


def test_sync_works_where_code_awaits_and_nothing_is_asked_of_nothing(sandbox: Sandbox) -> None:
    code = (
        "import asyncio\nawait asyncio.sleep(0)\n(runtime.map_llm_sync(['a', 'b'], 'p'), runtime.map_llm_sync([], 'p'))"
    )
    assert sandbox.run(code, (), answering([]))["value"] == "(['A', 'B'], [])"


def failing(sandbox: Sandbox, asked: list[str]) -> Callable[[Frame], object]:
    def on_call(call: Frame) -> object:
        prompt = call["arguments"]["prompt"]
        asked.append(prompt)
        if prompt == "b":
            sandbox.fail(call, "model_failed", "the model is out", "ask later")
            return ...
        return {"text": prompt.upper(), "usage": USAGE}

    return on_call


def test_a_failure_ends_all_or_stands_in_its_place(sandbox: Sandbox) -> None:
    asked: list[str] = []
    code = """
try:
    await runtime.map_llm(list("abcdef"), "{chunk}", concurrency=1)
except runtime.MCPError as error:
    print(error.code, error.message, error.hint, error.__notes__)
"""
    done = sandbox.run(code, (), failing(sandbox, asked))
    assert done["stdout"] == "model_failed the model is out ask later ['asked of chunks[1]']\n"
    assert asked == ["a", "b"]
    code = "[getattr(a, 'code', a) for a in await runtime.map_llm(list('abc'), '{chunk}', on_error='return')]"
    assert sandbox.run(code, (), failing(sandbox, asked))["value"] == "['A', 'model_failed', 'C']"


def test_what_is_given_up_is_cancelled_at_the_bridge(sandbox: Sandbox) -> None:
    code = """
import asyncio
try:
    await asyncio.wait_for(runtime.map_llm(list("abcdef"), "p", concurrency=2), 0.2)
except TimeoutError:
    print("given up")
"""
    assert sandbox.run(code, (), lambda _: ...)["stdout"] == "given up\n"
    calls = [frame["call"] for frame in sandbox.seen if frame["type"] == "call"]
    cancelled = [frame["call"] for frame in sandbox.seen if frame["type"] == "cancel"]
    assert len(calls) == 2 and sorted(cancelled) == calls


def test_in_a_dry_run_it_is_listed_and_what_stands_for_the_answer_goes_on(sandbox: Sandbox) -> None:
    def planned(call: Frame) -> object:
        assert call.get("dry_run")
        sandbox.tell({"type": "result", "call": call["call"], "planned": {"server": "runtime", "tool": call["tool"]}})
        return ...

    code = """
with runtime.plan() as plan:
    said = await runtime.ask_llm("a")
    more = await runtime.map_llm(runtime.chunk(said), "b")
    await runtime.ask_llm("c", said.usage)
plan
"""
    lines = sandbox.run(code, (), planned)["value"].splitlines()
    assert lines[0] == "plan of a dry run, 3 calls:"
    assert lines[1] == "  not made: runtime.ask_llm(prompt='a', max_tokens=1024)"
    assert "<result of runtime.ask_llm>" in lines[2] and "<result of runtime.ask_llm>.usage" in lines[3]
