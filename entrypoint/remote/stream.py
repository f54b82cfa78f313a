"""The text that runs before bootstrap.py in a sandbox that the bridge reaches over a network: a stream of bytes to the
bridge that outlives its connections.

The bridge starts relay.py in the sandbox for each connection, which joins that connection with the socket here. Both
ends count the bytes that they receive. Each end stores what it has sent until the other confirms it, and sends the rest
again at the next connection.

A connection begins with one line of the bridge: `belljar TOKEN NUMBER COUNT`, with the number of the connection and the
count of received bytes. The answer is the sandbox's count in one line. Records follow in both directions: four bytes
with a length and so many bytes of the stream; or a length of 0 and a count in eight bytes; or `END`. Numbers are
big-endian. The sandbox answers each count of the bridge with its own, which shows both that the connection works.
"""

import os
from _collections import deque  # type: ignore[import-not-found]
from _socket import AF_UNIX, SO_PEERCRED, SOCK_NONBLOCK, SOCK_STREAM, SOL_SOCKET, socket
from select import POLLIN, POLLOUT, poll
from sys import byteorder
from time import monotonic

ADDRESS = b"\0belljar"
END = b"\xff\xff\xff\xff"
HELLO_BYTES_MAX = 200
RECORD_BYTES_MAX = 1 << 18
# At most so many bytes are sent before the bridge confirms any.
WINDOW_BYTES = 8 << 20
# Received bytes are confirmed when there are so many more.
CONFIRMED_BYTES = 1 << 20
# Connections that have not said their line yet. Code cannot make any.
STRANGERS_MAX = 4
# Restarts of what is between bridge and sandbox take shorter.
SILENCE_MS_MAX = 150_000


class ResumableStream:
    silence_ms_max = SILENCE_MS_MAX

    def __init__(self, address: bytes = ADDRESS) -> None:
        self._listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK)
        self._listener.bind(address)
        self._listener.listen()
        # Connections and what they have said, by descriptor.
        self._strangers: dict[int, tuple[socket, bytearray]] = {}
        self._connection: socket | None = None
        # The first connection sets the token, and all others must have it.
        self._token = b""
        self._number = 0
        # The current record from the bridge: its beginning, or how many of its bytes are missing.
        self._head = b""
        self._missing = 0
        self._received = 0
        self._to_confirm = 0
        self._wants_to_confirm = False
        # What the bridge may not have received: how many bytes before it were confirmed, its pieces, and their bytes.
        self._confirmed = 0
        self._sent: deque[bytes] = deque()
        self._in_flight = 0
        self._unsent = bytearray()
        # Records that the connection has not taken yet.
        self._wire = memoryview(b"")
        # Whether this end has ended the stream, and whether it has yet to say so.
        self._is_finished = self._says_end = False
        # Whether the bridge has ended the stream.
        self.ended = False
        # The bytes that no connection has taken yet.
        self.size = 0
        self.broken = False

    # To the bridge.

    def push(self, data: bytes) -> None:
        self._unsent += data
        self.flush()

    def flush(self) -> None:
        while self._connection is not None:
            self._wire = self._wire or self._next_records()
            if not self._wire:
                break
            try:
                self._wire = self._wire[self._connection.send(self._wire) :]
            except BlockingIOError:
                break
            except OSError:
                self._cut()
        self.size = len(self._unsent) + len(self._wire)

    def finish(self, seconds: float) -> None:
        """Sends what is left and the end, and waits until the bridge has received all, through further connections if
        need be."""
        self._says_end = self._is_finished = True
        self.flush()
        deadline = monotonic() + seconds
        while self._connection is not None or self._unsent or self._in_flight:
            left = deadline - monotonic()
            if left <= 0:
                break
            self._poll(int(left * 1000) + 1)

    def _next_records(self) -> memoryview:
        records = b""
        if self._wants_to_confirm:
            self._wants_to_confirm, self._to_confirm = False, 0
            records = bytes(4) + self._received.to_bytes(8, "big")
        if self._unsent and self._in_flight < WINDOW_BYTES:
            piece = bytes(self._unsent[:RECORD_BYTES_MAX])
            del self._unsent[:RECORD_BYTES_MAX]
            self._sent.append(piece)
            self._in_flight += len(piece)
            records += len(piece).to_bytes(4, "big") + piece
        elif self._says_end and not self._unsent:
            self._says_end = False
            records += END
        return memoryview(records)

    def _confirm(self, count: int) -> bool:
        """Forgets the bytes that the bridge has received. Returns False if it cannot have received so many."""
        if not self._confirmed <= count <= self._confirmed + self._in_flight:
            return False
        self._in_flight -= count - self._confirmed
        while self._sent and self._confirmed + len(self._sent[0]) <= count:
            self._confirmed += len(self._sent.popleft())
        if self._confirmed < count:
            self._sent[0] = self._sent[0][count - self._confirmed :]
            self._confirmed = count
        return True

    # From the bridge.

    def wait(self) -> bytes:
        """Waits for bytes; returns none if the stream has ended, or if the bridge is silent for too long."""
        data = b""
        while not data and not self.ended:
            arrived = self._poll(SILENCE_MS_MAX)
            if arrived is None:
                break
            data = arrived
        return data

    def watched(self, wanted: dict[int, int], reads: bool) -> None:
        """Adds the descriptors to wait for. Without `reads`, nothing is read from the connection."""
        for fd in (self._listener.fileno(), *self._strangers):
            wanted[fd] = POLLIN
        if self._connection is not None:
            wanted[self._connection.fileno()] = (POLLIN if reads else 0) | (POLLOUT if self._can_send() else 0)

    def state(self) -> object:
        """Changes with what `watched` adds."""
        return self._number, self._connection is None, tuple(self._strangers), self._can_send()

    def descriptors(self) -> set[int]:
        connection = () if self._connection is None else (self._connection.fileno(),)
        return {self._listener.fileno(), *self._strangers, *connection}

    def ready(self, fd: int, events: int) -> bytes | None:
        """Returns what the bridge has sent, after a descriptor has become ready; None if it is not one of these."""
        if fd == self._listener.fileno():
            self._accept()
        elif fd in self._strangers:
            return self._hear(fd)
        elif self._connection is not None and fd == self._connection.fileno():
            if events & POLLOUT:
                self.flush()
            if events & ~POLLOUT and self._connection is not None:
                return self._read(self._connection)
        else:
            return None
        return b""

    def _poll(self, ms: int) -> bytes | None:
        waiter, wanted = poll(), dict[int, int]()
        self.watched(wanted, reads=True)
        for fd, events in wanted.items():
            waiter.register(fd, events)
        found = waiter.poll(ms)
        return b"".join([self.ready(fd, events) or b"" for fd, events in found]) if found else None

    def _can_send(self) -> bool:
        can_send = self._unsent and self._in_flight < WINDOW_BYTES
        return bool(self._wire or can_send or self._wants_to_confirm or (self._says_end and not self._unsent))

    def _accept(self) -> None:
        try:
            fd, _ = self._listener._accept()  # type: ignore[attr-defined]
        except OSError:
            return
        stranger = socket(AF_UNIX, SOCK_STREAM, 0, fd)
        stranger.setblocking(False)
        uid = int.from_bytes(stranger.getsockopt(SOL_SOCKET, SO_PEERCRED, 12)[4:8], byteorder)
        if uid != os.getuid():
            stranger.close()
            return
        if len(self._strangers) == STRANGERS_MAX:
            self._turn_away(next(iter(self._strangers)))
        self._strangers[fd] = stranger, bytearray()

    def _turn_away(self, fd: int) -> None:
        self._strangers.pop(fd)[0].close()

    def _hear(self, fd: int) -> bytes:
        """Reads the line of a new connection. If it is right, the connection replaces the one before."""
        stranger, said = self._strangers[fd]
        try:
            data = stranger.recv(RECORD_BYTES_MAX)
        except BlockingIOError:
            return b""
        except OSError:
            data = b""
        said += data
        line, found, rest = bytes(said).partition(b"\n")
        if not data or len(line) > HELLO_BYTES_MAX:
            self._turn_away(fd)
        elif found:
            if not self._accepts(line):
                self._turn_away(fd)
                return b""
            self._cut()
            del self._strangers[fd]
            self._connection = stranger
            self._head, self._missing = b"", 0
            self._wants_to_confirm, self._to_confirm = False, 0
            self._unsent[:0] = b"".join(self._sent)
            self._sent.clear()
            self._in_flight = 0
            self._wire = memoryview(b"%d\n" % self._received)
            self._says_end = self._is_finished
            self.flush()
            return self._parse(rest)
        return b""

    def _accepts(self, line: bytes) -> bool:
        match line.split(b" "):
            case [b"belljar", token, number, count] if token and number.isdigit() and count.isdigit():
                if token != (self._token or token) or int(number) <= self._number or not self._confirm(int(count)):
                    return False
                self._token, self._number = token, int(number)
                return True
        return False

    def _read(self, connection: socket) -> bytes:
        try:
            data = connection.recv(RECORD_BYTES_MAX)
        except BlockingIOError:
            return b""
        except OSError:
            data = b""
        if not data:
            self._cut()
        return self._parse(data)

    def _parse(self, data: bytes) -> bytes:
        """Returns the bytes of the stream in some of the connection's bytes."""
        found = []
        position = 0
        while position < len(data):
            if self._missing:
                part = data[position : position + self._missing]
                found.append(part)
                position += len(part)
                self._missing -= len(part)
                self._received += len(part)
                self._to_confirm += len(part)
                continue
            wanted = 12 if self._head.startswith(bytes(4)) else 4
            part = data[position : position + wanted - len(self._head)]
            position += len(part)
            self._head += part
            if self._head == END:
                self.ended = True
            elif len(self._head) == 12:
                if not self._confirm(int.from_bytes(self._head[4:], "big")):
                    self._cut()
                    break
                self._wants_to_confirm = True
            elif len(self._head) < 4 or self._head == bytes(4):
                continue
            else:
                self._missing = int.from_bytes(self._head, "big")
            self._head = b""
        if self._to_confirm >= CONFIRMED_BYTES:
            self._wants_to_confirm = True
        if self._wants_to_confirm:
            self.flush()
        return b"".join(found)

    def _cut(self) -> None:
        """Ends the connection. What it has not delivered is sent again."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        self._wire = memoryview(b"")


if __name__ == "__main__":
    stream = ResumableStream()
