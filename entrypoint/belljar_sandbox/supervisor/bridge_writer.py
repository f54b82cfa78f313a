"""Writes to the bridge: frames of the supervisor, output, and lines of workers and jobs, in the order of their arrival.

It does not bound its backlog: callers stop reading their sources unless `has_room`. The order of output between
streams is kept for a limited number of changes of stream per second. Beyond that, the waiting output of each stream is
joined into one frame.
"""

from __future__ import annotations

from _json import encode_basestring
from binascii import b2a_base64
from time import monotonic

from ..kernel.type_names import NoReturn
from ..wire.frames import SUPERVISOR, Frame, encode
from .workers import Output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from remote.stream import ResumableStream

    from .bridge_pipes import BridgePipes

BACKLOG_MAX = 1 << 20
_HELD_BYTES_MAX = 1 << 16
# So that output of code that never pauses is seen.
_HELD_SECONDS_MAX = 0.05
# How many changes from one stream to another, each of which costs a frame, are kept within how many seconds.
_CHANGES_MAX, _CHANGES_SECONDS = 1000, 1.0


class SandboxEnd(Exception):  # noqa: N818 - it is not an error
    """The sandbox has to end, with this exit status."""


class _Piece:
    """Consecutive output of one stream: text, or bytes if some of it is not UTF-8."""

    def __init__(self, head: str, data: str | bytes) -> None:
        self.head = head
        self.is_text = isinstance(data, str)
        self.parts: list[str | bytes] = [data]

    def add(self, data: str | bytes) -> None:
        if isinstance(data, str) != self.is_text:
            if self.is_text:
                self.parts = ["".join(self.parts).encode()]  # type: ignore[arg-type]
                self.is_text = False
            else:
                data = data.encode()  # type: ignore[union-attr]
        self.parts.append(data)

    def frame(self) -> bytes:
        # Formatted by hand, since all output passes here.
        if self.is_text:
            return f'S{{{self.head},"text":{encode_basestring("".join(self.parts))}}}\n'.encode()  # type: ignore[arg-type]
        base64 = b2a_base64(b"".join(self.parts), newline=False)  # type: ignore[arg-type]
        return b'S{%b,"base64":"%b"}\n' % (self.head.encode(), base64)


class BridgeWriter:
    def __init__(self, bridge: BridgePipes | ResumableStream) -> None:
        self._outbox = bridge
        # Output that is sent together with the next frame: a run that prints and ends wakes the bridge once.
        self._held_back: list[_Piece] = []
        self._held_back_bytes = 0
        self._held_from = 0.0
        # Changes of stream, and since when they are counted.
        self._changes = 0
        self._changes_from = 0.0

    @property
    def has_room(self) -> bool:
        """Whether the backlog is small enough to read more from the sources of frames."""
        return self._outbox.size <= BACKLOG_MAX

    @property
    def holds_output(self) -> bool:
        return bool(self._held_back)

    def send(self, frame: Frame) -> None:
        self.push(SUPERVISOR + encode(frame))

    def fault(self, message: str) -> None:
        self.send({"type": "fault", "message": message})

    def last_words(self, message: str, field: str = "") -> NoReturn:
        """Sends a fault and ends the sandbox. `field`: the field of the posture that is too weak, if any."""
        self.send({"type": "fault", "message": message, **({"field": field} if field else {})})
        raise SandboxEnd(1)

    def push(self, data: bytes) -> None:
        """Sends whole lines with their addresses."""
        if self._held_back:
            data = b"".join([piece.frame() for piece in self._held_back]) + data
            self._held_back.clear()
            self._held_back_bytes = 0
        self._outbox.push(data)
        if self._outbox.broken:
            raise SandboxEnd(0)

    def send_output(self) -> None:
        self.push(b"")

    def output(self, output: Output, data: bytes) -> None:
        """Sends bytes of a stream. A character that is not complete yet waits for its remaining bytes."""
        data = output.held + data
        output.held = b""
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            if error.reason != "unexpected end of data":
                self._hold(output.head, data)
                return
            text = data[: error.start].decode()
            output.held = data[error.start :]
        if text:
            self._hold(output.head, text)

    def release_held(self, output: Output) -> None:
        if output.held:
            held, output.held = output.held, b""
            self._hold(output.head, held)

    def _hold(self, head: str, data: str | bytes) -> None:
        now = monotonic()
        if self._held_back_bytes + len(data) > _HELD_BYTES_MAX:
            self.send_output()
        if not self._held_back:
            self._held_from = now
        piece = self._joined(head, isinstance(data, str), now)
        if piece is None:
            self._held_back.append(_Piece(head, data))
        else:
            piece.add(data)
        self._held_back_bytes += len(data)
        if self._held_back_bytes >= _HELD_BYTES_MAX or now - self._held_from > _HELD_SECONDS_MAX:
            self.send_output()

    def _joined(self, head: str, is_text: bool, now: float) -> _Piece | None:
        """Returns the waiting piece that takes more output of this stream; None if a new piece is needed."""
        if not self._held_back:
            return None
        last = self._held_back[-1]
        if last.head == head and last.is_text == is_text:
            return last
        if now - self._changes_from > _CHANGES_SECONDS:
            self._changes_from, self._changes = now, 0
        self._changes += 1
        if self._changes <= _CHANGES_MAX:
            return None
        return next((piece for piece in reversed(self._held_back) if piece.head == head), None)
