"""All that a run wrote, in memory that the supervisor fills and workers read, so that a cut reply can be read on.

What stands there is no secret and no authority: a worker may garble it, and then reads garbage. It is kept for two
runs, the present one and the one before, of each the first and the last of more than fits.
"""

from __future__ import annotations

from mmap import PAGESIZE, mmap

HEAD_BYTES_MAX = 1 << 20
TAIL_BYTES_MAX = 3 << 20
_RECORD_BYTES = HEAD_BYTES_MAX + TAIL_BYTES_MAX
_RECORDS = 2
# The numbers at the beginning: the run, and for each record the run that it is of and how many bytes that wrote.
_RUN, _FIRST_RECORD, _NUMBERS_OF_RECORD = 0, 1, 2


class OutputRecord:
    """Pages that nobody has written to take no memory."""

    __slots__ = ("_memory", "_numbers", "_run", "_written")

    def __init__(self) -> None:
        self._memory = memoryview(mmap(-1, PAGESIZE + _RECORDS * _RECORD_BYTES))
        self._numbers = self._memory[:PAGESIZE].cast("Q")
        # The supervisor's own: what a worker writes over those in the memory does not lead it astray.
        self._run = 0
        self._written = 0

    def begin_run(self) -> None:
        """The worker's: what is written from here on is of the next run."""
        self._numbers[_RUN] = (self._numbers[_RUN] + 1) & 0xFFFF_FFFF

    def add(self, data: bytes) -> None:
        """The supervisor's: bytes of either stream, as they come."""
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
        """What the run before the present one wrote; a line says how much of its middle is not kept."""
        run = self._numbers[_RUN] - 1
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
    """As replies have it: other bytes than UTF-8 as `\\xNN`."""
    return data.decode("utf-8", "backslashreplace")
