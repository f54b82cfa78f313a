"""The poll loop of PID 1: relays between the bridge and the worker, and replaces the worker when it ends.

It never runs user code, never reads the frames that it relays, and decides nothing about calls. Each backlog is
bounded: when it is full, its source is not read.
"""

from __future__ import annotations

import os
import sys
from select import POLLIN, POLLOUT, poll
from time import monotonic

from ..kernel.posture import oom_kills, posture, worker_posture
from ..kernel.signals import SIGINT, SIGKILL, kill
from ..wire import fd_passing
from ..wire.buffer import Buffer, unread_bytes
from ..wire.ends import Ends
from ..wire.frames import Frame
from ..wire.limits import Limits
from ..wire.output_record import OutputRecord
from .bridge_reader import BridgeReader
from .bridge_writer import BridgeWriter, SandboxEnd
from .checkpoints import Checkpoints
from .handshake import inspect, limits_of, places_in_memory, processors
from .jobs import Jobs
from .poll_set import PollSet
from .processes import end_of, ends_of_children, is_child, is_exiting, kill_descendants, lower_crowd, reap_all
from .workers import Output, Worker, start_worker, wake_copy
from .workspace import Workspace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

    from remote.stream import ResumableStream

    from .bridge_pipes import BridgePipes
    from .denials import Denials
    from .workspace_snapshot import WorkspaceSnapshot

VERSION = 1
WORKER_BACKLOG_MAX = 96 << 20
USELESS_WORKERS_MAX = 5
TOUCH_SECONDS = 0.1
PRELOAD_QUIET_MS = 250
OUTPUT_HOLD_MS = 1
# For this long after a worker was sent something, its output is read only together with its frames.
COLLECT_MS = 10
# If more processes per processor than this run at once, their priority is lowered.
_CROWD_OF_PROCESSOR = 8
# With more files than this in its writable places, a sandbox ends with its interpreter. Each takes about 1 KiB.
_FILES_MAX = 1 << 17


class Supervisor:
    def __init__(
        self,
        bridge: BridgePipes | ResumableStream,
        buffer: Buffer,
        inherited: list[str],
        of_libraries: frozenset[int],
        compile_ahead: Callable[[], Frame] | None,
        preload: Callable[[], None],
    ) -> None:
        self.compile_ahead = compile_ahead
        self.preload = preload
        self.bridge = bridge
        self.bridge_writer = BridgeWriter(bridge)
        self.inherited = inherited
        self.of_libraries = of_libraries
        self.limits = Limits({"heartbeat_ms": bridge.silence_ms_max})
        # How many processes and threads may run at once before their priority is lowered.
        self.running_max = _CROWD_OF_PROCESSOR
        # Its writable places in memory.
        self.places: list[str] = []
        # The Landlock version that restricts workers.
        self.landlock = 0
        self.workspace = Workspace("", (0, 0))
        # Set only in the diagnostic mode.
        self.denials: Denials | None = None
        # Set while a snapshot is being taken or restored.
        self.snapshot: WorkspaceSnapshot | None = None
        self.greeted = False
        self.preloaded = False
        self.worker: Worker | None = None
        self.workers = 0
        self.useless = 0
        self.checkpoints = Checkpoints(self.bridge_writer)
        # Whether output waits for the next frame of the worker: to wake for each write takes longer than most runs.
        self.collecting = False
        self.buffer = buffer
        self.jobs = Jobs(self.bridge_writer, self.buffer)
        # Shared by all workers, so that one can read what its predecessor wrote.
        self.record = OutputRecord()
        self.bridge_reader = BridgeReader(self.bridge_writer, self.jobs, self.obey)
        self.poll_set = PollSet()
        self.watched_state: tuple[object, ...] = ()
        # Whether it reads from the bridge now.
        self.reads_bridge = True
        self.child_fd = ends_of_children()

    def serve(self, rest: bytes) -> Ends:
        """Runs the loop. Returns only in a worker, with its ends."""
        self.take(rest)
        while True:
            if self.greeted and self.worker is None:
                started = start_worker(self.workers + 1, self.limits, self.record, self.of_libraries)
                if isinstance(started, Ends):
                    return started
                self.landlock, seen = inspect(started, self.limits, self.of_libraries, self.denials, self.bridge_writer)
                self.worker_started(started, seen)
            if self.workspace.has_news:
                self.workspace.tell(self.bridge_writer)
            self.watch()
            patience = self.patience_ms()
            ready = self.poll_set.poll(self.wait_ms(patience))
            # If this process itself was stopped for a while, what arrived meanwhile shows that the bridge is alive.
            if patience == 0 and self.bridge.descriptors().isdisjoint(dict(ready)):
                self.give_up()
            if not ready:
                self.quiet()
            for fd, events in ready:
                self.ready(fd, events)
            worker = self.worker
            if worker is not None and worker.status is not None and self.bridge_writer.has_room:
                self.worker_exited(worker)
            if self.jobs:
                self.jobs.tell(self.bridge_writer.has_room)
            self.bridge_reader.tell_taken(0 if self.worker is None else self.worker.inbox.size)

    def quiet(self) -> None:
        """Called when nothing arrived within `wait_ms`."""
        if self.bridge_writer.holds_output:
            self.bridge_writer.send_output()
        elif self.collecting:
            self.collecting = False
            self.lower_crowd()
        elif not self.preloaded:
            # The first worker does not wait for these imports; later workers have them.
            self.preloaded = True
            self.preload()

    def ready(self, fd: int, events: int) -> None:
        worker = self.worker
        data = self.bridge.ready(fd, events)
        if data is not None:
            if data:
                self.take(data)
            if self.bridge.ended or self.bridge.broken:
                raise SandboxEnd(0)
        elif fd == self.child_fd:
            while self.buffer.read(fd):
                pass
            reap_all(self.reaped)
        elif worker is not None and fd == worker.socket:
            worker.inbox.flush()
            if self.bridge_writer.has_room:
                self.relay(worker)
        elif worker is not None and fd == worker.handover:
            self.take_over(worker)
        elif self.snapshot is not None and fd == self.snapshot.fd:
            self.snapshot_done(self.snapshot)
        elif self.denials is not None and self.denials.ready(fd):
            pass
        elif not self.jobs.ready(fd, self.bridge_writer.has_room) and worker is not None:
            if events & POLLIN:
                self.drain(worker)
            else:  # its last writer has ended
                for output in worker.outputs:
                    output.ended |= output.fd == fd

    def watch(self) -> None:
        """Waits for what can be read without overfilling a backlog, and for what can take waiting bytes."""
        worker = self.worker
        room, inbox = self.bridge_writer.has_room, 0 if worker is None else worker.inbox.size
        state = (
            worker,
            worker is not None and (worker.status, worker.outputs[0].ended, worker.outputs[1].ended, worker.hands_over),
            self.collecting,
            self.bridge.state(),
            room,
            inbox > 0,
            inbox > WORKER_BACKLOG_MAX,
            self.jobs.state(),
            self.denials is not None and self.denials.state(),
            self.snapshot,
        )
        if state == self.watched_state:
            return
        self.watched_state = state
        wanted = {self.child_fd: POLLIN}
        self.reads_bridge = inbox <= WORKER_BACKLOG_MAX
        self.bridge.watched(wanted, self.reads_bridge)
        if worker is not None and worker.status is None:
            events = (POLLIN if room else 0) | (POLLOUT if inbox else 0)
            if events:
                wanted[worker.socket] = events
            if room and worker.hands_over:
                wanted[worker.handover] = POLLIN
            if room and not self.collecting:
                wanted.update((output.fd, POLLIN) for output in worker.outputs if not output.ended)
        self.jobs.watched(wanted, room)
        if self.denials is not None:
            self.denials.watched(wanted)
        if self.snapshot is not None:
            wanted[self.snapshot.fd] = POLLIN
        self.poll_set.watch(wanted)

    def patience_ms(self) -> int | None:
        """Returns how long until the bridge counts as dead; None while this process does not read from it."""
        if self.limits.heartbeat_ms == 0 or not self.reads_bridge:
            return None
        silent_ms = (monotonic() - self.bridge_reader.heard_at) * 1000
        return max(0, int(self.limits.heartbeat_ms - silent_ms) + 1) if silent_ms < self.limits.heartbeat_ms else 0

    def give_up(self) -> NoReturn:
        """Ends the sandbox of a bridge that is silent. If the bridge lives after all, it reads on stderr why."""
        seconds = self.limits.heartbeat_ms / 1000
        try:
            os.write(2, f"it had heard nothing from belljar for {seconds:g} s, and took it for dead\n".encode())
        except OSError:  # it is dead
            pass
        raise SandboxEnd(0)

    def wait_ms(self, patience: int | None) -> int | None:
        if patience == 0 or (self.workspace.has_news and self.bridge_writer.has_room):
            return 0
        if self.bridge_writer.holds_output:
            return OUTPUT_HOLD_MS
        if self.collecting:
            return COLLECT_MS
        waits = self.jobs.wait_ms()
        if waits is not None:
            return waits if patience is None else min(waits, patience)
        return patience if self.preloaded else PRELOAD_QUIET_MS

    # From the bridge.

    def take(self, data: bytes) -> None:
        if self.bridge_reader.feed(data, self.worker):
            self.collecting = True

    def obey(self, frame: Frame) -> None:
        worker = self.worker if self.worker is not None and self.worker.status is None else None
        match frame:
            case {"type": "hello"}:
                self.hello(frame)
            case {"type": "ping", "seq": seq}:
                self.bridge_writer.send({"type": "pong", "seq": seq})
                self.lower_crowd()
            case {"type": "interrupt"}:
                if worker is not None:
                    kill(worker.pid, SIGINT)
                    self.lower_crowd()
            case {"type": "replace", "worker": int(number), "restore": bool(restore)}:
                # If the worker died by itself, it has already been replaced.
                if worker is not None and worker.number == number:
                    self.replace(worker, restore, frame.get("checkpoint"))
            case {"type": "forget", "name": str(name)}:
                self.checkpoints.forget(name)
            case {"type": "end_job", "job": int(number), "kill": bool(kills)}:
                self.jobs.end(number, kills)
            case {"type": "file"}:
                self.put_file(frame)
            case {"type": "keep", "seq": seq, "everything": bool(everything)}:
                if not self.limits.workspace:
                    self.bridge_writer.fault("there is no workspace whose files are stored")
                else:
                    self.workspace.look(seq, everything)
            case {"type": "take_snapshot" | "restore_snapshot" as what}:
                self.begin_snapshot(restores=what == "restore_snapshot")
            case {"type": "shutdown"}:
                raise SandboxEnd(0)
            case _:
                self.bridge_writer.fault("a frame for the supervisor was dropped: a field is missing")

    def hello(self, frame: Frame) -> None:
        limits = frame.get("limits")
        if self.greeted or not isinstance(limits, dict):
            self.bridge_writer.fault("a hello was dropped: it is the second one, or has no limits")
            return
        if frame.get("version") != VERSION:
            self.bridge_writer.last_words(
                f"the bridge speaks version {frame.get('version')!r}, the sandbox version {VERSION}"
            )
        seen = posture(self.inherited, bool(limits.get("network_denied")))
        try:
            self.limits = self.bridge_reader.limits = limits_of(frame, limits, seen)
        except ValueError as error:
            self.bridge_writer.last_words(str(error))
        self.running_max = _CROWD_OF_PROCESSOR * processors(seen)
        self.places = places_in_memory(seen)
        python = ".".join(map(str, sys.version_info[:3]))
        self.bridge_writer.send({"type": "hello", "version": VERSION, "python": python, "posture": seen})
        if self.limits.workspace:
            self.workspace = Workspace(
                self.limits.workspace, (self.limits.workspace_files, self.limits.workspace_bytes)
            )
        if self.limits.trace_denied:
            from .denials import Denials

            self.denials = Denials(self.bridge_writer)
        if self.compile_ahead is not None:
            self.bridge_writer.send(self.compile_ahead())
        self.greeted = self.bridge_reader.waits_for_worker = True

    def end_if_full(self) -> None:
        """Ends the sandbox if files take its memory by their number: the next interpreter would have too little."""
        files = sum(size.f_files - size.f_ffree for size in map(os.statvfs, self.places))
        if files > _FILES_MAX:
            self.bridge_writer.last_words(
                f"the sandbox had {files} files in memory, of which nothing bounds the number"
            )

    def lower_crowd(self) -> None:
        """Gives the worker, the jobs and this process priority over a crowd of other processes."""
        if self.worker is not None:
            lower_crowd({self.worker.pid, *self.jobs.pids}, self.running_max)

    def replace(self, worker: Worker, restore: bool, checkpoint: object) -> None:
        if isinstance(checkpoint, str):
            if checkpoint not in self.checkpoints:
                # The worker is not replaced.
                self.bridge_writer.send({"type": "checkpoint_gone", "name": checkpoint})
                return
            worker.checkpoint = checkpoint
        worker.requested = True
        worker.restore = restore
        kill(worker.pid, SIGKILL)

    def put_file(self, frame: Frame) -> None:
        try:
            if self.limits.workspace:
                self.workspace.put(frame)
        except (OSError, KeyError, ValueError, AssertionError) as error:
            self.bridge_writer.fault(f"a file could not be put back into the workspace: {error}")

    def begin_snapshot(self, restores: bool) -> None:
        from .workspace_snapshot import WorkspaceSnapshot

        try:
            self.snapshot = WorkspaceSnapshot(self.limits, restores)
        except OSError as error:  # no process or descriptor is left
            self.bridge_writer.send({"type": "snapshot_done", "failed": str(error)})

    def snapshot_done(self, snapshot: WorkspaceSnapshot) -> None:
        self.poll_set.forget((snapshot.fd,))
        self.snapshot = None
        self.bridge_writer.send({"type": "snapshot_done", "failed": snapshot.failure() or None})

    # From the worker.

    def relay(self, worker: Worker) -> bool:
        """Passes on what the worker has sent, after the output that it wrote before. Returns False if there is none."""
        data = self.buffer.read(worker.socket)
        if not data:
            if data == b"" and worker.status is None:
                self.lost_touch(worker)
            return False
        self.drain(worker)
        dropped = worker.lines.dropped
        lines = worker.lines.feed(data)
        if b"" in lines:
            # The worker asks to have its output read as it comes.
            self.collecting = False
            lines = [line for line in lines if line]
        if worker.lines.dropped != dropped:
            self.bridge_writer.fault(
                f"frames of the worker dropped, longer than the limit: {worker.lines.dropped - dropped}"
            )
        if lines:
            for output in worker.outputs:
                self.bridge_writer.release_held(output)
            if self.denials is not None:
                self.denials.tell()
            self.bridge_writer.push(b"W" + b"\nW".join(lines) + b"\n")
        return True

    def take_over(self, worker: Worker) -> None:
        """Takes over what the worker hands over. Descriptors that are not taken are closed."""
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
                fd_passing.answer(worker.handover, f"refused: {what!r} is unknown")
        for fd in fds:
            os.close(fd)

    def lost_touch(self, worker: Worker) -> None:
        """Ends a worker whose socket has ended: it is dying, or user code has closed the descriptor."""
        deadline = monotonic() + TOUCH_SECONDS
        while monotonic() < deadline:
            reap_all(self.reaped)
            if worker.status is not None:
                return
            poll().poll(1)
        # A worker with much memory takes a while to end.
        dies_by_itself = is_exiting(worker.pid)
        kill(worker.pid, SIGKILL)
        worker.status = os.waitpid(worker.pid, 0)[1]
        if not dies_by_itself:
            self.bridge_writer.fault("the worker closed its frame socket and was killed")

    def drain(self, worker: Worker) -> None:
        """Reads what the pipes hold now: stdout first, since nothing tells in which order both were written. What is
        written meanwhile comes after the frame that is about to be sent."""
        stdout, stderr = worker.outputs
        # Counted first, so that whatever was written to stdout before these bytes is read before them.
        waiting = unread_bytes(stderr.fd)
        self.pass_on(stdout, unread_bytes(stdout.fd))
        self.pass_on(stderr, waiting)

    def pass_on(self, output: Output, size: int) -> None:
        data = self.buffer.read(output.fd, size) if size else None
        if data:
            self.record.add(data)
            self.bridge_writer.output(output, data)

    def worker_started(
        self, worker: Worker, seen: dict[str, object], restored: int | None = None, checkpoint: str | None = None
    ) -> None:
        self.worker = worker
        self.workers = worker.number
        worker.oom_before = oom_kills()
        started = {"type": "worker_started", "worker": worker.number, "posture": seen, "restored": restored}
        self.bridge_writer.send({**started, "checkpoint": checkpoint} if checkpoint else started)
        if self.bridge_reader.begin_worker(worker):
            self.collecting = True

    def reaped(self, pid: int, status: int) -> None:
        if self.worker is not None and pid == self.worker.pid:
            self.worker.status = status
        else:
            self.jobs.reaped(pid, status)

    def kill_others(self, copy: int = 0) -> bool:
        """Kills all processes except the checkpoints, the jobs and this copy. Returns False if some do not end."""
        return kill_descendants(copy, self.checkpoints.pids(), self.jobs.pids, self.reaped)

    def worker_exited(self, worker: Worker) -> None:
        copy, run = worker.slate.read() if worker.restore else (0, 0)
        # Processes that it started hold its pipes open and would outlive it.
        if not self.kill_others(copy):
            self.bridge_writer.last_words("processes of the worker would not die")
        while self.relay(worker):
            pass
        if self.denials is not None:
            self.denials.tell()
        self.drain(worker)
        for output in worker.outputs:
            self.bridge_writer.release_held(output)
        end = end_of(worker.status, worker.requested, worker.oom_before)
        self.bridge_writer.send({"type": "worker_exited", "worker": worker.number, **end})
        self.end_if_full()
        self.checkpoints.drop_dead()
        self.worker = None
        self.bridge_reader.waits_for_worker = True
        self.poll_set.forget((worker.socket, worker.handover, *(output.fd for output in worker.outputs)))
        self.watched_state = ()
        self.useless = 0 if worker.used or worker.requested else self.useless + 1
        if self.useless == USELESS_WORKERS_MAX:
            self.bridge_writer.last_words(f"{USELESS_WORKERS_MAX} interpreters in a row died before their first run")
        name = worker.checkpoint
        restored = self.checkpoints.wake(name, worker.number + 1, self.limits) if name else None
        woken = wake_copy(worker, copy, worker.number + 1, self.limits) if copy and restored is None else None
        if woken is not None:
            # Its descriptors are not inspected: user code may have opened them.
            self.worker_started(woken, worker_posture(woken.pid, [], self.landlock), run)
            return
        if restored is not None:
            if is_child(copy):
                kill(copy, SIGKILL)
        elif copy and not self.kill_others():
            self.bridge_writer.last_words("processes of the worker would not die")
        worker.close()
        if restored is not None:
            self.worker_started(restored, worker_posture(restored.pid, [], self.landlock), checkpoint=name)
