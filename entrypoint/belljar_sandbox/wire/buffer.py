"""Reads what a descriptor has at the moment, into one buffer that is reused.

A new buffer for each read would be mapped, faulted in and unmapped by the allocator each time, which costs more than
the rest of a small read.
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
        """Reads from a non-blocking descriptor: None if there is nothing to read, empty bytes at its end."""
        try:
            return bytes(self._view[: readv(fd, self._buffers)])
        except BlockingIOError:
            return None
        except ConnectionResetError:
            return b""
