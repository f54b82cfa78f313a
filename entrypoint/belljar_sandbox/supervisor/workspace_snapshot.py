"""A snapshot of the workspace's files, to restore them after earlier runs were run again.

The bridge does not store what these runs write. A child process copies, so that the supervisor goes on meanwhile. It
opens folder by folder, since user code may replace a folder by a symlink at any time. Imported when it is used.
"""

from __future__ import annotations

import os
from os import O_CLOEXEC, O_CREAT, O_EXCL, O_NOFOLLOW, O_NONBLOCK, O_RDONLY, O_WRONLY
from shutil import rmtree
from stat import S_IFDIR, S_IFLNK, S_IFMT, S_IFREG, S_IMODE

from ..kernel import landlock, system_calls
from ..kernel.posture import has_own_group
from ..kernel.signals import SIG_DFL, SIGCHLD, set_wakeup_fd, signal
from ..wire.limits import Limits
from ..wire.workspace_scan import OPEN_FOLDER
from .processes import close_all_but

_SNAPSHOT = "/tmp/.belljar-snapshot"
_PIECE_BYTES = 1 << 20
_REASON_BYTES_MAX = 1 << 10
_OPEN_FILE = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC
_KINDS = (S_IFDIR, S_IFLNK, S_IFREG)


class WorkspaceSnapshot:
    """A child process that takes the snapshot, or restores it."""

    def __init__(self, limits: Limits, restores: bool) -> None:
        # Has something to read when the process has ended.
        self.fd, end = os.pipe()
        supervisor = os.getpid()
        if os.fork() == 0:
            try:
                system_calls.die_with_parent()
                if os.getppid() == supervisor:
                    _work(limits, restores, end)
            finally:
                os._exit(0)
        os.close(end)

    def failure(self) -> str | None:
        """Waits for its end. Returns why it failed."""
        reason = os.read(self.fd, _REASON_BYTES_MAX)
        os.close(self.fd)
        return reason.decode(errors="replace").rstrip() if reason else "its process was killed"


def _work(limits: Limits, restores: bool, end: int) -> None:
    """Writes why it failed, or an empty line."""
    set_wakeup_fd(-1)
    signal(SIGCHLD, SIG_DFL)
    close_all_but(end)
    # This process must not be able to change more than user code can.
    system_calls.gain_no_privileges()
    landlock.restrict(limits.writable, has_own_group(limits.memory_bytes))
    reason = ""
    try:
        if restores:
            restore(limits.workspace)
        else:
            take(limits.workspace)
    except (OSError, RecursionError) as error:
        reason = str(error)
    os.write(end, f"{reason}\n".encode(errors="replace")[-_REASON_BYTES_MAX:])


def take(root: str) -> None:
    """Copies all regular files, folders and symlinks. Raises OSError if there is no space."""
    rmtree(_SNAPSHOT, ignore_errors=True)
    os.mkdir(_SNAPSHOT, 0o700)
    with _Folder(root) as workspace, _Folder(_SNAPSHOT) as snapshot:
        _copy_missing(workspace, snapshot)


def restore(root: str) -> None:
    """Deletes new files, and brings back deleted and changed ones."""
    try:
        with _Folder(_SNAPSHOT) as snapshot, _Folder(root) as workspace:
            _remove_changed(workspace, snapshot)
            _copy_missing(snapshot, workspace)
    except FileNotFoundError:
        if os.path.lexists(_SNAPSHOT):
            raise
    rmtree(_SNAPSHOT, ignore_errors=True)


class _Folder:
    """A descriptor of a folder for a `with` block."""

    def __init__(self, path: str, parent: int | None = None) -> None:
        self._fd = os.open(path, OPEN_FOLDER, dir_fd=parent)

    def __enter__(self) -> int:
        return self._fd

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)


def _remove_changed(folder: int, snapshot: int) -> None:
    for name in os.listdir(folder):
        now, before = _kind(name, folder), _kind(name, snapshot)
        if now == before == S_IFDIR:
            with _Folder(name, folder) as inner, _Folder(name, snapshot) as inner_before:
                _remove_changed(inner, inner_before)
        elif now == S_IFDIR:
            rmtree(name, dir_fd=folder)
        elif (now or before) and (now != before or not _is_same(name, now, folder, snapshot)):
            os.unlink(name, dir_fd=folder)


def _copy_missing(source: int, target: int) -> None:
    for name in os.listdir(source):
        kind = _kind(name, source)
        exists = _kind(name, target) is not None
        if kind == S_IFDIR:
            if not exists:
                os.mkdir(name, 0o700, dir_fd=target)
            with _Folder(name, source) as inner, _Folder(name, target) as inner_target:
                _copy_missing(inner, inner_target)
                os.fchmod(inner_target, S_IMODE(os.fstat(inner).st_mode))
        elif kind == S_IFLNK and not exists:
            os.symlink(os.readlink(name, dir_fd=source), name, dir_fd=target)
        elif kind == S_IFREG and not exists:
            _copy_file(name, source, target)


def _copy_file(name: str, source: int, target: int) -> None:
    file = os.open(name, _OPEN_FILE, dir_fd=source)
    copy = os.open(name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0o600, dir_fd=target)
    while data := os.read(file, _PIECE_BYTES):
        while data:
            data = data[os.write(copy, data) :]
    state = os.fstat(file)
    os.fchmod(copy, S_IMODE(state.st_mode))
    os.utime(copy, ns=(state.st_atime_ns, state.st_mtime_ns))
    os.close(file)
    os.close(copy)


def _is_same(name: str, kind: int | None, folder: int, snapshot: int) -> bool:
    if kind == S_IFLNK:
        return os.readlink(name, dir_fd=folder) == os.readlink(name, dir_fd=snapshot)
    files = [os.open(name, _OPEN_FILE, dir_fd=parent) for parent in (folder, snapshot)]
    try:
        now, before = map(os.fstat, files)
        if (now.st_size, now.st_mode, now.st_mtime_ns) != (before.st_size, before.st_mode, before.st_mtime_ns):
            return False
        while True:
            data, data_before = (os.read(file, _PIECE_BYTES) for file in files)
            if data != data_before or not data:
                return data == data_before
    finally:
        for file in files:
            os.close(file)


def _kind(name: str, folder: int) -> int | None:
    """Returns None if there is no such file, and 0 for pipes, sockets and devices, which cannot be copied."""
    try:
        kind = S_IFMT(os.lstat(name, dir_fd=folder).st_mode)
    except FileNotFoundError:
        return None
    return kind if kind in _KINDS else 0
