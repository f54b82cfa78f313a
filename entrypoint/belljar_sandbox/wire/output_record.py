"""The output of the current run and the one before, in memory that the supervisor writes and workers read.

Code reads in it what a reply had to cut. Of long output it has the beginning and the end. A worker can overwrite it,
and then reads garbage; nothing else depends on it.
"""

from __future__ import annotations

from mmap import PAGESIZE, mmap

HEAD_BYTES_MAX = 1 << 20
TAIL_BYTES_MAX = 3 << 20
TRACEBACK_CHARACTERS_MAX = 4 << 20
_RECORD_BYTES = HEAD_BYTES_MAX + TAIL_BYTES_MAX
_RECORDS = 2
# The numbers at the beginning: the current run, and for each record its run and how many bytes that run wrote.
_RUN, _FIRST_RECORD, _NUMBERS_OF_RECORD = 0, 1, 2


class OutputRecord:
    """Shared memory for two runs. Pages that were never written to take no memory."""

    def __init__(self) -> None:
        self._memory = memoryview(mmap(-1, PAGESIZE + _RECORDS * _RECORD_BYTES))
        self._numbers = self._memory[:PAGESIZE].cast("Q")
        # The supervisor's own copies, since a worker may overwrite those in the shared memory.
        self._run = 0
        self._written = 0
        # The worker's own: the run that failed last, and its traceback.
        self._traceback = (-1, "")

    def begin_run(self) -> None:
        """Called in the worker: what is written from now on belongs to the next run."""
        self._numbers[_RUN] = (self._numbers[_RUN] + 1) & 0xFFFF_FFFF

    def keep_traceback(self, text: str) -> int:
        """Called in the worker with the traceback of the current run. Returns its length as `last_run` will have it."""
        self._traceback = self._numbers[_RUN], text[:TRACEBACK_CHARACTERS_MAX]
        return len(self._traceback[1])

    def add(self, data: bytes) -> None:
        """Called in the supervisor with bytes of either stream, in the order in which they arrive."""
        run = self._numbers[_RUN]
        numbers = _FIRST_RECORD + run % _RECORDS * _NUMBERS_OF_RECORD
        if run != self._run:
            self._run, self._written = run, 0
        start = PAGESIZE + run % _RECORDS * _RECORD_BYTES
        head, rest = data[: max(0, HEAD_BYTES_MAX - self._written)], data[max(0, HEAD_BYTES_MAX - self._written) :]
        if head:
            at = start + self._written
            self._memory[at : at + len(head)] = head
        self._written += len(head)
        for data in (rest[at : at + TAIL_BYTES_MAX] for at in range(0, len(rest), TAIL_BYTES_MAX)):
            at = (self._written - HEAD_BYTES_MAX) % TAIL_BYTES_MAX
            before_end, wrapped = data[: TAIL_BYTES_MAX - at], data[TAIL_BYTES_MAX - at :]
            tail = start + HEAD_BYTES_MAX
            self._memory[tail + at : tail + at + len(before_end)] = before_end
            self._memory[tail : tail + len(wrapped)] = wrapped
            self._written += len(data)
        self._numbers[numbers], self._numbers[numbers + 1] = run, self._written

    def last_run(self) -> str:
        """Returns what the previous run wrote, and its traceback.

        If the middle of the output is missing, a line says how much.
        """
        run = self._numbers[_RUN] - 1
        failed, traceback = self._traceback
        written = self._written_by(run)
        if failed != run:
            return written
        return f"{written}\n{traceback}" if written and not written.endswith("\n") else written + traceback

    def _written_by(self, run: int) -> str:
        numbers = _FIRST_RECORD + run % _RECORDS * _NUMBERS_OF_RECORD
        if self._numbers[numbers] != run:
            return ""
        written = self._numbers[numbers + 1]
        start = PAGESIZE + run % _RECORDS * _RECORD_BYTES
        head = bytes(self._memory[start : start + min(written, HEAD_BYTES_MAX)])
        ring = self._memory[start + HEAD_BYTES_MAX : start + _RECORD_BYTES]
        beyond = max(0, written - HEAD_BYTES_MAX)
        if beyond <= TAIL_BYTES_MAX:
            return _text(head + bytes(ring[:beyond]))
        at = beyond % TAIL_BYTES_MAX
        tail = bytes(ring[at:]) + bytes(ring[:at])
        return f"{_text(head)}\n[{beyond - TAIL_BYTES_MAX:,} bytes are not kept]\n{_text(tail)}"


def _text(data: bytes) -> str:
    """Decodes UTF-8; other bytes become `\\xNN`, as in replies."""
    return data.decode("utf-8", "backslashreplace")
