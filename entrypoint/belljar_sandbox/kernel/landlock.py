"""Landlock: which files the interpreter and everything it starts may read and change, and which processes they may
signal, decided by the kernel.

Of the devices and of /sys only the listed ones can be read. The other folders of the root can be read: they are /proc,
mounts, or the image's. Listing folders and starting programs are not restricted. PID 1 is not restricted: it writes
what must be written outside the writable places.
"""

from __future__ import annotations

import os

from . import system_calls

# The first version that lets files move between folders.
VERSION_MIN = 2
_WRITE_FILE, _READ_FILE, _REMOVE_FOLDER, _REMOVE_FILE = 1 << 1, 1 << 2, 1 << 4, 1 << 5
_MAKE_CHARACTER_DEVICE, _MAKE_FOLDER, _MAKE_FILE = 1 << 6, 1 << 7, 1 << 8
_MAKE_SOCKET, _MAKE_FIFO, _MAKE_BLOCK_DEVICE, _MAKE_LINK = 1 << 9, 1 << 10, 1 << 11, 1 << 12
_MOVE, _TRUNCATE, _CONTROL_DEVICE = 1 << 13, 1 << 14, 1 << 15
_BIND_TCP, _CONNECT_TCP = 1 << 0, 1 << 1
_ABSTRACT_SOCKETS, _SIGNALS = 1 << 0, 1 << 1
# Denials would otherwise be records of the host's audit log, which code could flood.
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
# Not /dev/ptmx: opening it for reading makes a terminal, too.
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
# Where the sandbox's own limits stand. The engine masks the rest of what belljar knows of /sys.
_OWN_LIMITS = "/sys/fs/cgroup"


def restrict(writable: list[str]) -> int:
    """Restricts this process and all that descend from it, for good; the version used, or 0 where that is not possible.

    `writable`: the folders below which files can be changed.
    """
    version = _version()
    known = (1 << (14 if version == 2 else 15 if version < 5 else 16)) - 1
    allowed = sum(_IN_WRITABLE_PLACES) & known
    places = (
        *((path, allowed | _READ_FILE) for path in writable),
        *((path, _READ_FILE | _WRITE_FILE) for path in _DEVICES),
        (_OWN_LIMITS, _READ_FILE),
        *((f"/{name}", _READ_FILE) for name in os.listdir("/") if name not in ("dev", "sys")),
    )
    try:
        if version:
            files = allowed | _READ_FILE | sum(_NOWHERE) & known
            _enter(version, files, _BIND_TCP | _CONNECT_TCP if version >= 4 else 0, places)
    except OSError:  # the bridge is told, and decides
        return 0
    return version


def separate() -> None:
    """A domain of its own inside that of the interpreter that this process was forked from: it can neither trace nor
    signal what is outside of it. The interpreter's domain still reaches into it."""
    version = _version()
    if version:
        _enter(version, _MAKE_SOCKET)


def _version() -> int:
    """What this process can use; 0 where the kernel has nothing, too old a version, or a filter of the engine's."""
    try:
        version = system_calls.landlock_version()
    except OSError:
        return 0
    return version if version >= VERSION_MIN else 0


def _enter(version: int, files: int, network: int = 0, places: tuple[tuple[str, int], ...] = ()) -> None:
    """Denies these rights everywhere but in the places, each with the rights that it grants."""
    scopes = _ABSTRACT_SOCKETS | _SIGNALS if version >= 6 else 0
    ruleset = system_calls.landlock_ruleset(files, network, scopes)
    try:
        for path, rights in places:
            try:
                fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
            except FileNotFoundError:  # an image, or an engine, without it
                continue
            try:
                system_calls.landlock_allow(ruleset, fd, rights)
            finally:
                os.close(fd)
        system_calls.landlock_enter(ruleset, _LOG_NOTHING if version >= 7 else 0)
    finally:
        os.close(ruleset)
