"""The descriptors that the supervisor waits for."""

from __future__ import annotations

from collections.abc import Iterable
from select import poll


class PollSet:
    """A poll object that is told only what differs from the time before."""

    def __init__(self) -> None:
        self._poller = poll()
        # The events by descriptor.
        self._watched: dict[int, int] = {}

    def watch(self, wanted: dict[int, int]) -> None:
        """Waits for exactly these events from now on."""
        for fd in self._watched.keys() - wanted.keys():
            self._poller.unregister(fd)
        for fd, events in wanted.items():
            if self._watched.get(fd) != events:
                self._poller.register(fd, events)
        self._watched = wanted

    def forget(self, fds: Iterable[int]) -> None:
        """To be called before the descriptors are closed."""
        for fd in fds:
            if self._watched.pop(fd, None) is not None:
                self._poller.unregister(fd)

    def poll(self, wait_ms: int | None) -> list[tuple[int, int]]:
        return self._poller.poll(wait_ms)
