"""Kills processes with their descendants, and lowers the priority of processes when too many run at once.

It knows processes by their numbers only.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from select import poll
from time import monotonic

from ..kernel.posture import oom_kills
from ..kernel.signals import SIGCHLD, SIGKILL, SIGSTOP, kill, set_wakeup_fd, signal

KILL_SECONDS_MAX = 8.0
# Positions in /proc/<pid>/stat, counted from the field after the state; and a flag of the kernel.
_STAT_PARENT, _STAT_SESSION, _STAT_FLAGS, _STAT_THREADS = 0, 2, 5, 16
_PF_EXITING = 0x4
# How many rounds may find new processes, and how long killed ones may take to end. After that, everything is killed,
# including what was to be spared.
SPARING_ROUNDS_MAX = 50
SPARING_SECONDS_MAX = 6.0
# This gives a crowd a ninth of the weight of others. With much less, killed processes would take long to end.
_NICE_OF_CROWD = 10


def ends_of_children() -> int:
    """Returns a descriptor that has a byte to read whenever a child has ended."""
    read, write = os.pipe()
    for fd in (read, write):
        os.set_blocking(fd, False)
    set_wakeup_fd(write, warn_on_full_buffer=False)
    signal(SIGCHLD, lambda _number, _frame: None)
    return read


def kill_descendants(
    spare: int = 0,
    held: frozenset[int] = frozenset(),
    trees: Iterable[int] = (),
    reaped: Callable[[int, int], None] | None = None,
) -> bool:
    """Kills and reaps all descendants. Returns False if some do not end.

    Not killed are `spare`, the processes of `held`, which are stopped, and the roots in `trees` with their descendants.
    `reaped` is called with the number and the status of each that has ended.
    """
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
            # A killed process needs processor time to end, for which it may have to wait.
            rounds += not others <= killed
            killed |= others
            pause.poll(1)
        # The processes fork faster than this finds them, or do not end: from here on, none is spared.
    while True:
        if os.getpid() == 1:
            # One call for the whole namespace, which forks cannot outrun.
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
    """Kills a child that adopts orphans, with its descendants. All are stopped before the first one is killed, so that
    none is forked meanwhile."""
    stopped: set[int] = set()
    for _ in range(SPARING_ROUNDS_MAX):
        found = _below({root}, _parents()) - stopped
        if not found:
            break
        for pid in found:
            kill(pid, SIGSTOP)
        stopped |= found
    # The root last: when it ends, what it adopted becomes ours.
    for pid in stopped - {root}:
        kill(pid, SIGKILL)
    kill(root, SIGKILL)


def kill_session(session: int) -> None:
    """Kills what a process that ended by itself has left behind in its session."""
    killed = {session}
    for _ in range(SPARING_ROUNDS_MAX):
        found = {pid for pid, fields in _stats() if fields[_STAT_SESSION] == session} - killed
        if not found:
            return
        for pid in found:
            kill(pid, SIGKILL)
        killed |= found


def lower_crowd(spared: Iterable[int], running_max: int) -> None:
    """If more processes and threads than this run at once, lowers the priority of all except the spared ones.

    The worker and the supervisor then wait less for the processor.
    """
    crowd = _running().difference(spared)
    if len(crowd) > running_max:
        for thread in crowd:
            try:
                os.setpriority(os.PRIO_PROCESS, thread, _NICE_OF_CROWD)
            except OSError:  # it has ended, or has a lower priority already
                pass


def close_all_but(*kept: int) -> None:
    """Closes all descriptors above 2 except these, in a fork of this process."""
    for fd in map(int, os.listdir("/proc/self/fd")):
        if fd > 2 and fd not in kept:
            try:
                os.close(fd)
            except OSError:  # the descriptor that listed the folder
                pass


def leads_session(pid: int) -> bool:
    """Whether the process is a child of this one and leads a session of its own."""
    fields = _stat(pid)
    return fields is not None and fields[_STAT_PARENT] == os.getpid() and fields[_STAT_SESSION] == pid


def is_child(pid: int) -> bool:
    """Whether the process is a living child of this one. Its number cannot be reused before it is reaped here."""
    try:
        return pid > 1 and os.waitpid(pid, os.WNOHANG)[0] == 0
    except ChildProcessError:
        return False


def is_exiting(pid: int) -> bool:
    fields = _stat(pid)
    return fields is None or bool(fields[_STAT_FLAGS] & _PF_EXITING)


def reap_all(reaped: Callable[[int, int], None] | None = None) -> bool:
    """Reaps children that have ended. Returns whether no child is left."""
    try:
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return False
            if reaped is not None:
                reaped(pid, status)
    except ChildProcessError:
        return True


def end_of(status: int | None, requested: bool, oom_before: int) -> dict[str, object]:
    """Returns the fields of a frame that tells how a process ended. `oom_before`: `oom_kills` at its start."""
    code = os.waitstatus_to_exitcode(status or 0)
    how = {"exit_code": code} if code >= 0 else {"signal": -code}
    return {**how, "oom": code == -SIGKILL and not requested and oom_kills() > oom_before, "requested": requested}


def _stat(pid: int) -> list[int] | None:
    """Returns the numbers of /proc/<pid>/stat after the state; None if the process has ended."""
    fields = _fields(f"/proc/{pid}/stat")
    return [int(number) for number in fields[1 : _STAT_FLAGS + 2]] if fields else None


def _fields(path: str) -> list[bytes]:
    """Returns the state of a process or thread and the numbers after it; empty if it has ended."""
    try:
        with open(path, "rb") as file:
            return file.read().rpartition(b")")[2].split()
    except OSError:
        return []


def _running() -> set[int]:
    """Returns the threads of our processes that run or wait for a processor."""
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
    """Returns all other processes of this sandbox, or the descendants of this process where it is not PID 1."""
    own = os.getpid()
    return (set(parents) if own == 1 else _below({own}, parents)) - {own}


def _below(roots: Iterable[int], parents: dict[int, int]) -> set[int]:
    """Returns the roots that are alive, and their descendants."""
    children: dict[int, list[int]] = {}
    for pid, parent in parents.items():
        children.setdefault(parent, []).append(pid)
    found = [pid for pid in roots if pid in parents]
    for pid in found:
        found.extend(children.get(pid, ()))
    return set(found)
