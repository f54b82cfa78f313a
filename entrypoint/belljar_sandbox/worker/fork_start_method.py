"""Makes fork the default start method of multiprocessing, which since Python 3.14 is a fork server.

That server needs sockets, and its processes do not have what the code has defined. Code can still ask for another
method by its name.
"""

from __future__ import annotations

import sys

from .after_import import AfterImport

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType


def by_fork() -> AfterImport:
    """Returns the import hook that changes the default."""
    return AfterImport("multiprocessing.context", _fork_by_default)


def install() -> None:
    sys.meta_path.insert(0, by_fork())


def _fork_by_default(module: ModuleType) -> None:
    contexts = getattr(module, "_concrete_contexts", {})
    if "fork" in contexts:
        module._default_context = module.DefaultContext(contexts["fork"])  # type: ignore[attr-defined]
