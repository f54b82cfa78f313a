"""Reads what is there now, into one buffer that is kept.

A buffer of its own for every read would be mapped, faulted in and unmapped by the allocator each time: more than the
rest of a small read costs.
"""

from __future__ import annotations

from os import readv

BYTES = 1 << 18


class Buffer:
    __slots__ = ("_buffers", "_view")

    def __init__(self) -> None:
        self._view = memoryview(bytearray(BYTES))
        self._buffers = (self._view,)

    def read(self, fd: int) -> bytes | None:
        """From a descriptor that does not block: None for nothing now, empty for the end."""
        try:
            return bytes(self._view[: readv(fd, self._buffers)])
        except BlockingIOError:
            return None
        except ConnectionResetError:
            return b""
