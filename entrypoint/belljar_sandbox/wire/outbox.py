"""A writer that never blocks: it holds what the other side has not read yet.

It does not bound this backlog: the caller stops reading its own source when `size` is too large.
"""

from __future__ import annotations

import os

_WRITE_BYTES = 1 << 18


class Outbox:
    __slots__ = ("_fd", "_kept", "broken", "size")

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self._fd = fd
        self._kept = bytearray()
        self.size = 0
        self.broken = False

    def push(self, data: bytes) -> None:
        if self.size == 0 and not self.broken:
            written = self._write(data)
            if written == len(data):
                return
            data = data[written:]
        if not self.broken:
            self._kept += data
            self.size = len(self._kept)

    def flush(self) -> None:
        while self.size:
            written = self._write(bytes(self._kept[:_WRITE_BYTES]))
            if written == 0:
                return
            del self._kept[:written]
            self.size = len(self._kept)

    def discard(self) -> None:
        self.broken = True
        self._kept.clear()
        self.size = 0

    def _write(self, data: bytes) -> int:
        try:
            return os.write(self._fd, data)
        except BlockingIOError:
            return 0
        except OSError:
            self.discard()
            return 0
