"""Ends processes, with everything that descends from them.

It knows processes by their numbers, and nothing of what they do.
"""

from __future__ import annotations

import os
from select import poll
from signal import SIGCHLD, SIGKILL, SIGSTOP, set_wakeup_fd, signal
from time import monotonic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

KILL_SECONDS_MAX = 8.0
# Of /proc/<pid>/stat: the numbers behind the state, and a flag of the kernel's.
_STAT_PARENT, _STAT_SESSION, _STAT_FLAGS, _STAT_THREADS = 0, 2, 5, 16
_PF_EXITING = 0x4
# How often processes that were not there before are found, and how long those that were killed may take to end,
# before those that were to be spared are killed with them.
SPARING_ROUNDS_MAX = 50
SPARING_SECONDS_MAX = 6.0
# Of a crowd: a ninth of the weight of others. With much less it would take long even to die on a busy machine.
_NICE_OF_CROWD = 10


def ends_of_children() -> int:
    """A descriptor from which a byte can be read whenever a child has ended."""
    read, write = os.pipe()
    for fd in (read, write):
        os.set_blocking(fd, False)
    set_wakeup_fd(write, warn_on_full_buffer=False)
    signal(SIGCHLD, lambda _number, _frame: None)
    return read


def kill(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def kill_descendants(
    spare: int = 0,
    held: frozenset[int] = frozenset(),
    trees: Iterable[int] = (),
    reaped: Callable[[int, int], None] | None = None,
) -> bool:
    """Kills and reaps all of them, but for one that is spared, those that are held, which stand still from then on, and
    the roots of trees with all that descends from them; False when some would not die. `reaped` hears of the status of
    each that has ended."""
    deadline = monotonic() + KILL_SECONDS_MAX
    pause = poll()
    roots = frozenset(trees)
    if spare or held or roots:
        for pid in held.intersection(_ours(_parents()) if held else ()):
            kill(pid, SIGSTOP)
        killed: set[int] = set()
        rounds, sparing_ends = 0, monotonic() + SPARING_SECONDS_MAX
        while rounds < SPARING_ROUNDS_MAX and monotonic() < sparing_ends:
            parents = _parents()
            kept = {spare, *held, *_below(roots, parents)}
            others = {pid for pid in _ours(parents) if pid not in kept}
            if not others:
                return True
            for pid in others:
                kill(pid, SIGKILL)
            reap_all(reaped)
            # One that is dying needs the processor for that, as long as it may take to get it.
            rounds += not others <= killed
            killed |= others
            pause.poll(1)
        # They fork faster than they are found.
    while True:
        if os.getpid() == 1:
            # One call for the whole namespace, which no fork can outrun.
            kill(-1, SIGKILL)
        else:
            for pid in _ours(_parents()):
                kill(pid, SIGKILL)
        if reap_all(reaped):
            return True
        if monotonic() > deadline:
            return False
        pause.poll(1)


def kill_tree(root: int) -> None:
    """A child that adopts its orphans, and all that descends from it: those stand still before the first of them ends,
    so that none is forked meanwhile."""
    stopped: set[int] = set()
    for _ in range(SPARING_ROUNDS_MAX):
        found = _below({root}, _parents()) - stopped
        if not found:
            break
        for pid in found:
            kill(pid, SIGSTOP)
        stopped |= found
    # The root last: what it has adopted would be ours with its end.
    for pid in stopped - {root}:
        kill(pid, SIGKILL)
    kill(root, SIGKILL)


def kill_session(session: int) -> None:
    """What a process that has ended by itself has left behind, as far as that has not left its session."""
    killed = {session}
    for _ in range(SPARING_ROUNDS_MAX):
        found = {pid for pid, fields in _stats() if fields[_STAT_SESSION] == session} - killed
        if not found:
            return
        for pid in found:
            kill(pid, SIGKILL)
        killed |= found


def lower_crowd(spared: Iterable[int], running_max: int) -> None:
    """Where more processes and threads than this run at once, all but the spared ones get a lower priority.

    The worker and this process then wait less for them.
    """
    crowd = _running().difference(spared)
    if len(crowd) > running_max:
        for thread in crowd:
            try:
                os.setpriority(os.PRIO_PROCESS, thread, _NICE_OF_CROWD)
            except OSError:  # it has ended, or has a lower priority already
                pass


def leads_session(pid: int) -> bool:
    """Whether it is one of ours, and leads a session of its own."""
    fields = _stat(pid)
    return fields is not None and fields[_STAT_PARENT] == os.getpid() and fields[_STAT_SESSION] == pid


def is_child(pid: int) -> bool:
    """Whether it is a child of this very process, and lives: then its number is no other's before we have reaped it."""
    try:
        return pid > 1 and os.waitpid(pid, os.WNOHANG)[0] == 0
    except ChildProcessError:
        return False


def is_exiting(pid: int) -> bool:
    fields = _stat(pid)
    return fields is None or bool(fields[_STAT_FLAGS] & _PF_EXITING)


def reap_all(reaped: Callable[[int, int], None] | None = None) -> bool:
    """Whether no child is left."""
    try:
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return False
            if reaped is not None:
                reaped(pid, status)
    except ChildProcessError:
        return True


def _stat(pid: int) -> list[int] | None:
    """The numbers behind the program's name and its state; nothing of a process that is gone."""
    fields = _fields(f"/proc/{pid}/stat")
    return [int(number) for number in fields[1 : _STAT_FLAGS + 2]] if fields else None


def _fields(path: str) -> list[bytes]:
    """The state of a process or thread and the numbers behind it; nothing of one that is gone."""
    try:
        with open(path, "rb") as file:
            return file.read().rpartition(b")")[2].split()
    except OSError:
        return []


def _running() -> set[int]:
    """The threads of all processes that are ours, those that run or wait for a processor."""
    stats = {int(name): _fields(f"/proc/{name}/stat") for name in os.listdir("/proc") if name.isdigit()}
    ours = _ours({pid: int(fields[_STAT_PARENT + 1]) for pid, fields in stats.items() if fields})
    found: set[int] = set()
    for pid in ours:
        threads = {pid: stats[pid]}
        if stats[pid][_STAT_THREADS + 1] != b"1":
            folder = f"/proc/{pid}/task"
            try:
                threads = {int(name): _fields(f"{folder}/{name}/stat") for name in os.listdir(folder)}
            except OSError:  # it has ended
                pass
        found.update(thread for thread, fields in threads.items() if fields[:1] == [b"R"])
    return found


def _stats() -> Iterator[tuple[int, list[int]]]:
    for name in os.listdir("/proc"):
        if name.isdigit() and (fields := _stat(int(name))) is not None:
            yield int(name), fields


def _parents() -> dict[int, int]:
    return {pid: fields[_STAT_PARENT] for pid, fields in _stats()}


def _ours(parents: dict[int, int]) -> set[int]:
    """All other processes that are ours to kill."""
    own = os.getpid()
    return (set(parents) if own == 1 else _below({own}, parents)) - {own}


def _below(roots: Iterable[int], parents: dict[int, int]) -> set[int]:
    """They, as far as they live, and what descends from them."""
    children: dict[int, list[int]] = {}
    for pid, parent in parents.items():
        children.setdefault(parent, []).append(pid)
    found = [pid for pid in roots if pid in parents]
    for pid in found:
        found.extend(children.get(pid, ()))
    return set(found)
