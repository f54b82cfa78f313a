"""Texts of pandas and numpy data: the shape, the types, and a few rows.

It imports neither: if they are not loaded, there is no such data.
"""

from __future__ import annotations

import sys
from itertools import islice

from ..kernel.type_names import Any
from .text import begin

_COLUMNS_MAX = 12
_NAME_CHARACTERS_MAX = 40
_SMALL_ARRAY = 100
_LINE_CHARACTERS = 100


def summary(value: Any) -> str | None:
    """Returns one line, such as `DataFrame 1,200 x 8 [id int64, name object]`; None for other values."""
    if _is_a(value, "pandas", "DataFrame"):
        rows, columns = value.shape
        named = [f"{_named(name)} {kind}" for name, kind in islice(value.dtypes.items(), _COLUMNS_MAX)]
        if columns > len(named):
            named.append(f"… {columns - len(named):,} more")
        return f"{type(value).__name__} {rows:,} x {columns:,} [{', '.join(named)}]"
    if _is_a(value, "pandas", "Series"):
        name = "" if value.name is None else f" {_named(value.name)}"
        return f"{type(value).__name__} {len(value):,} {value.dtype}{name}"
    if _is_a(value, "numpy", "ndarray") and value.size > _SMALL_ARRAY:
        return f"{type(value).__name__} {' x '.join(f'{length:,}' for length in value.shape)} {value.dtype}"
    return None


def table(value: Any) -> str | None:
    """Returns the summary and rows of the data, on several lines; None for other values."""
    line = summary(value)
    if line is None:
        return None
    if _is_a(value, "pandas", "DataFrame") or _is_a(value, "pandas", "Series"):
        # As print() has it, with the options of pandas that code has set.
        rows, _, shape = repr(value).rpartition("\n\n[")
        rows = rows if shape.endswith(" columns]") else repr(value)
    else:
        rows = sys.modules["numpy"].array2string(value, threshold=_SMALL_ARRAY, max_line_width=_LINE_CHARACTERS)
    return f"{line}\n{rows}"


def _is_a(value: object, module: str, name: str) -> bool:
    kind = getattr(sys.modules.get(module), name, None)
    return isinstance(kind, type) and isinstance(value, kind)


def _named(name: object) -> str:
    return begin(str(name), _NAME_CHARACTERS_MAX)
