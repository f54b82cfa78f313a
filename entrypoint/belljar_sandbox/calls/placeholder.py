"""A placeholder for the result of a call that was only planned.

Its parts, and everything that is computed from it, are placeholders again, so that code runs on until it needs a value.
It is true as a condition, and equal only to itself.
"""

from __future__ import annotations

from .awaitable import Awaitable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

_TEXT_CHARACTERS_MAX = 240
_OPERAND_CHARACTERS_MAX = 60
# The beginnings of placeholders, to find them in texts that were made from one.
_begun: set[str] = set()


class Placeholder(Awaitable):
    """The result of a call that was not made."""

    # How many were created. While there are none, arguments need not be searched for them.
    made = 0

    def __init__(self, source: str, text: str | None = None) -> None:
        Placeholder.made += 1
        self._source = source
        begun = f"<{source}>"
        _begun.add(begun)
        if text is None or len(text) > _TEXT_CHARACTERS_MAX:
            text = begun if text is None else f"{begun}…"
        self._text = text

    @staticmethod
    def is_in(value: object) -> bool:
        """Whether a value that has a JSON form contains one, or a text that was made from one."""
        if isinstance(value, dict):
            return any(map(Placeholder.is_in, value)) or any(map(Placeholder.is_in, value.values()))
        if isinstance(value, list | tuple):
            return any(map(Placeholder.is_in, value))
        if isinstance(value, str):
            return any(begun in value for begun in _begun)
        return isinstance(value, Placeholder)

    def _further(self, text: str) -> Placeholder:
        return Placeholder(self._source, text)

    def __getattr__(self, name: str) -> Placeholder:
        # Python and notebooks look for such names on every object.
        if name.startswith("_"):
            raise AttributeError(name)
        return self._further(f"{self._text}.{name}")

    def __getitem__(self, key: object) -> Placeholder:
        return self._further(f"{self._text}[{_shown(key)}]")

    def __setitem__(self, _key: object, _value: object) -> None:
        """Does nothing: the result that code would change does not exist."""

    def __delitem__(self, _key: object) -> None:
        """Does nothing, like __setitem__."""

    def __call__(self, *_positional: object, **_named: Any) -> Placeholder:
        return self._further(f"{self._text}(...)")

    def __iter__(self) -> Iterator[Placeholder]:
        # One item stands for any number of items.
        yield self._further(f"{self._text}[each]")

    def __round__(self, _digits: object = None) -> Placeholder:
        return self._further(f"round({self._text})")

    def __format__(self, _spec: str) -> str:
        return self._text

    def __repr__(self) -> str:
        return self._text


def _shown(operand: object) -> str:
    text = repr(operand)
    return text if len(text) <= _OPERAND_CHARACTERS_MAX else f"{text[: _OPERAND_CHARACTERS_MAX - 1]}…"


def _before(symbol: str) -> Callable[[Placeholder, object], Placeholder]:
    return lambda self, other: self._further(f"{self!r} {symbol} {_shown(other)}")


def _behind(symbol: str) -> Callable[[Placeholder, object], Placeholder]:
    return lambda self, other: self._further(f"{_shown(other)} {symbol} {self!r}")


def _alone(symbol: str) -> Callable[[Placeholder], Placeholder]:
    return lambda self: self._further(f"{symbol}{self!r}")


_BOTH_WAYS = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "truediv": "/",
    "floordiv": "//",
    "mod": "%",
    "pow": "**",
    "matmul": "@",
    "and": "&",
    "or": "|",
    "xor": "^",
    "lshift": "<<",
    "rshift": ">>",
}
for _name, _symbol in _BOTH_WAYS.items():
    setattr(Placeholder, f"__{_name}__", _before(_symbol))
    setattr(Placeholder, f"__r{_name}__", _behind(_symbol))
for _name, _symbol in {"lt": "<", "le": "<=", "gt": ">", "ge": ">="}.items():
    setattr(Placeholder, f"__{_name}__", _before(_symbol))
for _name, _symbol in {"neg": "-", "pos": "+", "invert": "~", "abs": "abs "}.items():
    setattr(Placeholder, f"__{_name}__", _alone(_symbol))
