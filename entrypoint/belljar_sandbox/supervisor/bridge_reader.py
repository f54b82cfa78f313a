"""Cuts what the bridge sends into lines, and passes each to its receiver: the worker, a job, or the supervisor.

It does not read frames that are addressed to the worker or a job.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

from ..wire.frames import JOB, SUPERVISOR, TO_SANDBOX, WORKER, Frame, FrameError, decode
from ..wire.limits import Limits
from .bridge_writer import BridgeWriter
from .jobs import Jobs
from .workers import Worker

CONTROL_BYTES_MAX = 1 << 20
# The bridge is told how many bytes a worker has taken whenever it has taken this many more.
TAKEN_STEP_BYTES = 8 << 20
# The address of a line that is dropped.
_DROPPED = b"-"


class BridgeReader:
    def __init__(self, bridge_writer: BridgeWriter, jobs: Jobs, obey: Callable[[Frame], None]) -> None:
        """`obey` is called with each frame for the supervisor."""
        self._bridge_writer = bridge_writer
        self._jobs = jobs
        self._obey = obey
        self.limits = Limits({})
        self.heard_at = monotonic()
        # True while there is no worker after the hello: what arrives then is held for the next worker.
        self.waits_for_worker = False
        self._waiting = b""
        # The current line: its address, its bytes so far, its worker, and the parts of a frame for the supervisor.
        self._address = b""
        self._line_bytes = 0
        self._target: Worker | None = None
        self._control: list[bytes] = []
        # Bytes of frames for workers: how many have arrived, and how many the bridge knows to be taken.
        self._relayed = 0
        self._taken = 0

    def feed(self, data: bytes, worker: Worker | None) -> bool:
        """Returns whether anything was sent to the worker."""
        self.heard_at = monotonic()
        if (
            worker is not None
            and not self._address
            and data.startswith(WORKER)
            and data.find(b"\n") == len(data) - 1
            and len(data) <= self.limits.frame_to_sandbox_bytes
        ):
            # The common case: one whole frame.
            self._relayed += len(data)
            _send(worker, data[1:])
            return True
        has_sent = False
        position = 0
        while position < len(data):
            if self.waits_for_worker:
                # A run may arrive together with the hello.
                self._waiting = data[position:]
                return has_sent
            if not self._address:
                self._begin_line(data[position : position + 1], worker)
                position += self._line_bytes
            end = data.find(b"\n", position) + 1
            piece = data[position : end or None]
            position += len(piece)
            self._line_bytes += len(piece)
            if self._address not in (SUPERVISOR, JOB):
                self._relayed += len(piece)
            has_sent |= self._take(piece, bool(end), worker)
            if end:
                self._address = b""
        return has_sent

    def begin_worker(self, worker: Worker) -> bool:
        """Sends what was held for this worker. Returns whether there was anything."""
        self.waits_for_worker = False
        waiting, self._waiting = self._waiting, b""
        return self.feed(waiting, worker)

    def tell_taken(self, inbox_bytes: int) -> None:
        """Tells the bridge how much workers have taken.

        The bridge sends no more than fits, so that an interrupt is never stuck.
        """
        taken = self._relayed - inbox_bytes
        if taken - self._taken >= TAKEN_STEP_BYTES:
            self._taken = taken
            self._bridge_writer.send({"type": "taken", "bytes": taken})

    def _begin_line(self, address: bytes, worker: Worker | None) -> None:
        """Sets `_line_bytes` to the length of the address."""
        self._address = address
        self._line_bytes = 1
        if address == WORKER:
            self._target = worker
            self._relayed += 1
            if worker is None:
                self._drop_line("a frame for the worker came before hello")
        elif address in (SUPERVISOR, JOB):
            self._jobs.begin_line()
        else:
            self._line_bytes = 0
            self._drop_line("a line from the bridge has no known address")

    def _take(self, piece: bytes, last: bool, worker: Worker | None) -> bool:
        if self._address == WORKER:
            if worker is None or worker is not self._target:
                return False
            if self._line_bytes > self.limits.frame_to_sandbox_bytes:
                # The worker has the beginning of the line. Cut off here, it is not JSON, and the worker drops it.
                _send(worker, b"\n")
                self._drop_line("a frame for the worker is longer than the limit")
            else:
                _send(worker, piece)
            return True
        if self._address == JOB:
            self._jobs.take(piece, last)
        elif self._address == SUPERVISOR:
            self._control.append(piece)
            if self._line_bytes > CONTROL_BYTES_MAX:
                self._drop_line("a frame for the supervisor is longer than 1 MiB")
            elif last:
                line = b"".join(self._control)[:-1]
                self._control = []
                try:
                    self._obey(decode(line, TO_SANDBOX[SUPERVISOR], self.limits.frame_depth))
                except FrameError as error:
                    self._bridge_writer.fault(f"a frame for the supervisor was dropped: {error.kind}")
        return False

    def _drop_line(self, why: str) -> None:
        self._address = _DROPPED
        self._control = []
        self._bridge_writer.fault(why)


def _send(worker: Worker, data: bytes) -> None:
    worker.used = True
    worker.inbox.push(data)
