"""A snapshot of the workspace's files, to restore them after earlier runs were run again.

The bridge does not store what these runs write. Imported when it is used.
"""

from __future__ import annotations

import os
import shutil
from stat import S_ISDIR, S_ISLNK, S_ISREG

from .saved_files import SAVED

_ASIDE = "/tmp/.belljar-aside"


def put_aside() -> None:
    """Copies all regular files, folders and symlinks. Raises OSError if there is no space."""
    shutil.rmtree(_ASIDE, ignore_errors=True)
    if SAVED.root:
        shutil.copytree(SAVED.root, _ASIDE, symlinks=True, ignore=_others)


def put_back() -> None:
    """Restores the snapshot: deletes new files, and brings back deleted and changed ones."""
    if not SAVED.root or not os.path.isdir(_ASIDE):
        return
    _remove_changed(SAVED.root, _ASIDE)
    _copy_missing(_ASIDE, SAVED.root)
    shutil.rmtree(_ASIDE, ignore_errors=True)


def _others(folder: str, names: list[str]) -> list[str]:
    """Pipes, sockets and devices cannot be copied."""
    return [name for name in names if _kind(os.path.join(folder, name)) is None]


def _remove_changed(folder: str, aside: str) -> None:
    with os.scandir(folder) as entries:
        for entry in list(entries):
            before = os.path.join(aside, entry.name)
            kind, kind_before = _kind(entry.path), _kind(before)
            if kind == kind_before == "folder":
                _remove_changed(entry.path, before)
            elif kind == "folder":
                shutil.rmtree(entry.path)
            elif kind != kind_before or (kind is not None and not _is_same(entry.path, before, kind)):
                os.unlink(entry.path)


def _copy_missing(aside: str, folder: str) -> None:
    with os.scandir(aside) as entries:
        for entry in entries:
            target = os.path.join(folder, entry.name)
            if not os.path.lexists(target):
                if entry.is_dir(follow_symlinks=False):
                    shutil.copytree(entry.path, target, symlinks=True)
                else:
                    shutil.copy2(entry.path, target, follow_symlinks=False)
            elif entry.is_dir(follow_symlinks=False):
                _copy_missing(entry.path, target)


def _is_same(one: str, other: str, kind: str) -> bool:
    if kind == "link":
        return os.readlink(one) == os.readlink(other)
    now, before = os.lstat(one), os.lstat(other)
    if (now.st_size, now.st_mode, now.st_mtime_ns) != (before.st_size, before.st_mode, before.st_mtime_ns):
        return False
    with open(one, "rb") as file, open(other, "rb") as copy:
        while data := file.read(1 << 20):
            if data != copy.read(1 << 20):
                return False
    return True


def _kind(path: str) -> str | None:
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return None
    if S_ISDIR(mode):
        return "folder"
    if S_ISLNK(mode):
        return "link"
    return "file" if S_ISREG(mode) else None
