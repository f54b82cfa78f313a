"""multiprocessing starts its processes by fork, also where Python 3.14 would have a server fork them.

That server needs sockets, and its processes know nothing of what the code has defined. It does not keep code from
asking for another way by its name.
"""

from __future__ import annotations

import sys
from _frozen_importlib_external import PathFinder, SourceFileLoader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

_MODULE = "multiprocessing.context"


class _Loader(SourceFileLoader):
    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        contexts = getattr(module, "_concrete_contexts", {})
        if "fork" in contexts:
            module._default_context = module.DefaultContext(contexts["fork"])  # type: ignore[attr-defined]


class ByFork:
    """Finds that one module, and changes its default once it is loaded."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != _MODULE:
            return None
        spec = PathFinder.find_spec(name, path)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Loader(name, spec.loader.path)
        return spec


def install() -> None:
    sys.meta_path.insert(0, ByFork())
