"""Makes fork the default start method of multiprocessing, which since Python 3.14 is a fork server.

That server needs sockets, and its processes do not have what the code has defined. Code can still ask for another
method by its name.
"""

from __future__ import annotations

from types import ModuleType

from .after_import import after_import


def install() -> None:
    after_import("multiprocessing.context", fork_by_default)


def fork_by_default(module: ModuleType) -> None:
    """Changes the default in this module, which is multiprocessing.context."""
    contexts = getattr(module, "_concrete_contexts", {})
    if "fork" in contexts:
        module._default_context = module.DefaultContext(contexts["fork"])  # type: ignore[attr-defined]
