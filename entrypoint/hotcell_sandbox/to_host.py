"""What the supervisor sends to the bridge: its own frames, output, and lines of others, in the order of their coming.

It does not bound what waits: whoever fills it stops reading its own source when `size` says so.
"""

from __future__ import annotations

from _json import encode_basestring
from binascii import b2a_base64
from select import POLLOUT, poll

from .frames import SUPERVISOR, Frame, encode
from .outbox import Outbox

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from .processes import Output

_HELD_BYTES_MAX = 1 << 16
_LAST_WORDS_MS_MAX = 1000


class Ended(Exception):  # noqa: N818 - it is no error
    """The sandbox has to end; the exit status."""


class ToHost:
    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._outbox = Outbox(fd)
        # Output, which goes out with what follows it: a run that prints and ends wakes the bridge once.
        self._held_back: list[bytes] = []
        self._held_back_bytes = 0

    @property
    def size(self) -> int:
        """Bytes that the bridge has not taken yet, besides output that is held back."""
        return self._outbox.size

    @property
    def holds_output(self) -> bool:
        return bool(self._held_back)

    def flush(self) -> None:
        self._outbox.flush()
        if self._outbox.broken:
            raise Ended(0)

    def send(self, frame: Frame) -> None:
        self.push(SUPERVISOR + encode(frame))

    def fault(self, message: str) -> None:
        self.send({"type": "fault", "message": message})

    def last_words(self, message: str, field: str = "") -> NoReturn:
        """`field`: of the posture, which is weaker than it must be."""
        self.send({"type": "fault", "message": message, **({"field": field} if field else {})})
        # The backlog goes out if the bridge still reads; it is not waited for longer than this.
        waiter = poll()
        waiter.register(self._fd, POLLOUT)
        while self._outbox.size and waiter.poll(_LAST_WORDS_MS_MAX):
            self.flush()
        raise Ended(1)

    def push(self, data: bytes) -> None:
        """Whole lines with their addresses."""
        if self._held_back:
            data = b"".join(self._held_back) + data
            self._held_back.clear()
            self._held_back_bytes = 0
        self._outbox.push(data)
        if self._outbox.broken:
            raise Ended(0)

    def send_output(self) -> None:
        self.push(b"")

    def output(self, output: Output, data: bytes) -> None:
        """Bytes of a stream, as they came; a character that is not whole yet waits for its end."""
        data = output.held + data
        output.held = b""
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            if error.reason != "unexpected end of data":
                self._hold(output.head, "base64", _base64(data))
                return
            text = data[: error.start].decode()
            output.held = data[error.start :]
        if text:
            self._hold(output.head, "text", text)

    def release_held(self, output: Output) -> None:
        if output.held:
            held, output.held = output.held, b""
            self._hold(output.head, "base64", _base64(held))

    def _hold(self, head: str, encoding: str, data: str) -> None:
        # By hand: this is the way of all output.
        frame = f'{{{head},"{encoding}":{encode_basestring(data)}}}\n'
        self._held_back.append(SUPERVISOR + frame.encode())
        self._held_back_bytes += len(self._held_back[-1])
        if self._held_back_bytes > _HELD_BYTES_MAX:
            self.send_output()


def _base64(data: bytes) -> str:
    return b2a_base64(data, newline=False).decode()
