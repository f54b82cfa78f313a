"""Reads JSON by the C function below the json package, which itself takes longer to import than most runs take.

It has no options but what numbers beyond JSON's (NaN, Infinity) become.
"""

from __future__ import annotations

from _json import make_scanner

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_SPACE = " \t\n\r"
_BEYOND = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


class NotJSONError(ValueError):
    """Without the place, which json.JSONDecodeError tells."""


class _Options:
    """As json.JSONDecoder has them."""

    strict = True
    object_hook = object_pairs_hook = None
    parse_float = float
    parse_int = int

    def __init__(self, parse_constant: Callable[[str], object]) -> None:
        self.parse_constant = parse_constant


def reader(parse_constant: Callable[[str], object] = _BEYOND.__getitem__) -> Callable[[str], Any]:
    """What reads a whole text: ValueError where it is none, RecursionError where it is too deep for the stack."""
    scan = make_scanner(_Options(parse_constant))  # type: ignore[arg-type] # whose stub wants another scanner

    def read(text: str) -> Any:
        text = text.strip(_SPACE)
        try:
            value, end = scan(text, 0)
        except (ValueError, RecursionError, MemoryError):
            raise
        # The error to raise is the json package's: 3.11 finds none while nobody has imported that, and later versions
        # import it now, as user code has left imports.
        except Exception:
            raise NotJSONError from None
        if end != len(text):
            raise NotJSONError
        return value

    return read
