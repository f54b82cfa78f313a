"""A placeholder for the result of a call that was only planned.

Its parts, and everything that is computed from it, are placeholders again, so that code runs on until it needs a value.
It is true as a condition, and equal only to itself. Each use of it as if it were a result is noted for the reply.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..display.text import begin
from ..kernel.type_names import Any
from .awaitable import Awaitable

_TEXT_CHARACTERS_MAX = 240
_OPERAND_CHARACTERS_MAX = 60
_CALLS_SHOWN_MAX = 5
# The texts that placeholders begin with. A text that contains one of them was made from a placeholder.
_begun: set[str] = set()
# How code used placeholders since the last run, by the calls that were not made.
_uses: dict[str, dict[str, None]] = {}


def note_uses(notes: list[str]) -> None:
    """Adds a note about the calls whose placeholders code used as results, and forgets them."""
    if not _uses:
        return
    shown = [f"{call} ({', '.join(uses)})" for call, uses in [*_uses.items()][:_CALLS_SHOWN_MAX]]
    if len(_uses) > _CALLS_SHOWN_MAX:
        shown.append(f"{len(_uses) - _CALLS_SHOWN_MAX} more")
    notes.append(
        f"results that do not exist were used: {', '.join(shown)}. These calls were not made, so what follows from "
        "them is not real. If they only read, make them before the `with` block of the dry run"
    )
    _uses.clear()


class Placeholder(Awaitable):
    """The result of a call that was not made."""

    # How many were created. While there are none, arguments need not be searched for them.
    made = 0

    def __init__(self, call: str, text: str | None = None) -> None:
        Placeholder.made += 1
        self._call = call
        begun = f"<result of {call}>"
        _begun.add(begun)
        if text is None or len(text) > _TEXT_CHARACTERS_MAX:
            text = begun if text is None else f"{begun}…"
        self._text = text

    @staticmethod
    def is_in(value: object) -> bool:
        """Whether a value that has a JSON form contains a placeholder, or a text that was made from one."""
        if isinstance(value, dict):
            return any(map(Placeholder.is_in, value)) or any(map(Placeholder.is_in, value.values()))
        if isinstance(value, list | tuple):
            return any(map(Placeholder.is_in, value))
        if isinstance(value, str):
            return any(begun in value for begun in _begun)
        return isinstance(value, Placeholder)

    def _further(self, text: str) -> Placeholder:
        return Placeholder(self._call, text)

    def _note(self, use: str) -> None:
        _uses.setdefault(self._call, {})[use] = None

    def __getattr__(self, name: str) -> Placeholder:
        # Python and notebooks look for such names on every object.
        if name.startswith("_"):
            raise AttributeError(name)
        self._note("attribute")
        return self._further(f"{self._text}.{name}")

    def __getitem__(self, key: object) -> Placeholder:
        self._note("item")
        return self._further(f"{self._text}[{_shown(key)}]")

    def __setitem__(self, _key: object, _value: object) -> None:
        """Does nothing: the result that code would change does not exist."""

    def __delitem__(self, _key: object) -> None:
        """Does nothing, like __setitem__."""

    def __call__(self, *_positional: object, **_named: Any) -> Placeholder:
        return self._further(f"{self._text}(...)")

    def __iter__(self) -> Iterator[Placeholder]:
        # One item stands for any number of items.
        self._note("iteration as one item")
        yield self._further(f"{self._text}[each]")

    def __round__(self, _digits: object = None) -> Placeholder:
        return self._further(f"round({self._text})")

    def __len__(self) -> int:
        self._note("length")
        raise TypeError(f"{self._text} has no length: the call was not made")

    def __bool__(self) -> bool:
        self._note("condition taken as true")
        return True

    def __format__(self, _spec: str) -> str:
        self._note("text")
        return self._text

    def __str__(self) -> str:
        self._note("text")
        return self._text

    def __repr__(self) -> str:
        return self._text


def _shown(operand: object) -> str:
    return begin(repr(operand), _OPERAND_CHARACTERS_MAX)


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
