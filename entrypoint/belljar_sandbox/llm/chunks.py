"""Cuts a text, or a file that may be larger than memory, into parts that a model can read.

A part ends at a paragraph, line or sentence if possible, and never inside a character. Parts are cut when they are
read, so that a file is never in memory as a whole.
"""

from __future__ import annotations

import os
import re
from array import array
from codecs import getincrementaldecoder
from collections.abc import Iterator, Sequence

from ..calls.awaitable import Awaitable
from ..calls.placeholder import Placeholder
from ..kernel.type_names import Any

# The default overlap; for small parts, a quarter of their size.
_OVERLAP = 200
_PATH_CHARACTERS_MAX = 4096
_SIZE_MAX = 64 * 1024 * 1024
# How many parts are cut to show how many there are.
_COUNTED_MAX = 1000
# How much of a file is read to find out whether it is text.
_LOOKED_AT_BYTES = 8192
_MARK = b"\xef\xbb\xbf"
_PARAGRAPH = re.compile(r"\n[ \t\r]*\n\s*")
_LINE = re.compile(r"\n")
# The end of a sentence, with closing quotes and brackets, also in Chinese and Japanese. The quantifiers are possessive,
# so that each sequence of marks is read only once.
_SENTENCE = re.compile("(?<![.!?\u2026])[.!?\u2026]++[\"'\u201d\u2019)\\]]*+\\s+|[\u3002\uff01\uff1f]")
_WORD = re.compile(r"\s+")
# Where a part may end, the best first; if none of them is found, anywhere.
_ENDS = {
    "paragraph": (_PARAGRAPH, _LINE, _SENTENCE, _WORD),
    "line": (_LINE, _WORD),
    "sentence": (_SENTENCE, _LINE, _WORD),
    "chars": (),
}


class Chunk(str):
    """A part of a text. `start` and `end` are its place: in characters of a text, in bytes of a file."""

    __module__ = "mcp.runtime"

    start: int
    end: int


class Chunks(Awaitable, Sequence["Chunk"]):
    """The parts, cut when they are read. len() has to cut all of them."""

    __module__ = "mcp.runtime"

    def __init__(self, source: _Text | _File, size: int, overlap: int, by: str) -> None:
        self._source = source
        self._size = size
        self._overlap = overlap
        self._ends = _ENDS[by]
        self._places = array("Q")
        self._next: int | None = source.first

    def __iter__(self) -> Iterator[Chunk]:
        at = 0
        while self._cut_to(at):
            yield self._chunk(at)
            at += 1

    def __len__(self) -> int:
        while self._next is not None:
            self._cut()
        return len(self._places) // 2

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return [self._chunk(one) for one in range(*at.indices(len(self)))]
        if at < 0:
            at += len(self)
        if at < 0 or not self._cut_to(at):
            raise IndexError("there is no such chunk")
        return self._chunk(at)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Chunks | list | tuple):
            return NotImplemented
        return len(self) == len(other) and all(one == another for one, another in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment] # as a list's

    def __repr__(self) -> str:
        self._cut_to(_COUNTED_MAX)
        more = "" if self._next is None else " and more"
        return f"<chunks of {self._source.name}, {len(self._places) // 2:,}{more}: iterate, or [number]>"

    def _chunk(self, at: int) -> Chunk:
        start, end = self._places[2 * at], self._places[2 * at + 1]
        chunk = Chunk(self._source.read(start, end))
        chunk.start, chunk.end = start, end
        return chunk

    def _cut_to(self, at: int) -> bool:
        while len(self._places) // 2 <= at and self._next is not None:
            self._cut()
        return len(self._places) // 2 > at

    def _cut(self) -> None:
        start = self._next
        assert start is not None
        text, is_last = self._source.window(start, self._size)
        if is_last:
            self._next = None
            if text:
                self._places.extend((start, start + self._source.length(text)))
            return
        text = text[: self._end(text)]
        end = start + self._source.length(text)
        self._places.extend((start, end))
        self._next = end - self._source.length(text[self._repeated_from(text) :])

    def _end(self, text: str) -> int:
        """Returns where the part ends: the last good place in its second half."""
        half = len(text) // 2
        for pattern in self._ends:
            places = [found.end() for found in pattern.finditer(text, half)]
            if places:
                return places[-1]
        return len(text)

    def _repeated_from(self, text: str) -> int:
        """Returns where the next part begins, which repeats the end of this one: at a line or a word, if possible."""
        begin = max(len(text) - self._overlap, 1)
        for pattern in (_LINE, _WORD) if self._ends and self._overlap else ():
            # A line or word that begins exactly there is complete, too.
            found = pattern.search(text, begin - 1)
            if found is not None and found.end() < len(text):
                return found.end()
        return begin


class _Text:
    name = "a text"
    first = 0

    def __init__(self, text: str) -> None:
        self._text = text

    def window(self, start: int, characters: int) -> tuple[str, bool]:
        end = start + characters
        return self._text[start:end], end >= len(self._text)

    def length(self, text: str) -> int:
        return len(text)

    def read(self, start: int, end: int) -> str:
        return self._text[start:end]


class _File:
    """A UTF-8 file, opened for each read. Other bytes become U+FFFD."""

    def __init__(self, path: str) -> None:
        self.name = path
        with open(path, "rb") as file:
            beginning = file.read(_LOOKED_AT_BYTES)
        if b"\0" in beginning:
            raise ValueError(f"{path} is no text in UTF-8: it has a zero byte; give its text instead of its path")
        self.first = len(_MARK) if beginning.startswith(_MARK) else 0

    def window(self, start: int, characters: int) -> tuple[str, bool]:
        decoder = getincrementaldecoder("utf-8")("surrogateescape")
        pieces, missing = [], characters + 1
        with open(self.name, "rb") as file:
            file.seek(start)
            while missing > 0:
                # A byte is at most one character.
                data = file.read(missing)
                piece = decoder.decode(data, final=not data)
                pieces.append(piece)
                missing -= len(piece)
                if not data:
                    break
        text = "".join(pieces)
        return text[:characters], len(text) <= characters

    def length(self, text: str) -> int:
        return len(text.encode("utf-8", "surrogateescape"))

    def read(self, start: int, end: int) -> str:
        with open(self.name, "rb") as file:
            file.seek(start)
            return file.read(end - start).decode("utf-8", "replace")


def chunks(text_or_path: Any, size: int, overlap: int | None, by: str) -> Chunks:
    """Returns the parts of a text or a file."""
    if type(by) is not str or by not in _ENDS:
        raise ValueError(f"by is {by!r}; it is one of {', '.join(map(repr, _ENDS))}")
    _whole_number("size", size, 1, _SIZE_MAX)
    if overlap is None:
        overlap = min(_OVERLAP, size // 4)
    # Each part is longer than half of the size, so with this limit the next part begins after the start of this one.
    _whole_number("overlap", overlap, 0, size // 2)
    return Chunks(_source(text_or_path), size, overlap, by)


def _source(text_or_path: Any) -> _Text | _File:
    match text_or_path:
        case Placeholder():
            return _Text(repr(text_or_path))
        case os.PathLike():
            return _File(os.fsdecode(text_or_path))
        case str() if _is_file(text_or_path):
            return _File(text_or_path)
        case str():
            return _Text(text_or_path)
        case bytes() | bytearray():
            raise TypeError("chunk takes a text or a path, not bytes; decode them: data.decode()")
    raise TypeError(f"chunk takes a text or a path, not {type(text_or_path).__name__}")


def _is_file(text: str) -> bool:
    return len(text) <= _PATH_CHARACTERS_MAX and "\n" not in text and os.path.isfile(text)


def _whole_number(name: str, value: object, least: int, most: int) -> None:
    if type(value) is not int:
        raise TypeError(f"{name} is a whole number of characters, not {type(value).__name__}")
    if not least <= value <= most:
        raise ValueError(f"{name} is {value:,}, outside {least} to {most:,} characters")
