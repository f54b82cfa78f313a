"""Puts the code of past runs where tracebacks and inspect.getsource look for it: into linecache.

It does not import linecache, which a run that succeeds does not need, but fills it when it is imported.
"""

from __future__ import annotations

from types import ModuleType

from ..kernel.type_names import Any
from ..worker.after_import import after_import

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
    after_import("linecache", _show)
    after_import("inspect", _find_classes)


def _find_classes(inspect: ModuleType) -> None:
    """Makes inspect find the source of a class of a run: it looks for the file of its module, which has none."""
    of_library = inspect.getfile

    def getfile(thing: Any) -> str:
        file = _file_of_class(thing) if isinstance(thing, type) and thing.__module__ == "__main__" else None
        return file or str(of_library(thing))

    vars(inspect)["getfile"] = getfile


def _file_of_class(named: type) -> str | None:
    """Returns the run that defined a class: that of its methods, or else the last one that has a class of this name."""
    functions = (getattr(member, "__code__", None) for member in vars(named).values())
    of_methods = [code.co_filename for code in functions if code is not None and code.co_filename in _KEPT]
    begin = f"class {named.__name__}"
    of_name = (file for file in reversed(_KEPT) if any(line.lstrip().startswith(begin) for line in _KEPT[file][2]))
    return of_methods[0] if of_methods else next(of_name, None)


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


def plain(code: str) -> str:
    """Removes a byte order mark and converts line ends as Python does, so that line numbers are the same everywhere."""
    code = code.removeprefix("\ufeff")
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
