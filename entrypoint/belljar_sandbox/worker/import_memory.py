"""Refuses the import of a native library if too little memory is left for it.

An import that runs out of memory leaves libraries half initialized: their next use may crash the interpreter, and
OpenBLAS asks for memory again and again. Modules in plain Python are not checked, and nothing is freed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from mmap import PAGESIZE
from resource import RLIM_INFINITY, RLIMIT_DATA, getrlimit
from time import monotonic
from types import ModuleType

# Measured: numpy with pandas takes 95 MB, scipy 92, polars 40. With more free memory than the largest needs, nothing is
# checked.
_LARGEST_BYTES = 128 << 20
_SHARE_OF_FILES = 4
_OPENBLAS = "openblas"
_OPENBLAS_BYTES = 64 << 20
# A library has hundreds of modules. While there is enough memory, not every import is checked.
_PAUSE_S = 0.005
_OURS = ("mcp", "belljar_sandbox")
# The field of /proc/self/statm that counts towards the limit: data and stack, in pages.
_DATA_FIELD = 5


def install() -> None:
    """Installs the check if the memory of this process is limited."""
    limit, _ = getrlimit(RLIMIT_DATA)
    if limit != RLIM_INFINITY:
        sys.meta_path.insert(0, ImportMemoryCheck(limit))


class ImportMemoryCheck:
    """An import hook that never finds a module, but raises MemoryError if there is not enough memory for one."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._next_look = 0.0

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        top = name.partition(".")[0]
        if top in sys.stdlib_module_names or top in _OURS:
            return None
        now = monotonic()
        if now < self._next_look:
            return None
        room = self._limit_bytes - _used_bytes()
        if room >= _LARGEST_BYTES:
            self._next_look = now + _PAUSE_S
        elif room < _needed_bytes(name, path):
            raise MemoryError(f"there is too little memory left to import {name}")
        return None


def _used_bytes() -> int:
    with open("/proc/self/statm", "rb", buffering=0) as file:
        return int(file.read().split()[_DATA_FIELD]) * PAGESIZE


def _needed_bytes(name: str, path: Sequence[str] | None) -> int:
    """Estimates what this module or package needs, by the sizes of its native libraries."""
    leaf = name.rpartition(".")[2]
    for folder in sys.path if path is None else path:
        package = f"{folder}/{leaf}"
        if os.path.isdir(package):
            # Wheels put bundled libraries beside the package.
            return _of_folder(package) + _of_folder(f"{package}.libs")
        try:
            files = [file for file in os.scandir(folder) if file.name.startswith(f"{leaf}.")]
        except OSError:
            continue
        if files:
            return sum(file.stat().st_size for file in files if file.name.endswith(".so")) // _SHARE_OF_FILES
    return 0


def _of_folder(folder: str) -> int:
    libraries = [f"{at}/{name}" for at, _, names in os.walk(folder) for name in names if ".so" in name]
    brings_blas = any(_OPENBLAS in library for library in libraries)
    return sum(map(os.path.getsize, libraries)) // _SHARE_OF_FILES + brings_blas * _OPENBLAS_BYTES
