"""The worker's end of its socket: it reads whole frames and writes whole lines, without knowing what they mean.

Passing a result to another thread costs more than reading it, so the waiting thread reads by itself where it can. The
main thread reads between runs, and during a run while only it waits for results. A background thread reads from the
first call on for which another thread or another event loop waits.
"""

from __future__ import annotations

import os
from _thread import allocate_lock, start_new_thread
from collections import deque
from collections.abc import Callable
from select import POLLIN, poll

from ..kernel.sockets import MSG_DONTWAIT, socket, socketpair
from ..wire.buffer import BYTES
from ..wire.frames import TO_SANDBOX, WORKER, Frame, FrameError, LineSplitter, decode
from ..wire.limits import Limits
from .interrupts import Interrupts

_WAKE_BYTES = 1 << 12
_RUNS_WAITING_MAX = 16
# The background thread looks at its flag at least this often, in case user code has taken its wake-up or closed its
# socket.
_PARK_MS_MAX = 200
_TOO_DEEP = "it nests too deep"
_TOO_MANY_DIGITS = "it has an integer of more digits than Python reads (4,300)"
_NO_MEMORY = "there was no memory left for it; del what is not needed, or use .handle(), which leaves it on the host"
_write, _exit, _set_blocking = os.write, os._exit, os.set_blocking


class Channel:
    def __init__(self, fd: int, limits: Limits, interrupts: Interrupts) -> None:
        self._line_bytes_max = limits.frame_to_sandbox_bytes - 1
        self._depth_max = limits.frame_depth
        self._interrupts = interrupts
        self._view = memoryview(bytearray(BYTES))
        self.on_results: Callable[[list[Frame]], None] = lambda _results: None
        self.on_lost_result: Callable[[str], None] = lambda _: None
        self.open(fd)

    def open(self, fd: int) -> None:
        """Starts anew, also in a copy of this process that becomes the worker."""
        self._fd = fd
        self._lines = LineSplitter(self._line_bytes_max)
        self._socket = socket(fileno=fd)
        self._sending, self._receiving = allocate_lock(), allocate_lock()
        self._runs: deque[Frame] = deque(maxlen=_RUNS_WAITING_MAX)
        self._wake, self._waker = socketpair()
        self._wake_fd = self._wake.fileno()
        self._park_asked = False
        self.own_threads = 0
        self.reads_in_background = False
        self._poller = poll()
        self._poller.register(fd, POLLIN)
        self._resume, self._parked = allocate_lock(), allocate_lock()
        self._resume.acquire()
        self._parked.acquire()

    def next_run(self) -> Frame:
        """Waits for the next run on the main thread, which is the only reader between runs."""
        while not self._runs:
            try:
                self._read_some(0)
            except BlockingIOError:  # user code may have made the socket non-blocking
                self._poller.poll()
        return self._runs.popleft()

    def send(self, data: bytes) -> None:
        with self._interrupts, self._sending:
            try:
                written = self._send_some(data)
                while written < len(data):
                    data = data[written:]
                    written = self._send_some(data)
            except OSError:
                _exit(70)  # user code closed the descriptor, so that a new worker is needed

    def _send_some(self, data: bytes) -> int:
        try:
            return _write(self._fd, data)
        except BlockingIOError:  # user code may have made the socket non-blocking
            _set_blocking(self._fd, True)
            return _write(self._fd, data)

    def ask_for_reading(self) -> None:
        """Asks the supervisor to read output at once instead of with the next frame."""
        if self._fd >= 0:
            self.send(b"\n")

    def read_in_background(self) -> None:
        """Reads on the background thread until `read_here`. Only while a run is active."""
        if not self.reads_in_background:
            self.reads_in_background = True
            if not self.own_threads:
                self.own_threads = 1
                start_new_thread(self._background, ())
            self._resume.release()

    def read_here(self) -> None:
        """Gives reading back to the main thread."""
        if self.reads_in_background:
            self._park_asked = True
            try:
                self._waker.send(b"w", MSG_DONTWAIT)
            except OSError:  # the socket is full, which wakes the thread, too, or closed: then its timeout wakes it
                pass
            self._parked.acquire()
            self.reads_in_background = False

    def has_input(self, wait_ms: int) -> bool:
        return bool(self._poller.poll(wait_ms))

    def wait_and_read(self) -> None:
        """Called on the main thread. It can be interrupted while it waits, but not while it reads."""
        self._poller.poll()
        self.read_some()

    def read_some(self) -> None:
        """Reads what there is, on the main thread."""
        with self._interrupts:
            self._read_some()

    def fileno(self) -> int:
        return self._fd

    def leave(self) -> None:
        """Closes the channel in a forked child, since the frames belong to the parent."""
        if self._fd >= 0:
            self._socket.detach()
            os.close(self._fd)
            self._fd = -1
            self._wake.close()
            self._waker.close()

    def _background(self) -> None:
        poller = poll()
        poller.register(self._fd, POLLIN)
        poller.register(self._wake_fd, POLLIN)
        while True:
            self._resume.acquire()
            # Only the flag counts, since user code may write to the socket.
            while not self._park_asked:
                ready = [fd for fd, _ in poller.poll(_PARK_MS_MAX)]
                if self._fd in ready:
                    self._read_some()
                if self._wake_fd in ready and not self._drained():
                    poller.unregister(self._wake_fd)
            self._park_asked = False
            self._parked.release()

    def _drained(self) -> bool:
        """Empties the wake-up socket. Returns False if it no longer works and would be ready for ever."""
        try:
            return bool(self._wake.recv(_WAKE_BYTES, MSG_DONTWAIT))
        except BlockingIOError:  # user code has already read it
            return True
        except OSError:
            return False

    def _read_some(self, flags: int = MSG_DONTWAIT) -> None:
        results: list[Frame] = []
        # While one thread hands over to the other, both may read: neither blocks here, and lines stay whole.
        with self._receiving:
            try:
                # Not `Buffer`, since user code may have made the socket blocking.
                data = bytes(self._view[: self._socket.recv_into(self._view, 0, flags)])
            except BlockingIOError:
                if not flags:
                    raise
                return
            except OSError:
                _exit(70)
            if not data:
                _exit(0)  # the supervisor has ended
            dropped = self._lines.dropped
            lines = self._lines.feed(data)
            lost = _NO_MEMORY if self._lines.dropped != dropped else ""
        for line in lines:
            try:
                frame = decode(line, TO_SANDBOX[WORKER], self._depth_max)
            except FrameError as error:
                lost = _TOO_DEEP if error.kind == "depth" else _TOO_MANY_DIGITS
                continue
            except MemoryError:
                lost = _NO_MEMORY
                continue
            if frame["type"] == "run":
                self._runs.append(frame)
            else:
                results.append(frame)
        if results:
            self.on_results(results)
        if lost:
            # Which call the line was for is unknown. All calls fail, so that none waits for ever.
            self.on_lost_result(lost)
