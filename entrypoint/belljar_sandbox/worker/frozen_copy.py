"""Sleeping copies of the worker: one forked after each run, to which a killed run rolls back, and checkpoints.

The supervisor wakes a copy when the worker has ended. If it closes the copy's socket instead, the copy ends. A copy has
no threads, and its event loops are new.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from types import ModuleType

from ..kernel import system_calls
from ..kernel.posture import private_bytes
from ..kernel.signals import SIGKILL, kill
from ..wire import fd_passing
from ..wire.ends import KEPT, READY, Ends

# A fork takes about 1 ms per 40 MiB. A larger worker is copied only when idle.
AT_ONCE_BYTES_MAX = 96 << 20
QUIET_MS = 20
_MESSAGE_BYTES_MAX = 64


class FrozenCopy:
    def __init__(
        self,
        ends: Ends,
        number: int,
        bytes_max: int,
        has_input: Callable[[int], bool],
        on_wake: Callable[[int, int, list[int]], None],
    ) -> None:
        """A worker larger than `bytes_max` is not copied; 0: never. `has_input` waits at most the given milliseconds.

        `on_wake` is called in a woken copy with the socket for frames, the worker's number, and for a checkpoint its
        new stdout and stderr.
        """
        self._ends = ends
        self._slate = ends.slate
        # The number of the worker that this process is.
        self.number = number
        self._has_input = has_input
        self._bytes_max = bytes_max
        self._on_wake = on_wake
        self._supervisor = os.getppid()
        self._pid = 0
        self._unreaped: list[int] = []
        # The checkpoint that the current run restores when it ends.
        self.goes_back_to: str | None = None

    def renew(self, run: int, changed: bool) -> int:
        """Replaces the copy after a run. Returns this worker's number, which is a new one in a copy that was woken."""
        if self._pid and not changed:
            self._slate.write(self._pid, run)
            return self.number
        while True:
            size = private_bytes() if self._bytes_max else 0
            if AT_ONCE_BYTES_MAX < size <= self._bytes_max and self._has_input(QUIET_MS):
                # The older copy stays. The slate says which run it follows.
                return self.number
            self._drop()
            if size == 0 or size > self._bytes_max:
                return self.number
            try:
                pid = self._fork(self._ends.spare)
            except Exception:  # no process or memory left, or a handler of user code: nothing to roll back to
                return self.number
            if pid:
                self._pid = pid
                self._slate.write(pid, run)
                return self.number
            # This copy was woken and is the worker now: it needs a copy, too.

    def keep(self, words: Callable[[int], str]) -> str | None:
        """Makes a checkpoint and returns the supervisor's answer. `words` returns what to tell it about a process.

        Returns None in the copy, when it has been woken and is the worker.
        """
        handed, end = fd_passing.stream_pair()
        pid = answer = None
        try:
            pid = self._fork(end, handed)
            if pid == 0:
                return None
            answer = fd_passing.give(self._ends.handover, words(pid), handed)
            return answer
        finally:
            if pid != 0:
                os.close(handed)
                os.close(end)
                if pid is not None:
                    if answer != KEPT:
                        kill(pid, SIGKILL)
                    self._unreaped.append(pid)

    def _drop(self) -> None:
        if self._pid:
            self._slate.write(0, 0)
            kill(self._pid, SIGKILL)
            self._unreaped.append(self._pid)
            self._pid = 0
        self._unreaped = [pid for pid in self._unreaped if not _reaped(pid)]

    def _fork(self, end: int, unwanted: int | None = None) -> int:
        """Forks a copy that sleeps until `end` has input. Returns its process; 0 in the copy, once it is the worker."""
        # `random` seeds itself again in each child.
        random: ModuleType | None = sys.modules.get("random")
        state = random.getstate() if random is not None else None
        pid = _fork_apart()
        if pid:
            return pid
        try:
            # In case user code has allowed tracing of its own process.
            system_calls.forbid_tracing()
            self._pid = 0
            self._unreaped.clear()
            # While these sockets are open here, the supervisor does not see that the worker has ended.
            for fd in {self._ends.spare, self._ends.handover, unwanted} - {end, None}:
                os.close(fd)  # type: ignore[arg-type]
            self._sleep(end)
            if random is not None:
                random.setstate(state)
        except BaseException:  # whatever user code has broken, there must not be two workers
            os._exit(70)
        return 0

    def _sleep(self, end: int) -> None:
        """Returns when the copy is woken. If its socket is closed, the process ends here."""
        while True:
            frames, number, fds = self._woken(end)
            spare, handed, *more = fds
            copy = b""
            if more:
                end, *outputs = more
                try:
                    again = _fork_apart()
                except Exception:  # no process or memory left: the checkpoint is used up
                    again = -1
                if again == 0:
                    for fd in (frames, spare, handed, *outputs):
                        os.close(fd)
                    continue
                os.close(end)
                more = outputs
                copy = b"%d\n" % max(again, 0)
                if again > 0:
                    self._unreaped.append(again)
            self.number = number
            # The sockets that wake copies of this one, and that hand descriptors over.
            self._ends.spare, self._ends.handover = spare, handed
            self._on_wake(frames, number, more)
            os.write(frames, copy + READY)
            return

    def _woken(self, end: int) -> tuple[int, int, list[int]]:
        """Waits, and returns the socket for frames, the new number and the descriptors that came with it."""
        message, fds = fd_passing.receive(end, _MESSAGE_BYTES_MAX)
        if not message.endswith(b"\n") or not fds:
            os._exit(0)
        system_calls.die_with_parent()
        if os.getppid() != self._supervisor:
            os._exit(0)
        return end, int(message), fds


def _fork_apart() -> int:
    """Forks into a process group of its own, so that signals to the worker's group do not reach the copy."""
    pid = os.fork()
    try:
        # Both processes do this, since either may run first.
        os.setpgid(pid, pid)
    except OSError:  # it was killed at once
        pass
    return pid


def _reaped(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:  # user code has already reaped it
        return True
