"""Starts workers and wakes copies of them.

It does not talk to the bridge, and of frames it knows only that they go through a socket.
"""

from __future__ import annotations

import os
from time import monotonic

from ..kernel import signals, system_calls
from ..kernel.sockets import MSG_DONTWAIT
from ..wire import fd_passing
from ..wire.buffer import has_input
from ..wire.ends import READY, Ends, Slate
from ..wire.frames import LineSplitter
from ..wire.limits import Limits
from ..wire.outbox import Outbox
from ..wire.output_record import OutputRecord
from .processes import close_all_but

WAKE_MS_MAX = 2_000


class Output:
    """The read end of an output pipe, and the bytes of a character that is not complete yet."""

    def __init__(self, head: str, fd: int) -> None:
        """`head`: the first fields of the frames that carry this output."""
        os.set_blocking(fd, False)
        self.head = head
        self.fd = fd
        self.held = b""
        self.ended = False


def outputs_of_worker(stdout: int, stderr: int) -> tuple[Output, Output]:
    first, second = (f'"type":"output","stream":"{name}"' for name in ("stdout", "stderr"))
    return Output(first, stdout), Output(second, stderr)


class Worker:
    """What the supervisor knows of one worker process."""

    def __init__(
        self,
        number: int,
        pid: int,
        ends: tuple[int, int, int],
        slate: Slate,
        outputs: tuple[Output, ...],
        limits: Limits,
    ) -> None:
        """`ends`: the supervisor's ends of the sockets `socket`, `spare` and `handover`."""
        self.number = number
        self.pid = pid
        # `spare` wakes the worker's frozen copy.
        self.socket, self.spare, self.handover = ends
        # False once user code has closed the socket or written something unknown to it.
        self.hands_over = True
        # The memory in which the worker describes its frozen copy.
        self.slate = slate
        self.restore = True
        # The checkpoint that is to replace it.
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


def start_worker(number: int, limits: Limits, record: OutputRecord, of_libraries: frozenset[int]) -> Worker | Ends:
    """Forks. Returns the worker in the parent, and the ends in the child, which closes all descriptors except them and
    those of libraries."""
    (ours, theirs), (spare, spare_end), (handed, handed_end) = (
        fd_passing.stream_pair(),
        fd_passing.stream_pair(),
        fd_passing.message_pair(),
    )
    slate = Slate()
    (stdout, stdout_end), (stderr, stderr_end) = os.pipe(), os.pipe()
    supervisor = os.getpid()
    # An interrupt that arrives before the worker has its handler waits instead of killing it.
    signals.pthread_sigmask(signals.SIG_BLOCK, {signals.SIGINT})
    pid = os.fork()
    if pid:
        signals.pthread_sigmask(signals.SIG_UNBLOCK, {signals.SIGINT})
        for fd in (theirs, spare_end, handed_end, stdout_end, stderr_end):
            os.close(fd)
        return Worker(number, pid, (ours, spare, handed), slate, outputs_of_worker(stdout, stderr), limits)
    signals.set_wakeup_fd(-1)
    signals.signal(signals.SIGCHLD, signals.SIG_DFL)
    os.setsid()
    for number_wanted, fd in enumerate((os.open("/dev/null", os.O_RDONLY), stdout_end, stderr_end)):
        os.dup2(fd, number_wanted)
    close_all_but(theirs, spare_end, handed_end, *of_libraries)
    # Tracing is forbidden again once the supervisor has looked at the descriptors of this process.
    system_calls.forbid_tracing(False)
    system_calls.die_with_parent()
    if os.getppid() != supervisor:
        os._exit(70)
    return Ends(theirs, spare_end, handed_end, slate, record)


def wake_copy(worker: Worker, pid: int, number: int, limits: Limits) -> Worker | None:
    """Turns the frozen copy of an ended worker into the next worker. Returns None if the copy does not answer.

    The ends of the old worker are closed or reused.
    """
    (spare, spare_end), (handed, handed_end) = fd_passing.stream_pair(), fd_passing.message_pair()
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
    """Wakes the copy at that socket and returns what it says before it is ready; None if it is not ready in time.

    `ends` are descriptors for the copy: the socket that wakes its own copies, and the socket through which it hands
    descriptors over. A checkpoint gets three more: the socket that wakes it the next time, and its stdout and stderr.
    """
    answer = b""
    try:
        # Without blocking, since user code at the other end may not read.
        fd_passing.send(copy, b"%d\n" % number, ends, MSG_DONTWAIT)
        deadline = monotonic() + ms_max / 1000
        # User code may have written there before, and in pieces.
        while not answer.endswith(READY) and has_input(copy, max(0, int((deadline - monotonic()) * 1000))):
            answer = os.read(copy, 1 << 12)
            if not answer:
                break
    except OSError:
        pass
    for fd in ends:
        os.close(fd)
    return answer.removesuffix(READY) if answer.endswith(READY) else None
