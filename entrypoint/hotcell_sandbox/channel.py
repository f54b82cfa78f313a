"""The worker's end of its socket: whole frames in, whole lines out.

It does not know what frames mean. While no run is active the main thread reads (no change of threads on the way of a
run); during a run a thread does, from the first call on.
"""

from __future__ import annotations

import os
from _thread import allocate_lock, start_new_thread
from collections import deque
from collections.abc import Callable
from select import POLLIN, poll

from .frames import TO_SANDBOX, WORKER, Frame, FrameError, LineSplitter, decode
from .interrupts import Interrupts
from .limits import Limits

_READ_BYTES = 1 << 18
_RUNS_WAITING_MAX = 16
_read, _write, _exit = os.read, os.write, os._exit


class Channel:
    def __init__(self, fd: int, limits: Limits, interrupts: Interrupts) -> None:
        self._fd = fd
        self._lines = LineSplitter(limits.frame_to_sandbox_bytes - 1)
        self._depth_max = limits.frame_depth
        self._interrupts = interrupts
        self._sending = allocate_lock()
        self._runs: deque[Frame] = deque(maxlen=_RUNS_WAITING_MAX)
        self._wake_fd, self._waker_fd = os.pipe()
        self._started = self._reading = False
        self._resume, self._parked = allocate_lock(), allocate_lock()
        self._resume.acquire()
        self._parked.acquire()
        self.on_results: Callable[[list[Frame]], None] = lambda _results: None
        self.on_lost_result: Callable[[], None] = lambda: None

    def next_run(self) -> Frame:
        """Waits for it, on the main thread."""
        while not self._runs:
            self._read_some()
        return self._runs.popleft()

    def send(self, data: bytes) -> None:
        with self._interrupts, self._sending:
            try:
                written = _write(self._fd, data)
                while written < len(data):
                    data = data[written:]
                    written = _write(self._fd, data)
            except OSError:
                _exit(70)  # user code closed the descriptor: only a fresh worker can go on

    def read_in_background(self) -> None:
        """From now until `read_here`. The caller makes sure that a run is active."""
        if not self._reading:
            self._reading = True
            if not self._started:
                self._started = True
                start_new_thread(self._background, ())
            self._resume.release()

    def read_here(self) -> None:
        """Gives reading back to the main thread."""
        if self._reading:
            _write(self._waker_fd, b"w")
            self._parked.acquire()
            self._reading = False

    def leave(self) -> None:
        """In a forked child: the frames are the parent's."""
        if self._fd >= 0:
            for fd in (self._fd, self._wake_fd, self._waker_fd):
                os.close(fd)
            self._fd = -1

    def _background(self) -> None:
        poller = poll()
        poller.register(self._fd, POLLIN)
        poller.register(self._wake_fd, POLLIN)
        while True:
            self._resume.acquire()
            while True:
                ready = [fd for fd, _ in poller.poll()]
                if self._fd in ready:
                    self._read_some()
                if self._wake_fd in ready:
                    _read(self._wake_fd, 1)
                    break
            self._parked.release()

    def _read_some(self) -> None:
        try:
            data = _read(self._fd, _READ_BYTES)
        except OSError:
            _exit(70)
        if not data:
            _exit(0)  # the supervisor is gone
        dropped, results = self._lines.dropped, []
        for line in self._lines.feed(data):
            try:
                frame = decode(line, TO_SANDBOX[WORKER], self._depth_max)
            except FrameError:
                continue
            except MemoryError:
                self._lines.dropped += 1
                continue
            if frame["type"] == "run":
                self._runs.append(frame)
            else:
                results.append(frame)
        if results:
            self.on_results(results)
        if self._lines.dropped != dropped:
            # Which call it answered is lost with the line; none may wait for ever.
            self.on_lost_result()
