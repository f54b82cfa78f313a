"""Puts the code of past runs where tracebacks and inspect.getsource look for it: into linecache.

It does not import linecache, which a run that succeeds does not need, but fills it when it is imported.
"""

from __future__ import annotations

import sys

from ..worker.after_import import AfterImport

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    # By file name: size, time of change, lines and full name.
    Cache = dict[str, tuple[int, None, list[str], str]]

CHARACTERS_MAX = 8_000_000
SOURCES_MAX = 1_000
_CACHES_MAX = 8

_KEPT: Cache = {}
# The caches of linecache. If it is imported again, earlier importers still use the older one.
_CACHES: list[Cache] = []


def install() -> None:
    """To be called before any code is stored."""
    sys.meta_path.insert(0, AfterImport("linecache", _show))
    if "linecache" in sys.modules:
        _show(sys.modules["linecache"])


def _show(linecache: ModuleType) -> None:
    linecache.cache.update(_KEPT)
    _CACHES.append(linecache.cache)
    del _CACHES[:-_CACHES_MAX]


def source_lines(file: str, names: dict[str, Any]) -> list[str]:
    """Returns the lines of a run, or of another file whose code has these global names."""
    kept = _KEPT.get(file)
    if kept is not None:
        return kept[2]
    from linecache import getlines  # imported when it is used

    return getlines(file, names)


def with_plain_line_ends(code: str) -> str:
    """Converts line ends as Python does, so that line numbers are the same everywhere."""
    return code.replace("\r\n", "\n").replace("\r", "\n") if "\r" in code else code


class SourceStore:
    """Stores code by name. The oldest is removed when there is too much."""

    def __init__(self) -> None:
        self._sizes: dict[str, int] = {}
        self._characters = 0

    def keep(self, name: str, code: str) -> None:
        lines = [f"{line}\n" for line in code.split("\n")]
        for cache in (_KEPT, *_CACHES):
            cache[name] = (len(code), None, lines, name)
        self._characters += len(code) - self._sizes.get(name, 0)
        self._sizes[name] = len(code)
        while (self._characters > CHARACTERS_MAX or len(self._sizes) > SOURCES_MAX) and len(self._sizes) > 1:
            oldest = next(iter(self._sizes))
            self._characters -= self._sizes.pop(oldest)
            for cache in (_KEPT, *_CACHES):
                cache.pop(oldest, None)
