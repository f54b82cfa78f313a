"""What stands for the result of a call that was only planned.

It holds nothing: any part of it is another one, so that code can go on as far as it does not look at values.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_SOURCE_CHARACTERS_MAX = 200


class Placeholder:
    """The result of a call that was not made."""

    # How many there have been: while there are none nothing needs to look for them.
    made = 0

    def __init__(self, source: str, path: str = "") -> None:
        Placeholder.made += 1
        self._source = source
        self._path = path[:_SOURCE_CHARACTERS_MAX]

    @staticmethod
    def is_in(value: object) -> bool:
        """Whether one stands anywhere in a value that has a JSON form."""
        if isinstance(value, dict):
            return any(map(Placeholder.is_in, value.values()))
        if isinstance(value, list | tuple):
            return any(map(Placeholder.is_in, value))
        return isinstance(value, Placeholder)

    def __getattr__(self, name: str) -> Placeholder:
        # Python and notebooks probe such names on every object.
        if name.startswith("_"):
            raise AttributeError(name)
        return Placeholder(self._source, f"{self._path}.{name}")

    def __getitem__(self, key: object) -> Placeholder:
        return Placeholder(self._source, f"{self._path}[{key!r}]")

    def __call__(self, *_positional: object, **_named: Any) -> Placeholder:
        return Placeholder(self._source, f"{self._path}(...)")

    def __iter__(self) -> Iterator[Placeholder]:
        # One stands for however many there would be.
        yield Placeholder(self._source, f"{self._path}[each]")

    def __repr__(self) -> str:
        return f"<{self._source}>{self._path}"
