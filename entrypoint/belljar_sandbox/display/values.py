"""Makes texts of values for replies: bounded, and laid out for reading. Errors in code of the values are not raised.

`tables` shows data of pandas and numpy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from ..kernel.type_names import Any
from .bounded_repr import TooSlow, within
from .tables import summary, table
from .text import begin, cut

CHARACTERS_MAX = 4_000
# About what a reply has room for, as with `print`.
WHOLE_CHARACTERS_MAX = 14_000
_WIDTH = 100
_DEPTH_MAX = 6
_ITEMS_MAX = 1_000
# The limit for a string inside another value.
_INNER_CHARACTERS_MAX = 300
_SHORT_ITEM_MAX = 24
_SHARE_MIN = 80
_REPR_SECONDS_MAX = 2.0
_SORTED_MAX = 1_000
_PLAIN = frozenset((int, float, complex, bool, type(None)))
_TEXTS: tuple[object, ...] = (str.__repr__, bytes.__repr__, bytearray.__repr__)
# A subclass that prints like its base class is shown like it. Results of calls are such values.
_BRACKETS: dict[object, tuple[str, str]] = {
    list.__repr__: ("[", "]"),
    tuple.__repr__: ("(", ")"),
    dict.__repr__: ("{", "}"),
    set.__repr__: ("{", "}"),
    frozenset.__repr__: ("frozenset({", "})"),
}
_CUT_MARK = "… cut to be short; the whole value is in _"


def shown(value: object) -> str:
    """Returns the text of a last expression, on several lines: the whole value if it has at most WHOLE_CHARACTERS_MAX
    characters, or else a table of that size, or an overview of CHARACTERS_MAX."""
    if type(value) in _PLAIN:
        return guarded(value, lambda: cut(repr(value), CHARACTERS_MAX))
    return guarded(value, lambda: _shown(value))


def in_one_line(value: object, characters_max: int) -> str:
    """Returns as much of the value as fits, without line breaks."""
    return guarded(value, lambda: _in_one_line(value, characters_max))


def guarded(value: object, make: Callable[[], str]) -> str:
    """Returns the text, or why there is none. KeyboardInterrupt and SystemExit are passed on."""
    try:
        return make() if type(value) in _PLAIN else within(_REPR_SECONDS_MAX, make)
    except TooSlow:
        return f"<{type(value).__name__} object, whose repr takes longer than {_REPR_SECONDS_MAX:g} s>"
    except Exception as error:
        return f"<{type(value).__name__} object, whose repr raises {type(error).__name__}>"


def _shown(value: object) -> str:
    text, room = table(value), WHOLE_CHARACTERS_MAX
    if text is None:
        layout = _Layout()
        text = layout.text(value, room, 0, 0)
        if not layout.is_cut and len(text) <= room:
            return text
        room = CHARACTERS_MAX
        text = layout.text(value, room, 0, 0)
    elif len(text) <= room:
        return text
    return f"{cut(text, room - len(_CUT_MARK) - 1)}\n{_CUT_MARK}"


def _in_one_line(value: object, characters_max: int) -> str:
    text = summary(value)
    if text is None:
        layout = _Layout()
        text = layout.flat(value, characters_max, 0)
        if text is None:
            text = _sized(value) + " ".join(layout.text(value, characters_max, 0, 0).split())
    return begin(text, characters_max)


def _sized(value: object) -> str:
    if type(value).__repr__ not in _BRACKETS and type(value).__repr__ not in _TEXTS:
        return ""
    return f"{type(value).__name__} of {len(value):,} "  # type: ignore[arg-type]


class _Layout:
    """Lays out one value. The repr of an object that is not built in is called only once."""

    def __init__(self) -> None:
        self.is_cut = False
        self._reprs: dict[int, str] = {}
        self._parents: list[int] = []

    def text(self, value: Any, room: int, indent: int, depth: int) -> str:
        """Returns the text on one line if it fits, otherwise one item per line; about `room` characters."""
        brackets = _BRACKETS.get(type(value).__repr__)
        if brackets is None or not len(value):
            return self._leaf(value, room if depth == 0 else min(room, _INNER_CHARACTERS_MAX))
        opening, closing = brackets
        if id(value) in self._parents:
            return f"{opening}...{closing}"
        if depth == _DEPTH_MAX:
            self.is_cut = True
            return f"{opening}… {len(value):,} {'keys' if isinstance(value, dict) else 'items'}{closing}"
        flat = self.flat(value, min(room, _WIDTH - indent), depth)
        if flat is not None:
            return flat
        self._parents.append(id(value))
        parts: list[str] = []
        used, indent = 0, indent + len(opening)
        for key, item in islice(_items(value), _ITEMS_MAX):
            left = room - used
            if parts and left <= 0:
                break
            share = max(left if len(value) == 1 else left // 2, _SHARE_MIN)
            start = "" if key is _NO_KEY else f"{self._leaf(key, min(share, _INNER_CHARACTERS_MAX))}: "
            parts.append(start + self.text(item, share, indent + len(start), depth + 1))
            used += len(parts[-1]) + 2
        self._parents.pop()
        if len(parts) < len(value):
            self.is_cut = True
            parts.append(f"... {len(value) - len(parts):,} more")
        elif len(parts) == 1 and opening == "(":
            parts[0] += ","
        return opening + _joined(parts, indent) + closing

    def flat(self, value: Any, room: int, depth: int) -> str | None:
        """Returns the whole value on one line; None if it is longer than `room` or too deep."""
        brackets = _BRACKETS.get(type(value).__repr__)
        if brackets is None or not len(value):
            room = room if depth == 0 else min(room, _INNER_CHARACTERS_MAX)
            if type(value).__repr__ in _TEXTS and len(value) > room:
                return None
            text = self._whole(value)
            return text if len(text) <= room and "\n" not in text else None
        if depth == _DEPTH_MAX or len(value) * 2 > room or id(value) in self._parents:
            return None
        opening, closing = brackets
        self._parents.append(id(value))
        try:
            parts, left = [], room - len(opening) - len(closing)
            for key, item in _items(value):
                start = "" if key is _NO_KEY else self.flat(key, left, depth + 1)
                part = None if start is None else self.flat(item, left - len(start), depth + 1)
                if start is None or part is None:
                    return None
                parts.append(f"{start}: {part}" if start else part)
                left -= len(parts[-1]) + 2
                if left < -2:
                    return None
        finally:
            self._parents.pop()
        comma = "," if len(parts) == 1 and opening == "(" else ""
        return f"{opening}{', '.join(parts)}{comma}{closing}"

    def _leaf(self, value: object, room: int) -> str:
        if isinstance(value, str | bytes | bytearray) and type(value).__repr__ in _TEXTS:
            return self._string(value, room)
        text = self._whole(value)
        self.is_cut |= len(text) > max(room, _SHARE_MIN)
        return cut(text, max(room, _SHARE_MIN))

    def _whole(self, value: object) -> str:
        if type(value) in _PLAIN or type(value).__repr__ in _TEXTS:
            return repr(value)
        text = self._reprs.get(id(value))
        if text is None:
            text = self._reprs[id(value)] = _own_text(value)
        return text

    def _string(self, value: str | bytes | bytearray, room: int) -> str:
        """Returns the string, or its beginning, end and length if it is longer than `room`."""
        if len(value) <= room:
            text = repr(value)
            if len(text) <= room + 2:
                return text
        self.is_cut = True
        unit = "characters" if isinstance(value, str) else "bytes"
        head, tail = repr(value[: room * 2 // 3]), repr(value[len(value) - room // 4 :])
        return f"{cut(head, max(room, _SHARE_MIN))} … {cut(tail, max(room // 3, _SHARE_MIN))} ({len(value):,} {unit})"


def _own_text(value: object) -> str:
    """Returns the repr of an object, or why there is none: one bad item does not hide the others."""
    try:
        of_data = summary(value)
        if of_data is not None:
            return of_data
        if type(value).__repr__ is object.__repr__:
            html = getattr(type(value), "_repr_html_", None)
            source = html(value) if html is not None else None
            if isinstance(source, str):
                from .html_text import text_of

                text = text_of(source)
                if text:
                    return f"{type(value).__name__}: {text}"
        return repr(value)
    except Exception as error:
        return f"<{type(value).__name__} object, whose repr raises {type(error).__name__}>"


_NO_KEY = object()


def _items(value: Any) -> Iterator[tuple[object, Any]]:
    """Iterates with the methods of the base class, since a subclass may iterate differently."""
    if isinstance(value, dict):
        return iter(dict.items(value))
    if isinstance(value, set | frozenset):
        return ((_NO_KEY, item) for item in _in_order(value))
    items = list.__iter__(value) if isinstance(value, list) else tuple.__iter__(value)
    return ((_NO_KEY, item) for item in items)


def _in_order(value: set[Any] | frozenset[Any]) -> Any:
    """Sorts a set if that is fast, since the order of strings differs between processes."""
    if len(value) <= _SORTED_MAX and {type(item) for item in value} in ({str}, {int}):
        return sorted(value)
    return value


def _joined(parts: list[str], indent: int) -> str:
    """Joins the parts. Short ones share lines, others have a line each."""
    if all(len(part) <= _SHORT_ITEM_MAX and "\n" not in part for part in parts):
        parts = filled(parts, _WIDTH - indent)
    return (",\n" + " " * indent).join(parts)


def filled(parts: Iterable[str], width: int) -> list[str]:
    """Returns lines with as many of the parts as fit, between commas."""
    lines: list[str] = []
    for part in parts:
        if lines and len(lines[-1]) + len(part) + 2 <= width:
            lines[-1] += f", {part}"
        else:
            lines.append(part)
    return lines
