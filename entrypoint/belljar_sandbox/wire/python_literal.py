"""Reads the text of a Python list or dict, which some tools return as repr() writes it. Nothing of it is executed.

It is a subset of what ast.literal_eval reads, within bounds, and the values that rows of databases have besides: dates,
times, Decimal, UUID, nan, inf and numbers of numpy. The bridge reads the same
(crates/belljar-tools/src/catalog/python/repr.rs).
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator
from importlib import import_module

from ..kernel.type_names import Any

CHARACTERS_MAX = 1 << 20
DEPTH_MAX = 100
_SPACE = " \t\r\n"
_WORDS = {"True": True, "False": False, "None": None, "nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}
# By the names that repr() writes: the module and the name of what makes the value. Each takes its arguments by place,
# or by the names that repr() uses.
_MAKERS = {
    "datetime.date": ("datetime", "date"),
    "datetime.datetime": ("datetime", "datetime"),
    "datetime.time": ("datetime", "time"),
    "datetime.timedelta": ("datetime", "timedelta"),
    "datetime.timezone": ("datetime", "timezone"),
    "Decimal": ("decimal", "Decimal"),
    "UUID": ("uuid", "UUID"),
    **{f"np.float{bits}": ("builtins", "float") for bits in (16, 32, 64)},
    **{f"np.{sign}int{bits}": ("builtins", "int") for bits in (8, 16, 32, 64) for sign in ("", "u")},
    "np.str_": ("builtins", "str"),
}
_KEYWORDS = frozenset(("days", "seconds", "microseconds", "tzinfo", "fold"))
_CLOSING = {"[": "]", "(": ")", "{": "}"}
_TOKEN = re.compile(
    rf"[{_SPACE}]*(?:(?P<mark>[][(){{}},:])|(?P<word>(?:True|False|None|nan|-?inf)\b(?![.(]))"
    rf"|(?P<call>(?:{'|'.join(map(re.escape, _MAKERS))})\()|(?P<utc>datetime\.timezone\.utc\b)"
    rf"|(?P<keyword>(?:{'|'.join(_KEYWORDS)})=)"
    r"|(?P<float>-?(?:0|[1-9][0-9]*)(?:\.[0-9]*(?:[eE][+-]?[0-9]+)?|[eE][+-]?[0-9]+)(?![\w.]))"
    r"|(?P<int>-?(?:0|[1-9][0-9]*)(?![\w.]))"
    r"|(?P<text>[bu]?(?:'[^'\\\r\n\0]*(?:\\[^\r\n\0][^'\\\r\n\0]*)*'|\"[^\"\\\r\n\0]*(?:\\[^\r\n\0][^\"\\\r\n\0]*)*\")))"
)
_ESCAPE = r"[\\'\"abfnrtv0-7]|x[0-9a-fA-F]{2}"
_IN_BYTES = re.compile(rf"[^\\]*(?:\\(?:{_ESCAPE})[^\\]*)*")
_IN_TEXT = re.compile(rf"[^\\]*(?:\\(?:{_ESCAPE}|u[0-9a-fA-F]{{4}}|U[0-9a-fA-F]{{8}})[^\\]*)*")


def literal(text: str) -> Any:
    """Returns the list or dict that the whole text is. ValueError if it is none, or too long, or nests too deep."""
    if len(text) > CHARACTERS_MAX:
        raise ValueError("too long")
    value = _Reader(text.rstrip(_SPACE)).whole()
    if not isinstance(value, list | dict):
        raise ValueError("neither a list nor a dict")
    return value


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._has_comma = False

    def whole(self) -> Any:
        value = self._value(*self._next(), 0)
        if self._at != len(self._text):
            raise ValueError("more than a literal")
        return value

    def _value(self, kind: str | None, token: str, depth: int) -> Any:
        match kind:
            case "int":
                return int(token)
            case "text":
                return _text(token)
            case "word":
                return _WORDS[token]
            case "float":
                return float(token)
            case "utc":
                return _named("datetime", "timezone").utc
            case "call":
                if depth >= DEPTH_MAX:
                    raise ValueError("not a literal")
                return self._made(token[:-1], depth + 1)
        if token not in _CLOSING or depth >= DEPTH_MAX:
            raise ValueError("not a literal")
        return self._members(depth + 1) if token == "{" else self._items(token, depth + 1)

    def _items(self, opening: str, depth: int) -> Any:
        """Reads a list or a tuple after its opening bracket."""
        items: list[Any] = []
        for found in self._parts(_CLOSING[opening]):
            items.append(self._value(*found, depth))
        if opening == "[":
            return items
        return items[0] if len(items) == 1 and not self._has_comma else tuple(items)

    def _made(self, maker: str, depth: int) -> Any:
        """Reads the arguments after an opening bracket and makes the value."""
        places: list[Any] = []
        names: dict[str, Any] = {}
        for found in self._parts(")"):
            if found[0] == "keyword":
                names[found[1][:-1]] = self._value(*self._next(), depth)
            else:
                places.append(self._value(*found, depth))
        try:
            return _named(*_MAKERS[maker])(*places, **names)
        except (TypeError, ArithmeticError):
            raise ValueError("not what repr() writes") from None

    def _members(self, depth: int) -> dict[Hashable, Any]:
        """Reads a dict after its opening brace."""
        members: dict[Hashable, Any] = {}
        for found in self._parts("}"):
            key = self._value(*found, depth)
            if self._next() != ("mark", ":"):
                raise ValueError("no colon after a key")
            try:
                members[key] = self._value(*self._next(), depth)
            except TypeError:  # of a key that is a list or a dict
                raise ValueError("not a key") from None
        return members

    def _parts(self, closing: str) -> Iterator[tuple[str | None, str]]:
        """Returns the first token of each part before the closing bracket. Then `_has_comma` says whether a comma
        precedes that bracket."""
        while (found := self._next()) != ("mark", closing):
            yield found
            if (found := self._next()) == ("mark", closing):
                self._has_comma = False
                return
            if found != ("mark", ","):
                raise ValueError("no comma between parts")
        self._has_comma = True

    def _next(self) -> tuple[str | None, str]:
        found = _TOKEN.match(self._text, self._at)
        if found is None or found.lastgroup is None:
            raise ValueError("not a literal")
        self._at = found.end()
        return found.lastgroup, found[found.lastgroup]


def _named(module: str, name: str) -> Any:
    # Imported when a text has such a value.
    return getattr(import_module(module), name)


def _text(token: str) -> str | bytes:
    is_bytes = token[0] == "b"
    text = token[2:-1] if token[0] in "bu" else token[1:-1]
    if is_bytes and not text.isascii():
        raise ValueError("not bytes")
    if "\\" in text:
        if not (_IN_BYTES if is_bytes else _IN_TEXT).fullmatch(text):
            raise ValueError("an escape that repr does not write")
        # Characters beyond Latin-1 become escapes, too, and none of them follows a backslash.
        text = text.encode("latin-1", "backslashreplace").decode("unicode_escape")
    return text.encode("latin-1") if is_bytes else text
