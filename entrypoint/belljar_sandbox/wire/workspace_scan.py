"""Lists the files of the workspace: for the supervisor, which sends them, and for the worker, which looks for changes.

It does not follow symlinks, and lists only regular files and folders.
"""

from __future__ import annotations

import os
from os import O_CLOEXEC, O_DIRECTORY, O_NOFOLLOW, O_RDONLY
from os import close as _close
from os import open as _open
from os import scandir as _scandir
from stat import S_ISDIR, S_ISLNK, S_ISREG

# The fingerprint of a file: inode, size, mode and times of change. That of a folder is empty.
State = tuple[int, ...]
# How many files and folders are stored, and how many bytes in all.
Bounds = tuple[int, int]

# How many files and folders are listed, in the order of the file system.
SEEN_MAX = 20_000
DEPTH_MAX = 32
PATH_BYTES_MAX = 2_048
# Caches that programs can make again.
NOT_KEPT = frozenset((".cache", "__pycache__", ".ipynb_checkpoints"))
FOLDER: State = ()
LEFT_OUT_SHOWN_MAX = 5
OPEN_FOLDER = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC
_SIZE = 1


class WorkspaceScan:
    """One listing. When there are too many files, those that were `known` before come first."""

    def __init__(self, root: str, bounds: Bounds, known: dict[str, State]) -> None:
        self.found: dict[str, State] = {}
        self.left_out: list[str] = []
        self.left_out_total = 0
        # The folder could not be read: nothing is known about its files.
        self.failed = False
        self._seen: dict[str, State] = {}
        try:
            folder = _open(root, OPEN_FOLDER)
        except OSError as error:
            self.failed = True
            self._leave_out(root, error.strerror or "unreadable")
            return
        self._walk(folder, "", 1)
        files_max, room = bounds
        for path, state in sorted(self._seen.items(), key=lambda seen: seen[0] not in known):
            size = state[_SIZE] if state else 0
            if size > room:
                self._leave_out(path, "more bytes than are kept")
            elif len(self.found) == files_max:
                self._leave_out(path, f"more than {files_max:,} files and folders")
            else:
                self.found[path] = state
                room -= size

    def _walk(self, folder: int, prefix: str, depth: int) -> None:
        try:
            with _scandir(folder) as entries:
                for entry in entries:
                    self._take(entry, folder, prefix, depth)
        except OSError as error:
            self._leave_out(prefix, error.strerror or "unreadable")
        finally:
            _close(folder)

    def _take(self, entry: os.DirEntry[str], folder: int, prefix: str, depth: int) -> None:
        name = entry.name
        path = prefix + name
        if name in NOT_KEPT:
            return
        try:
            about = entry.stat(follow_symlinks=False)
        except FileNotFoundError:  # it has just been deleted
            return
        mode = about.st_mode
        if not S_ISREG(mode) and not S_ISDIR(mode):
            self._leave_out(path, "a link" if S_ISLNK(mode) else "no plain file")
        elif not _is_text(path):
            self._leave_out(repr(path), "a name that is no text, or too long")
        elif len(self._seen) == SEEN_MAX:
            self._leave_out(path, f"more than {SEEN_MAX:,} files and folders")
        elif S_ISREG(mode):
            self._seen[path] = state_of(about)
        elif depth >= DEPTH_MAX:
            self._leave_out(path, f"more than {DEPTH_MAX} folders deep")
        else:
            self._seen[path] = FOLDER
            try:
                inner = _open(name, OPEN_FOLDER, dir_fd=folder)
            except OSError as error:
                self._leave_out(path, error.strerror or "unreadable")
                return
            self._walk(inner, path + "/", depth + 1)

    def _leave_out(self, path: str, reason: str) -> None:
        self.left_out_total += 1
        if len(self.left_out) < LEFT_OUT_SHOWN_MAX:
            self.left_out.append(f"{path}: {reason}")


def state_of(about: os.stat_result) -> State:
    # Including the time of the last change of the inode, since the time of the content can be set back.
    return (about.st_ino, about.st_size, about.st_mode, about.st_mtime_ns, about.st_ctime_ns)


def _is_text(path: str) -> bool:
    try:
        return len(path.encode()) <= PATH_BYTES_MAX
    except UnicodeEncodeError:
        return False
