"""What a worker shares with the supervisor from its start: sockets, and memory that says which copy of it sleeps.

What a worker writes there is a claim, as everything that comes from it.
"""

from __future__ import annotations

from mmap import PAGESIZE, mmap

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .output_record import OutputRecord

# The last thing that a woken copy writes to the supervisor before it serves runs.
READY = b"ready\n"
# What the supervisor answers to a checkpoint that it takes.
KEPT = "kept"


class Slate:
    """Shared between a worker, its copies and the supervisor: who the copy is, and the run after which it was made.

    What stands there is the worker's word, hence a claim.
    """

    __slots__ = ("_numbers",)

    def __init__(self) -> None:
        self._numbers = memoryview(mmap(-1, PAGESIZE)).cast("Q")

    def write(self, pid: int, run: int) -> None:
        self._numbers[1] = run
        self._numbers[0] = pid

    def read(self) -> tuple[int, int]:
        """The process, 0 for none, and the run."""
        pid, run = self._numbers[0], self._numbers[1]
        return (pid, run) if pid < 1 << 22 and run < 1 << 53 else (0, 0)


class Ends:
    """What a worker has of its beginning: its sockets for frames, over which copies are woken, and over which it hands
    descriptors over; the slate; and what runs have written."""

    def __init__(self, frames: int, spare: int, handover: int, slate: Slate, record: OutputRecord) -> None:
        self.frames = frames
        self.spare = spare
        self.handover = handover
        self.slate = slate
        self.record = record
