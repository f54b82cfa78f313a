"""Sends changed files of the workspace to the bridge in pieces, and writes those that the bridge restores.

It does not follow symlinks, and reads only regular files, since user code decides what is in the workspace.
"""

from __future__ import annotations

import os
from binascii import a2b_base64, b2a_base64
from collections.abc import Iterator
from os import O_CLOEXEC, O_CREAT, O_NOFOLLOW, O_NONBLOCK, O_RDONLY, O_TRUNC, O_WRONLY
from os import close as _close
from os import open as _open
from stat import S_ISDIR, S_ISREG

from ..wire.frames import Frame
from ..wire.workspace_scan import (
    FOLDER,
    LEFT_OUT_SHOWN_MAX,
    NOT_KEPT,
    OPEN_FOLDER,
    Bounds,
    State,
    WorkspaceScan,
    state_of,
)
from .bridge_writer import BridgeWriter

PIECE_BYTES = 256 * 1024
# The latest time of a change that is told: file systems have later ones.
TIME_US_MAX = 2**63 - 1
_UNKNOWN: State = (-1, 0)


class Workspace:
    """The files of the workspace, and what the bridge has of them."""

    def __init__(self, root: str, bounds: Bounds) -> None:
        self._root = root
        self._bounds = bounds
        self._known: dict[str, State] = {}
        # The frames that are still to be sent.
        self._news: Iterator[Frame] | None = None

    @property
    def has_news(self) -> bool:
        """Whether there is anything left to send."""
        return self._news is not None

    def look(self, seq: object, everything: bool) -> None:
        """Begins to look for changes; `tell` sends them."""
        self._news = self.changes(seq, everything)

    def tell(self, bridge_writer: BridgeWriter) -> None:
        """Sends as much as there is room for."""
        while self._news is not None and bridge_writer.has_room:
            frame = next(self._news, None)
            if frame is None:
                self._news = None
            else:
                bridge_writer.send(frame)

    def put(self, frame: Frame) -> None:
        """Writes a piece of a file. Called before any user code runs."""
        path, offset = str(frame["path"]), frame["offset"]
        target = os.path.join(self._root, path)
        if frame["folder"] is True:
            os.makedirs(target, 0o700, exist_ok=True)
            self._note(path, FOLDER)
            return
        os.makedirs(os.path.dirname(target), 0o700, exist_ok=True)
        mode = 0o700 if frame["executable"] is True else 0o600
        # A later piece never creates the file: if its beginning did not fit, the file was deleted.
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
                # Otherwise half a file would be taken for the whole one the next time.
                os.unlink(target)
                raise
            if frame["last"] is True:
                modified_us = frame["modified_us"]
                assert isinstance(modified_us, int)
                os.utime(file, ns=(modified_us * 1000, modified_us * 1000))
                self._note(path, state_of(os.fstat(file)))
        finally:
            _close(file)

    def _note(self, path: str, state: State) -> None:
        # A file that is never reported must not be reported as deleted.
        if NOT_KEPT.isdisjoint(path.split("/")):
            self._known[path] = state

    def changes(self, seq: object, everything: bool = False) -> Iterator[Frame]:
        """Returns frames with all changes since the last time, or with `everything` all files; the last is `kept`."""
        if everything:
            self._known = dict.fromkeys(self._known, _UNKNOWN)
        scan = WorkspaceScan(self._root, self._bounds, self._known)
        gone = () if scan.failed else sorted(self._known.keys() - scan.found.keys(), reverse=True)
        for path in gone:
            # A file that no longer fits, or cannot be read, stays as it was stored.
            if self._is_there(path):
                continue
            del self._known[path]
            yield {"type": "file_gone", "path": path}
        for path, state in scan.found.items():
            if self._known.get(path) != state:
                # Until all pieces are sent, its state is unknown, and the bridge may have an older version.
                if path in self._known:
                    self._known[path] = _UNKNOWN
                try:
                    yield from self._pieces(path, state)
                except FileNotFoundError:  # it has just been deleted
                    continue
                except OSError as error:
                    scan.left_out_total += 1
                    scan.left_out.append(f"{path}: {error.strerror}")
                else:
                    self._known[path] = state
        left_out = scan.left_out[:LEFT_OUT_SHOWN_MAX]
        yield {"type": "kept", "seq": seq, "left_out": left_out, "left_out_total": scan.left_out_total}

    def _pieces(self, path: str, state: State) -> Iterator[Frame]:
        piece: Frame = {"type": "file", "path": path, "folder": state == FOLDER}
        if state == FOLDER:
            yield {**piece, "executable": False, "modified_us": 0, "offset": 0, "base64": "", "last": True}
            return
        _, size, mode, modified_ns, _ = state
        piece |= {"executable": bool(mode & 0o100), "modified_us": min(max(0, modified_ns // 1000), TIME_US_MAX)}
        file = self._open(path)
        try:
            offset = 0
            last = False
            while not last:
                data = os.pread(file, PIECE_BYTES, offset)
                # If the file grows meanwhile, it counts as changed the next time.
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
        """Opens folder by folder, since what was a folder a moment ago may be a symlink now."""
        *folders, name = path.split("/")
        folder = _open(self._root, OPEN_FOLDER)
        try:
            for step in folders:
                inner = _open(step, OPEN_FOLDER, dir_fd=folder)
                _close(folder)
                folder = inner
            return _open(name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, dir_fd=folder)
        finally:
            _close(folder)
