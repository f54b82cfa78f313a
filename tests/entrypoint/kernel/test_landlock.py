"""Landlock rules in a process without the system call filter, which would refuse the same calls first."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from belljar_sandbox.kernel import landlock
from sandbox import ENTRYPOINT

# The kernel's versions of Landlock that know TCP ports, and abstract sockets.
TCP_VERSION, ABSTRACT_VERSION = 4, 6
# Prints how each attempt ends, after entering the rules if the first argument says so.
ATTEMPTS = """
import errno, socket, sys
sys.path.insert(0, sys.argv[1])
from belljar_sandbox.kernel import landlock, system_calls

def attempt(act):
    try:
        act()
    except OSError as error:
        return errno.errorcode[error.errno]
    return "done"

def connect(family, address):
    with socket.socket(family) as client:
        client.connect(address)

def bind():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))

rules, name, port, group = sys.argv[2], chr(0) + sys.argv[3], int(sys.argv[4]), sys.argv[5]
if rules != "free":
    system_calls.gain_no_privileges()
    assert landlock.restrict([], rules == "own group") == landlock._version()
print(
    attempt(lambda: connect(socket.AF_UNIX, name)),
    attempt(lambda: connect(socket.AF_INET, ("127.0.0.1", port))),
    attempt(bind),
    attempt(lambda: open(group).close()),
)
"""


def attempts(rules: str, listeners: tuple[socket.socket, socket.socket]) -> list[str]:
    """How connecting to both listeners, binding a TCP port and reading a control group end in another process."""
    name, port = listeners[0].getsockname()[1:].decode(), str(listeners[1].getsockname()[1])
    group = next(path for path in Path("/sys/fs/cgroup").rglob("cgroup.procs"))
    command = [sys.executable, "-I", "-c", ATTEMPTS, str(ENTRYPOINT), rules, name, port, str(group)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()


@pytest.fixture
def listeners() -> Iterator[tuple[socket.socket, socket.socket]]:
    with socket.socket(socket.AF_UNIX) as abstract, socket.socket() as tcp:
        # The kernel chooses a name and a port that are free.
        abstract.bind("")
        tcp.bind(("127.0.0.1", 0))
        for listener in (abstract, tcp):
            listener.listen()
        yield abstract, tcp


def test_abstract_sockets_of_others_are_refused(listeners: tuple[socket.socket, socket.socket]) -> None:
    need(ABSTRACT_VERSION, "abstract sockets")
    assert attempts("free", listeners)[0] == "done"
    assert attempts("restricted", listeners)[0] == "EPERM"


def test_tcp_is_refused(listeners: tuple[socket.socket, socket.socket]) -> None:
    need(TCP_VERSION, "TCP ports")
    assert attempts("free", listeners)[1:3] == ["done", "done"]
    assert attempts("restricted", listeners)[1:3] == ["EACCES", "EACCES"]


def test_only_own_control_groups_are_readable(listeners: tuple[socket.socket, socket.socket]) -> None:
    need(landlock.VERSION_MIN, "the rules")
    assert attempts("own group", listeners)[3] == "done"
    assert attempts("restricted", listeners)[3] == "EACCES"


def need(version: int, what: str) -> None:
    if landlock._version() < version:
        pytest.skip(f"this kernel's Landlock has version {landlock._version()}; {what} need {version}")
