"""Forks workers and ends them, with everything that descends from them.

It does not talk to the bridge, and knows of frames only that their bytes go through a socket.
"""

from __future__ import annotations

import os

# signal.py wraps each of these in enums, which takes longer to import than most runs take.
from _signal import (  # type: ignore[import-not-found]
    SIG_BLOCK,
    SIG_DFL,
    SIG_UNBLOCK,
    SIGCHLD,
    SIGINT,
    SIGKILL,
    SIGSTOP,
    pthread_sigmask,
    set_wakeup_fd,
    signal,
)
from _socket import AF_UNIX, SOCK_STREAM, socketpair
from select import POLLIN, poll
from time import monotonic

from . import handover, kernel
from .frames import LineSplitter
from .frozen_copy import READY, Slate, wake
from .limits import Limits
from .outbox import Outbox
from .output_record import OutputRecord

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

KILL_SECONDS_MAX = 8.0
# Of /proc/<pid>/stat: the numbers behind the state, and a flag of the kernel's.
_STAT_PARENT, _STAT_SESSION, _STAT_FLAGS, _STAT_THREADS = 0, 2, 5, 16
_PF_EXITING = 0x4
# How often processes that were not there before are found, and how long those that were killed may take to end,
# before those that were to be spared are killed with them.
SPARING_ROUNDS_MAX = 50
SPARING_SECONDS_MAX = 6.0
WAKE_MS_MAX = 2_000
# Of a crowd: a ninth of the weight of others. With much less it would take long even to die on a busy machine.
_NICE_OF_CROWD = 10


class Output:
    """The read end of an output pipe, and the bytes of a character that is not whole yet."""

    __slots__ = ("ended", "fd", "head", "held")

    def __init__(self, head: str, fd: int) -> None:
        """`head`: the first fields of the frames that pass it on."""
        os.set_blocking(fd, False)
        self.head = head
        self.fd = fd
        self.held = b""
        self.ended = False


def outputs_of_worker(stdout: int, stderr: int) -> tuple[Output, Output]:
    first, second = (f'"type":"output","stream":"{name}"' for name in ("stdout", "stderr"))
    return Output(first, stdout), Output(second, stderr)


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


def start_worker(number: int, limits: Limits, record: OutputRecord, of_libraries: frozenset[int]) -> Worker | Ends:
    """Forks. In the parent: the worker. In the child, which keeps no others but those of libraries: its ends."""
    (ours, theirs), (spare, spare_end), (handed, handed_end) = pair(), pair(), handover.pair()
    slate = Slate()
    (stdout, stdout_end), (stderr, stderr_end) = os.pipe(), os.pipe()
    supervisor = os.getpid()
    # An interrupt that arrives before the worker has its handler waits instead of killing it.
    pthread_sigmask(SIG_BLOCK, {SIGINT})
    pid = os.fork()
    if pid:
        pthread_sigmask(SIG_UNBLOCK, {SIGINT})
        for fd in (theirs, spare_end, handed_end, stdout_end, stderr_end):
            os.close(fd)
        return Worker(number, pid, (ours, spare, handed), slate, outputs_of_worker(stdout, stderr), limits)
    set_wakeup_fd(-1)
    signal(SIGCHLD, SIG_DFL)
    os.setsid()
    for number_wanted, fd in enumerate((os.open("/dev/null", os.O_RDONLY), stdout_end, stderr_end)):
        os.dup2(fd, number_wanted)
    for fd in map(int, os.listdir("/proc/self/fd")):
        if fd > 2 and fd not in (theirs, spare_end, handed_end, *of_libraries):
            try:
                os.close(fd)
            except OSError:  # the one that listed the directory
                pass
    # Until the supervisor has looked at its descriptors.
    kernel.forbid_tracing(False)
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
        deadline = monotonic() + ms_max / 1000
        # Before the answer may come what user code wrote there, also bit by bit.
        while not answer.endswith(READY) and waiter.poll(max(0, int((deadline - monotonic()) * 1000))):
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


def kill_descendants(
    spare: int = 0,
    held: frozenset[int] = frozenset(),
    trees: Iterable[int] = (),
    reaped: Callable[[int, int], None] | None = None,
) -> bool:
    """Kills and reaps all of them, but for one that is spared, those that are held, which stand still from then on, and
    the roots of trees with all that descends from them; False when some would not die. `reaped` hears of the status of
    each that has ended."""
    deadline = monotonic() + KILL_SECONDS_MAX
    pause = poll()
    roots = frozenset(trees)
    if spare or held or roots:
        for pid in held.intersection(_ours(_parents()) if held else ()):
            kill(pid, SIGSTOP)
        killed: set[int] = set()
        rounds, sparing_ends = 0, monotonic() + SPARING_SECONDS_MAX
        while rounds < SPARING_ROUNDS_MAX and monotonic() < sparing_ends:
            parents = _parents()
            kept = {spare, *held, *_below(roots, parents)}
            others = {pid for pid in _ours(parents) if pid not in kept}
            if not others:
                return True
            for pid in others:
                kill(pid, SIGKILL)
            reap_all(reaped)
            # One that is dying needs the processor for that, as long as it may take to get it.
            rounds += not others <= killed
            killed |= others
            pause.poll(1)
        # They fork faster than they are found.
    while True:
        if os.getpid() == 1:
            # One call for the whole namespace, which no fork can outrun.
            kill(-1, SIGKILL)
        else:
            for pid in _ours(_parents()):
                kill(pid, SIGKILL)
        if reap_all(reaped):
            return True
        if monotonic() > deadline:
            return False
        pause.poll(1)


def kill_tree(root: int) -> None:
    """A child that adopts its orphans, and all that descends from it: those stand still before the first of them ends,
    so that none is forked meanwhile."""
    stopped: set[int] = set()
    for _ in range(SPARING_ROUNDS_MAX):
        found = _below({root}, _parents()) - stopped
        if not found:
            break
        for pid in found:
            kill(pid, SIGSTOP)
        stopped |= found
    # The root last: what it has adopted would be ours with its end.
    for pid in stopped - {root}:
        kill(pid, SIGKILL)
    kill(root, SIGKILL)


def kill_session(session: int) -> None:
    """What a process that has ended by itself has left behind, as far as that has not left its session."""
    killed = {session}
    for _ in range(SPARING_ROUNDS_MAX):
        found = {pid for pid, fields in _stats() if fields[_STAT_SESSION] == session} - killed
        if not found:
            return
        for pid in found:
            kill(pid, SIGKILL)
        killed |= found


def lower_crowd(spared: Iterable[int], running_max: int) -> None:
    """Where more processes and threads than this run at once, all but the spared ones get a lower priority.

    The worker and this process then wait less for them.
    """
    crowd = _running().difference(spared)
    if len(crowd) > running_max:
        for thread in crowd:
            try:
                os.setpriority(os.PRIO_PROCESS, thread, _NICE_OF_CROWD)
            except OSError:  # it has ended, or has a lower priority already
                pass


def leads_session(pid: int) -> bool:
    """Whether it is one of ours, and leads a session of its own."""
    fields = _stat(pid)
    return fields is not None and fields[_STAT_PARENT] == os.getpid() and fields[_STAT_SESSION] == pid


def is_child(pid: int) -> bool:
    """Whether it is a child of this very process, and lives: then its number is no other's before we have reaped it."""
    try:
        return pid > 1 and os.waitpid(pid, os.WNOHANG)[0] == 0
    except ChildProcessError:
        return False


def is_exiting(pid: int) -> bool:
    fields = _stat(pid)
    return fields is None or bool(fields[_STAT_FLAGS] & _PF_EXITING)


def reap_all(reaped: Callable[[int, int], None] | None = None) -> bool:
    """Whether no child is left."""
    try:
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return False
            if reaped is not None:
                reaped(pid, status)
    except ChildProcessError:
        return True


def _stat(pid: int) -> list[int] | None:
    """The numbers behind the program's name and its state; nothing of a process that is gone."""
    fields = _fields(f"/proc/{pid}/stat")
    return [int(number) for number in fields[1 : _STAT_FLAGS + 2]] if fields else None


def _fields(path: str) -> list[bytes]:
    """The state of a process or thread and the numbers behind it; nothing of one that is gone."""
    try:
        with open(path, "rb") as file:
            return file.read().rpartition(b")")[2].split()
    except OSError:
        return []


def _running() -> set[int]:
    """The threads of all processes that are ours, those that run or wait for a processor."""
    stats = {int(name): _fields(f"/proc/{name}/stat") for name in os.listdir("/proc") if name.isdigit()}
    ours = _ours({pid: int(fields[_STAT_PARENT + 1]) for pid, fields in stats.items() if fields})
    found: set[int] = set()
    for pid in ours:
        threads = {pid: stats[pid]}
        if stats[pid][_STAT_THREADS + 1] != b"1":
            folder = f"/proc/{pid}/task"
            try:
                threads = {int(name): _fields(f"{folder}/{name}/stat") for name in os.listdir(folder)}
            except OSError:  # it has ended
                pass
        found.update(thread for thread, fields in threads.items() if fields[:1] == [b"R"])
    return found


def _stats() -> Iterator[tuple[int, list[int]]]:
    for name in os.listdir("/proc"):
        if name.isdigit() and (fields := _stat(int(name))) is not None:
            yield int(name), fields


def _parents() -> dict[int, int]:
    return {pid: fields[_STAT_PARENT] for pid, fields in _stats()}


def _ours(parents: dict[int, int]) -> set[int]:
    """All other processes that are ours to kill."""
    own = os.getpid()
    return (set(parents) if own == 1 else _below({own}, parents)) - {own}


def _below(roots: Iterable[int], parents: dict[int, int]) -> set[int]:
    """They, as far as they live, and what descends from them."""
    children: dict[int, list[int]] = {}
    for pid, parent in parents.items():
        children.setdefault(parent, []).append(pid)
    found = [pid for pid in roots if pid in parents]
    for pid in found:
        found.extend(children.get(pid, ()))
    return set(found)
