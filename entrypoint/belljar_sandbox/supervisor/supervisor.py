"""PID 1 of the sandbox: relays between the bridge and the worker, and outlives the worker.

It never runs user code, never reads a frame that is addressed to or comes from the worker, and decides nothing about
calls. One thread, one poll loop; each backlog is bounded by not reading what would fill it.
"""

from __future__ import annotations

import os
import sys

# py wraps each of these in enums, which takes longer to import than most runs take.
from _signal import SIG_DFL, SIGCHLD, SIGINT, SIGKILL, SIGTERM, set_wakeup_fd, signal  # type: ignore[import-not-found]
from fcntl import F_DUPFD_CLOEXEC, fcntl, ioctl
from select import POLLIN, POLLOUT, poll
from time import monotonic

from ..kernel import system_calls
from ..kernel.posture import closed_by_exec, descriptors, oom_kills, posture, worker_posture
from ..wire import fd_passing
from ..wire.buffer import Buffer
from ..wire.ends import Ends
from ..wire.frames import JOB, SUPERVISOR, TO_SANDBOX, WORKER, Frame, FrameError, decode
from ..wire.limits import Limits
from ..wire.output_record import OutputRecord
from .bridge_writer import Ended, ToHost
from .checkpoints import Checkpoints
from .jobs import Jobs
from .processes import is_child, is_exiting, kill, kill_descendants, lower_crowd
from .workers import Output, Worker, start_worker, wake_copy
from .workspace import Workspace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .denials import Denials

VERSION = 1
HOST_BACKLOG_MAX = 1 << 20
WORKER_BACKLOG_MAX = 96 << 20
CONTROL_BYTES_MAX = 1 << 20
# After how many bytes for the worker the bridge hears how many of them it has taken.
TAKEN_STEP_BYTES = 8 << 20
USELESS_WORKERS_MAX = 5
TOUCH_SECONDS = 0.1
CONFINE_MS_MAX = 10_000
PRELOAD_QUIET_MS = 250
OUTPUT_HOLD_MS = 1
# How long a worker that was sent something has until its output is waited for.
COLLECT_MS = 10
_WORDS_BYTES_MAX = 1 << 12
_PRIVATE_FD_MIN = 40
_OOM_SCORE_STEP = 100
_NO_LOGIN = b"4294967295"
# Processes that run at once for each processor that the sandbox has, before they are a crowd.
_CROWD_OF_PROCESSOR = 8
_FIONREAD = 0x541B
_NOTHING = bytes(4)


def supervise(rest: bytes, before_worker: Callable[[], None], preload: Callable[[], None]) -> tuple[Ends, int, Limits]:
    """Runs until the sandbox ends. Returns only in a worker, with its ends, its number and its limits.

    `rest`: the bytes that were read beyond the bundle. `before_worker` is called before each worker is forked;
    `preload` once, when nothing is to do: it imports what later workers need.
    """
    of_libraries = closed_by_exec()
    inherited = descriptors("self", of_libraries)
    private = [fcntl(fd, F_DUPFD_CLOEXEC, _PRIVATE_FD_MIN) for fd in (0, 1)]
    null = os.open("/dev/null", os.O_RDWR)
    for fd in (0, 1):
        os.dup2(null, fd)
    os.close(null)
    _be_killed_last()
    _log_in()
    system_calls.forbid_tracing()
    system_calls.adopt_orphans()
    # Python's own SIGINT handler would let the worker end PID 1 by one kill(1, SIGINT); PID 1 ignores the default.
    signal(SIGINT, SIG_DFL)
    signal(SIGTERM, SIG_DFL)
    supervisor = Supervisor(private, inherited, of_libraries, before_worker, preload)
    try:
        ends = supervisor.serve(rest)
        number = supervisor.workers + 1
    except BaseException as error:
        if not isinstance(error, Ended):
            sys.excepthook(type(error), error, error.__traceback__)
        kill_descendants()
        os._exit(error.args[0] if isinstance(error, Ended) else 1)
    return ends, number, supervisor.limits


def _be_killed_last() -> None:
    """When memory runs out: as far as the engine has left it to this process, workers come long before it."""
    try:
        with open("/proc/self/oom_score_adj", "r+b", 0) as file:
            for score in range(0, int(file.read()), _OOM_SCORE_STEP):
                try:
                    file.write(b"%d" % score)
                    return
                except PermissionError:
                    pass
    except OSError:  # the engine has closed it
        pass


def _log_in() -> None:
    """A process without a login may claim one, which writes to the host's audit log: from here on none can."""
    try:
        with open("/proc/self/loginuid", "r+b", 0) as file:
            if file.read().strip() == _NO_LOGIN:
                file.seek(0)
                file.write(b"%d" % os.getuid())
    except OSError:  # a kernel without an audit log, or this user has no number outside
        pass


class Supervisor:
    def __init__(
        self,
        private: list[int],
        inherited: list[str],
        of_libraries: frozenset[int],
        before_worker: Callable[[], None],
        preload: Callable[[], None],
    ) -> None:
        self.before_worker = before_worker
        self.preload = preload
        self.host_in, self.host_out = private
        self.to_host = ToHost(self.host_out)
        self.inherited = inherited
        self.of_libraries = of_libraries
        self.limits = Limits({})
        # Processes and threads that may run at once without being lowered.
        self.running_max = _CROWD_OF_PROCESSOR
        # By which version of Landlock workers are restricted.
        self.landlock = 0
        self.workspace: Workspace | None = None
        # What is being told of the files, as fast as the bridge reads.
        self.telling: Iterator[Frame] | None = None
        # In the diagnostic mode alone.
        self.denials: Denials | None = None
        self.greeted = False
        self.preloaded = False
        self.worker: Worker | None = None
        self.workers = 0
        self.useless = 0
        self.checkpoints = Checkpoints(self.to_host)
        self.heard_at = monotonic()
        # Output is read with the next frame of the worker: to wake for each write would take longer than most runs do.
        self.collecting = False
        self.buffer = Buffer()
        self.jobs = Jobs(self.to_host, self.buffer)
        # One for all workers: what a dead one wrote its successor can still read.
        self.record = OutputRecord()
        self.poller = poll()
        self.watched: dict[int, int] = {}
        self.watched_state: tuple[object, ...] = ()
        self.child_fd, wake = os.pipe()
        for fd in (self.child_fd, wake):
            os.set_blocking(fd, False)
        set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal(SIGCHLD, lambda _number, _frame: None)
        # Of the line from the bridge that has begun: whose it is, its bytes so far, the parts kept of a control line.
        self.address = b""
        self.line_bytes = 0
        self.target: Worker | None = None
        self.control: list[bytes] = []
        self.unparsed = b""
        # Bytes of frames for workers that have come in all, and those of them that the bridge knows to be taken.
        self.relayed = 0
        self.taken = 0

    def serve(self, rest: bytes) -> Ends:
        """Returns only in a worker, with its ends."""
        self.from_host(rest)
        while True:
            if self.greeted and self.worker is None:
                self.before_worker()
                started = start_worker(self.workers + 1, self.limits, self.record, self.of_libraries)
                if isinstance(started, Ends):
                    return started
                self.worker_started(started, self.inspect(started))
            if self.telling is not None and self.to_host.size <= HOST_BACKLOG_MAX:
                self.tell_changes(self.telling)
            self.watch()
            patience = self.patience_ms()
            ready = self.poller.poll(self.wait_ms(patience))
            # Who was stopped itself has not listened: what has come meanwhile counts.
            if patience == 0 and self.host_in not in dict(ready):
                raise Ended(0)
            if not ready:
                self.quiet()
            for fd, _ in ready:
                self.ready(fd)
            worker = self.worker
            if worker is not None and worker.status is not None and self.to_host.size <= HOST_BACKLOG_MAX:
                self.worker_exited(worker)
            if self.jobs:
                self.serve_jobs()
            if self.relayed - self.taken >= TAKEN_STEP_BYTES:
                self.tell_taken()

    def serve_jobs(self) -> None:
        if self.to_host.size <= HOST_BACKLOG_MAX:
            self.jobs.tell_ended()
        self.jobs.tell_taken()

    def quiet(self) -> None:
        """Nothing came within `wait_ms`."""
        if self.to_host.holds_output:
            self.to_host.send_output()
        elif self.collecting:
            self.collecting = False
            self.lower_crowd()
        elif not self.preloaded:
            # What a worker imports: the first worker does not wait for it, its successors have it.
            self.preloaded = True
            self.preload()

    def ready(self, fd: int) -> None:
        worker = self.worker
        if fd == self.host_in:
            data = self.buffer.read(fd)
            if data == b"":
                raise Ended(0)
            if data:
                self.from_host(data)
        elif fd == self.host_out:
            self.to_host.flush()
        elif fd == self.child_fd:
            while self.buffer.read(fd):
                pass
            self.reap()
        elif worker is not None and fd == worker.socket:
            worker.inbox.flush()
            if self.to_host.size <= HOST_BACKLOG_MAX:
                self.relay(worker)
        elif worker is not None and fd == worker.handover:
            self.take_over(worker)
        elif (self.denials is not None and self.denials.ready(fd)) or self.jobs.ready(
            fd, self.to_host.size <= HOST_BACKLOG_MAX
        ):
            pass
        elif worker is not None:
            for output in worker.outputs:
                if output.fd == fd:
                    written = self.buffer.read(fd)
                    output.ended = written == b""
                    if written:
                        self.record.add(written)
                        self.to_host.output(output, written)

    def watch(self) -> None:
        """Asks poll for what may be read without overfilling a backlog, and what waits to be written."""
        worker = self.worker
        outbox, inbox = self.to_host.size, 0 if worker is None else worker.inbox.size
        state = (
            worker,
            worker is not None and (worker.status, worker.outputs[0].ended, worker.outputs[1].ended, worker.hands_over),
            self.collecting,
            outbox > 0,
            outbox > HOST_BACKLOG_MAX,
            inbox > 0,
            inbox > WORKER_BACKLOG_MAX,
            self.jobs.state(),
            self.denials is not None and self.denials.state(),
        )
        if state == self.watched_state:
            return
        self.watched_state = state
        wanted = {self.child_fd: POLLIN}
        # Without POLLIN poll still reports that the bridge has gone.
        wanted[self.host_in] = 0 if worker is not None and worker.inbox.size > WORKER_BACKLOG_MAX else POLLIN
        if self.to_host.size:
            wanted[self.host_out] = POLLOUT
        if worker is not None and worker.status is None:
            room = self.to_host.size <= HOST_BACKLOG_MAX
            events = (POLLIN if room else 0) | (POLLOUT if worker.inbox.size else 0)
            if events:
                wanted[worker.socket] = events
            if room and worker.hands_over:
                wanted[worker.handover] = POLLIN
            if room and not self.collecting:
                wanted.update((output.fd, POLLIN) for output in worker.outputs if not output.ended)
        self.jobs.watched(wanted, outbox <= HOST_BACKLOG_MAX)
        if self.denials is not None:
            self.denials.watched(wanted)
        for fd in self.watched.keys() - wanted.keys():
            self.poller.unregister(fd)
        for fd, events in wanted.items():
            if self.watched.get(fd) != events:
                self.poller.register(fd, events)
        self.watched = wanted

    def patience_ms(self) -> int | None:
        """Until the bridge counts as dead. While we do not listen it cannot be silent."""
        if self.limits.heartbeat_ms == 0 or self.watched.get(self.host_in) == 0:
            return None
        silent_ms = (monotonic() - self.heard_at) * 1000
        return max(0, int(self.limits.heartbeat_ms - silent_ms) + 1) if silent_ms < self.limits.heartbeat_ms else 0

    def wait_ms(self, patience: int | None) -> int | None:
        if patience == 0 or (self.telling is not None and self.to_host.size <= HOST_BACKLOG_MAX):
            return 0
        if self.to_host.holds_output:
            return OUTPUT_HOLD_MS
        if self.collecting:
            return COLLECT_MS
        waits = self.jobs.wait_ms()
        if waits is not None:
            return waits if patience is None else min(waits, patience)
        return patience if self.preloaded else PRELOAD_QUIET_MS

    # From the bridge.

    def from_host(self, data: bytes) -> None:
        self.heard_at = monotonic()
        worker = self.worker
        if (
            worker is not None
            and not self.address
            and data.startswith(WORKER)
            and data.find(b"\n") == len(data) - 1
            and len(data) <= self.limits.frame_to_sandbox_bytes
        ):
            # One whole frame, as they mostly come.
            worker.used = True
            self.collecting = True
            self.relayed += len(data)
            worker.inbox.push(data[1:])
            return
        position = 0
        while position < len(data):
            if self.greeted and self.worker is None:
                # A run may come together with the hello: it waits for the worker.
                self.unparsed = data[position:]
                return
            if not self.address:
                self.address = data[position : position + 1]
                self.line_bytes = 0
                if self.address == WORKER:
                    self.target = self.worker
                    position += 1
                    self.line_bytes = 1
                    self.relayed += 1
                    if self.worker is None:
                        self.drop_line("a frame for the worker came before hello")
                elif self.address in (SUPERVISOR, JOB):
                    position += 1
                    self.line_bytes = 1
                    self.jobs.begin_line()
                else:
                    self.drop_line("a line from the bridge has no known address")
            end = data.find(b"\n", position) + 1
            piece = data[position : end or None]
            position += len(piece)
            self.line_bytes += len(piece)
            if self.address not in (SUPERVISOR, JOB):
                self.relayed += len(piece)
            self.take(piece, bool(end))
            if end:
                self.address = b""

    def take(self, piece: bytes, last: bool) -> None:
        if self.address == WORKER:
            worker = self.worker
            if worker is None or worker is not self.target:
                return
            worker.used = True
            self.collecting = True
            if self.line_bytes > self.limits.frame_to_sandbox_bytes:
                # The worker has its beginning: ended here, it is no JSON and the worker drops it.
                worker.inbox.push(b"\n")
                self.drop_line("a frame for the worker is longer than the limit")
            else:
                worker.inbox.push(piece)
        elif self.address == JOB:
            self.jobs.take(piece, last)
        elif self.address == SUPERVISOR:
            self.control.append(piece)
            if self.line_bytes > CONTROL_BYTES_MAX:
                self.drop_line("a frame for the supervisor is longer than 1 MiB")
            elif last:
                line = b"".join(self.control)[:-1]
                self.control = []
                try:
                    self.obey(decode(line, TO_SANDBOX[SUPERVISOR], self.limits.frame_depth))
                except FrameError as error:
                    self.to_host.fault(f"a frame for the supervisor was dropped: {error.kind}")

    def tell_taken(self) -> None:
        """So that the bridge never sends more than fits here: an interrupt would be stuck behind it."""
        taken = self.relayed - (0 if self.worker is None else self.worker.inbox.size)
        if taken - self.taken >= TAKEN_STEP_BYTES:
            self.taken = taken
            self.to_host.send({"type": "taken", "bytes": taken})

    def drop_line(self, why: str) -> None:
        self.address = b"-"
        self.control = []
        self.to_host.fault(why)

    def obey(self, frame: Frame) -> None:
        worker = self.worker if self.worker is not None and self.worker.status is None else None
        match frame:
            case {"type": "hello"}:
                self.hello(frame)
            case {"type": "ping", "seq": seq}:
                self.to_host.send({"type": "pong", "seq": seq})
                self.lower_crowd()
            case {"type": "interrupt"}:
                if worker is not None:
                    kill(worker.pid, SIGINT)
                    self.lower_crowd()
            case {"type": "replace", "worker": int(number), "restore": bool(restore)}:
                # Another one has taken its place already when it died by itself.
                if worker is not None and worker.number == number:
                    self.replace(worker, restore, frame.get("checkpoint"))
            case {"type": "forget", "name": str(name)}:
                self.checkpoints.forget(name)
            case {"type": "end_job", "job": int(number), "kill": bool(kills)}:
                self.jobs.end(number, kills)
            case {"type": "file"}:
                self.put_file(frame)
            case {"type": "keep", "seq": seq, "everything": bool(everything)}:
                if self.workspace is None:
                    self.to_host.fault("there is no workspace whose files are kept")
                else:
                    self.telling = self.workspace.changes(seq, everything)
            case {"type": "shutdown"}:
                raise Ended(0)
            case _:
                self.to_host.fault("a frame for the supervisor was dropped: a field is missing")

    def hello(self, frame: Frame) -> None:
        limits = frame.get("limits")
        if self.greeted or not isinstance(limits, dict):
            self.to_host.fault("a hello was dropped: it is the second one, or has no limits")
            return
        if frame.get("version") != VERSION:
            self.to_host.last_words(
                f"the bridge speaks version {frame.get('version')!r}, the sandbox version {VERSION}"
            )
        try:
            extra = frame.get("extra_system_calls")
            self.limits = Limits(
                limits,
                str(frame.get("workspace") or ""),
                frame.get("writable"),
                extra if isinstance(extra, dict) else None,
            )
        except ValueError as error:
            self.to_host.last_words(str(error))
        python = ".".join(map(str, sys.version_info[:3]))
        seen = posture(self.inherited)
        pids_max, cpu_max = seen["pids_max"], seen["cpu_max_millis"]
        processors = len(os.sched_getaffinity(0))
        if isinstance(cpu_max, int):
            processors = min(processors, max(1, cpu_max // 1000))
        self.running_max = _CROWD_OF_PROCESSOR * processors
        if seen["user_namespace"] is False or (isinstance(pids_max, int) and pids_max <= self.limits.processes):
            # The cgroup counts processes; or the user may be one of the machine, with other processes.
            self.limits.processes = 0
        self.to_host.send({"type": "hello", "version": VERSION, "python": python, "posture": seen})
        if self.limits.workspace:
            self.workspace = Workspace(
                self.limits.workspace, (self.limits.workspace_files, self.limits.workspace_bytes)
            )
        if self.limits.trace_denied:
            from .denials import Denials

            self.denials = Denials(self.to_host)
        self.greeted = True

    def lower_crowd(self) -> None:
        """Has the worker, the jobs and this process come before whatever else they have started, where that is much."""
        if self.worker is not None:
            lower_crowd({self.worker.pid, *self.jobs.pids}, self.running_max)

    def replace(self, worker: Worker, restore: bool, checkpoint: object) -> None:
        if isinstance(checkpoint, str):
            if checkpoint not in self.checkpoints:
                # The worker stays.
                self.to_host.send({"type": "checkpoint_gone", "name": checkpoint})
                return
            worker.checkpoint = checkpoint
        worker.requested = True
        worker.restore = restore
        kill(worker.pid, SIGKILL)

    def put_file(self, frame: Frame) -> None:
        try:
            if self.workspace is not None:
                self.workspace.put(frame)
        except (OSError, KeyError, ValueError, AssertionError) as error:
            self.to_host.fault(f"a file could not be put back into the workspace: {error}")

    def tell_changes(self, telling: Iterator[Frame]) -> None:
        for frame in telling:
            self.to_host.send(frame)
            if self.to_host.size > HOST_BACKLOG_MAX:
                return
        self.telling = None

    # From the worker.

    def relay(self, worker: Worker) -> bool:
        """Passes on what it has sent, after all output that came before; False when there was nothing."""
        data = self.buffer.read(worker.socket)
        if not data:
            if data == b"" and worker.status is None:
                self.lost_touch(worker)
            return False
        for output in worker.outputs:
            self.drain(output)
        dropped = worker.lines.dropped
        lines = worker.lines.feed(data)
        if b"" in lines:
            # It asks for its output to be read as it comes.
            self.collecting = False
            lines = [line for line in lines if line]
        if worker.lines.dropped != dropped:
            self.to_host.fault(f"frames of the worker dropped, longer than the limit: {worker.lines.dropped - dropped}")
        if lines:
            for output in worker.outputs:
                self.to_host.release_held(output)
            if self.denials is not None:
                self.denials.tell()
            self.to_host.push(b"W" + b"\nW".join(lines) + b"\n")
        return True

    def take_over(self, worker: Worker) -> None:
        """What it hands over; who does not understand the words lets go of what came with them."""
        taken = fd_passing.take(worker.handover)
        if taken is None:
            return
        words, fds = taken
        match words.split():
            case []:
                worker.hands_over = False
            case ["job", *of_job]:
                answer = self.jobs.take_over(of_job, fds, worker.pid, self.limits)
                if answer == "taken":
                    fds = []
                fd_passing.answer(worker.handover, answer)
            case ["checkpoint", *_]:
                fd_passing.answer(worker.handover, self.checkpoints.take(worker, words, fds, self.limits))
            case [what, *_]:
                fd_passing.answer(worker.handover, f"refused: nothing is known of {what!r}")
        for fd in fds:
            os.close(fd)

    def lost_touch(self, worker: Worker) -> None:
        """Its socket has ended: it is dying, or user code has closed the descriptor and nobody can speak to it."""
        deadline = monotonic() + TOUCH_SECONDS
        while monotonic() < deadline:
            self.reap()
            if worker.status is not None:
                return
            poll().poll(1)
        # One with much memory takes a while to die.
        dies_by_itself = is_exiting(worker.pid)
        kill(worker.pid, SIGKILL)
        worker.status = os.waitpid(worker.pid, 0)[1]
        if not dies_by_itself:
            self.to_host.fault("the worker closed its frame socket and was killed")

    def drain(self, output: Output) -> None:
        """Reads what is in the pipe now: all that it can hold. What comes meanwhile came after the frame that waits."""
        if ioctl(output.fd, _FIONREAD, _NOTHING) != _NOTHING:
            data = self.buffer.read(output.fd)
            if data:
                self.record.add(data)
                self.to_host.output(output, data)

    def inspect(self, worker: Worker) -> dict[str, object]:
        """What it looks like after it has confined itself, and before it reads or runs anything."""
        told = self.said_of_itself(worker, self.denials).decode(errors="replace").strip()
        version, opens_supervisor, defect = (*told.split(" ", 2), "", "", "")[:3]
        if not version.isdecimal():
            kill(worker.pid, SIGKILL)
            self.to_host.last_words("the interpreter ended while it confined itself")
        if defect and not self.limits.allow_unfiltered:
            kill(worker.pid, SIGKILL)
            self.to_host.last_words(f"no filter for system calls could be installed: {defect}", "seccomp")
        try:
            fds = descriptors(str(worker.pid), self.of_libraries)
            os.write(worker.socket, b"\n")
        except OSError as error:
            self.to_host.last_words(f"the interpreter ended while it confined itself: {error}")
        # From here on nobody can look into it.
        if self.said_of_itself(worker) != b"\n":
            self.to_host.last_words("the interpreter ended while it confined itself")
        self.landlock = int(version)
        return {**worker_posture(worker.pid, fds, self.landlock), "supervisor_open": opens_supervisor == "1"}

    def said_of_itself(self, worker: Worker, denials: Denials | None = None) -> bytes:
        """A line of the worker's, or nothing in time. `denials` takes the listener that comes with it."""
        waiter = poll()
        waiter.register(worker.socket, POLLIN)
        if not waiter.poll(CONFINE_MS_MAX):
            return b""
        if denials is not None:
            return denials.receive(worker.socket, _WORDS_BYTES_MAX, CONFINE_MS_MAX)
        return os.read(worker.socket, _WORDS_BYTES_MAX)

    def worker_started(
        self, worker: Worker, seen: dict[str, object], restored: int | None = None, checkpoint: str | None = None
    ) -> None:
        self.worker = worker
        self.workers = worker.number
        worker.oom_before = oom_kills()
        started = {"type": "worker_started", "worker": worker.number, "posture": seen, "restored": restored}
        self.to_host.send({**started, "checkpoint": checkpoint} if checkpoint else started)
        unparsed, self.unparsed = self.unparsed, b""
        self.from_host(unparsed)

    def reap(self) -> None:
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                self.reaped(pid, status)
        except ChildProcessError:
            pass

    def reaped(self, pid: int, status: int) -> None:
        if self.worker is not None and pid == self.worker.pid:
            self.worker.status = status
        else:
            self.jobs.reaped(pid, status)

    def forget(self, worker: Worker) -> None:
        """It is watched no more."""
        for fd in (worker.socket, worker.handover, *(output.fd for output in worker.outputs)):
            if self.watched.pop(fd, None) is not None:
                self.poller.unregister(fd)
        self.watched_state = ()

    def kill_others(self, copy: int = 0) -> bool:
        """All but the checkpoints, the jobs and this copy of a worker; False when some would not die."""
        return kill_descendants(copy, self.checkpoints.pids(), self.jobs.pids, self.reaped)

    def worker_exited(self, worker: Worker) -> None:
        copy, run = worker.slate.read() if worker.restore else (0, 0)
        # What it started holds its pipes open and would outlive it.
        if not self.kill_others(copy):
            self.to_host.last_words("processes of the worker would not die")
        while self.relay(worker):
            pass
        if self.denials is not None:
            self.denials.tell()
        for output in worker.outputs:
            self.drain(output)
            self.to_host.release_held(output)
        code = os.waitstatus_to_exitcode(worker.status or 0)
        end = {"exit_code": code} if code >= 0 else {"signal": -code}
        oom = code == -SIGKILL and not worker.requested and oom_kills() > worker.oom_before
        self.to_host.send(
            {"type": "worker_exited", "worker": worker.number, **end, "oom": oom, "requested": worker.requested}
        )
        self.checkpoints.drop_dead()
        self.worker = None
        self.forget(worker)
        self.useless = 0 if worker.used or worker.requested else self.useless + 1
        if self.useless == USELESS_WORKERS_MAX:
            self.to_host.last_words(f"{USELESS_WORKERS_MAX} interpreters in a row died before their first run")
        name = worker.checkpoint
        restored = self.checkpoints.wake(name, worker.number + 1, self.limits) if name else None
        woken = wake_copy(worker, copy, worker.number + 1, self.limits) if copy and restored is None else None
        if woken is not None:
            # What it has open is user code's.
            self.worker_started(woken, worker_posture(woken.pid, [], self.landlock), run)
            return
        if restored is not None:
            if is_child(copy):
                kill(copy, SIGKILL)
        elif copy and not self.kill_others():
            self.to_host.last_words("processes of the worker would not die")
        worker.close()
        if restored is not None:
            self.worker_started(restored, worker_posture(restored.pid, [], self.landlock), checkpoint=name)
