"""The way to the bridge where the engine is on its machine: the stdin and stdout that the engine gave to PID 1.

remote/stream.py has the same methods for a bridge on another machine.
"""

from __future__ import annotations

from select import POLLIN, POLLOUT, poll

from ..wire.buffer import Buffer
from ..wire.outbox import Outbox


class BridgePipes(Outbox):
    # Before the hello, no silence is too long: the end of the bridge ends stdin.
    silence_ms_max = 0

    def __init__(self, fds: list[int], buffer: Buffer) -> None:
        self._input, self._output = fds
        super().__init__(self._output)
        self._buffer = buffer
        # Whether the bridge has closed its end.
        self.ended = False

    def watched(self, wanted: dict[int, int], reads: bool) -> None:
        """Adds the descriptors to wait for. Without POLLIN, poll still reports that the bridge has ended."""
        wanted[self._input] = POLLIN if reads else 0
        if self.size:
            wanted[self._output] = POLLOUT

    def state(self) -> object:
        """Changes with what `watched` adds."""
        return self.size > 0

    def descriptors(self) -> set[int]:
        return {self._input, self._output}

    def ready(self, fd: int, events: int) -> bytes | None:
        """Returns what the bridge has sent, after a descriptor has become ready; None if it is not one of these."""
        if fd == self._input:
            data = self._buffer.read(fd)
            self.ended = data == b""
            return data or b""
        if fd == self._output:
            self.flush()
            return b""
        return None

    def finish(self, seconds: float) -> None:
        """Sends what is left, as long as the bridge reads some of it within this time."""
        waiter = poll()
        waiter.register(self._output, POLLOUT)
        while self.size and waiter.poll(int(seconds * 1000)):
            self.flush()
