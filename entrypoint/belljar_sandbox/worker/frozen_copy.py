"""Copies of the worker that sleep: one forked after each run, from which a run that had to be killed rolls back, and
those that code has made as checkpoints.

It decides nothing: the supervisor wakes a copy when the worker is gone, or lets it go. Threads do not live in it, and
event loops are new.
"""

from __future__ import annotations

import os
import sys
from signal import SIGKILL

from ..kernel import system_calls
from ..kernel.posture import private_bytes
from ..wire import fd_passing
from ..wire.ends import KEPT, READY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from ..wire.ends import Ends

# A fork takes 1 ms for each 40 MiB or so: a larger worker is copied only when nobody waits.
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
        """A worker larger than `bytes_max` is not copied; 0: never. `has_input` waits for it so many milliseconds.

        `on_wake`, in a woken copy: the socket for frames, its number, and of a checkpoint its new stdout and stderr.
        """
        self._ends = ends
        self._slate = ends.slate
        self._number = number
        self._has_input = has_input
        self._bytes_max = bytes_max
        self._on_wake = on_wake
        self._supervisor = os.getppid()
        self._pid = 0
        self._unreaped: list[int] = []
        # The checkpoint that the run under way goes back to when it ends.
        self.goes_back_to: str | None = None

    @property
    def number(self) -> int:
        """Of the worker that this process is."""
        return self._number

    def renew(self, run: int, changed: bool) -> int:
        """After a run; returns the number of the worker that this process is, which in a woken copy is another one."""
        if self._pid and not changed:
            self._slate.write(self._pid, run)
            return self._number
        while True:
            size = private_bytes() if self._bytes_max else 0
            if AT_ONCE_BYTES_MAX < size <= self._bytes_max and self._has_input(QUIET_MS):
                # The older copy stays, and says of which run it is.
                return self._number
            self._drop()
            if size == 0 or size > self._bytes_max:
                return self._number
            try:
                pid = self._fork(self._ends.spare)
            except Exception:  # no process or memory left, or a handler of user code's: there is nothing to go back to
                return self._number
            if pid:
                self._pid = pid
                self._slate.write(pid, run)
                return self._number
            # Woken, as the worker: its first run may be the end of it as well.

    def keep(self, words: Callable[[int], str]) -> str | None:
        """Makes a copy that stays; `words` tell the supervisor of it, and are given its process. What that answers.

        Nothing in the copy, once it has been woken and is the worker.
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
                        _end(pid)
                    self._unreaped.append(pid)

    def _drop(self) -> None:
        if self._pid:
            self._slate.write(0, 0)
            _end(self._pid)
            self._unreaped.append(self._pid)
            self._pid = 0
        self._unreaped = [pid for pid in self._unreaped if not _reaped(pid)]

    def _fork(self, end: int, unwanted: int | None = None) -> int:
        """The copy's process, which sleeps until something comes over `end`; 0 in the copy, once it is the worker."""
        # `random` seeds itself anew in each child.
        random: ModuleType | None = sys.modules.get("random")
        state = random.getstate() if random is not None else None
        pid = _fork_apart()
        if pid:
            return pid
        try:
            # Whatever code has made of its own process.
            system_calls.forbid_tracing()
            self._pid = 0
            self._unreaped.clear()
            # Where it stays open here, nobody hears that the worker has ended.
            for fd in {self._ends.spare, self._ends.handover, unwanted} - {end, None}:
                os.close(fd)  # type: ignore[arg-type]
            self._sleep(end)
            if random is not None:
                random.setstate(state)
        except BaseException:  # whatever user code has put in the way: there must not be two workers
            os._exit(70)
        return 0

    def _sleep(self, end: int) -> None:
        """Until it is woken; a copy that is let go ends here."""
        while True:
            frames, number, fds = self._woken(end)
            spare, handed, *more = fds
            copy = b""
            if more:
                end, *outputs = more
                try:
                    again = _fork_apart()
                except Exception:  # no process or memory left: it is woken this once
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
            self._number = number
            # Those over which copies of this one will be woken, and over which it hands descriptors over.
            self._ends.spare, self._ends.handover = spare, handed
            self._on_wake(frames, number, more)
            os.write(frames, copy + READY)
            return

    def _woken(self, end: int) -> tuple[int, int, list[int]]:
        """The socket for frames, the number and the descriptors that came with it."""
        message, fds = fd_passing.receive(end, _MESSAGE_BYTES_MAX)
        if not message.endswith(b"\n") or not fds:
            os._exit(0)
        system_calls.die_with_parent()
        if os.getppid() != self._supervisor:
            os._exit(0)
        return end, int(message), fds


def _fork_apart() -> int:
    """A child in a group of its own: what the worker does to its own is not meant for a copy."""
    pid = os.fork()
    try:
        # Both do it: whichever comes first counts.
        os.setpgid(pid, pid)
    except OSError:  # it was killed at once
        pass
    return pid


def _end(pid: int) -> None:
    try:
        os.kill(pid, SIGKILL)
    except ProcessLookupError:
        pass


def _reaped(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:  # user code was quicker
        return True
