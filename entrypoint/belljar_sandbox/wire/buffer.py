"""Waits for what a descriptor has to read, and reads it into one buffer that is reused.

A new buffer for each read would be mapped, faulted in and unmapped by the allocator each time, which costs more than
the rest of a small read.
"""

from __future__ import annotations

from fcntl import ioctl
from os import readv
from select import POLLIN, poll
from sys import byteorder

BYTES = 1 << 18
_FIONREAD = 0x541B
_NOTHING = bytes(4)


def unread_bytes(pipe: int) -> int:
    """Returns how many bytes the pipe holds."""
    return int.from_bytes(ioctl(pipe, _FIONREAD, _NOTHING), byteorder)


def has_input(fd: int, wait_ms: int) -> bool:
    """Waits until there is something to read, at most so long."""
    waiter = poll()
    waiter.register(fd, POLLIN)
    return bool(waiter.poll(wait_ms))


class Buffer:
    def __init__(self) -> None:
        self._view = memoryview(bytearray(BYTES))
        self._buffers = (self._view,)

    def read(self, fd: int, size: int = BYTES) -> bytes | None:
        """Reads at most `size` bytes from a non-blocking descriptor: None if there is nothing to read, empty bytes at
        its end."""
        buffers = self._buffers if size >= BYTES else (self._view[:size],)
        try:
            return bytes(self._view[: readv(fd, buffers)])
        except BlockingIOError:
            return None
        except ConnectionResetError:
            return b""
