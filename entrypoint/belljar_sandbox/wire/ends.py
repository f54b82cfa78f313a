"""What a worker shares with the supervisor from its start: sockets, and memory that names its sleeping copy.

The supervisor does not trust what a worker writes there, as with everything that comes from a worker.
"""

from __future__ import annotations

from mmap import PAGESIZE, mmap

from .output_record import OutputRecord

# The last thing that a woken copy writes to the supervisor before it serves runs.
READY = b"ready\n"
# What the supervisor answers to a checkpoint that it takes.
KEPT = "kept"


class Slate:
    """Memory shared by a worker, its copies and the supervisor: the copy's process, and the run after which it was
    made.

    A worker may write anything there.
    """

    def __init__(self) -> None:
        self._numbers = memoryview(mmap(-1, PAGESIZE)).cast("Q")

    def write(self, pid: int, run: int) -> None:
        self._numbers[1] = run
        self._numbers[0] = pid

    def read(self) -> tuple[int, int]:
        """Returns the process of the copy, 0 if there is no copy, and the run."""
        pid, run = self._numbers[0], self._numbers[1]
        return (pid, run) if pid < 1 << 22 and run < 1 << 53 else (0, 0)


class Ends:
    """The worker's ends: sockets for frames, for waking its copy, and for handing descriptors over; the slate; and the
    record of what runs have written."""

    def __init__(self, frames: int, spare: int, handover: int, slate: Slate, record: OutputRecord) -> None:
        self.frames = frames
        self.spare = spare
        self.handover = handover
        self.slate = slate
        self.record = record
