"""Python's warning of a coroutine that was never awaited names the line that made it.

Python itself names the line at which the coroutine went, which may be one of a later run. A thread's coroutines do not
say where they were made, and are warned of at their function.
"""

from __future__ import annotations

import sys

from ..worker.after_import import AfterImport
from ..worker.interrupts import OURS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CoroutineType, ModuleType
    from typing import Any

# The frames above a coroutine that it knows: enough to see through ours.
_DEPTH = 4


def install() -> None:
    """On the main thread."""
    sys.set_coroutine_origin_tracking_depth(_DEPTH)
    sys.meta_path.insert(0, AfterImport("warnings", _change))
    if "warnings" in sys.modules:
        _change(sys.modules["warnings"])


def _change(warnings: ModuleType) -> None:
    def warn(coroutine: CoroutineType[Any, Any, Any]) -> None:
        places = [(file, line) for file, line, _ in coroutine.cr_origin or () if not file.startswith(OURS)]
        file, line = places[0] if places else (coroutine.cr_code.co_filename, coroutine.cr_code.co_firstlineno)
        message = f"coroutine {coroutine.__qualname__!r} was never awaited"
        warnings.warn_explicit(message, RuntimeWarning, file, line)

    warnings.__dict__["_warn_unawaited_coroutine"] = warn
