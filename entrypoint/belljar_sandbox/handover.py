"""How a worker hands a descriptor over to the supervisor, with words that say what it is for; words answer it.

The words are user code's for all that the supervisor knows, and so is what the descriptor leads to.
"""

from __future__ import annotations

import sys
from _socket import AF_UNIX, MSG_CMSG_CLOEXEC, MSG_DONTWAIT, SCM_RIGHTS, SOCK_SEQPACKET, SOL_SOCKET, socket, socketpair
from select import POLLIN, poll

WORDS_BYTES_MAX = 512
# How long the supervisor, which may be passing on much, is waited for.
_ANSWER_MS_MAX = 5_000
_FD_BYTES = 4
_RIGHTS_BYTES_MAX = 64


class NotTakenError(RuntimeError):
    """The supervisor does not answer, or user code has closed the socket."""


def pair() -> tuple[int, int]:
    """The supervisor's end and the worker's."""
    ours, theirs = socketpair(AF_UNIX, SOCK_SEQPACKET)
    return ours.detach(), theirs.detach()


def give(end: int, words: str, *fds: int) -> str:
    """The worker's side: what the supervisor answers. The descriptors stay open here as well."""
    handed = socket(fileno=end)
    try:
        rights = b"".join(fd.to_bytes(_FD_BYTES, sys.byteorder) for fd in fds)
        handed.sendmsg([words.encode()[:WORDS_BYTES_MAX]], [(SOL_SOCKET, SCM_RIGHTS, rights)] if fds else [])
        waiter = poll()
        waiter.register(end, POLLIN)
        answer = handed.recv(WORDS_BYTES_MAX) if waiter.poll(_ANSWER_MS_MAX) else b""
    except OSError as error:
        raise NotTakenError(f"the socket to the supervisor is of no use any more: {error}") from None
    finally:
        handed.detach()
    if not answer:
        raise NotTakenError("the supervisor does not answer")
    return answer.decode(errors="replace")


def take(end: int) -> tuple[str, list[int]] | None:
    """The supervisor's side: words and descriptors, which are the caller's to close; nothing when there is none now.

    No words: nothing will come any more, or nobody would know what for.
    """
    handed = socket(fileno=end)
    try:
        words, rights, _, _ = handed.recvmsg(WORDS_BYTES_MAX, _RIGHTS_BYTES_MAX, MSG_DONTWAIT | MSG_CMSG_CLOEXEC)
    except BlockingIOError:
        return None
    except OSError:
        return "", []
    finally:
        handed.detach()
    fds = []
    for level, kind, data in rights:
        if level == SOL_SOCKET and kind == SCM_RIGHTS:
            whole = range(0, len(data) - len(data) % _FD_BYTES, _FD_BYTES)
            fds += [int.from_bytes(data[at : at + _FD_BYTES], sys.byteorder) for at in whole]
    return words.decode(errors="replace"), fds


def answer(end: int, words: str) -> None:
    """The supervisor's side; who does not wait for it goes without."""
    handed = socket(fileno=end)
    try:
        handed.send(words.encode()[:WORDS_BYTES_MAX], MSG_DONTWAIT)
    except OSError:
        pass
    finally:
        handed.detach()
