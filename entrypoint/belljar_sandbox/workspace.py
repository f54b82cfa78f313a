"""The files of the workspace: what has changed of them, in pieces for the bridge, and those that it puts back.

It follows no link, and reads nothing but plain files; user code has the same rights as whoever runs this.
"""

from __future__ import annotations

import os
from binascii import a2b_base64, b2a_base64
from os import O_CLOEXEC, O_CREAT, O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK, O_RDONLY, O_TRUNC, O_WRONLY
from os import close as _close
from os import lstat as _lstat
from os import open as _open
from os import scandir as _scandir
from stat import S_ISDIR, S_ISLNK, S_ISREG
from time import time_ns as _time_ns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

Frame = dict[str, object]
# Of each file: its number, size, mode and times of change; of a folder only that it is one.
State = tuple[int, ...]
# Files and folders that are kept, and bytes of them in all.
Bounds = tuple[int, int]

PIECE_BYTES = 256 * 1024
# Files and folders that are looked at, in whatever order they come.
SEEN_MAX = 20_000
DEPTH_MAX = 32
PATH_BYTES_MAX = 2_048
# What programs keep for themselves and can make again.
NOT_KEPT = frozenset((".cache", "__pycache__", ".ipynb_checkpoints"))
_FOLDER: State = ()
_UNKNOWN: State = (-1, 0)
_SIZE = 1
_LEFT_OUT_SHOWN_MAX = 5
# Two changes within a tick of the file system's clock bear the same time.
_SETTLED_NS = 1_000_000_000
_OPEN_FOLDER = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC


class Scan:
    """What is there now: first of all what was `known` before, as far as there is room."""

    def __init__(self, root: str, bounds: Bounds, known: dict[str, State]) -> None:
        self.found: dict[str, State] = {}
        self.left_out: list[str] = []
        self.left_out_total = 0
        # Nothing can be told of what is there, or gone.
        self.failed = False
        self._seen: dict[str, State] = {}
        try:
            folder = _open(root, _OPEN_FOLDER)
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
        except FileNotFoundError:  # it has just gone
            return
        mode = about.st_mode
        if not S_ISREG(mode) and not S_ISDIR(mode):
            self._leave_out(path, "a link" if S_ISLNK(mode) else "no plain file")
        elif not _is_text(path):
            self._leave_out(repr(path), "a name that is no text, or too long")
        elif len(self._seen) == SEEN_MAX:
            self._leave_out(path, f"more than {SEEN_MAX:,} files and folders")
        elif S_ISREG(mode):
            self._seen[path] = _state(about)
        elif depth >= DEPTH_MAX:
            self._leave_out(path, f"more than {DEPTH_MAX} folders deep")
        else:
            self._seen[path] = _FOLDER
            try:
                inner = _open(name, _OPEN_FOLDER, dir_fd=folder)
            except OSError as error:
                self._leave_out(path, error.strerror or "unreadable")
                return
            self._walk(inner, path + "/", depth + 1)

    def _leave_out(self, path: str, reason: str) -> None:
        self.left_out_total += 1
        if len(self.left_out) < _LEFT_OUT_SHOWN_MAX:
            self.left_out.append(f"{path}: {reason}")


class Workspace:
    """What the bridge has of the files, as the supervisor knows it."""

    def __init__(self, root: str, bounds: Bounds) -> None:
        self._root = root
        self._bounds = bounds
        self._known: dict[str, State] = {}

    def put(self, frame: Frame) -> None:
        """Writes a piece; before any user code runs."""
        path, offset = str(frame["path"]), frame["offset"]
        target = os.path.join(self._root, path)
        if frame["folder"] is True:
            os.makedirs(target, 0o700, exist_ok=True)
            self._note(path, _FOLDER)
            return
        os.makedirs(os.path.dirname(target), 0o700, exist_ok=True)
        mode = 0o700 if frame["executable"] is True else 0o600
        # A later piece is for a file that is there: one whose beginning did not fit is gone.
        how = 0 if offset else O_CREAT | O_TRUNC
        file = _open(target, O_WRONLY | O_NOFOLLOW | O_CLOEXEC | how, mode)
        try:
            data = a2b_base64(str(frame["base64"]))
            assert isinstance(offset, int)
            try:
                while data:
                    written = os.pwrite(file, data, offset)
                    data, offset = data[written:], offset + written
            except OSError:
                # Half a file would be taken for the whole one the next time.
                os.unlink(target)
                raise
            if frame["last"] is True:
                modified_us = frame["modified_us"]
                assert isinstance(modified_us, int)
                os.utime(file, ns=(modified_us * 1000, modified_us * 1000))
                self._note(path, _state(os.fstat(file)))
        finally:
            _close(file)

    def _note(self, path: str, state: State) -> None:
        # What is never told must not be told as gone.
        if NOT_KEPT.isdisjoint(path.split("/")):
            self._known[path] = state

    def changes(self, seq: object, everything: bool = False) -> Iterator[Frame]:
        """The frames that tell of all changes since the last time, the last of them `kept`; or of all that is there."""
        if everything:
            self._known = dict.fromkeys(self._known, _UNKNOWN)
        scan = Scan(self._root, self._bounds, self._known)
        gone = () if scan.failed else sorted(self._known.keys() - scan.found.keys(), reverse=True)
        for path in gone:
            # What there is no room for any more, or cannot be looked at, stays as it was kept.
            if self._is_there(path):
                continue
            del self._known[path]
            yield {"type": "file_gone", "path": path}
        for path, state in scan.found.items():
            if self._known.get(path) != state:
                # Not known until it is whole, but for that the bridge may have it.
                if path in self._known:
                    self._known[path] = _UNKNOWN
                try:
                    yield from self._pieces(path, state)
                except FileNotFoundError:  # it has just gone
                    continue
                except OSError as error:
                    scan.left_out_total += 1
                    scan.left_out.append(f"{path}: {error.strerror}")
                else:
                    self._known[path] = state
        left_out = scan.left_out[:_LEFT_OUT_SHOWN_MAX]
        yield {"type": "kept", "seq": seq, "left_out": left_out, "left_out_total": scan.left_out_total}

    def _pieces(self, path: str, state: State) -> Iterator[Frame]:
        piece: Frame = {"type": "file", "path": path, "folder": state == _FOLDER}
        if state == _FOLDER:
            yield {**piece, "executable": False, "modified_us": 0, "offset": 0, "base64": "", "last": True}
            return
        _, size, mode, modified_ns, _ = state
        piece |= {"executable": bool(mode & 0o100), "modified_us": max(0, modified_ns // 1000)}
        file = self._open(path)
        try:
            offset = 0
            last = False
            while not last:
                data = os.pread(file, PIECE_BYTES, offset)
                # One that grows meanwhile has changed again the next time.
                last = len(data) < PIECE_BYTES or offset + len(data) >= size
                encoded = b2a_base64(data, newline=False).decode()
                yield {**piece, "offset": offset, "base64": encoded, "last": last}
                offset += len(data)
        finally:
            _close(file)

    def _is_there(self, path: str) -> bool:
        try:
            mode = os.lstat(os.path.join(self._root, path)).st_mode
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:
            return True
        return S_ISREG(mode) or S_ISDIR(mode)

    def _open(self, path: str) -> int:
        """Folder after folder: what was one a moment ago may be a link now."""
        *folders, name = path.split("/")
        folder = _open(self._root, _OPEN_FOLDER)
        try:
            for step in folders:
                inner = _open(step, _OPEN_FOLDER, dir_fd=folder)
                _close(folder)
                folder = inner
            return _open(name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, dir_fd=folder)
        finally:
            _close(folder)


class Watch:
    """Whether files have changed since it was last asked, as the worker sees it."""

    def __init__(self, root: str, bounds: Bounds) -> None:
        self._root = root
        self._bounds = bounds
        self._found: dict[str, State] = {}
        # Of a folder in which there was nothing: as long as it is the same there is nothing.
        self._empty: State | None = None

    def has_changed(self) -> bool:
        """Never raises."""
        try:
            folder = _lstat(self._root)
            if self._empty == _state(folder):
                return False
            scan = Scan(self._root, self._bounds, self._found)
        except Exception:  # user code has left no depth of calls, for one
            return True
        changed = scan.left_out_total > 0 or scan.found != self._found
        self._found = scan.found
        is_settled = _time_ns() - max(folder.st_mtime_ns, folder.st_ctime_ns) > _SETTLED_NS
        self._empty = _state(folder) if is_settled and not scan.found and not scan.left_out_total else None
        return changed


def _state(about: os.stat_result) -> State:
    # The time of any change too: that of the content can be set back.
    return (about.st_ino, about.st_size, about.st_mode, about.st_mtime_ns, about.st_ctime_ns)


def _is_text(path: str) -> bool:
    try:
        return len(path.encode()) <= PATH_BYTES_MAX
    except UnicodeEncodeError:
        return False
