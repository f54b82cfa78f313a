"""A writer that never blocks: it holds what the other side has not read yet.

It does not bound this backlog: the caller stops reading its own source when `size` is too large.
"""

from __future__ import annotations

import os
from collections.abc import Callable

_WRITE_BYTES = 1 << 18


class Outbox:
    def __init__(self, fd: int, write: Callable[[bytes], int] | None = None) -> None:
        """`write` is called instead of `os.write` with this descriptor."""
        os.set_blocking(fd, False)
        self._write_now = write or (lambda data: os.write(fd, data))
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

    def _write(self, data: bytes) -> int:
        try:
            return self._write_now(data)
        except BlockingIOError:
            return 0
        except OSError:
            self.broken = True
            self._kept.clear()
            self.size = 0
            return 0
