"""Forks workers and ends them, with everything that descends from them.

It does not talk to the bridge, and knows of frames only that their bytes go through a socket.
"""

from __future__ import annotations

import os
import signal
from _socket import AF_UNIX, SOCK_STREAM, socketpair
from select import poll
from time import monotonic

from . import kernel
from .frames import LineSplitter
from .limits import Limits
from .outbox import Outbox

KILL_SECONDS_MAX = 5.0


class Output:
    """The read end of one of the worker's output pipes, and the bytes of a character that is not whole yet."""

    __slots__ = ("ended", "fd", "held", "name")

    def __init__(self, name: str, fd: int) -> None:
        os.set_blocking(fd, False)
        self.name = name
        self.fd = fd
        self.held = b""
        self.ended = False


class Worker:
    """One interpreter process as the supervisor sees it."""

    __slots__ = ("inbox", "lines", "number", "oom_before", "outputs", "pid", "requested", "socket", "status", "used")

    def __init__(self, number: int, pid: int, socket: int, outputs: tuple[Output, ...], limits: Limits) -> None:
        self.number = number
        self.pid = pid
        self.socket = socket
        self.outputs = outputs
        self.inbox = Outbox(socket)
        self.lines = LineSplitter(limits.frame_to_bridge_bytes - 1)
        self.status: int | None = None
        self.requested = False
        self.used = False
        self.oom_before = 0

    def close(self) -> None:
        for fd in (self.socket, *(output.fd for output in self.outputs)):
            os.close(fd)


def start_worker(number: int, limits: Limits) -> Worker | int:
    """Forks. In the parent: the worker. In the child, which keeps no other descriptor: its end of the socket."""
    ours, theirs = (end.detach() for end in socketpair(AF_UNIX, SOCK_STREAM))
    (stdout, stdout_end), (stderr, stderr_end) = os.pipe(), os.pipe()
    supervisor = os.getpid()
    # An interrupt that arrives before the worker has its handler waits instead of killing it.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    pid = os.fork()
    if pid:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        for fd in (theirs, stdout_end, stderr_end):
            os.close(fd)
        return Worker(number, pid, ours, (Output("stdout", stdout), Output("stderr", stderr)), limits)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    for number_wanted, fd in enumerate((os.open("/dev/null", os.O_RDONLY), stdout_end, stderr_end)):
        os.dup2(fd, number_wanted)
    for fd in map(int, os.listdir("/proc/self/fd")):
        if fd > 2 and fd != theirs:
            try:
                os.close(fd)
            except OSError:  # the one that listed the directory
                pass
    kernel.set_dumpable(True)
    kernel.die_with_parent()
    if os.getppid() != supervisor:
        os._exit(70)
    return theirs


def kill(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def kill_descendants() -> bool:
    """Kills and reaps all of them; False when some would not die."""
    deadline = monotonic() + KILL_SECONDS_MAX
    pause = poll()
    while True:
        if os.getpid() == 1:
            # One call for the whole namespace, which no fork can outrun.
            kill(-1, signal.SIGKILL)
        else:
            for pid in _descendants():
                kill(pid, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return True
        if monotonic() > deadline:
            return False
        pause.poll(1)


def _descendants() -> list[int]:
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    parent = int(file.read().rpartition(b")")[2].split()[1])
            except (OSError, IndexError):
                continue
            children.setdefault(parent, []).append(int(name))
    found = children.get(os.getpid(), [])
    for pid in found:
        found.extend(children.get(pid, ()))
    return found
