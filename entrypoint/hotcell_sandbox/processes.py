"""Forks workers and ends them, with everything that descends from them.

It does not talk to the bridge, and knows of frames only that their bytes go through a socket.
"""

from __future__ import annotations

import os
import signal
from _socket import AF_UNIX, SOCK_STREAM, socketpair
from select import POLLIN, poll
from time import monotonic

from . import handover, kernel
from .frames import LineSplitter
from .frozen_copy import READY, Slate, wake
from .limits import Limits
from .outbox import Outbox
from .output_record import OutputRecord

KILL_SECONDS_MAX = 5.0
# Of /proc/<pid>/stat: the field behind the program's name, and the kernel's flag.
_STAT_FLAGS, _PF_EXITING = 6, 0x4
SPARING_ROUNDS_MAX = 50
WAKE_MS_MAX = 500


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

    __slots__ = (
        "checkpoint",
        "handover",
        "hands_over",
        "inbox",
        "lines",
        "number",
        "oom_before",
        "outputs",
        "pid",
        "requested",
        "restore",
        "slate",
        "socket",
        "spare",
        "status",
        "used",
    )

    def __init__(
        self,
        number: int,
        pid: int,
        ends: tuple[int, int, int],
        slate: Slate,
        outputs: tuple[Output, ...],
        limits: Limits,
    ) -> None:
        """`ends`: ours of the sockets `socket`, `spare` and `handover`."""
        self.number = number
        self.pid = pid
        self.socket, spare, self.handover = ends
        # Until user code closes the socket, or writes what nobody understands.
        self.hands_over = True
        # Over which its frozen copy is woken, and what it says of the copy.
        self.spare = spare
        self.slate = slate
        self.restore = True
        # That is to take its place.
        self.checkpoint: str | None = None
        self.outputs = outputs
        self.inbox = Outbox(self.socket)
        self.lines = LineSplitter(limits.frame_to_bridge_bytes - 1)
        self.status: int | None = None
        self.requested = False
        self.used = False
        self.oom_before = 0

    def close(self) -> None:
        for fd in (self.socket, self.spare, self.handover, *(output.fd for output in self.outputs)):
            os.close(fd)


class Ends:
    """What a worker has of its beginning: its sockets for frames, over which copies are woken, and over which it hands
    descriptors over; the slate; and what runs have written."""

    def __init__(self, frames: int, spare: int, handover: int, slate: Slate, record: OutputRecord) -> None:
        self.frames = frames
        self.spare = spare
        self.handover = handover
        self.slate = slate
        self.record = record


def pair() -> tuple[int, int]:
    ours, theirs = socketpair(AF_UNIX, SOCK_STREAM)
    return ours.detach(), theirs.detach()


def start_worker(number: int, limits: Limits, record: OutputRecord) -> Worker | Ends:
    """Forks. In the parent: the worker. In the child, which keeps no other descriptors: its ends."""
    (ours, theirs), (spare, spare_end), (handed, handed_end) = pair(), pair(), handover.pair()
    slate = Slate()
    (stdout, stdout_end), (stderr, stderr_end) = os.pipe(), os.pipe()
    supervisor = os.getpid()
    # An interrupt that arrives before the worker has its handler waits instead of killing it.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    pid = os.fork()
    if pid:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        for fd in (theirs, spare_end, handed_end, stdout_end, stderr_end):
            os.close(fd)
        outputs = (Output("stdout", stdout), Output("stderr", stderr))
        return Worker(number, pid, (ours, spare, handed), slate, outputs, limits)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    for number_wanted, fd in enumerate((os.open("/dev/null", os.O_RDONLY), stdout_end, stderr_end)):
        os.dup2(fd, number_wanted)
    for fd in map(int, os.listdir("/proc/self/fd")):
        if fd > 2 and fd not in (theirs, spare_end, handed_end):
            try:
                os.close(fd)
            except OSError:  # the one that listed the directory
                pass
    kernel.set_dumpable(True)
    kernel.die_with_parent()
    if os.getppid() != supervisor:
        os._exit(70)
    return Ends(theirs, spare_end, handed_end, slate, record)


def wake_copy(worker: Worker, pid: int, number: int, limits: Limits) -> Worker | None:
    """The frozen copy of a worker that is gone takes its place, if it answers; the old one's ends are used up."""
    (spare, spare_end), (handed, handed_end) = pair(), handover.pair()
    worker.slate.write(0, 0)
    answer = answer_of(worker.spare, number, (spare_end, handed_end), WAKE_MS_MAX)
    if answer is None:
        os.close(spare)
        os.close(handed)
        return None
    os.close(worker.socket)
    os.close(worker.handover)
    return Worker(number, pid, (worker.spare, spare, handed), worker.slate, worker.outputs, limits)


def answer_of(copy: int, number: int, ends: tuple[int, ...], ms_max: int) -> bytes | None:
    """Wakes the copy at that socket, with these descriptors; what it says before it is ready, if that is in time."""
    answer = b""
    try:
        wake(copy, number, ends)
        waiter = poll()
        waiter.register(copy, POLLIN)
        # Before the answer may come what user code wrote there.
        while not answer.endswith(READY) and waiter.poll(ms_max):
            answer = os.read(copy, 1 << 12)
            if not answer:
                break
    except OSError:
        pass
    for fd in ends:
        os.close(fd)
    return answer.removesuffix(READY) if answer.endswith(READY) else None


def kill(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def kill_descendants(spare: int = 0, held: frozenset[int] = frozenset()) -> bool:
    """Kills and reaps all of them, but for one that is spared and those that are held, which stand still from then on;
    False when some would not die."""
    deadline = monotonic() + KILL_SECONDS_MAX
    pause = poll()
    if spare or held:
        for pid in held.intersection(_others()):
            kill(pid, signal.SIGSTOP)
        for _ in range(SPARING_ROUNDS_MAX):
            others = [pid for pid in _others() if pid != spare and pid not in held]
            if not others:
                return True
            for pid in others:
                kill(pid, signal.SIGKILL)
            reap_all()
            pause.poll(1)
        # They fork faster than they are found.
    while True:
        if os.getpid() == 1:
            # One call for the whole namespace, which no fork can outrun.
            kill(-1, signal.SIGKILL)
        else:
            for pid in _descendants():
                kill(pid, signal.SIGKILL)
        if reap_all():
            return True
        if monotonic() > deadline:
            return False
        pause.poll(1)


def is_child(pid: int) -> bool:
    """Whether it is a child of this very process, and lives: then its number is no other's before we have reaped it."""
    try:
        return pid > 1 and os.waitpid(pid, os.WNOHANG)[0] == 0
    except ChildProcessError:
        return False


def is_exiting(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return bool(int(file.read().rpartition(b")")[2].split()[_STAT_FLAGS]) & _PF_EXITING)
    except (OSError, IndexError):
        return True


def reap_all() -> bool:
    """Whether no child is left."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return True
    return False


def _others() -> list[int]:
    """All other processes that are ours to kill."""
    if os.getpid() == 1:
        return [int(name) for name in os.listdir("/proc") if name.isdigit() and name != "1"]
    return _descendants()


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
