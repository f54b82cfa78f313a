"""sys.stdin, sys.stdout and sys.stderr of user code, and the descriptors below them.

Nothing is captured here: output goes to two pipes that the supervisor reads.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from fcntl import F_DUPFD_CLOEXEC, fcntl, ioctl
from io import BufferedWriter, FileIO, TextIOWrapper
from time import monotonic, sleep

from ..kernel import system_calls
from .run_origin import RUN

_FIONREAD = 0x541B
_EMPTY = bytes(4)
# How long a write waits for the other stream to be read, for the order: if nobody else writes there, or somebody does.
_ORDER_SECONDS_MAX = 2.0
_ORDER_SHARED_SECONDS_MAX = 0.05
_ORDER_AGAIN_SECONDS = 1.0
_PAUSE_SECONDS = 0.00005
_PRIVATE_FD_MIN = 40
_STARTS_A_PROCESS = frozenset(
    ("subprocess.Popen", "os.system", "os.posix_spawn", "os.fork", "os.forkpty", "os.exec", "pty.spawn")
)
_dup2, _set_blocking = os.dup2, os.set_blocking
_displayhook, _excepthook = sys.displayhook, sys.excepthook
_flush_c = system_calls.flush_c_streams
# The earlier runs whose threads and tasks have written during this one.
_earlier: set[int] = set()


class Stream(TextIOWrapper):
    """An output stream. Before it writes, it waits until the supervisor has read the other one, to keep the order."""

    _impatient_until = 0.0
    # Whether each stream has a pipe of its own.
    keeps_order = True
    ask_for_reading: Callable[[], None] = staticmethod(lambda: None)
    run: int | None = None

    def __init__(self, fd: int) -> None:
        super().__init__(
            BufferedWriter(FileIO(fd, "w", closefd=False)), "utf-8", "backslashreplace", line_buffering=True
        )
        self.fd = fd
        self.private_fd = -1
        self.other: Stream | None = None
        self.unflushed = False

    def write(self, text: str, /) -> int:
        origin = RUN.get()
        if origin != Stream.run and origin is not None and text:
            _earlier.add(origin)
        other = self.other
        if other is not None:
            try:
                if other.unflushed:
                    other.flush()
                if self.keeps_order and ioctl(other.private_fd, _FIONREAD, _EMPTY) != _EMPTY:
                    self._wait_for(other.private_fd)
            except (OSError, ValueError):  # user code closed it; the next run has it again
                pass
        self.unflushed = True
        return super().write(text)

    def flush(self) -> None:
        super().flush()
        self.unflushed = False

    def _wait_for(self, fd: int) -> None:
        now = monotonic()
        if now < Stream._impatient_until:
            return
        Stream.ask_for_reading()
        unread, until = ioctl(fd, _FIONREAD, _EMPTY), now + _ORDER_SECONDS_MAX
        while (still := ioctl(fd, _FIONREAD, _EMPTY)) != _EMPTY:
            if still != unread:
                # A subprocess writes there, too. On a busy machine, the supervisor has only not run yet.
                unread, until = still, min(until, monotonic() + _ORDER_SHARED_SECONDS_MAX)
            if monotonic() > until:
                # The order is lost, and each line would wait.
                Stream._impatient_until = monotonic() + _ORDER_AGAIN_SECONDS
                return
            sleep(_PAUSE_SECONDS)


class Streams:
    def __init__(self, ask_for_reading: Callable[[], None]) -> None:
        """`ask_for_reading` asks the supervisor to read output at once."""
        Stream.ask_for_reading = staticmethod(ask_for_reading)
        self._ask_for_reading = ask_for_reading
        self.process_starts_are_ours = False
        # Whether this run has started any.
        self.started_process = False
        self._private = [fcntl(fd, F_DUPFD_CLOEXEC, _PRIVATE_FD_MIN) for fd in range(3)]
        self._make()
        sys.addaudithook(self._audit)

    def begin_run(self, number: int) -> None:
        Stream.run = number
        _earlier.clear()

    @property
    def earlier_runs(self) -> list[int]:
        """The runs whose threads and tasks have written during this one."""
        return sorted(_earlier)

    def restore(self) -> None:
        """Restores what user code has closed or replaced."""
        self._reconnect()
        try:
            usable = not (self._stdin.closed or self._stdout.closed or self._stderr.closed)
        except ValueError:  # detached
            usable = False
        if not usable:
            self._make()
        sys.stdin = sys.__stdin__ = self._stdin  # type: ignore[misc]
        sys.stdout = sys.__stdout__ = self._stdout  # type: ignore[misc]
        sys.stderr = sys.__stderr__ = self._stderr  # type: ignore[misc]
        sys.displayhook, sys.excepthook = _displayhook, _excepthook

    def _reconnect(self) -> None:
        for fd, private in enumerate(self._private):
            _dup2(private, fd)
            # User code, or an event loop that it gave the descriptor to, may have made it non-blocking.
            _set_blocking(private, True)

    def write_to(self, fd: int) -> None:
        """Sends both streams to one pipe, which keeps their order. For jobs."""
        Stream.keeps_order = False
        for private in self._private[1:]:
            _dup2(fd, private, inheritable=False)
        self.restore()

    def lead_to(self, stdout: int, stderr: int) -> None:
        """Changes the pipes in a copy that becomes the worker. `restore` restores the new ones from now on."""
        for private, fd in zip(self._private[1:], (stdout, stderr), strict=True):
            _dup2(fd, private, inheritable=False)
            os.close(fd)

    def flush_python(self) -> None:
        """Flushes Python's buffers before a call, so that output and calls keep their order."""
        for stream in (self._stdout, self._stderr):
            if stream.unflushed:
                try:
                    stream.flush()
                except (OSError, ValueError):
                    pass

    def flush(self) -> None:
        for stream in (sys.stdout, sys.stderr, self._stdout, self._stderr):
            try:
                stream.flush()
            except Exception:  # whatever user code has put there, or closed
                pass
        _flush_c()

    def end_run(self) -> None:
        """Flushes all that the run has written, also to a descriptor that it has closed: the next run's output is
        another."""
        self.flush()
        if self._stdout.unflushed or self._stderr.unflushed:
            self._reconnect()
            self.flush()
        self.started_process = False

    def write_error(self, text: str) -> None:
        try:
            self._stderr.write(text)
            self._stderr.flush()
        except (OSError, ValueError):  # closed by user code, which does not want the text then
            pass

    def _make(self) -> None:
        self._stdin = open(0, encoding="utf-8", errors="replace", closefd=False)
        self._stdout, self._stderr = Stream(1), Stream(2)
        self._stdout.private_fd, self._stderr.private_fd = self._private[1:]
        self._stdout.other, self._stderr.other = self._stderr, self._stdout

    def _audit(self, event: str, arguments: tuple[object, ...]) -> None:
        # The child writes to the same pipes, and a fork would write our buffer a second time.
        if event in _STARTS_A_PROCESS and not self.process_starts_are_ours:
            self.started_process = True
            self.flush()
            # Output of the child keeps its order only if it is read at once.
            self._ask_for_reading()
