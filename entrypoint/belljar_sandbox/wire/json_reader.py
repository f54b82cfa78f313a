"""Reads JSON with the C function below the json package, whose import takes longer than most runs.

Its only option is what NaN and Infinity become, which JSON itself does not have.
"""

from __future__ import annotations

from _json import make_scanner
from collections.abc import Callable

from ..kernel.type_names import Any

_SPACE = " \t\n\r"
_BEYOND = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


class NotJSONError(ValueError):
    """A text is not JSON. Unlike json.JSONDecodeError, it does not name the place."""


class _Options:
    """The options of json.JSONDecoder."""

    strict = True
    object_hook = object_pairs_hook = None
    parse_float = float
    parse_int = int

    def __init__(self, parse_constant: Callable[[str], object]) -> None:
        self.parse_constant = parse_constant


def reader(parse_constant: Callable[[str], object] = _BEYOND.__getitem__) -> Callable[[str], Any]:
    """Returns a function that reads a whole text: ValueError if it is not JSON, RecursionError if it nests too deep."""
    scan = make_scanner(_Options(parse_constant))  # type: ignore[arg-type] # whose stub wants another scanner

    def read(text: str) -> Any:
        text = text.strip(_SPACE)
        try:
            value, end = scan(text, 0)
        except (ValueError, RecursionError, MemoryError):
            raise
        # The scanner raises an error of the json package. Python 3.11 does not find that error unless the package is
        # imported. Later versions import the package now, which user code may have made impossible.
        except Exception:
            raise NotJSONError from None
        if end != len(text):
            raise NotJSONError
        return value

    return read
