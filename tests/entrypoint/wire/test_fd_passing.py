"""What a worker hands over to the supervisor: words and descriptors, and what becomes of those that mean nothing."""

from __future__ import annotations

import os

import pytest

from belljar_sandbox.wire import fd_passing
from sandbox import Sandbox


def test_words_and_descriptors_arrive_and_are_answered() -> None:
    ours, theirs = fd_passing.message_pair()
    read, write = os.pipe()
    fd_passing.answer(ours, "taken")
    assert fd_passing.give(theirs, "this is a pipe", read) == "taken"
    taken = fd_passing.take(ours)
    assert taken is not None
    words, [fd] = taken
    assert words == "this is a pipe"
    os.write(write, b"through")
    assert os.read(fd, 10) == b"through"
    assert not os.get_inheritable(fd)
    assert fd_passing.take(ours) is None
    os.close(theirs)
    assert fd_passing.take(ours) == ("", [])
    for end in (ours, read, write, fd):
        os.close(end)


def test_who_has_no_supervisor_is_told() -> None:
    ours, theirs = fd_passing.message_pair()
    os.close(ours)
    with pytest.raises(fd_passing.NotTakenError, match="no longer works"):
        fd_passing.give(theirs, "anybody")
    os.close(theirs)


_HAND_OVER = """
import array, os, socket
ends = []
for fd in map(int, os.listdir("/proc/self/fd")):
    try:
        end = socket.socket(fileno=os.dup(fd))
    except OSError:
        continue
    if end.family == socket.AF_UNIX and end.type == socket.SOCK_SEQPACKET:
        ends.append((fd, end))
[(fd, end)] = ends
fds = array.array("i", os.pipe())
answers = set()
for _ in range(1000):
    end.sendmsg([b"nonsense"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
    answers.add(end.recv(100).decode())
print(answers)
end.send(b"")
os.close(fd)
end.close()
"""


def test_nonsense_is_refused_leaves_nothing_open_and_keeps_nobody_busy(sandbox: Sandbox) -> None:
    done = sandbox.run(_HAND_OVER)
    assert (done["outcome"], done["stdout"]) == ("finished", "{\"refused: 'nonsense' is unknown\"}\n"), done
    # What later workers need is imported when it is quiet for the first time.
    assert sandbox.run("import time; time.sleep(0.6)")["outcome"] == "finished"
    before = _cpu_ticks(sandbox.process.pid)
    assert sandbox.run("import time; time.sleep(0.3)")["outcome"] == "finished"
    # A supervisor that spins would take thirty.
    assert _cpu_ticks(sandbox.process.pid) - before < 15
    assert len(os.listdir(f"/proc/{sandbox.process.pid}/fd")) < 40


def _cpu_ticks(pid: int) -> int:
    with open(f"/proc/{pid}/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
    return int(fields[11]) + int(fields[12])
