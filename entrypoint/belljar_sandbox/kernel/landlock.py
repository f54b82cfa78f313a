"""Landlock rules: which files the interpreter and its descendants may read and change, and whom they may signal.

Of the devices and of /sys, only the listed ones can be read. The other folders of the root can be read: they are /proc,
mounts, or part of the image. Listing folders is not restricted. Where the engine's mounts let files in writable places
be executed, these rules forbid it. PID 1 is not restricted, since it has to write outside the writable places.
"""

from __future__ import annotations

import os

from . import system_calls

# The first version that allows moving files between folders.
VERSION_MIN = 2
_EXECUTE, _WRITE_FILE, _READ_FILE, _REMOVE_FOLDER, _REMOVE_FILE = 1 << 0, 1 << 1, 1 << 2, 1 << 4, 1 << 5
_MAKE_CHARACTER_DEVICE, _MAKE_FOLDER, _MAKE_FILE = 1 << 6, 1 << 7, 1 << 8
_MAKE_SOCKET, _MAKE_FIFO, _MAKE_BLOCK_DEVICE, _MAKE_LINK = 1 << 9, 1 << 10, 1 << 11, 1 << 12
_MOVE, _TRUNCATE, _CONTROL_DEVICE = 1 << 13, 1 << 14, 1 << 15
_BIND_TCP, _CONNECT_TCP = 1 << 0, 1 << 1
_ABSTRACT_SOCKETS, _SIGNALS = 1 << 0, 1 << 1
# Otherwise each denial would be written to the host's audit log, which code could flood.
_LOG_NOTHING = 1 << 0 | 1 << 2

_IN_WRITABLE_PLACES = (
    _WRITE_FILE,
    _REMOVE_FOLDER,
    _REMOVE_FILE,
    _MAKE_FOLDER,
    _MAKE_FILE,
    _MAKE_LINK,
    _MOVE,
    _TRUNCATE,
)
_NOWHERE = (_MAKE_CHARACTER_DEVICE, _MAKE_SOCKET, _MAKE_FIFO, _MAKE_BLOCK_DEVICE, _CONTROL_DEVICE)
# Without /dev/ptmx: opening it, even for reading, creates a terminal.
_DEVICES = ("/dev/null", "/dev/full", "/dev/random", "/dev/urandom")
# If this file is open for writing, it can be mapped shared, which allocates memory that no file system limits.
_ZERO = "/dev/zero"
# The folder of the control groups. The engine masks the other folders of /sys that belljar knows.
_GROUPS = "/sys/fs/cgroup"


def restrict(
    writable: list[str], has_own_group: bool, memory_watched: bool = False, executable_places: bool = False
) -> int:
    """Restricts this process and its descendants for good. Returns the Landlock version, or 0 if it is not available.

    `writable`: the folders below which files can be changed. `has_own_group`: the control groups that are mounted are
    those of this sandbox, and can be read. `memory_watched`: no cgroup limits memory, and the bridge counts what
    processes have mapped. `executable_places`: the mounts of writable folders let files be executed.
    """
    version = _version()
    known = (1 << (14 if version == 2 else 15 if version < 5 else 16)) - 1
    allowed = sum(_IN_WRITABLE_PLACES) & known
    execute = _EXECUTE if executable_places else 0
    # What lies above a writable folder cannot be executed, either.
    shut = {"dev", "proc", "sys", *(path.split("/")[1] for path in writable)}
    places = (
        *((path, allowed | _READ_FILE) for path in writable),
        *((path, _READ_FILE | _WRITE_FILE) for path in _DEVICES),
        (_ZERO, _READ_FILE if memory_watched else _READ_FILE | _WRITE_FILE),
        *(((_GROUPS, _READ_FILE),) if has_own_group else ()),
        *(
            (f"/{name}", _READ_FILE | (0 if name in shut else execute))
            for name in os.listdir("/")
            if name not in ("dev", "sys")
        ),
    )
    try:
        if version:
            files = allowed | _READ_FILE | execute | sum(_NOWHERE) & known
            _enter(version, files, _BIND_TCP | _CONNECT_TCP if version >= 4 else 0, places)
    except OSError:  # the bridge is told, and decides
        return 0
    return version


def separate() -> None:
    """Puts this process into a Landlock domain inside that of the interpreter. It can no longer trace processes outside
    of its domain, nor signal them if the version is at least 6. Landlock still lets the interpreter do both to it."""
    version = _version()
    if version:
        _enter(version, _MAKE_SOCKET)


def _version() -> int:
    """Returns the version that this process can use; 0 if it is too old, missing, or forbidden by the engine."""
    try:
        version = system_calls.landlock_version()
    except OSError:
        return 0
    return version if version >= VERSION_MIN else 0


def _enter(version: int, files: int, network: int = 0, places: tuple[tuple[str, int], ...] = ()) -> None:
    """Denies these rights everywhere except in `places`, each of which grants some."""
    scopes = _ABSTRACT_SOCKETS | _SIGNALS if version >= 6 else 0
    ruleset = system_calls.landlock_ruleset(files, network, scopes)
    try:
        for path, rights in places:
            try:
                fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
            except FileNotFoundError:  # this image or engine does not have it
                continue
            try:
                system_calls.landlock_allow(ruleset, fd, rights)
            finally:
                os.close(fd)
        system_calls.landlock_enter(ruleset, _LOG_NOTHING if version >= 7 else 0)
    finally:
        os.close(ruleset)
