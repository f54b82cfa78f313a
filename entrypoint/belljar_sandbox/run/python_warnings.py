"""Changes Python's warnings: repeated ones are counted, and one about a coroutine names the line that created it.

Python itself names the line at which a coroutine was destroyed, which may belong to a later run. Coroutines of other
threads do not record where they were created; their warnings name the function.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import CoroutineType, ModuleType

from ..kernel.type_names import Any
from ..worker.after_import import after_import
from ..worker.interrupts import OURS

# How many warnings of one line and category a run shows.
_SHOWN_MAX = 1
_PLACES_MAX = 1_000
# How many frames a coroutine records: enough to look past ours.
_DEPTH = 4


# By file, line and category: how many warnings there were in this run.
_counts: dict[tuple[str, int, str], int] = {}


def count_repeated() -> None:
    """To be called on the main thread, once."""
    sys.set_coroutine_origin_tracking_depth(_DEPTH)
    after_import("warnings", _change)


def _change(warnings: ModuleType) -> None:
    def warn(coroutine: CoroutineType[Any, Any, Any]) -> None:
        places = [(file, line) for file, line, _ in coroutine.cr_origin or () if not file.startswith(OURS)]
        file, line = places[0] if places else (coroutine.cr_code.co_filename, coroutine.cr_code.co_firstlineno)
        message = f"coroutine {coroutine.__qualname__!r} was never awaited"
        warnings.warn_explicit(message, RuntimeWarning, file, line)

    shown = warnings._showwarnmsg_impl

    def show(message: Any) -> None:
        place = (message.filename, message.lineno, message.category.__name__)
        # Where code records warnings, it gets all of them.
        _counts[place] = count = _counts.get(place, 0) + (message.file is None and len(_counts) < _PLACES_MAX)
        if count <= _SHOWN_MAX:
            shown(message)

    warnings.__dict__["_warn_unawaited_coroutine"] = warn
    warnings.__dict__["_showwarnmsg_impl"] = show


def say_repeated(write: Callable[[str], None]) -> None:
    """Writes how many warnings were not shown, at the end of a run."""
    for (file, line, category), count in _counts.items():
        if count > _SHOWN_MAX:
            where = f"line {line}" if file.startswith("<") else f"{file}:{line}"
            write(f"({count - _SHOWN_MAX:,} more {category} from {where})\n")
    _counts.clear()
