"""Checks and encodes the arguments of a call.

It does not know the schemas of tools, which the bridge checks.
"""

from __future__ import annotations

import math
from _json import encode_basestring, make_encoder
from binascii import b2a_base64
from collections.abc import Iterator
from os import PathLike

from ..wire.frames import DEPTH_MAX, deeper_than
from .placeholder import Placeholder
from .results import Blob

ARGUMENTS_BYTES_MAX = 8 << 20
# The frame itself counts as one level of nesting.
_DEPTH_MAX = DEPTH_MAX - 1
# By an attribute of the value. pandas writes what JSON lacks, such as dates and missing values, as JSON itself.
_REMEDIES = (
    ("isoformat", "its .isoformat()"),
    ("to_json", "json.loads(x.to_json(orient='records', date_format='iso'))"),
    ("to_dicts", "its .to_dicts()"),
    ("tolist", "its .tolist()"),
    ("to_list", "its .to_list()"),
    ("as_tuple", "str(...) or float(...) of it"),
    ("hex", "str(...) of it"),
    ("_value_", "its .value"),
    ("total_seconds", "its .total_seconds()"),
    ("__dataclass_fields__", "dataclasses.asdict(...) of it"),
)


class Reference:
    """An argument that the bridge replaces by the value that it stands for."""

    # How many were created. While there are none, arguments need not be searched for them.
    made = 0

    def as_argument(self) -> dict[str, object]:
        raise NotImplementedError

    @staticmethod
    def is_in(value: object) -> bool:
        """Whether a value that can be encoded as an argument contains a reference."""
        if isinstance(value, dict):
            return any(map(Reference.is_in, value.values()))
        if isinstance(value, list | tuple):
            return any(map(Reference.is_in, value))
        return isinstance(value, Reference)


def encode_arguments(arguments: object) -> bytes:
    """Returns the arguments as JSON. ValueError or TypeError names the part that JSON cannot express."""
    try:
        # The C encoder is called directly, which is half of the work of JSONEncoder. Each call creates an encoder with
        # its own markers for cycles, since threads may encode at once.
        chunks = make_encoder({}, _plain, encode_basestring, None, ":", ",", False, False, False)
        encoded = "".join(chunks(arguments, 0)).encode()
    except (ValueError, TypeError, RecursionError):
        try:
            _explain(arguments, "arguments", 1, {})
        except (ValueError, TypeError) as explained:
            # Without the encoder's own error, which would not help.
            raise explained from None
        raise
    if len(encoded) > ARGUMENTS_BYTES_MAX:
        raise ValueError(f"the arguments are {len(encoded):,} bytes of JSON; limit 8 MiB")
    if deeper_than(_DEPTH_MAX, encoded):
        _explain(arguments, "arguments", 1, {})
    return encoded


def blob_place(value: object, path: str) -> str | None:
    """Returns the path of the first binary value. The recursion is bounded, since the arguments were encoded before."""
    if isinstance(value, Blob):
        return path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list | tuple) else ()
    return next((place for key, item in items if (place := blob_place(item, f"{path}[{key!r}]"))), None)


def _plain(value: object) -> object:
    """Converts a value: binary content of results becomes base64, as in MCP, and a scalar of numpy its number."""
    if isinstance(value, Blob):
        return b2a_base64(value.data, newline=False).decode()
    if isinstance(value, Placeholder):
        return repr(value)
    if isinstance(value, Reference):
        return value.as_argument()
    if type(value).__module__ == "numpy" and getattr(value, "ndim", None) == 0:
        return value.item()  # type: ignore[attr-defined]
    raise TypeError(f"{type(value).__name__} has no JSON form")


def _explain(value: object, path: str, depth: int, parents: dict[int, str]) -> None:
    if isinstance(value, dict | list | tuple):
        if id(value) in parents:
            raise ValueError(f"circular reference: {path} contains {parents[id(value)]}, which it is part of")
        if depth > _DEPTH_MAX:
            raise ValueError(f"nesting > {DEPTH_MAX} at {path[:80]}...")
        parents[id(value)] = path
        if isinstance(value, dict):
            for key, item in value.items():
                if not isinstance(key, str | int | float | bool | None):
                    raise TypeError(f"{path} has a key of type {type(key).__name__}; keys are strings")
                _check_text(str(key), f"a key of {path}")
                _explain(item, f"{path}[{key!r}]", depth + 1, parents)
        else:
            for index, item in enumerate(value):
                _explain(item, f"{path}[{index}]", depth + 1, parents)
        del parents[id(value)]
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{path} is {value}, which JSON cannot hold; send None or a string")
    elif isinstance(value, str):
        _check_text(value, path)
    elif value is not None and not isinstance(value, int | Blob | Placeholder | Reference):
        if type(value).__module__ == "numpy" and getattr(value, "ndim", None) == 0:
            return
        raise TypeError(f"{path} is {type(value).__name__}, which JSON cannot hold{_remedy(value)}")


def _check_text(text: str, path: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{path} has a lone surrogate at position {error.start}, which is not text") from None


def _remedy(value: object) -> str:
    match value:
        case bytes() | bytearray():
            return "; decode it, or send base64 text"
        case set() | frozenset():
            return "; send a list"
        case Iterator():
            return "; send list(...) of it"
        case PathLike():
            return "; send str(...) of it"
    for attribute, remedy in _REMEDIES:
        if hasattr(value, attribute):
            return f"; send {remedy}"
    return ""
