"""Tries to reach other machines before any code runs. It is imported only where a sandbox has a network interface.

A cluster's policies deny the network, but a network plug-in may ignore them, so only an attempt shows that they count.
A refusal says nothing: some plug-ins deny by refusing.
"""

from __future__ import annotations

import os
from select import POLLIN, POLLOUT, poll
from time import monotonic

from .sockets import AF_INET, SO_ERROR, SOCK_DGRAM, SOCK_NONBLOCK, SOCK_STREAM, SOL_SOCKET, socket

# The address under which machines of clouds are told their secrets.
_METADATA = ("169.254.169.254", 80)
_RESOLVERS = ("1.1.1.1", "8.8.8.8")
_SECONDS = 0.5
# A plug-in may apply its policies a moment after the start.
_TRIES, _PAUSE_MS = 3, 1000
# A question for the addresses of the root, in the format of DNS.
_QUESTION = bytes.fromhex("7b31010000010000000000000000020001")


def reachable() -> list[str]:
    """Returns the places that answer within half a second, as `udp 10.0.0.1:53`; also when asked again later."""
    own = _own_address()
    if own is None:
        return ["nothing, since there is no IPv4 address by which it could be tried"]
    for tried in range(_TRIES):
        if tried:
            poll().poll(_PAUSE_MS)
        found = _answering(own)
        if not found:
            break
    return found


def _answering(own: str) -> list[str]:
    waiter, asked = poll(), {}
    for kind, (host, port) in _places(own):
        attempt = socket(AF_INET, kind | SOCK_NONBLOCK)
        asked[attempt.fileno()] = attempt, f"{'tcp' if kind == SOCK_STREAM else 'udp'} {host}:{port}"
        try:
            attempt.connect((host, port))
            attempt.send(_QUESTION)
        except BlockingIOError:  # under way
            pass
        except OSError:
            asked.pop(attempt.fileno())
            attempt.close()
            continue
        waiter.register(attempt, POLLOUT if kind == SOCK_STREAM else POLLIN)
    found, deadline = [], monotonic() + _SECONDS
    while asked and (left := deadline - monotonic()) > 0:
        for fd, _ in waiter.poll(int(left * 1000) + 1):
            waiter.unregister(fd)
            attempt, name = asked.pop(fd)
            if attempt.getsockopt(SOL_SOCKET, SO_ERROR) == 0:
                found.append(name)
            attempt.close()
    for attempt, _ in asked.values():
        attempt.close()
    return sorted(found)


def _places(own: str) -> list[tuple[int, tuple[str, int]]]:
    """The API server, the usual name server of a cluster, name servers of the internet, metadata, and neighbours."""
    servers = [(SOCK_STREAM, _METADATA)]
    resolvers = list(_RESOLVERS)
    api = os.environ.get("KUBERNETES_SERVICE_HOST", "")
    if api.count(".") == 3:
        port = os.environ.get("KUBERNETES_SERVICE_PORT", "")
        servers.append((SOCK_STREAM, (api, int(port) if port.isdecimal() else 443)))
        resolvers.append(api.rpartition(".")[0] + ".10")
    for resolver in resolvers:
        servers += [(SOCK_STREAM, (resolver, 53)), (SOCK_DGRAM, (resolver, 53))]
    return servers + [(SOCK_STREAM, (host, port)) for host in _neighbours(own) for port in (53, 80, 443)]


def _neighbours(own: str) -> list[str]:
    """The addresses beside that of this sandbox, which are often those of other Pods.

    The first one of a network is often the node itself, to which policies may not apply.
    """
    network, _, last = own.rpartition(".")
    return [f"{network}.{int(last) + step}" for step in (-2, -1, 1, 2) if 1 < int(last) + step < 255]


def _own_address() -> str | None:
    own = socket(AF_INET, SOCK_DGRAM)
    try:
        own.connect(_METADATA)
        return str(own.getsockname()[0])
    except OSError:  # there is no route
        return None
    finally:
        own.close()
