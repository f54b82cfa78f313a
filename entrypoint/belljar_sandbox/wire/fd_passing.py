"""Passes descriptors between the supervisor and a worker, with words or bytes that say what they are for.

The supervisor does not trust these words and descriptors: user code may have sent them.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from ..kernel.sockets import (
    AF_UNIX,
    MSG_CMSG_CLOEXEC,
    MSG_DONTWAIT,
    SCM_RIGHTS,
    SOCK_SEQPACKET,
    SOCK_STREAM,
    SOL_SOCKET,
    socket,
    socketpair,
)
from .buffer import has_input

WORDS_BYTES_MAX = 512
# How long a worker waits for the supervisor, which may be busy relaying.
_ANSWER_MS_MAX = 5_000
_FD_BYTES = 4
_RIGHTS_BYTES_MAX = 64


class NotTakenError(RuntimeError):
    """The supervisor did not answer, or user code has closed the socket."""


def message_pair() -> tuple[int, int]:
    """Returns the supervisor's end and the worker's end of a socket pair that keeps messages whole, for `give` and
    `take`."""
    ours, theirs = socketpair(AF_UNIX, SOCK_SEQPACKET)
    return ours.detach(), theirs.detach()


def stream_pair() -> tuple[int, int]:
    """Returns the two ends of a socket pair for a stream of bytes."""
    ours, theirs = socketpair(AF_UNIX, SOCK_STREAM)
    return ours.detach(), theirs.detach()


def send(end: int, data: bytes, fds: Sequence[int], flags: int = 0) -> None:
    """Sends one message with these descriptors. They stay open in this process as well."""
    sender = socket(fileno=end)
    try:
        rights = b"".join(fd.to_bytes(_FD_BYTES, sys.byteorder) for fd in fds)
        sender.sendmsg([data], [(SOL_SOCKET, SCM_RIGHTS, rights)] if fds else [], flags)
    finally:
        sender.detach()


def receive(end: int, bytes_max: int, flags: int = 0) -> tuple[bytes, list[int]]:
    """Receives one message and the descriptors that came with it. The caller closes them."""
    receiver = socket(fileno=end)
    try:
        data, rights, _, _ = receiver.recvmsg(bytes_max, _RIGHTS_BYTES_MAX, flags | MSG_CMSG_CLOEXEC)
    finally:
        receiver.detach()
    fds = []
    for level, kind, packed in rights:
        if level == SOL_SOCKET and kind == SCM_RIGHTS:
            whole = range(0, len(packed) - len(packed) % _FD_BYTES, _FD_BYTES)
            fds += [int.from_bytes(packed[at : at + _FD_BYTES], sys.byteorder) for at in whole]
    return data, fds


def give(end: int, words: str, *fds: int) -> str:
    """Called in the worker: hands descriptors over and returns the supervisor's answer. They stay open here as well."""
    try:
        send(end, words.encode()[:WORDS_BYTES_MAX], fds)
        answer = receive(end, WORDS_BYTES_MAX)[0] if has_input(end, _ANSWER_MS_MAX) else b""
    except OSError as error:
        raise NotTakenError(f"the socket to the supervisor no longer works: {error}") from None
    if not answer:
        raise NotTakenError("the supervisor does not answer")
    return answer.decode(errors="replace")


def take(end: int) -> tuple[str, list[int]] | None:
    """Called in the supervisor: returns the words and the descriptors, which the caller closes; None without a message.

    Empty words mean that the socket has ended or that the message is of no use.
    """
    try:
        words, fds = receive(end, WORDS_BYTES_MAX, MSG_DONTWAIT)
    except BlockingIOError:
        return None
    except OSError:
        return "", []
    return words.decode(errors="replace"), fds


def answer(end: int, words: str) -> None:
    """Called in the supervisor. The answer is lost if the worker does not wait for it."""
    try:
        send(end, words.encode()[:WORDS_BYTES_MAX], (), MSG_DONTWAIT)
    except OSError:
        pass
