"""The diagnostic mode that reports which system calls the worker's filter refuses. Imported only in this mode.

The kernel holds each refused call and asks for a verdict, which is always the error number of the filter itself.
"""

from __future__ import annotations

import os
from fcntl import ioctl
from select import POLLIN
from struct import pack, unpack_from

from ..kernel import seccomp
from ..kernel.posture import read
from ..wire import fd_passing
from ..wire.buffer import has_input
from ..wire.names import LISTENER_COMES
from .bridge_writer import BridgeWriter

# struct seccomp_notif: id, pid, flags, number of the call, architecture; the rest is not read.
_NOTICE, _NOTICE_BYTES = "=QIIiI", 80
# struct seccomp_notif_resp: id, value, negative error number, flags.
_ANSWER = "=QqiI"
_RECEIVE, _SEND = 0xC0502100, 0xC0182101
# How many pairs of a call and a process name are counted separately.
_KINDS_MAX = 200


class Denials:
    def __init__(self, bridge_writer: BridgeWriter) -> None:
        self._bridge_writer = bridge_writer
        self._machine = os.uname().machine
        # One for each worker that was started: jobs and checkpoints of earlier workers may still run.
        self._listeners: list[int] = []
        self._counts: dict[tuple[int, str], int] = {}
        self._further = 0
        self._is_told = False

    def receive(self, frame_socket: int, bytes_max: int, ms_max: int) -> bytes:
        """Returns what a worker says about its filter within `ms_max`, and takes the listener that it sends."""
        first, listeners = fd_passing.receive(frame_socket, len(LISTENER_COMES))
        self._listeners += listeners
        words = os.read(frame_socket, bytes_max) if has_input(frame_socket, ms_max) else b""
        return first.removeprefix(LISTENER_COMES) + words

    def state(self) -> object:
        return len(self._listeners)

    def watched(self, wanted: dict[int, int]) -> None:
        wanted.update(dict.fromkeys(self._listeners, POLLIN))

    def ready(self, fd: int) -> bool:
        """Answers one refused call. Returns False if the descriptor is not a listener."""
        if fd not in self._listeners:
            return False
        notice = bytearray(_NOTICE_BYTES)
        try:
            ioctl(fd, _RECEIVE, notice)
            asked, pid, _, number, _ = unpack_from(_NOTICE, notice)
            self._count(number, pid)
            ioctl(fd, _SEND, pack(_ANSWER, asked, 0, -seccomp.error_number(self._machine, number), 0))
        except FileNotFoundError:  # the caller has ended
            pass
        except OSError:  # all processes with this filter have ended
            self._listeners.remove(fd)
            os.close(fd)
        return True

    def tell(self) -> None:
        """Sends the counts if they have changed."""
        if self._is_told:
            return
        self._is_told = True
        calls = [{"number": call, "process": name, "count": count} for (call, name), count in self._counts.items()]
        self._bridge_writer.send({"type": "denied", "machine": self._machine, "calls": calls, "further": self._further})

    def _count(self, number: int, pid: int) -> None:
        kind = (number, read(f"/proc/{pid}/comm").strip())
        if kind in self._counts or len(self._counts) < _KINDS_MAX:
            self._counts[kind] = self._counts.get(kind, 0) + 1
        else:
            self._further += 1
        self._is_told = False
