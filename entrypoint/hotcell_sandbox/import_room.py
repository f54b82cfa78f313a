"""Refuses to import a library where too little memory is left for it.

An import that runs out of memory in the middle leaves libraries half made, and the next use of them may crash the
interpreter. It never looks at modules of the standard library, which are small, and frees nothing.
"""

from __future__ import annotations

import sys
from mmap import PAGESIZE
from posix import close, open, read
from resource import RLIM_INFINITY, RLIMIT_DATA, getrlimit
from time import monotonic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

# What scikit-learn takes that is imported after pandas, and some more.
_ROOM_BYTES = 72 << 20
# A library has hundreds of modules; how much is in use is not looked at for each.
_PAUSE_S = 0.005
_OURS = ("mcp", "hotcell_sandbox")
_DATA_FIELD = 5


def install() -> None:
    """Where the memory of this process is limited."""
    limit, _ = getrlimit(RLIMIT_DATA)
    if limit != RLIM_INFINITY:
        sys.meta_path.insert(0, ImportRoom(min(limit, sys.maxsize)))


class ImportRoom:
    """Finds no module; raises MemoryError where there is no room for any."""

    def __init__(self, limit_bytes: int) -> None:
        # In a small container even less is a large part of all.
        self._used_max = limit_bytes - min(_ROOM_BYTES, limit_bytes // 4)
        self._next_look = 0.0

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        now = monotonic()
        if now < self._next_look:
            return None
        top = name.partition(".")[0]
        if top in sys.stdlib_module_names or top in _OURS:
            return None
        self._next_look = now + _PAUSE_S
        if _used_bytes() > self._used_max:
            self._next_look = 0.0
            raise MemoryError(f"there is too little memory left to import {name}")
        return None


def _used_bytes() -> int:
    """What counts towards the limit, as /proc/self/statm has it: data and stack, in pages."""
    fd = open("/proc/self/statm", 0)
    try:
        return int(read(fd, 200).split()[_DATA_FIELD]) * PAGESIZE
    finally:
        close(fd)
