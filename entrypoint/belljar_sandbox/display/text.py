"""Shortens long text."""

from __future__ import annotations


def cut(text: str, characters_max: int) -> str:
    """Returns the head and the tail, which are the most useful parts of tracebacks and reprs."""
    if len(text) <= characters_max:
        return text
    mark = f" ... {len(text) - characters_max + 40:,} characters cut ... "
    room = max(characters_max - len(mark), 2)
    return text[: room * 2 // 3] + mark + text[len(text) - room // 3 :]
