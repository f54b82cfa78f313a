"""What a run's value and error look like: bounded, never raising, without the runtime's own frames.

It does not shorten for the reader's budget: the bridge does, these bounds only keep frames small.
"""

from __future__ import annotations

import linecache
from itertools import dropwhile, islice
from traceback import TracebackException
from types import TracebackType

from .interrupts import ASYNCIO, OURS

VALUE_CHARACTERS_MAX = 4_000
MESSAGE_CHARACTERS_MAX = 16_000
TRACEBACK_CHARACTERS_MAX = 64_000
TRACEBACK_FRAMES_MAX = 4_000
SOURCES_CHARACTERS_MAX = 8_000_000
SOURCES_MAX = 1_000
_ITEMS_MAX = 1_000
_NESTING_MAX = 20
_BRACKETS: dict[type, tuple[str, str]] = {
    list: ("[", "]"),
    tuple: ("(", ")"),
    dict: ("{", "}"),
    set: ("{", "}"),
    frozenset: ("frozenset({", "})"),
}


class Sources:
    """The code of past runs, so that tracebacks and inspect.getsource find it; the oldest is forgotten."""

    def __init__(self) -> None:
        self._sizes: dict[str, int] = {}
        self._characters = 0
        self._cache = linecache.cache

    def keep(self, name: str, code: str) -> None:
        lines = [f"{line}\n" for line in code.replace("\r\n", "\n").split("\n")]
        self._cache[name] = (len(code), None, lines, name)
        self._characters += len(code) - self._sizes.get(name, 0)
        self._sizes[name] = len(code)
        while (self._characters > SOURCES_CHARACTERS_MAX or len(self._sizes) > SOURCES_MAX) and len(self._sizes) > 1:
            oldest = next(iter(self._sizes))
            self._characters -= self._sizes.pop(oldest)
            self._cache.pop(oldest, None)


def error_report(error: BaseException, run_name: str, kind: str | None = None) -> dict[str, object]:
    if kind is None:
        module, kind = type(error).__module__, type(error).__qualname__
        if module not in ("builtins", "__main__"):
            kind = f"{module}.{kind}"
    try:
        message = str(error)
    except BaseException:
        message = "<its __str__ raises>"
    return {
        "type": kind,
        "message": cut(message, MESSAGE_CHARACTERS_MAX),
        "traceback": cut(traceback_text(error, kind, message), TRACEBACK_CHARACTERS_MAX),
        "line": _line(error, run_name),
    }


def traceback_text(error: BaseException, kind: str, message: str) -> str:
    try:
        left_out = _cut_tracebacks(error)
        formatted = TracebackException.from_exception(error, compact=True)
        _without_ours(formatted, set())
        text = "".join(formatted.format()).rstrip("\n")
        return f"({left_out:,} frames left out in the middle)\n{text}" if left_out else text
    except BaseException as second:
        return f"{kind}: {message}\n(no traceback: {type(second).__name__} while formatting it)"


def bounded_repr(value: object, characters_max: int = VALUE_CHARACTERS_MAX) -> str:
    try:
        return cut(_repr(value, characters_max, 0), characters_max)
    except Exception as error:
        return f"<{type(value).__name__} object, whose repr raises {type(error).__name__}>"


def cut(text: str, characters_max: int) -> str:
    """Head and tail, which of tracebacks and reprs say the most."""
    if len(text) <= characters_max:
        return text
    mark = f" ... {len(text) - characters_max + 40:,} characters cut ... "
    room = max(characters_max - len(mark), 2)
    return text[: room * 2 // 3] + mark + text[len(text) - room // 3 :]


def _repr(value: object, room: int, nesting: int) -> str:
    """Like repr, but stops at what would be cut: a list of 10**7 items is not turned into text first."""
    kind = type(value)
    if isinstance(value, str | bytes) and kind in (str, bytes):
        return repr(value) if len(value) <= room else f"{value[:room]!r}... ({len(value):,} long)"
    if kind not in _BRACKETS or nesting > _NESTING_MAX:
        return repr(value)
    assert isinstance(value, list | tuple | dict | set | frozenset)
    if len(value) == 0 or (len(value) <= 20 and nesting > 3):
        return repr(value)
    parts, used = [], 0
    for item in islice(value.items() if isinstance(value, dict) else value, _ITEMS_MAX):
        if isinstance(value, dict):
            part = f"{_repr(item[0], room, nesting + 1)}: {_repr(item[1], room, nesting + 1)}"
        else:
            part = _repr(item, room, nesting + 1)
        parts.append(part)
        used += len(part) + 2
        if used > room:
            break
    if len(parts) < len(value):
        parts.append(f"... {len(value) - len(parts):,} more")
    elif kind is tuple and len(parts) == 1:
        parts.append("")
    opening, closing = _BRACKETS[kind]
    return opening + ", ".join(parts).rstrip(" ") + closing


def _cut_tracebacks(error: BaseException) -> int:
    """Takes the middle out of those that would take minutes to read, of millions of frames; how many frames that is."""
    left_out, waiting, seen = 0, [error], set()
    while waiting:
        error = waiting.pop()
        if id(error) not in seen:
            seen.add(id(error))
            left_out += _cut_traceback(error.__traceback__)
            waiting += [linked for linked in (error.__cause__, error.__context__) if linked is not None]
    return left_out


def _cut_traceback(tb: TracebackType | None) -> int:
    kept, count, node = tb, 0, tb
    while node is not None:
        count += 1
        if count == TRACEBACK_FRAMES_MAX // 2:
            kept = node
        node = node.tb_next
    left_out = count - TRACEBACK_FRAMES_MAX
    if left_out <= 0 or kept is None:
        return 0
    node = kept.tb_next
    for _ in range(left_out):
        node = None if node is None else node.tb_next
    kept.tb_next = node
    return left_out


def _without_ours(formatted: TracebackException, seen: set[int]) -> None:
    if id(formatted) in seen:
        return
    seen.add(id(formatted))
    frames = [frame for frame in formatted.stack if not _is_ours(frame.filename)]
    # The event loop that drives top-level await is ours too, in effect.
    formatted.stack[:] = dropwhile(lambda frame: frame.filename.startswith(ASYNCIO), frames)
    for inner in (formatted.__cause__, formatted.__context__, *(formatted.exceptions or ())):
        if inner is not None:
            _without_ours(inner, seen)


def _is_ours(file: str) -> bool:
    return file.startswith((OURS, "<string>"))


def _line(error: BaseException, run_name: str) -> int | None:
    if isinstance(error, SyntaxError) and error.filename == run_name:
        return error.lineno
    line, tb = None, error.__traceback__
    while isinstance(tb, TracebackType):
        if tb.tb_frame.f_code.co_filename == run_name:
            line = tb.tb_lineno
        tb = tb.tb_next
    return line
