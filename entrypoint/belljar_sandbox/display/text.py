"""Shortens long texts and lists."""

from __future__ import annotations

from collections.abc import Sequence


def begin(text: str, characters_max: int) -> str:
    """Returns the beginning, with a mark if there is more."""
    return text if len(text) <= characters_max else f"{text[: characters_max - 1]}…"


def listed(names: Sequence[str], names_max: int) -> str:
    """Returns the first names, and how many more there are."""
    more = f" and {len(names) - names_max} more" if len(names) > names_max else ""
    return f"{', '.join(names[:names_max])}{more}"


def cut(text: str, characters_max: int) -> str:
    """Returns the head and the tail, which are the most useful parts of tracebacks and reprs."""
    if len(text) <= characters_max:
        return text
    mark = f" ... {len(text) - characters_max + 40:,} characters cut ... "
    room = max(characters_max - len(mark), 2)
    return text[: room * 2 // 3] + mark + text[len(text) - room // 3 :]
