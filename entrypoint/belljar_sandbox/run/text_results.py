"""Finds results of tools that are text although they look like a tuple, a set or a number, for the hint of an error.

Lists and dicts are read when the result arrives, unless they are very long.
"""

from __future__ import annotations

import re
from ast import literal_eval
from collections.abc import Iterator
from types import CodeType, FrameType

from ..calls.results import StrResult, loads
from ..kernel.type_names import Any

_CHARACTERS_MAX = 200_000
_NAMES_MAX = 200
_SHOWN_MAX = 60
# What Python says of a text, or of one of its characters, that was taken for something else.
_OF_TEXT = re.compile(
    r"string ind|'str'|'StrResult'|\bstr\b|to unpack|invalid literal for|could not convert string|sequence element"
    r"|^Expecting |DataFrame constructor"
)
_OF_NUMBER = re.compile(r"operand|not supported between|concatenate|real number")
_NUMBER = re.compile(r"\s*[+-]?(\d{1,300}(\.\d{0,300})?|\.\d{1,300})([eE][+-]?\d{1,3})?\s*")


def hint_of_text(error: BaseException, frames: list[FrameType]) -> str:
    """Returns a hint that names the function that reads the text as the value that it looks like, or an empty text."""
    if not isinstance(error, TypeError | ValueError | AttributeError) or not _OF_TEXT.search(str(error)):
        return ""
    # In the frames of libraries, the value has other names.
    own = [frame for frame in frames if frame.f_code.co_filename.startswith(("<run ", "<skill "))]
    number = left = ""
    for name, value in _values(own):
        kind, reader = _looks_like(value)
        if kind == "number":
            number = number or f"{name} is text that looks like a number: {reader}({name}) makes it one"
        elif kind:
            return f"{name} is text that looks like a {kind}: {reader}({name}) makes it one"
        elif isinstance(value, StrResult):
            left = (
                left
                or f"{name} is text, left as the tool sent it: parse it first, it begins with {value[:_SHOWN_MAX]!r}"
            )
    kind, reader = _looks_like(getattr(error, "doc", None))  # of a JSONDecodeError
    if kind:
        return f"the text is that of a Python {kind}, not JSON: {reader} reads it"
    if number and _OF_NUMBER.search(str(error)):
        return number
    named = (name for name, value in _values(own) if isinstance(value, StrResult))
    if "string ind" in str(error) and (name := next(named, "")):
        return f"{name} is text, as the tool answered it, and has no keys: print({name})"
    return left if "DataFrame constructor" in str(error) else ""


def _values(frames: list[FrameType]) -> Iterator[tuple[str, Any]]:
    """Returns what the names in the code of these frames stand for, and the first items of lists."""
    for frame in reversed(frames):
        for name in dict.fromkeys(_names(frame.f_code)):
            value = frame.f_locals.get(name, frame.f_globals.get(name))
            yield name, value
            if isinstance(value, list) and value:
                yield f"{name}[0]", value[0]


def _names(code: CodeType) -> Iterator[str]:
    """Returns the names that code and the functions in it use."""
    yield from (*code.co_varnames, *code.co_freevars, *code.co_names)[:_NAMES_MAX]
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from inner.co_names


def _looks_like(value: Any) -> tuple[str, str]:
    """Returns the kind of value that a text stands for, and the function that reads it."""
    if not isinstance(value, StrResult) or len(value) > _CHARACTERS_MAX:
        return "", ""
    if _NUMBER.fullmatch(value):
        return "number", "float"
    if value.strip()[:1] not in ("[", "{", "("):
        return "", ""
    for read, name in ((loads, "json.loads"), (literal_eval, "ast.literal_eval")):
        try:
            read_value = read(str(value).strip())
        except Exception:  # it is not of this form
            continue
        if isinstance(read_value, list | dict | tuple | set):
            return type(read_value).__name__, name
    return "", ""
