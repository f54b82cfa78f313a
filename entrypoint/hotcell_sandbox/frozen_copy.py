"""A copy of the worker, forked after each run and frozen, from which a run that had to be killed rolls back.

It decides nothing: the supervisor wakes the copy when the worker is gone, or lets it go. Threads do not live in it, and
event loops are new.
"""

from __future__ import annotations

import os
import sys
from _socket import SCM_RIGHTS, SOL_SOCKET, socket
from mmap import PAGESIZE, mmap
from signal import SIGKILL

from . import kernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from .processes import Ends

READY = b"ready\n"
# A fork takes 1 ms for each 40 MiB or so: a larger worker is copied only when nobody waits.
AT_ONCE_BYTES_MAX = 96 << 20
QUIET_MS = 20
_FD_BYTES = 4
_MESSAGE_BYTES_MAX = 64


class Slate:
    """Shared between a worker, its copies and the supervisor: who the copy is, and the run after which it was made.

    What stands there is the worker's word, hence a claim.
    """

    __slots__ = ("_numbers",)

    def __init__(self) -> None:
        self._numbers = memoryview(mmap(-1, PAGESIZE)).cast("Q")

    def write(self, pid: int, run: int) -> None:
        self._numbers[1] = run
        self._numbers[0] = pid

    def read(self) -> tuple[int, int]:
        """The process, 0 for none, and the run."""
        pid, run = self._numbers[0], self._numbers[1]
        return (pid, run) if pid < 1 << 22 and run < 1 << 53 else (0, 0)


class FrozenCopy:
    def __init__(
        self,
        ends: Ends,
        number: int,
        bytes_max: int,
        has_input: Callable[[int], bool],
        on_wake: Callable[[int, int], None],
    ) -> None:
        """A worker larger than `bytes_max` is not copied; 0: never. `has_input` waits for it so many milliseconds."""
        self._ends = ends
        self._slate = ends.slate
        self._number = number
        self._has_input = has_input
        self._bytes_max = bytes_max
        self._on_wake = on_wake
        self._supervisor = os.getppid()
        self._pid = 0
        self._unreaped: list[int] = []

    def renew(self, run: int, changed: bool) -> int:
        """After a run; returns the number of the worker that this process is, which in a woken copy is another one."""
        if self._pid and not changed:
            self._slate.write(self._pid, run)
            return self._number
        size = _private_bytes() if self._bytes_max else 0
        if AT_ONCE_BYTES_MAX < size <= self._bytes_max and self._has_input(QUIET_MS):
            # The older copy stays, and says of which run it is.
            return self._number
        self._drop()
        if size == 0 or size > self._bytes_max:
            return self._number
        # `random` seeds itself anew in each child.
        random: ModuleType | None = sys.modules.get("random")
        state = random.getstate() if random is not None else None
        try:
            pid = os.fork()
        except Exception:  # no process or memory left, or a handler of user code's: there is nothing to go back to
            return self._number
        # What the worker does to its process group is not meant for the copy. Both do it: whichever comes first counts.
        try:
            os.setpgid(pid, pid)
        except OSError:  # it was killed at once
            pass
        if pid:
            self._pid = pid
            self._slate.write(pid, run)
            return self._number
        self._pid = 0
        self._unreaped.clear()
        self._sleep()
        if random is not None:
            random.setstate(state)
        return self._number

    def _drop(self) -> None:
        if self._pid:
            self._slate.write(0, 0)
            try:
                os.kill(self._pid, SIGKILL)
            except ProcessLookupError:
                pass
            self._unreaped.append(self._pid)
            self._pid = 0
        self._unreaped = [pid for pid in self._unreaped if not _reaped(pid)]

    def _sleep(self) -> None:
        """Until it is woken; a copy that is let go ends here."""
        end = socket(fileno=self._ends.spare)
        message, rights, _, _ = end.recvmsg(_MESSAGE_BYTES_MAX, _MESSAGE_BYTES_MAX)
        if not message.endswith(b"\n") or not rights:
            os._exit(0)
        kernel.die_with_parent()
        if os.getppid() != self._supervisor:
            os._exit(0)
        frames = end.detach()
        os.close(self._ends.handover)
        self._number = int(message)
        # Those over which copies of this one will be woken, and over which it hands descriptors over.
        self._ends.spare, self._ends.handover = (
            int.from_bytes(rights[0][2][at : at + _FD_BYTES], sys.byteorder) for at in (0, _FD_BYTES)
        )
        self._on_wake(frames, self._number)
        os.write(frames, READY)


def wake(copy: int, number: int, ends: tuple[int, int]) -> None:
    """The supervisor's side: `copy` is its socket; `ends` are the woken one's: over the first its own copies will be
    woken, over the second it hands descriptors over."""
    end = socket(fileno=copy)
    rights = b"".join(fd.to_bytes(_FD_BYTES, sys.byteorder) for fd in ends)
    try:
        end.sendmsg([b"%d\n" % number], [(SOL_SOCKET, SCM_RIGHTS, rights)])
    finally:
        end.detach()


def _private_bytes() -> int:
    with open("/proc/self/statm", "rb") as file:
        _, resident, shared = file.read().split()[:3]
    return (int(resident) - int(shared)) * PAGESIZE


def _reaped(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:  # user code was quicker
        return True
