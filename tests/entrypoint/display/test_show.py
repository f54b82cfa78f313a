"""What a reply shows of what a run leaves: values, bound names, pictures, and the output of the run before."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator

import pytest

from sandbox import ENTRYPOINT, Sandbox

sys.path.insert(0, str(ENTRYPOINT))
from belljar_sandbox.display.html_text import text_of
from belljar_sandbox.display.images import kind_of
from belljar_sandbox.display.values import CHARACTERS_MAX, WHOLE_CHARACTERS_MAX, in_one_line, shown
from belljar_sandbox.wire.frames import Frame
from belljar_sandbox.wire.output_record import HEAD_BYTES_MAX, TAIL_BYTES_MAX, OutputRecord

FAKE_PANDAS = """
import sys, types
class Column(str): pass
class DataFrame:
    shape = (1200, 14)
    dtypes = {f'c{n}': 'int64' for n in range(14)}
    def __repr__(self): return 'the rows\\n\\n[1200 rows x 14 columns]'
class Series:
    name, dtype = 'price', 'float64'
    def __len__(self): return 1200
    def __repr__(self): return 'the numbers'
pandas = types.ModuleType('pandas')
pandas.DataFrame, pandas.Series = DataFrame, Series
sys.modules['pandas'] = pandas
"""
FAKE_PYPLOT = """
import sys, types
class Figure:
    def __init__(self, size): self.size = size
    def savefig(self, file, format, dpi): file.write(b'P' * self.size)
pyplot = types.ModuleType('matplotlib.pyplot')
figures = {}
pyplot.get_fignums = lambda: list(figures)
pyplot.figure = figures.get
pyplot.close = lambda which: figures.clear()
sys.modules['matplotlib'] = types.ModuleType('matplotlib')
sys.modules['matplotlib.pyplot'] = pyplot
"""
IS_WHOLE = "\n… cut to be short; the whole value is in _"


@pytest.fixture(scope="module")
def shared() -> Iterator[Sandbox]:
    """One for all that ask only for what a run shows."""
    with Sandbox() as started:
        yield started


class Slow:
    def __repr__(self) -> str:
        while True:
            pass


class Odd:
    def __repr__(self) -> str:
        return 5  # type: ignore[return-value]


class Bad:
    def __repr__(self) -> str:
        raise ValueError


class Page:
    def _repr_html_(self) -> str:
        return "<style>x{}</style><table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>x &amp; y</td></tr></table>"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ((1,), "(1,)"),
        ({"a": {2, 1}, "b": frozenset({3})}, "{'a': {1, 2}, 'b': frozenset({3})}"),
        ({"b", "a", "c"}, "{'a', 'b', 'c'}"),
        (([], {}, set(), ()), "([], {}, set(), ())"),
        ([Bad(), 1], "[<Bad object, whose repr raises ValueError>, 1]"),
        (Odd(), "<Odd object, whose repr raises TypeError>"),
        (Slow(), "<Slow object, whose repr takes longer than 2 s>"),
        (Page(), "Page: a | b\n1 | x & y"),
        pytest.param(10**5000, "<int object, whose repr raises ValueError>", id="int"),
        ([[[[[[[1, 2]]]]]]], "[[[[[[[… 2 items]]]]]]]" + IS_WHOLE),
        ({"a": {"b": {"c": {"d": {"e": {"f": {}}}}}}}, "{'a': {'b': {'c': {'d': {'e': {'f': {}}}}}}}"),
        (
            {"first": "x" * 60, "second": ["y" * 30, "z" * 30]},
            "{'first': '" + "x" * 60 + "',\n 'second': ['" + "y" * 30 + "', '" + "z" * 30 + "']}",
        ),
        ([111] * 30, "[" + ", ".join(["111"] * 20) + ",\n " + ", ".join(["111"] * 10) + "]"),
    ],
)  # fmt: skip
def test_value_is_laid_out_to_be_read(value: object, text: str) -> None:
    assert shown(value) == text


@pytest.mark.parametrize(
    ("value", "start", "end"),
    [
        ("ab" * 9_000, "'abab", "ab' (18,000 characters)" + IS_WHOLE),
        (b"ab" * 9_000, "b'abab", "ab' (18,000 bytes)" + IS_WHOLE),
        (list(range(10**6)), "[0, 1, 2, 3,", " more]" + IS_WHOLE),
        (dict.fromkeys(range(10**5), "v" * 100), "{0: 'vvv", " more}" + IS_WHOLE),
        ([["w" * 1_000] * 50] * 50, "[['wwww", " more]" + IS_WHOLE),
        (type("Huge", (), {"__repr__": lambda self: "h" * 10**6})(), "hhhh", "hhhh" + IS_WHOLE),
    ],
)
def test_long_value_keeps_its_beginning_and_says_where_the_whole_is(value: object, start: str, end: str) -> None:
    text = shown(value)
    assert 1_000 < len(text) <= CHARACTERS_MAX
    assert text.startswith(start) and text.endswith(end)


def test_what_a_reply_has_room_for_is_shown_whole() -> None:
    records = [{"id": number, "title": "word " * 50} for number in range(40)]
    text = shown(records)
    assert CHARACTERS_MAX < len(text) <= WHOLE_CHARACTERS_MAX
    assert text == "[" + ",\n ".join(f"{{'id': {each['id']},\n  'title': {each['title']!r}}}" for each in records) + "]"
    assert len(shown(records * 2)) <= CHARACTERS_MAX


def test_one_line_of_a_value_says_how_much_there_is() -> None:
    assert in_one_line([1, 2], 50) == "[1, 2]"
    assert in_one_line(list(range(1000)), 30) == "list of 1,000 [0, 1, 2, 3, 4,…"
    assert in_one_line("x" * 1000, 30) == "str of 1,000 'xxxxxxxxxxxxxxx…"
    assert in_one_line({"a\nb": "c\nd" * 30}, 30) == r"dict of 1 {'a\nb': 'c\ndc\ndc…"


def test_html_is_read_as_text() -> None:
    source = "<h1>T</h1><p>one\ntwo<br>three</p><script>no()</script><ul><li>x</li></ul><td>unclosed"
    assert text_of(source) == "T\none two\nthree\nx\nunclosed"


def test_whole_value_is_in_the_underscore(sandbox: Sandbox) -> None:
    assert sandbox.run("'x' * 20_000")["value"].endswith(IS_WHOLE)
    assert sandbox.run("len(_)")["value"] == "20000"


def test_data_shows_its_shape_its_types_and_rows_without_an_import(sandbox: Sandbox) -> None:
    assert sandbox.run("import sys\n{'pandas', 'numpy'} & set(sys.modules)")["value"] == "set()"
    sandbox.run(FAKE_PANDAS)
    columns = ", ".join(f"c{n} int64" for n in range(12))
    frame = f"DataFrame 1,200 x 14 [{columns}, … 2 more]"
    assert sandbox.run("DataFrame()")["value"] == f"{frame}\nthe rows"
    assert sandbox.run("[Series()]")["value"] == "[Series 1,200 float64 price]"
    assert sandbox.run("Series()")["value"] == "Series 1,200 float64 price\nthe numbers"
    bound = sandbox.run("df, s = DataFrame(), Series()")["bound"]
    assert bound == ["df: " + frame[:119] + "…", "s: Series 1,200 float64 price"]


@pytest.mark.parametrize(
    ("code", "bound"),
    [
        ("x = 3", ["x = 3"]),
        ("x: int = 3\nx += 1", ["x = 4"]),
        ("print(1)\na, (b, *c) = 1, (2, 3, 4)", ["a = 1", "b = 2", "c = [3, 4]"]),
        ("d = {}\nd['k'] = 1\nd['l'] = 2", ["d = {'k': 1, 'l': 2}"]),
        ("import json", ["json: module json 2.0.9"]),
        ("import json, os\nx = 1", ["x = 1"]),
        ("def f(a, *, b=2): pass\nclass C: pass", ["f: function (a, b)", "C: class"]),
        ("async def g(): pass", ["g: async function ()"]),
        ("'A docstring.'\nt = 'x' * 500", ["t: str of 500 '" + "x" * 80 + "' … 'xxxxxxxxxxxxxxxxxxxxxx…"]),
        ("b = len", ["b: built-in function"]),
        ("for i in range(3): y = i", None),
        ("x = 1\nprint(x)", None),
        ("x = 1;", None),
        ("_ = 1\n_private = 2", None),
        ("x = None", ["x = None"]),
        ("x = 1\ndel x", None),
        ("await asyncio.sleep(0)\nx = 5", ["x = 5"]),
        ("def f(): global q; q = 1\nz = f()", ["f: function ()", "z = None"]),
    ],
)  # fmt: skip
def test_run_that_ends_in_an_assignment_shows_what_it_bound(shared: Sandbox, code: str, bound: object) -> None:
    done = shared.run(code)
    assert (done["value"], done.get("bound")) == (None, bound)


def test_bound_names_are_bounded(sandbox: Sandbox) -> None:
    bound = sandbox.run("\n".join(f"name{n} = 'v' * 1000" for n in range(30)))["bound"]
    assert bound[0] == "… 22 more names before these"
    assert [line.split(":")[0] for line in bound[1:]] == [f"name{n}" for n in range(22, 30)]
    assert max(map(len, bound)) <= 160


def test_value_that_hangs_when_it_is_shown_does_not_cost_the_run(sandbox: Sandbox) -> None:
    code = "class Slow:\n    def __repr__(self):\n        while True: pass\nprint('done')\ns = Slow()"
    done = sandbox.run(code)
    assert (done["outcome"], done["stdout"]) == ("finished", "done\n")
    assert done["bound"] == ["s = <Slow object, whose repr takes longer than 2 s>"]
    # The alarm is the user's again.
    assert sandbox.run("import signal\nsignal.getsignal(signal.SIGALRM)")["value"] == "<Handlers.SIG_DFL: 0>"


def test_open_figures_are_sent_and_closed(sandbox: Sandbox) -> None:
    done = sandbox.run(FAKE_PYPLOT + "figures.update({1: Figure(3), 2: Figure(2_000_000), 3: Figure(4)})")
    assert done["images"] == [
        {"mime_type": "image/png", "base64": "UFBQ"},
        {"mime_type": "image/png", "base64": "UFBQUA=="},
    ]
    saved = re.match(r"images saved as files: (/\w+/image-1-2.png) ", done["notes"][0])
    assert saved
    assert sandbox.run(f"import os\nfigures, os.path.getsize({saved[1]!r}), os.remove({saved[1]!r})")["value"] == (
        "({}, 2000000, None)"
    )


def test_of_many_figures_those_without_room_are_not_drawn(sandbox: Sandbox) -> None:
    code = (
        "drawn = 0\nclass Counted(Figure):\n    def savefig(self, *_, **__):\n        global drawn\n"
        "        drawn += 1\n"
        "        super().savefig(*_, **__)\nfigures.update({n: Counted(1) for n in range(100)});"
    )
    done = sandbox.run(FAKE_PYPLOT + code)
    assert (len(done["images"]), sandbox.run("drawn")["value"]) == (4, "20")
    assert done["notes"][1].startswith("images left out: 80 ")
    files = re.findall(r"/\w+/image-1-\d+.png", done["notes"][0])
    assert sandbox.run(f"import os\nfor file in {files}: os.remove(file)")["outcome"] == "finished"


def test_own_picture_of_a_value_is_shown_beside_its_text(sandbox: Sandbox) -> None:
    code = "class P:\n    def __repr__(self): return 'a picture'\n    def _repr_png_(self): return b'PPP'\n"
    done = sandbox.run(code + "P()")
    assert (done["value"], done["images"]) == ("a picture", [{"mime_type": "image/png", "base64": "UFBQ"}])
    for made in ("('UFBQ', {})", "b'PPP'"):
        done = sandbox.run(f"class J:\n    def _repr_jpeg_(self): return {made}\nruntime.show(J())")
        assert (done["value"], done["images"]) == (None, [{"mime_type": "image/jpeg", "base64": "UFBQ"}])
    assert sandbox.run("P")["images"] == []
    broken = sandbox.run("class B:\n    def __repr__(self): return 'b'\n    def _repr_png_(self): 1 / 0\nB()")
    assert (broken["outcome"], broken["value"], broken["images"]) == ("finished", "b", [])


def test_show_takes_bytes_of_an_image_and_prints_what_is_no_picture(sandbox: Sandbox) -> None:
    done = sandbox.run(r"runtime.show(b'\x89PNG\r\n\x1a\nrest')" + "\nruntime.show([1, 2])\nruntime.show(b'ab')")
    assert [image["mime_type"] for image in done["images"]] == ["image/png"]
    assert done["stdout"] == "[1, 2]\nb'ab'\n"


def test_images_are_told_by_their_first_bytes() -> None:
    assert kind_of(b"\xff\xd8\xff\xe0") == "image/jpeg"
    assert kind_of(b"GIF89a.") == "image/gif"
    assert kind_of(b"RIFF....WEBPVP8 ") == "image/webp"
    assert kind_of(b"RIFF....WAVE") is None


def test_last_output_is_all_that_the_run_before_wrote(sandbox: Sandbox) -> None:
    assert sandbox.run("runtime.last_output()")["value"] == "''"
    sandbox.run(
        "import os, sys\nprint('out')\nprint('err', file=sys.stderr)\nos.system('echo sub')\nos.write(1, b'\\xff\\n');"
    )
    done = sandbox.run("print('present')\nsorted(runtime.last_output().splitlines())")
    assert done["value"] == r"['\\xff', 'err', 'out', 'sub']"
    assert sandbox.run("runtime.last_output()")["value"] == r"'present\n'"
    assert sandbox.run("runtime.last_output()")["value"] == "''"


def test_last_output_of_a_worker_that_was_killed_is_still_there() -> None:
    with Sandbox(frozen_copy_bytes=512 << 20) as sandbox:
        sandbox.run("x = 1")
        sandbox.start("print('last words', flush=True)\nimport os\nos.kill(os.getpid(), 9)")
        sandbox.wait("worker_started")
        assert sandbox.run("runtime.last_output()")["value"] == r"'last words\n'"


def test_of_a_flood_the_record_keeps_head_and_tail() -> None:
    record = OutputRecord()
    record.add(b"before")
    record.begin_run()
    lines = [b"%09d\n" % number for number in range(500_000)]
    for at in range(0, len(lines), 777):
        record.add(b"".join(lines[at : at + 777]))
    record.begin_run()
    head, _, tail = record.last_run().partition("\n[805,696 bytes are not kept]\n")
    whole = b"".join(lines).decode()
    assert (head, tail) == (whole[:HEAD_BYTES_MAX], whole[-TAIL_BYTES_MAX:])
    assert len(whole) - HEAD_BYTES_MAX - TAIL_BYTES_MAX == 805_696


def test_one_piece_larger_than_the_record_keeps_head_and_tail() -> None:
    record = OutputRecord()
    record.begin_run()
    whole = b"".join(b"%09d\n" % number for number in range(1_000_000))
    record.add(whole)
    record.begin_run()
    text = record.last_run().encode()
    assert text.startswith(whole[:HEAD_BYTES_MAX]) and text.endswith(whole[-TAIL_BYTES_MAX:])
    assert len(text) == HEAD_BYTES_MAX + TAIL_BYTES_MAX + len("\n[5,805,696 bytes are not kept]\n")


def test_rows_of_data_have_the_room_of_a_reply(sandbox: Sandbox) -> None:
    sandbox.run(FAKE_PANDAS)
    whole = sandbox.run("DataFrame.__repr__ = lambda self: 'row\\n' * 3_000\nDataFrame()")["value"]
    assert whole.count("row") == 3_000
    assert sandbox.run("DataFrame.__repr__ = lambda self: 'row\\n' * 9_000\nDataFrame()")["value"].endswith(IS_WHOLE)


def test_a_picture_file_is_shown_by_its_name(sandbox: Sandbox) -> None:
    code = "from mcp import runtime\nopen('/tmp/one.png', 'wb').write(b'\\x89PNG\\r\\n\\x1a\\n')\n"
    assert [image["mime_type"] for image in sandbox.run(f"{code}runtime.show('/tmp/one.png')")["images"]] == [
        "image/png"
    ]
    assert sandbox.run("runtime.show('/tmp/two.png')")["error"]["type"] == "FileNotFoundError"
    assert sandbox.run("runtime.show('a text')")["stdout"] == "'a text'\n"


def test_the_picture_of_a_result_is_one_by_its_first_bytes_whatever_the_server_calls_it(sandbox: Sandbox) -> None:
    for mime_type in ("image/png", "IMAGE/PNG; q=1", "application/png", "text/plain", "", None):
        result = {"content": [{"type": "image", "data": "iVBORw0KGgo=", "mimeType": mime_type}]}

        def on_call(_call: Frame, result: object = result) -> object:
            return result

        shown = sandbox.run("await mcp_a.t()", ("a",), on_call)["images"]
        assert [image["mime_type"] for image in shown] == ["image/png"], mime_type


def test_the_picture_of_a_result_is_shown_as_that_of_a_last_expression(sandbox: Sandbox) -> None:
    def on_call(call: Frame) -> object:
        image = {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}
        return {"content": [image, {"type": "text", "text": "t"}][: 1 if call["arguments"] == {} else 2]}

    for code in ("await mcp_a.t()", "await mcp_a.t(x=1)"):
        assert len(sandbox.run(code, ("a",), on_call)["images"]) == 1, code
        assert sandbox.run(f"{code};", ("a",), on_call)["images"] == [], code
