"""An import hook that changes one module of a library right after it is loaded.

It imports nothing by itself, and leaves all other modules to the ordinary importers.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType


def after_import(name: str, change: Callable[[ModuleType], None]) -> None:
    """Calls `change` with the module of this name: now if it is loaded, and whenever it is loaded from now on."""
    sys.meta_path.insert(0, AfterImport(name, change))
    if name in sys.modules:
        change(sys.modules[name])


class AfterImport:
    """Finds this one module, and calls `change` with it once it is loaded."""

    def __init__(self, name: str, change: Callable[[ModuleType], None]) -> None:
        self._name = name
        self._change = change

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != self._name:
            return None
        spec = PathFinder.find_spec(name, path)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Loader(name, spec.loader.path)
            spec.loader.change = self._change
        return spec


class _Loader(SourceFileLoader):
    change: Callable[[ModuleType], None]

    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        self.change(module)
