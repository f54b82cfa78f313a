"""Chunks: where texts and files are cut, and that nothing of them is lost."""

from __future__ import annotations

import random
import resource
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from belljar_sandbox.calls.placeholder import Placeholder
from belljar_sandbox.llm.chunks import Chunks, chunks
from sandbox import ENTRYPOINT, Sandbox

TEXT = "One two. Three four!\nFive.\n\nSix seven? Eight nine.\nTen\n\n\nEleven " + "x" * 60 + " twelve\n"
BYS = ("paragraph", "line", "sentence", "chars")


def cut(text: object, size: int = 8000, overlap: int | None = None, by: str = "paragraph") -> Chunks:
    return chunks(text, size, overlap, by)


def whole(parts: Chunks) -> str:
    """What the parts are of, put together by their places."""
    text = ""
    for part in parts:
        assert part.start <= len(text) and part.end == part.start + len(part)
        text = text[: part.start] + part
    return text


def test_parts_end_where_the_text_does() -> None:
    assert list(cut(TEXT, 40, 0)) == [
        "One two. Three four!\nFive.\n\n",
        "Six seven? Eight nine.\nTen\n\n\n",
        "Eleven " + "x" * 33,
        "x" * 27 + " twelve\n",
    ]
    assert list(cut(TEXT, 24, 0, "sentence"))[:3] == [
        "One two. Three four!\n",
        "Five.\n\nSix seven? ",
        "Eight nine.\nTen\n\n\n",
    ]
    assert list(cut(TEXT, 40, 0, "line"))[:2] == [
        "One two. Three four!\nFive.\n\n",
        "Six seven? Eight nine.\nTen\n\n\n",
    ]
    assert list(cut("abcdefg", 3, 0, "chars")) == ["abc", "def", "g"]
    assert list(cut("今日は。明日も。昨日?", 7, 0, "sentence")) == ["今日は。", "明日も。昨日?"]


def test_the_overlap_begins_at_a_line_or_a_word() -> None:
    first, second = list(cut("one two three four five six", 18, 9))[:2]
    assert (first, second) == ("one two three ", "three four five ")
    assert list(cut("aaaa\nbbbb\ncccc\n", 10, 5, "line")) == ["aaaa\nbbbb\n", "bbbb\ncccc\n"]
    assert list(cut("abcdefgh", 4, 2, "chars")) == ["abcd", "cdef", "efgh"]


@pytest.mark.parametrize("by", BYS)
def test_nothing_is_lost_whatever_the_text_and_the_size(by: str, tmp_path: Path) -> None:
    chosen = random.Random(7)
    for turn in range(150):
        letters = ["a", "bc", " ", "\n", "\n\n", ". ", "é", "漢", "🔑", "。", "\r\n"]
        text = "".join(chosen.choice(letters) for _ in range(chosen.randrange(80)))
        size = chosen.randrange(1, 30)
        overlap = chosen.randrange(0, size // 2 + 1)
        parts = cut(text, size, overlap, by)
        assert whole(parts) == text, (turn, text, size, overlap)
        assert all(0 < len(part) <= size for part in parts)
        path = tmp_path / "text"
        path.write_bytes(text.encode())
        of_file = cut(path, size, overlap, by)
        assert [str(part) for part in of_file] == [str(part) for part in parts]
        data = text.encode()
        assert all(data[part.start : part.end].decode() == part for part in of_file)


def test_it_is_as_a_list() -> None:
    parts = cut("abcdefg", 3, 0, "chars")
    assert parts[1] == "def" and (parts[1].start, parts[1].end) == (3, 6)
    assert len(parts) == 3 and parts[-1] == "g" and parts[1:] == ["def", "g"] and "def" in parts
    assert parts == ["abc", "def", "g"] and parts != ["abc"] and list(parts) == list(parts)
    assert repr(parts) == "<chunks of a text, 3: iterate, or [number]>"
    assert repr(cut("a" * 5000, 2, 0)) == "<chunks of a text, 1,001 and more: iterate, or [number]>"
    for beyond in (3, -4):
        with pytest.raises(IndexError):
            parts[beyond]
    nothing = cut("")
    assert nothing == [] and not nothing and len(nothing) == 0


def test_a_text_that_names_a_file_is_that_file_and_another_is_a_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("notes.txt").write_text("the notes")
    assert cut("notes.txt") == ["the notes"] == cut(Path("notes.txt"))
    for text in ("notes.txt\n", "no such file.txt", str(tmp_path), "a\0b", "x" * 5000):
        assert cut(text) == [text]
    with pytest.raises(FileNotFoundError):
        cut(Path("other.txt"))


def test_a_mark_at_the_beginning_is_no_text_and_bytes_that_are_none_are_told(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"\xef\xbb\xbfab\xffcd\xf0\x9f\x94")
    parts = cut(path, 2, 0, "chars")
    assert [(part.start, part.end) for part in parts] == [(3, 5), (5, 7), (7, 9), (9, 11)]
    # The last character is cut off in the file itself, and becomes a mark wherever its bytes stand.
    assert list(parts) == ["ab", "\ufffdc", "d\ufffd", "\ufffd\ufffd"]
    path.write_bytes("text".encode("utf-16"))
    with pytest.raises(ValueError, match="is no text in UTF-8: it has a zero byte"):
        cut(path)
    path.write_bytes(b"")
    assert cut(path) == []


@pytest.mark.parametrize(
    ("arguments", "kind", "said"),
    [
        ((b"x",), TypeError, "chunk takes a text or a path, not bytes; decode them: data.decode()"),
        ((7,), TypeError, "chunk takes a text or a path, not int"),
        (("x", 0), ValueError, "size is 0, outside 1 to 67,108,864 characters"),
        (("x", 2.5), TypeError, "size is a whole number of characters, not float"),
        (("x", 10, 6), ValueError, "overlap is 6, outside 0 to 5 characters"),
        (("x", 10, 0, "page"), ValueError, "by is 'page'; it is one of 'paragraph', 'line', 'sentence', 'chars'"),
    ],
)
def test_what_is_wrong_is_said(arguments: tuple[object, ...], kind: type[Exception], said: str) -> None:
    with pytest.raises(kind) as raised:
        cut(*arguments)  # type: ignore[arg-type]
    assert str(raised.value) == said


def test_marks_without_end_are_read_in_linear_time() -> None:
    """Each character of a window is looked at a bounded number of times, not once for each other one."""
    for marks in ("." * 400_000, "\n " * 200_000, ")." * 200_000, " " * 400_000):
        assert whole(cut(marks, 400_000 - 1, 0, "sentence")) == marks


def test_a_file_is_cut_in_less_memory_than_it_has_bytes(tmp_path: Path) -> None:
    path = tmp_path / "large"
    with path.open("wb") as file:
        for _ in range(3000):
            file.write(b"a line of a large file\n" * 1000)
    code = (
        f"import sys; sys.path.insert(0, {str(ENTRYPOINT)!r})\n"
        "from pathlib import Path\nfrom belljar_sandbox.llm.chunks import chunks\n"
        f"path = Path({str(path)!r})\nparts = chunks(path, 100_000, 0, 'line')\n"
        "print(sum(len(part) for part in parts), all(part.endswith('\\n') for part in parts))\n"
        "try:\n  path.read_bytes()\nexcept MemoryError:\n  print('too large')"
    )
    small = partial(resource.setrlimit, resource.RLIMIT_DATA, (32 << 20, 32 << 20))
    done = subprocess.run([sys.executable, "-c", code], preexec_fn=small, capture_output=True, text=True, check=False)
    assert done.stdout == f"{path.stat().st_size} True\ntoo large\n", done.stderr


def test_a_placeholder_is_one_part() -> None:
    assert cut(Placeholder("a.b")) == ["<result of a.b>"]


def test_code_gets_chunks_by_either_name(sandbox: Sandbox) -> None:
    code = "p = runtime.chunk('a b c', size=2, overlap=0)\n(list(p), p[1].start, runtime.chunk_sync is runtime.chunk)"
    assert sandbox.run(code)["value"] == "(['a ', 'b ', 'c'], 2, True)"
