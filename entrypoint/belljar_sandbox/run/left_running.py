"""Names what a run leaves running: threads, tasks and programs. What they print later is said to be an earlier run's.

Processes that were forked without a new program are not looked for: the worker's own copies are such processes.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Sequence
from weakref import WeakKeyDictionary, WeakSet

from ..display.text import listed
from ..kernel.posture import read
from ..kernel.type_names import Any

_NAMES_MAX = 5
_NAME_CHARACTERS_MAX = 80
_enumerate_threads, _main_thread = threading.enumerate, threading.main_thread()
_getpid, _getppid, _listdir = os.getpid, os.getppid, os.listdir


class LeftRunning:
    """What earlier runs have left, with the number of the run."""

    def __init__(self) -> None:
        self.run = 0
        self._named: WeakSet[Any] = WeakSet()
        self._tasks: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
        # By process and the time of its start: its name, its run, and how much it had written when the last run ended.
        self._programs: dict[tuple[int, str], tuple[str, int, int]] = {}
        self._failed: list[str] = []

    def note(
        self, notes: list[str], threads: bool, tasks: Sequence[Any], started_process: bool, writers: Sequence[int]
    ) -> None:
        """Adds notes at the end of a run. `threads` and `started_process`: whether there may be any. `writers`: the
        earlier runs whose threads or tasks have written."""
        _add(
            notes,
            "some of this output is that of threads or tasks which earlier runs left",
            map("run {}".format, writers),
        )
        notes += self._failed
        self._failed.clear()
        found = [one for one in _enumerate_threads() if one is not _main_thread and one.is_alive()] if threads else []
        for things, what in (
            (found, "threads still running"),
            (tasks, "asyncio tasks paused until a run awaits again"),
        ):
            new = [thing for thing in things if thing not in self._named]
            if new:
                self._named.update(new)
                _add(notes, what, map(_name, new))
        if started_process or self._programs:
            self._note_programs(self.run, notes)

    def watch(self, loop: Any) -> None:
        """Notes which run each task of the loop belongs to."""
        of_loop = loop.create_task

        def create_task(*arguments: Any, **options: Any) -> Any:
            task = of_loop(*arguments, **options)
            self._tasks[task] = self.run
            return task

        loop.create_task = create_task
        loop.set_exception_handler(self._task_failed)

    def _task_failed(self, loop: Any, context: dict[str, Any]) -> None:
        """Handles an error that no code has retrieved: that of an earlier run's task becomes a note."""
        task = context.get("future") or context.get("task")
        run = self._tasks.get(task, self.run) if task is not None else self.run
        if run == self.run:
            loop.default_exception_handler(context)
        else:
            error = context.get("exception")
            said = f"{type(error).__name__}: {error}"[: 2 * _NAME_CHARACTERS_MAX]
            self._failed.append(f"the asyncio task {_name(task)} of run {run} has failed: {said}")

    def _note_programs(self, run: int, notes: list[str]) -> None:
        before, self._programs = self._programs, {}
        own = _read(_getpid(), "cmdline")
        new, written = [], []
        for process, arguments in _children(own):
            name, of_run, bytes_before = before.pop(process, ("", run, 0))
            name = name or " ".join(arguments.rstrip("\0").split("\0"))[:_NAME_CHARACTERS_MAX]
            bytes_now = _written(process[0])
            self._programs[process] = (name, of_run, bytes_now)
            if of_run == run:
                new.append(f"{name} (process {process[0]})")
            elif bytes_now != bytes_before:
                written.append(f"{name} (run {of_run})")
        written += [f"{name} (run {of_run}, ended since)" for name, of_run, _ in before.values()]
        _add(notes, "programs still running, whose output later replies will have", new)
        _add(notes, "some of this output may be that of programs which earlier runs left", written)


def _children(own: str) -> Iterable[tuple[tuple[int, str], str]]:
    """Returns the programs whose parent is this process or, if that has ended, the supervisor."""
    for entry in _listdir("/proc"):
        if not entry.isdecimal():
            continue
        # The name of the program in parentheses may hold anything; then come the state and the parent.
        fields = _read(int(entry), "stat").rpartition(")")[2].split()
        if len(fields) < 20 or fields[0] in "ZX" or int(fields[1]) not in (_getpid(), _getppid()):
            continue
        arguments = _read(int(entry), "cmdline")
        if arguments and arguments != own:
            yield (int(entry), fields[19]), arguments


def _written(process: int) -> int:
    """Returns how many bytes the process has written anywhere; 0 if that is not known."""
    counts = dict(line.split(": ", 1) for line in _read(process, "io").splitlines() if ": " in line)
    return int(counts.get("wchar", 0))


def _read(process: int, name: str) -> str:
    """Returns an empty text if the process has ended, or may not be looked at."""
    return read(f"/proc/{process}/{name}")


def _add(notes: list[str], what: str, things: Iterable[str]) -> None:
    names = list(things)
    if names:
        notes.append(f"{what}: {listed(names, _NAMES_MAX)}")


def _name(thing: Any) -> str:
    try:
        if isinstance(thing, threading.Thread):
            return str(thing.name)[:_NAME_CHARACTERS_MAX]
        return f"{getattr(thing.get_coro(), '__qualname__', '')} ({thing.get_name()})"[:_NAME_CHARACTERS_MAX]
    except Exception:
        return "?"
