"""Makes Python's warning about a coroutine that was never awaited name the line that created it.

Python itself names the line at which the coroutine was destroyed, which may belong to a later run. Coroutines of other
threads do not record where they were created; their warnings name the function.
"""

from __future__ import annotations

import sys

from ..worker.after_import import AfterImport
from ..worker.interrupts import OURS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CoroutineType, ModuleType
    from typing import Any

# How many frames a coroutine records: enough to look past ours.
_DEPTH = 4


def install() -> None:
    """To be called on the main thread."""
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
