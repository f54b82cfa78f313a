"""Runs one process in a group of its own, with bounded time and output, and kills the group at its end.

A process that leaves the group by itself ends with the worker.
"""

from __future__ import annotations

import os
import subprocess
from select import POLLERR, POLLHUP, POLLIN, POLLOUT, poll
from signal import SIGKILL
from threading import Lock
from time import monotonic

# How much of the beginning and of the end of each stream is stored.
HALF_BYTES_MAX = 256 << 10
_READ_BYTES = 64 << 10
# The capacity of a pipe.
_PIPE_BYTES_MAX = 1 << 20
# How often to check for the end of a process whose output another process holds open.
_LOOK_MS_MAX = 50


class BoundedOutput:
    """The beginning and the end of a stream, and how much was between them."""

    def __init__(self) -> None:
        self.left_out = 0
        self._head = bytearray()
        self._tail = bytearray()

    def add(self, data: bytes) -> None:
        room = HALF_BYTES_MAX - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        excess = len(self._tail) - HALF_BYTES_MAX
        if excess > 0:
            self.left_out += excess
            del self._tail[:excess]

    def text(self) -> str:
        if not self.left_out:
            return (self._head + self._tail).decode(errors="replace")
        mark = f"\n[{self.left_out:,} bytes left out]\n"
        return self._head.decode(errors="replace") + mark + self._tail.decode(errors="replace")


class Stop:
    """Kills the child process that runs now, also when called in another thread, and any that is started later."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._group = 0
        self.is_set = False

    def __call__(self) -> None:
        with self._lock:
            self.is_set = True
            self._kill()

    def begin(self, group: int) -> None:
        with self._lock:
            self._group = group
            if self.is_set:
                self._kill()

    def end(self) -> None:
        """Kills the rest of the group. The first process is not reaped yet, so no other group has the number."""
        with self._lock:
            self._kill()
            self._group = 0

    def _kill(self) -> None:
        if self._group:
            try:
                os.killpg(self._group, SIGKILL)
            except (ProcessLookupError, PermissionError):  # all processes have ended
                pass


class ProcessEnd:
    """How a process ended. `code`: as in subprocess, negative for a signal; None if its time was over."""

    def __init__(self) -> None:
        self.code: int | None = None
        self.stdout = BoundedOutput()
        self.stderr = BoundedOutput()


def run(command: list[str], folder: str, stdin: bytes, deadline: float, stop: Stop) -> ProcessEnd:
    """Runs a command to its end, or to the deadline of the monotonic clock. No process of its group is left."""
    ended = ProcessEnd()
    with subprocess.Popen(
        command,
        cwd=folder,
        env={**os.environ, "LC_ALL": "C.UTF-8"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        start_new_session=True,
    ) as process:
        stop.begin(process.pid)
        try:
            assert process.stdout and process.stderr
            read = {process.stdout.fileno(): ended.stdout, process.stderr.fileno(): ended.stderr}
            for fd in read:
                os.set_blocking(fd, False)
            in_time = _talk(process, stdin, deadline, read)
            stop.end()
            for fd, kept in read.items():
                _drain(fd, kept)
        finally:
            stop.end()
    ended.code = process.returncode if in_time else None
    return ended


def _talk(process: subprocess.Popen[bytes], stdin: bytes, deadline: float, outputs: dict[int, BoundedOutput]) -> bool:
    """Writes and reads until the process ends. Returns False if its time is over before."""
    assert process.stdin
    waiter, unsent, open_outputs = poll(), memoryview(stdin), set(outputs)
    for fd in outputs:
        waiter.register(fd, POLLIN)
    feed = process.stdin.fileno()
    os.set_blocking(feed, False)
    if unsent:
        waiter.register(feed, POLLOUT)
    else:
        process.stdin.close()
    look_ms = 1
    while not _has_ended(process):
        left_ms = (deadline - monotonic()) * 1000
        if left_ms <= 0:
            return False
        # A process that has closed its outputs is usually about to end.
        look_ms = _LOOK_MS_MAX if open_outputs else min(2 * look_ms, _LOOK_MS_MAX)
        for fd, event in waiter.poll(min(left_ms, look_ms)):
            if fd == feed:
                unsent = _fed(feed, unsent) if not event & (POLLERR | POLLHUP) else unsent[:0]
                if not unsent:
                    waiter.unregister(feed)
                    process.stdin.close()
            elif not _read(fd, outputs[fd]):
                waiter.unregister(fd)
                open_outputs.discard(fd)
                look_ms = 1
    return True


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Whether the process has ended. It is not reaped, so that its group can still be killed by its number."""
    try:
        return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:  # user code has already reaped it
        return True


def _fed(fd: int, unsent: memoryview) -> memoryview:
    try:
        return unsent[os.write(fd, unsent[:_READ_BYTES]) :]
    except BlockingIOError:
        return unsent
    except BrokenPipeError:
        return unsent[:0]


def _drain(fd: int, kept: BoundedOutput) -> None:
    """Reads what a pipe holds now. A process that left the group may still write to it."""
    try:
        for _ in range(_PIPE_BYTES_MAX // _READ_BYTES):
            if not _read(fd, kept):
                return
    except BlockingIOError:
        pass


def _read(fd: int, kept: BoundedOutput) -> bool:
    """Reads once. Returns whether there may be more."""
    data = os.read(fd, _READ_BYTES)
    kept.add(data)
    return bool(data)
