"""The supervisor's side of checkpoints: which exist, how much memory they take, and how one becomes the worker again.

What a worker says about a copy is not trusted: at worst, a process of the worker is stopped in place of a copy.
"""

from __future__ import annotations

import os
import stat
from select import POLLHUP, poll

from ..kernel.posture import bytes_of_processes, private_bytes
from ..kernel.signals import SIGCONT, SIGKILL, kill
from ..wire import fd_passing
from ..wire.ends import KEPT, Slate
from ..wire.limits import Limits
from ..wire.names import is_checkpoint_name
from .bridge_writer import BridgeWriter
from .processes import is_child
from .workers import Worker, answer_of, outputs_of_worker

# How long a woken checkpoint may take to answer. It forks once more before that.
WAKE_MS_MAX = 1_500
_MIB = 1 << 20
_PID_MAX = 1 << 22
_LINE_MAX = 1 << 31
_WORDS = 4


class _Checkpoint:
    def __init__(self, pid: int, socket: int, slate: Slate) -> None:
        self.pid = pid
        # The socket that wakes it.
        self.socket = socket
        self.slate = slate


class Checkpoints:
    def __init__(self, bridge_writer: BridgeWriter) -> None:
        self._bridge_writer = bridge_writer
        self._kept: dict[str, _Checkpoint] = {}

    def __contains__(self, name: object) -> bool:
        self.drop_dead()
        return name in self._kept

    def pids(self) -> frozenset[int]:
        """The processes of all checkpoints, including those that have just ended.

        If the bridge heard that a checkpoint has ended before it hears that the worker has, it would believe that the
        worker stays.
        """
        return frozenset(checkpoint.pid for checkpoint in self._kept.values() if checkpoint.pid > 1)

    def take(self, worker: Worker, words: str, fds: list[int], limits: Limits) -> str:
        """Takes a checkpoint over from a worker. Returns the answer for the worker.

        `words`: `checkpoint PID LINE NAME`. `fds`: the checkpoint's socket, which is removed from the list if it is
        taken.
        """
        parts = words.split(" ", _WORDS - 1)
        if len(parts) != _WORDS or len(fds) != 1 or not stat.S_ISSOCK(os.fstat(fds[0]).st_mode):
            return "refused: this is not a checkpoint"
        _, pid, line, name = parts
        if not is_checkpoint_name(name) or not (pid.isdecimal() and 1 < int(pid) < _PID_MAX and line.isdecimal()):
            return "refused: this is not a checkpoint"
        if not limits.checkpoints:
            return "refused: they are turned off (MCP_BRIDGE_CHECKPOINTS)"
        self.drop_dead()
        others = [checkpoint for kept, checkpoint in self._kept.items() if kept != name]
        if len(others) >= limits.checkpoints:
            names = ", ".join(sorted(self._kept))
            return (
                f"refused: there are {len(others)} checkpoints already ({names}), which is the limit; "
                "runtime.forget_checkpoint(name) deletes one"
            )
        try:
            size = private_bytes(int(pid))
            # The memory in use, and as much again as the worker can change from now on.
            taken = size + _taken_now([worker.pid, *(checkpoint.pid for checkpoint in others)])
        except OSError:
            return "refused: its process is gone"
        if limits.checkpoint_bytes and taken > limits.checkpoint_bytes:
            return (
                f"refused: the interpreter has {size // _MIB} MiB; with {len(others)} other checkpoints, and once all "
                f"of it has changed, that would be {taken // _MIB} MiB, more than the limit of "
                f"{limits.checkpoint_bytes // _MIB} MiB; del what is large, or runtime.forget_checkpoint(name)"
            )
        self.forget(name)
        self._kept[name] = _Checkpoint(int(pid), fds.pop(), worker.slate)
        told = min(int(line), _LINE_MAX) or None
        self._bridge_writer.send({"type": "checkpoint", "name": name, "line": told, "bytes": size})
        return KEPT

    def drop_dead(self) -> None:
        """Removes checkpoints whose processes have ended, and tells the bridge."""
        waiter = poll()
        for name, checkpoint in list(self._kept.items()):
            waiter.register(checkpoint.socket, 0)
            ends = [events for fd, events in waiter.poll(0) if fd == checkpoint.socket]
            waiter.unregister(checkpoint.socket)
            if ends and ends[0] & POLLHUP:
                self._gone(name)

    def wake(self, name: str, number: int, limits: Limits) -> Worker | None:
        """Turns the checkpoint into the worker. Returns None if it does not answer. Another copy of it sleeps on."""
        checkpoint = self._kept.get(name)
        if checkpoint is None:
            return None
        # The supervisor must be able to wait for its end.
        if not is_child(checkpoint.pid):
            self._gone(name)
            return None
        (spare, spare_end), (handed, handed_end), (again, again_end) = (
            fd_passing.stream_pair(),
            fd_passing.message_pair(),
            fd_passing.stream_pair(),
        )
        (stdout, stdout_end), (stderr, stderr_end) = os.pipe(), os.pipe()
        kill(checkpoint.pid, SIGCONT)
        ends = (spare_end, handed_end, again_end, stdout_end, stderr_end)
        answer = answer_of(checkpoint.socket, number, ends, WAKE_MS_MAX)
        if answer is None:
            for fd in (spare, handed, again, stdout, stderr):
                os.close(fd)
            self._gone(name)
            return None
        outputs = outputs_of_worker(stdout, stderr)
        woken = Worker(number, checkpoint.pid, (checkpoint.socket, spare, handed), checkpoint.slate, outputs, limits)
        checkpoint.slate.write(0, 0)
        self._kept[name] = _Checkpoint(_pid(answer), again, checkpoint.slate)
        return woken

    def _gone(self, name: str) -> None:
        self.forget(name)
        self._bridge_writer.send({"type": "checkpoint_gone", "name": name})

    def forget(self, name: str) -> None:
        """Removes the checkpoint. Its process ends when the socket is closed, but is killed in case it is stopped."""
        checkpoint = self._kept.pop(name, None)
        if checkpoint is not None:
            os.close(checkpoint.socket)
            if is_child(checkpoint.pid):
                kill(checkpoint.pid, SIGKILL)


def _taken_now(pids: list[int]) -> int:
    """Returns the memory of the sandbox's processes. A new copy shares all of its memory with the worker.

    If no cgroup counts memory, shared memory counts once for each process, since the supervisor cannot see what is
    shared.
    """
    taken = bytes_of_processes()
    return sum(map(private_bytes, pids)) if taken is None else taken


def _pid(answer: bytes) -> int:
    """Returns the process of the copy that sleeps on, as the woken one says; 0 if it could not fork."""
    number = answer.split(b"\n")[-2:-1]
    return int(number[0]) if number and number[0].isdigit() and int(number[0]) < _PID_MAX else 0
