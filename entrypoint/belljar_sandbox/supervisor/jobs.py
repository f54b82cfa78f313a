"""The supervisor's side of jobs: processes that a worker forked and that outlive it, each with frames of its own.

The bridge decides which jobs there are, and ends them. What a job sends is not trusted, as with a worker.
"""

from __future__ import annotations

import os
import stat
from select import POLLIN, POLLOUT
from time import monotonic

from ..kernel.posture import oom_kills
from ..kernel.signals import SIGINT, kill
from ..kernel.sockets import MSG_DONTWAIT, socket
from ..wire.buffer import Buffer, unread_bytes
from ..wire.frames import JOB_DIGITS_MAX, LineSplitter
from ..wire.limits import Limits
from ..wire.outbox import Outbox
from .bridge_writer import BridgeWriter
from .processes import end_of, kill_session, kill_tree, leads_session
from .workers import Output

_READ_BYTES = 1 << 16
# Bounds the reads of what the socket still holds, since a process that left the session may write on.
_LAST_READS_MAX = 64
# The bridge is told how many bytes a job has taken whenever it has taken this many more.
_TAKEN_STEP_BYTES = 4 << 20
# How many bytes of a job's output are passed on within how many seconds. The rest waits in its pipe.
_PACE_SECONDS, _PACE_BYTES = 0.1, 1 << 18


class Job:
    def __init__(self, number: int, pid: int, end: socket, output: Output, frame_bytes_max: int) -> None:
        self.number = number
        self.pid = pid
        self.end = end
        self.output = output
        # Another process may have made the socket blocking.
        self.inbox = Outbox(end.fileno(), lambda data: end.send(data, MSG_DONTWAIT))
        self.lines = LineSplitter(frame_bytes_max)
        self.oom_before = oom_kills()
        self.status: int | None = None
        self.requested = False
        # Whether its socket has ended.
        self.said_all = False
        # Bytes of frames for it: how many have arrived, and how many the bridge knows to be taken.
        self.relayed = self.taken = 0
        self.paced_from = 0.0
        self.paced_bytes = 0


class Jobs:
    def __init__(self, bridge_writer: BridgeWriter, buffer: Buffer) -> None:
        self._bridge_writer = bridge_writer
        self._buffer = buffer
        self._jobs: dict[int, Job] = {}
        # By descriptor.
        self._sources: dict[int, Job] = {}
        # The current line from the bridge: its beginning until that names the job, and then the job.
        self._head = b""
        self._target: Job | None = None

    def __bool__(self) -> bool:
        return bool(self._jobs)

    @property
    def pids(self) -> list[int]:
        return [job.pid for job in self._jobs.values()]

    # From a worker.

    def take_over(self, words: list[str], fds: list[int], workers_pid: int, limits: Limits) -> str:
        """Takes a job over and returns the answer for the worker. The descriptors then belong to this object."""
        refused = self._refusal(words, fds, workers_pid, limits)
        if refused:
            return f"refused: {refused}"
        number, pid = int(words[0]), int(words[1])
        try:
            # Opened again, so that the worker, which has the other descriptor, cannot make this one blocking.
            pipe = os.open(f"/proc/self/fd/{fds[1]}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            return f"refused: {error}"
        try:
            # A descriptor opened with O_PATH has the mode of a socket but is not one.
            end = socket(fileno=fds[0])
        except OSError as error:
            os.close(pipe)
            return f"refused: {error}"
        os.close(fds[1])
        output = Output(f'"type":"job_output","job":{number}', pipe)
        job = Job(number, pid, end, output, limits.frame_to_bridge_bytes - 16)
        self._jobs[number] = job
        self._sources[fds[0]] = self._sources[pipe] = job
        self._bridge_writer.send({"type": "job_started", "job": number})
        # The job starts when it reads this.
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
        """Takes a part of a line: the job's number, then a frame. Frames for a job that has ended are dropped."""
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
        """Ends a job at the request of the bridge. If the job has already ended, the bridge hears of that anyway."""
        job = self._jobs.get(number)
        if job is None or job.status is not None:
            return
        job.requested = True
        if kills:
            kill_tree(job.pid)
        else:
            kill(job.pid, SIGINT)

    # For the poll loop.

    def watched(self, wanted: dict[int, int], has_room: bool) -> None:
        """Adds the descriptors that are to be read and written."""
        for job in self._jobs.values():
            reads = POLLIN if has_room and job.status is None and not job.said_all else 0
            events = reads | (POLLOUT if job.inbox.size else 0)
            if events and job.status is None:
                wanted[job.end.fileno()] = events
            if has_room and not job.output.ended and not self._waits(job):
                wanted[job.output.fd] = POLLIN

    def state(self) -> tuple[object, ...]:
        """Returns a value that changes whenever `watched` would add something else."""
        if not self._jobs:
            return ()
        return tuple(
            (job.number, job.status, job.said_all, job.inbox.size > 0, job.output.ended, self._waits(job))
            for job in self._jobs.values()
        )

    def wait_ms(self) -> int | None:
        """Returns how long to wait until paused output is read on; None if none is paused."""
        if not self._jobs:
            return None
        waits = [job.paced_from + _PACE_SECONDS - monotonic() for job in self._jobs.values() if self._waits(job)]
        return max(0, int(min(waits) * 1000) + 1) if waits else None

    def ready(self, fd: int, has_room: bool) -> bool:
        """Handles a ready descriptor. Returns False if it belongs to no job."""
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
        """Tells the bridge which jobs have ended, if `has_room`, and what jobs have taken."""
        if has_room:
            self._tell_ended()
        self._tell_taken()

    def _tell_ended(self) -> None:
        """Reports jobs that have ended, after everything that they have sent."""
        for job in [job for job in self._jobs.values() if job.status is not None]:
            # Processes that it left behind hold its pipe open.
            kill_session(job.pid)
            for _ in range(_LAST_READS_MAX):
                if not self._relay(job):
                    break
            self._drain(job)
            self._bridge_writer.release_held(job.output)
            end = end_of(job.status, job.requested, job.oom_before)
            self._bridge_writer.send({"type": "job_ended", "job": job.number, **end})
            if self._target is job:
                self._target = None
            del self._jobs[job.number]
            self._sources = {fd: other for fd, other in self._sources.items() if other is not job}
            job.end.close()
            os.close(job.output.fd)

    def _tell_taken(self) -> None:
        """Bounds what the bridge sends to a job that does not read."""
        for job in self._jobs.values():
            taken = job.relayed - job.inbox.size
            if taken - job.taken >= _TAKEN_STEP_BYTES:
                job.taken = taken
                self._bridge_writer.send({"type": "job_taken", "job": job.number, "bytes": taken})

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
            self._bridge_writer.output(job.output, written)

    def _drain(self, job: Job) -> None:
        if unread_bytes(job.output.fd):
            self._read_output(job)

    def _relay(self, job: Job) -> bool:
        """Passes on what the job has sent, after the output that it wrote before. Returns False if there is none."""
        try:
            data = job.end.recv(_READ_BYTES, MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            if job.status is None and not job.said_all:
                # It is dying, or has closed the descriptor: it cannot be reached any more.
                job.said_all = True
                kill_tree(job.pid)
            return False
        self._drain(job)
        dropped = job.lines.dropped
        lines = [line for line in job.lines.feed(data) if line]
        if job.lines.dropped != dropped:
            self._bridge_writer.fault(f"frames of job {job.number} dropped, longer than the limit")
        if lines:
            self._bridge_writer.release_held(job.output)
            head = b"J%d" % job.number
            self._bridge_writer.push(head + (b"\n" + head).join(lines) + b"\n")
        return True
