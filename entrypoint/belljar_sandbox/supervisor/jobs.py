"""Jobs as the supervisor sees them: processes that were forked by a worker and outlive it, each with frames of its own.

It decides nothing: the bridge says which jobs there may be, and ends them. What comes from a job may be user code's, as
all that comes from a worker.
"""

from __future__ import annotations

import os
import stat
from fcntl import ioctl
from select import POLLIN, POLLOUT
from signal import SIGINT, SIGKILL
from socket import MSG_DONTWAIT, socket
from time import monotonic

from ..kernel.posture import oom_kills
from ..wire.frames import JOB_DIGITS_MAX, LineSplitter
from ..wire.outbox import Outbox
from .processes import kill, kill_session, kill_tree, leads_session
from .workers import Output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..wire.buffer import Buffer
    from ..wire.limits import Limits
    from .bridge_writer import ToHost

_FIONREAD = 0x541B
_NOTHING = bytes(4)
_READ_BYTES = 1 << 16
# What its socket may still hold; somebody who has left its session may write on.
_LAST_READS_MAX = 64
# After how many bytes for a job the bridge hears how many of them it has taken.
_TAKEN_STEP_BYTES = 4 << 20
# Of the output of one job is passed on, within so many seconds; what it writes beyond waits in its pipe.
_PACE_SECONDS, _PACE_BYTES = 0.1, 1 << 18


class _JobOutbox(Outbox):
    """Whose socket somebody else may have made block."""

    def __init__(self, end: socket) -> None:
        super().__init__(end.fileno())
        self._end = end

    def _write(self, data: bytes) -> int:
        try:
            return self._end.send(data, MSG_DONTWAIT)
        except BlockingIOError:
            return 0
        except OSError:
            self.discard()
            return 0


class Job:
    __slots__ = (
        "end",
        "inbox",
        "lines",
        "number",
        "oom_before",
        "output",
        "paced_bytes",
        "paced_from",
        "pid",
        "relayed",
        "requested",
        "said_all",
        "status",
        "taken",
    )

    def __init__(self, number: int, pid: int, end: socket, output: Output, frame_bytes_max: int) -> None:
        self.number = number
        self.pid = pid
        self.end = end
        self.output = output
        self.inbox = _JobOutbox(end)
        self.lines = LineSplitter(frame_bytes_max)
        self.oom_before = oom_kills()
        self.status: int | None = None
        self.requested = False
        # Its socket has come to its end.
        self.said_all = False
        # Bytes of frames for it that have come, and those of them that the bridge knows to be taken.
        self.relayed = self.taken = 0
        self.paced_from = 0.0
        self.paced_bytes = 0

    def close(self) -> None:
        self.end.close()
        os.close(self.output.fd)


class Jobs:
    def __init__(self, to_host: ToHost, buffer: Buffer) -> None:
        self._to_host = to_host
        self._buffer = buffer
        self._jobs: dict[int, Job] = {}
        # By descriptor.
        self._sources: dict[int, Job] = {}
        # Of the line from the bridge that has begun: its beginning until it says whose it is, and then whose.
        self._head = b""
        self._target: Job | None = None

    def __bool__(self) -> bool:
        return bool(self._jobs)

    @property
    def pids(self) -> Iterable[int]:
        return [job.pid for job in self._jobs.values()]

    # From a worker.

    def take_over(self, words: list[str], fds: list[int], workers_pid: int, limits: Limits) -> str:
        """The answer to a worker that hands a job over. The descriptors are this one's if it is taken."""
        refused = self._refusal(words, fds, workers_pid, limits)
        if refused:
            return f"refused: {refused}"
        number, pid = int(words[0]), int(words[1])
        try:
            # Opened anew: the worker, which has the other one, cannot make this one block.
            pipe = os.open(f"/proc/self/fd/{fds[1]}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            return f"refused: {error}"
        try:
            # A descriptor that was opened with O_PATH has the mode of a socket, but is not one.
            end = socket(fileno=fds[0])
        except OSError as error:
            os.close(pipe)
            return f"refused: {error}"
        os.close(fds[1])
        output = Output(f'"type":"job_output","job":{number}', pipe)
        job = Job(number, pid, end, output, limits.frame_to_bridge_bytes - 16)
        self._jobs[number] = job
        self._sources[fds[0]] = self._sources[pipe] = job
        self._to_host.send({"type": "job_started", "job": number})
        # It begins with this.
        job.inbox.push(b"\n")
        return "taken"

    def _refusal(self, words: list[str], fds: list[int], workers_pid: int, limits: Limits) -> str:
        if len(self._jobs) >= limits.jobs:
            return f"{limits.jobs} jobs run already"
        is_number = len(words) == 2 and all(word.isdecimal() and len(word) <= JOB_DIGITS_MAX for word in words)
        modes = [os.fstat(fd).st_mode for fd in fds]
        if not is_number or len(modes) != 2 or not (stat.S_ISSOCK(modes[0]) and stat.S_ISFIFO(modes[1])):
            return "a job is its number, its process, a socket and a pipe"
        number, pid = map(int, words)
        if number in self._jobs or pid in (workers_pid, *self.pids) or not leads_session(pid):
            return "there is such a job already, or this is no process that can be one"
        return ""

    # From the bridge.

    def begin_line(self) -> None:
        self._head, self._target = b"", None

    def take(self, piece: bytes, last: bool) -> None:
        """A part of a line for a job: its number, and the frame for it. Of one that has ended nothing is kept."""
        if self._target is None:
            self._head += piece[: JOB_DIGITS_MAX + 1]
            digits, brace, _ = self._head.partition(b"{")
            if not brace:
                return
            self._target = self._jobs.get(int(digits)) if digits.isdigit() else None
            piece = piece[piece.find(b"{") :]
            if self._target is not None:
                self._target.relayed += 1 + len(digits)
        if self._target is None:
            self._head = b""
            return
        self._target.relayed += len(piece)
        self._target.inbox.push(piece)

    def end(self, number: int, kills: bool) -> None:
        """The bridge wants it to end; one that has ended already says so by itself."""
        job = self._jobs.get(number)
        if job is None or job.status is not None:
            return
        job.requested = True
        if kills:
            kill_tree(job.pid)
        else:
            kill(job.pid, SIGINT)

    # What goes on.

    def watched(self, wanted: dict[int, int], has_room: bool) -> None:
        """Adds what of them is to be read and written."""
        for job in self._jobs.values():
            reads = POLLIN if has_room and job.status is None and not job.said_all else 0
            events = reads | (POLLOUT if job.inbox.size else 0)
            if events and job.status is None:
                wanted[job.end.fileno()] = events
            if has_room and not job.output.ended and not self._waits(job):
                wanted[job.output.fd] = POLLIN

    def state(self) -> tuple[object, ...]:
        """Changes whenever what is to be watched does."""
        if not self._jobs:
            return ()
        return tuple(
            (job.number, job.status, job.said_all, job.inbox.size > 0, job.output.ended, self._waits(job))
            for job in self._jobs.values()
        )

    def wait_ms(self) -> int | None:
        """Until output is read on."""
        if not self._jobs:
            return None
        waits = [job.paced_from + _PACE_SECONDS - monotonic() for job in self._jobs.values() if self._waits(job)]
        return max(0, int(min(waits) * 1000) + 1) if waits else None

    def ready(self, fd: int, has_room: bool) -> bool:
        """False: it is none of theirs."""
        job = self._sources.get(fd)
        if job is None:
            return False
        if fd == job.output.fd:
            self._read_output(job)
        else:
            job.inbox.flush()
            if has_room:
                self._relay(job)
        return True

    def reaped(self, pid: int, status: int) -> None:
        for job in self._jobs.values():
            if job.pid == pid:
                job.status = status

    def tell(self, has_room: bool) -> None:
        """What the bridge has to know of jobs by now; `has_room`: it reads what it is sent."""
        if has_room:
            self._tell_ended()
        self._tell_taken()

    def _tell_ended(self) -> None:
        """Those that have: after all that they have said."""
        for job in [job for job in self._jobs.values() if job.status is not None]:
            # What it left behind holds its pipe open.
            kill_session(job.pid)
            for _ in range(_LAST_READS_MAX):
                if not self._relay(job):
                    break
            self._drain(job)
            self._to_host.release_held(job.output)
            code = os.waitstatus_to_exitcode(job.status or 0)
            end = {"exit_code": code} if code >= 0 else {"signal": -code}
            oom = code == -SIGKILL and not job.requested and oom_kills() > job.oom_before
            self._to_host.send({"type": "job_ended", "job": job.number, **end, "oom": oom, "requested": job.requested})
            if self._target is job:
                self._target = None
            del self._jobs[job.number]
            self._sources = {fd: other for fd, other in self._sources.items() if other is not job}
            job.close()

    def _tell_taken(self) -> None:
        """So that the bridge never sends more than is kept here for one that does not read."""
        for job in self._jobs.values():
            taken = job.relayed - job.inbox.size
            if taken - job.taken >= _TAKEN_STEP_BYTES:
                job.taken = taken
                self._to_host.send({"type": "job_taken", "job": job.number, "bytes": taken})

    def _waits(self, job: Job) -> bool:
        return job.paced_bytes >= _PACE_BYTES and monotonic() - job.paced_from < _PACE_SECONDS

    def _read_output(self, job: Job) -> None:
        written = self._buffer.read(job.output.fd)
        job.output.ended = written == b""
        if written:
            now = monotonic()
            if now - job.paced_from >= _PACE_SECONDS:
                job.paced_from, job.paced_bytes = now, 0
            job.paced_bytes += len(written)
            self._to_host.output(job.output, written)

    def _drain(self, job: Job) -> None:
        if ioctl(job.output.fd, _FIONREAD, _NOTHING) != _NOTHING:
            self._read_output(job)

    def _relay(self, job: Job) -> bool:
        """Passes on what it has sent, after all output that came before; False when there was nothing."""
        try:
            data = job.end.recv(_READ_BYTES, MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            if job.status is None and not job.said_all:
                # It is dying, or has closed the descriptor: nobody can speak to it.
                job.said_all = True
                kill_tree(job.pid)
            return False
        self._drain(job)
        dropped = job.lines.dropped
        lines = [line for line in job.lines.feed(data) if line]
        if job.lines.dropped != dropped:
            self._to_host.fault(f"frames of job {job.number} dropped, longer than the limit")
        if lines:
            self._to_host.release_held(job.output)
            head = b"J%d" % job.number
            self._to_host.push(head + (b"\n" + head).join(lines) + b"\n")
        return True
