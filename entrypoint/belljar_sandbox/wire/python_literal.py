"""Reads the text of a Python list or dict, which some tools return as repr() writes it. Nothing of it is executed.

It is a subset of what ast.literal_eval reads, within bounds. The bridge reads the same (src/catalog/python/repr.rs).
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Hashable
    from typing import Any

CHARACTERS_MAX = 1 << 20
DEPTH_MAX = 100
_SPACE = " \t\r\n"
_WORDS = {"True": True, "False": False, "None": None}
_CLOSING = {"[": "]", "(": ")", "{": "}"}
_TOKEN = re.compile(
    rf"[{_SPACE}]*(?:(?P<mark>[][(){{}},:])|(?P<word>(?:True|False|None)\b)"
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
        if token not in _CLOSING or depth >= DEPTH_MAX:
            raise ValueError("not a literal")
        return self._members(depth + 1) if token == "{" else self._items(token, depth + 1)

    def _items(self, opening: str, depth: int) -> Any:
        """Reads a list or a tuple after its opening bracket."""
        items: list[Any] = []
        closing = ("mark", _CLOSING[opening])
        has_comma = False
        while (found := self._next()) != closing:
            items.append(self._value(*found, depth))
            if (found := self._next()) == closing:
                has_comma = False
                break
            if found != ("mark", ","):
                raise ValueError("no comma between items")
            has_comma = True
        if opening == "[":
            return items
        return items[0] if len(items) == 1 and not has_comma else tuple(items)

    def _members(self, depth: int) -> dict[Hashable, Any]:
        """Reads a dict after its opening brace."""
        members: dict[Hashable, Any] = {}
        closing = ("mark", "}")
        while (found := self._next()) != closing:
            key = self._value(*found, depth)
            if self._next() != ("mark", ":"):
                raise ValueError("no colon after a key")
            try:
                members[key] = self._value(*self._next(), depth)
            except TypeError:  # of a key that is a list or a dict
                raise ValueError("not a key") from None
            if (found := self._next()) == closing:
                break
            if found != ("mark", ","):
                raise ValueError("no comma between members")
        return members

    def _next(self) -> tuple[str | None, str]:
        found = _TOKEN.match(self._text, self._at)
        if found is None or found.lastgroup is None:
            raise ValueError("not a literal")
        self._at = found.end()
        return found.lastgroup, found[found.lastgroup]


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
