"""Describes the error of a run, bounded and without the runtime's own stack frames. It never raises.

These bounds only keep frames of the protocol small. The bridge shortens further for the reader.
"""

from __future__ import annotations

from itertools import dropwhile
from types import TracebackType

from ..display.text import cut
from ..worker.interrupts import ASYNCIO, LIBRARY, OURS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from traceback import TracebackException

# None until it is imported, which takes 3 ms.
_formatter: type[TracebackException] | None = None

MESSAGE_CHARACTERS_MAX = 16_000
_MARKED_CHARACTERS_MAX = 100
TRACEBACK_CHARACTERS_MAX = 64_000
TRACEBACK_FRAMES_MAX = 4_000


def prepare() -> None:
    """Imports what tracebacks need, once, since code may break imports later."""
    global _formatter
    if _formatter is None:
        import tokenize  # noqa: F401 - since Python 3.13, linecache imports it when it reads
        from traceback import TracebackException

        _formatter = TracebackException


def error_report(
    error: BaseException, run_name: str, code: str, keep: Callable[[str], int] = lambda _text: 0
) -> dict[str, object]:
    """Describes an error of code that ran under this name.

    `keep` gets the whole traceback, and returns how many characters of it code can read later.
    """
    try:
        return _report(error, run_name, code, keep)
    except BaseException as second:  # the error's class may be user code and raise anywhere
        message = f"an error that cannot be shown: {type(second).__name__} while looking at it"
        return {"type": "BaseException", "message": message, "hint": "", "traceback": message, "line": None}


def _report(error: BaseException, run_name: str, code: str, keep: Callable[[str], int]) -> dict[str, object]:
    module, kind = type(error).__module__, type(error).__qualname__
    if module not in ("builtins", "__main__"):
        kind = f"{module}.{kind}"
    if issubclass(type(error), SyntaxError):
        _add_line(error, run_name, code)  # type: ignore[arg-type]
    try:
        message = str(error)
    except BaseException:
        message = "<its __str__ raises>"
    # The hint is made before the traceback, since that removes frames from the error.
    hint = _hint(error, code)
    traceback = traceback_text(error, kind, message)
    return {
        "type": kind,
        "message": cut(message, MESSAGE_CHARACTERS_MAX),
        "hint": hint,
        "traceback": cut(traceback, TRACEBACK_CHARACTERS_MAX),
        "traceback_chars": keep(traceback),
        "line": _line(error, run_name),
    }


def _add_line(error: SyntaxError, run_name: str, code: str) -> None:
    """Adds the line to an error of the compiler. Python adds it to those of the parser only."""
    if error.filename == run_name and not error.text and isinstance(error.lineno, int):
        error.text = "".join(code.splitlines(keepends=True)[error.lineno - 1 : error.lineno])


def _hint(error: BaseException, code: str) -> str:
    try:
        from .hints import hint  # difflib takes 4 ms, and a run that succeeds does not need it

        return hint(error, code)
    except BaseException:  # for example, no more files can be opened
        return ""


def traceback_text(error: BaseException, kind: str, message: str) -> str:
    try:
        prepare()
        assert _formatter is not None
        left_out = _cut_tracebacks(error)
        # Lines are looked up only for the frames that stay: to read the others may need imports that code has broken.
        formatted = _formatter.from_exception(error, compact=True, lookup_lines=False)
        of_libraries = _without_others(formatted, set())
        text = "".join(formatted.format()).rstrip("\n")
        if of_libraries:
            text = f"({of_libraries:,} frames inside libraries left out)\n{text}"
        return f"({left_out:,} frames left out in the middle)\n{text}" if left_out else text
    except BaseException as second:
        return f"{kind}: {message}\n(no traceback: {type(second).__name__} while formatting it)"


def _cut_tracebacks(error: BaseException) -> int:
    """Removes the middle of tracebacks with millions of frames. Returns how many frames were removed."""
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


def _without_others(formatted: TracebackException, seen: set[int]) -> int:
    """Removes our own frames, and all but the last of successive frames of libraries.

    Returns how many frames of libraries were removed.
    """
    if id(formatted) in seen:
        return 0
    seen.add(id(formatted))
    frames = [frame for frame in formatted.stack if not frame.filename.startswith((OURS, "<string>"))]
    # The event loop that drives top-level await is hidden, too.
    frames = list(dropwhile(lambda frame: frame.filename.startswith(ASYNCIO), frames))
    inside = [_is_library(frame.filename) for frame in frames]
    kept = [frame for at, frame in enumerate(frames) if not (inside[at] and inside[at + 1 : at + 2] == [True])]
    formatted.stack[:] = kept
    for frame in kept:
        # Below a long line, marks take as much room as the line itself.
        if len(frame.line or "") > _MARKED_CHARACTERS_MAX:
            frame.colno = frame.end_colno = None
    left_out = len(frames) - len(kept)
    for inner in (formatted.__cause__, formatted.__context__, *(formatted.exceptions or ())):
        if inner is not None:
            left_out += _without_others(inner, seen)
    return left_out


def _is_library(file: str) -> bool:
    return file.startswith((LIBRARY, "<frozen ")) or "/site-packages/" in file or "/dist-packages/" in file


def _line(error: BaseException, run_name: str) -> int | None:
    # Not isinstance, which may run code of the error's class.
    if issubclass(type(error), SyntaxError) and error.filename == run_name:  # type: ignore[attr-defined]
        return error.lineno  # type: ignore[attr-defined,no-any-return]
    line, tb = None, error.__traceback__
    while isinstance(tb, TracebackType):
        if tb.tb_frame.f_code.co_filename == run_name:
            line = tb.tb_lineno
        tb = tb.tb_next
    return line
