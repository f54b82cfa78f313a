"""Checks and encodes the arguments of a call.

It does not know any tool's schema: the bridge checks that.
"""

from __future__ import annotations

import math
from _json import encode_basestring, make_encoder
from binascii import b2a_base64

from ..wire.frames import DEPTH_MAX, deeper_than
from .placeholder import Placeholder
from .results import Blob

ARGUMENTS_BYTES_MAX = 8 << 20
# The frame itself is one level of the nesting that the protocol allows.
_DEPTH_MAX = DEPTH_MAX - 1


class Standing:
    """Something for which the bridge puts in what it stands for."""

    # How many there have been: while there are none nothing needs to look for them.
    made = 0

    def as_argument(self) -> dict[str, object]:
        raise NotImplementedError

    @staticmethod
    def is_in(value: object) -> bool:
        """Whether one is anywhere in arguments that can be encoded."""
        if isinstance(value, dict):
            return any(map(Standing.is_in, value.values()))
        if isinstance(value, list | tuple):
            return any(map(Standing.is_in, value))
        return isinstance(value, Standing)


def encode_arguments(arguments: object) -> bytes:
    """JSON; ValueError or TypeError names the place that has none."""
    try:
        # Half of what JSONEncoder does. Each its own markers, by which a cycle is found: threads encode at once.
        chunks = make_encoder({}, _plain, encode_basestring, None, ":", ",", False, False, False)
        encoded = "".join(chunks(arguments, 0)).encode()
    except (ValueError, TypeError, RecursionError):
        try:
            _explain(arguments, "arguments", 1, {})
        except (ValueError, TypeError) as explained:
            # Without what the encoder said, which is nothing of the code's.
            raise explained from None
        raise
    if len(encoded) > ARGUMENTS_BYTES_MAX:
        raise ValueError(f"the arguments are {len(encoded):,} bytes of JSON; limit 8 MiB")
    if deeper_than(_DEPTH_MAX, encoded):
        _explain(arguments, "arguments", 1, {})
    return encoded


def blob_place(value: object, path: str) -> str | None:
    """Where the first binary value stands in arguments that can be encoded, which bounds their depth."""
    if isinstance(value, Blob):
        return path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list | tuple) else ()
    return next((place for key, item in items if (place := blob_place(item, f"{path}[{key!r}]"))), None)


def _plain(value: object) -> object:
    """What a result held goes on as MCP has it, base64; numpy's scalars are no Python numbers but hold one."""
    if isinstance(value, Blob):
        return b2a_base64(value.data, newline=False).decode()
    if isinstance(value, Placeholder):
        return repr(value)
    if isinstance(value, Standing):
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
    elif value is not None and not isinstance(value, int | Blob | Placeholder | Standing):
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
        case _ if hasattr(value, "isoformat"):
            return "; send its .isoformat()"
    return ""
