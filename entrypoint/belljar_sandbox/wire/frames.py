"""Encodes and decodes frames, which are bounded lines of JSON.

It does no I/O, and knows of a frame's meaning only the names of the types.
"""

from __future__ import annotations

import codecs
from _json import encode_basestring, make_encoder
from collections.abc import Mapping

from .json_reader import reader

Frame = dict[str, object]

DEPTH_MAX = 128
JOB_DIGITS_MAX = 10
SUPERVISOR, WORKER, JOB = b"S", b"W", b"J"

TO_SANDBOX = {
    SUPERVISOR: frozenset(
        (
            *("hello", "interrupt", "replace", "forget", "end_job", "file", "keep", "ping", "shutdown"),
            *("take_snapshot", "restore_snapshot"),
        )
    ),
    WORKER: frozenset(("run", "result")),
}


class FrameError(ValueError):
    """A line is not a frame. `kind` is one of utf8, depth, not_json, not_object, type."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


def _no_constant(name: str) -> object:
    raise ValueError(name)


def _no_default(thing: object) -> object:
    raise TypeError(f"{type(thing).__name__} in a frame")


def _surrogate_as_text(error: UnicodeError) -> tuple[str, int]:
    # The backslash of the escape is doubled: in JSON text, a single one would produce the lone surrogate again.
    if not isinstance(error, UnicodeEncodeError):
        raise error
    found = error.object[error.start : error.end]
    return "".join(f"\\\\u{ord(character):04x}" for character in found), error.end


codecs.register_error("belljar", _surrogate_as_text)
# Created once, while JSONEncoder.encode creates one at each use. Frames are ours and have no cycles to look for.
_chunks = make_encoder(None, _no_default, encode_basestring, None, ":", ",", False, False, False)
_read = reader(_no_constant)
_BRACKETS = bytes.maketrans(b"{}", b"[]")
_NOT_BRACKETS = bytes(byte for byte in range(256) if byte not in b"[]{}")


def encode(frame: Mapping[str, object]) -> bytes:
    """Returns the frame's line without its address."""
    return "".join(_chunks(frame, 0)).encode("utf-8", "belljar") + b"\n"


def decode(body: bytes, types: frozenset[str], depth_max: int = DEPTH_MAX) -> Frame:
    """Returns the frame of a line without its address and line feed."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        raise FrameError("utf8") from None
    if deeper_than(depth_max, body):
        raise FrameError("depth")
    try:
        frame = _read(text)
    except RecursionError:
        raise FrameError("depth") from None
    except ValueError:
        raise FrameError("not_json") from None
    if type(frame) is not dict:
        raise FrameError("not_object")
    kind = frame.get("type")
    if type(kind) is not str or kind not in types:
        raise FrameError("type")
    return frame


def deeper_than(depth_max: int, text: bytes) -> bool:
    """Whether JSON nests deeper than this. It is not parsed: each round of replacing brackets removes a level."""
    if text.count(b"[") + text.count(b"{") <= depth_max:
        return False
    unescaped = text.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in text else text
    brackets = b"".join(unescaped.split(b'"')[::2]).translate(_BRACKETS, _NOT_BRACKETS)
    for _ in range(depth_max):
        if not brackets:
            return False
        brackets = brackets.replace(b"[]", b"")
    return bool(brackets)


class LineSplitter:
    """Cuts a byte stream into lines of at most `bound` bytes, line feed included.

    It drops and counts lines that are longer, or that did not fit into memory.
    """

    def __init__(self, bound: int) -> None:
        self._bound = bound
        self._parts: list[bytes] = []
        self._held = 0
        self._skipping = False
        self.dropped = 0

    def feed(self, data: bytes) -> list[bytes]:
        lines = data.split(b"\n")
        tail = lines.pop()
        if lines:
            if self._skipping:
                del lines[0]
                self._skipping = False
            elif self._parts:
                parts, self._parts = self._parts, []
                parts.append(lines[0])
                try:
                    lines[0] = b"".join(parts)
                except MemoryError:
                    del lines[0]
                    self.dropped += 1
            self._parts = []
            self._held = 0
            if len(data) >= self._bound or (lines and len(lines[0]) >= self._bound):
                fitting = [line for line in lines if len(line) < self._bound]
                self.dropped += len(lines) - len(fitting)
                lines = fitting
        if tail and not self._skipping:
            self._parts.append(tail)
            self._held += len(tail)
            if self._held >= self._bound:
                self._parts = []
                self._held = 0
                self._skipping = True
                self.dropped += 1
        return lines
