"""multiprocessing starts its processes by fork, also where Python 3.14 would have a server fork them.

That server needs sockets, and its processes know nothing of what the code has defined. It does not keep code from
asking for another way by its name.
"""

from __future__ import annotations

import sys

from .after_import import AfterImport

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType


def by_fork() -> AfterImport:
    """The importer that has it so."""
    return AfterImport("multiprocessing.context", _fork_by_default)


def install() -> None:
    sys.meta_path.insert(0, by_fork())


def _fork_by_default(module: ModuleType) -> None:
    contexts = getattr(module, "_concrete_contexts", {})
    if "fork" in contexts:
        module._default_context = module.DefaultContext(contexts["fork"])  # type: ignore[attr-defined]
