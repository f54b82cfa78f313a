"""`runtime.checkpoint`, `runtime.restore` and their companions.

A checkpoint is a sleeping copy of the worker (`frozen_copy`) that the supervisor wakes (`checkpoints`). The bridge
lists them. Imported when it is used.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from threading import get_ident, main_thread
from types import FrameType

from ..calls.awaitable import Awaitable
from ..kernel.type_names import Any, NoReturn
from ..wire.ends import KEPT
from ..wire.fd_passing import NotTakenError
from ..wire.names import CHECKPOINT_NAME_CHARACTERS_MAX, is_checkpoint_name
from ..worker.frozen_copy import FrozenCopy
from .interpreter import Interpreter

# A woken checkpoint continues on top of the stack on which it was made, and checkpoints made later add to that.
FRAMES_MAX = 1_000
_MIB = 1 << 20
_REFUSED = "refused: "


class CheckpointError(RuntimeError):
    """A checkpoint cannot be made or restored; the message says why."""

    __module__ = "mcp.runtime"  # where users know it from


class RestoreRequested(SystemExit):
    """Ends the run that restores a checkpoint or resumes a session. If code catches it, the run
    goes on, and the variables are replaced when it ends."""


class CheckpointApi:
    def __init__(self, copy: FrozenCopy, interpreter: Interpreter, go_on_from_here: Callable[[], NoReturn]) -> None:
        """`go_on_from_here` serves runs in a checkpoint that has become the worker."""
        self._copy = copy
        self._calls, self._streams, self._interrupts = interpreter.calls, interpreter.streams, interpreter.interrupts
        self._go_on_from_here = go_on_from_here

    def checkpoint(self, name: str) -> str:
        self._refuse_elsewhere(name, "made")
        line, frames = _place(f"<run {self._calls.run}>")
        if frames > FRAMES_MAX:
            raise CheckpointError(
                f"a checkpoint cannot be made {frames:,} calls deep, at most {FRAMES_MAX:,}: make it further up"
            )
        if not is_checkpoint_name(name):
            raise CheckpointError(f"a checkpoint's name has 1 to {CHECKPOINT_NAME_CHARACTERS_MAX} printable characters")
        self._streams.flush()
        with self._interrupts:
            self._streams.process_starts_are_ours = True
            try:
                answer = self._copy.keep(lambda pid: f"checkpoint {pid} {line} {name}")
            except NotTakenError as error:
                raise CheckpointError(f"checkpoint {name!r} could not be made: {error}") from None
            except OSError as error:
                raise CheckpointError(
                    f"checkpoint {name!r} could not be made, no process or memory is left: {error}"
                ) from None
            finally:
                self._streams.process_starts_are_ours = False
            if answer is None:
                self._become_the_worker(frames)
        if answer != KEPT:
            raise CheckpointError(f"checkpoint {name!r} was not made: {answer.removeprefix(_REFUSED)}")
        return f"checkpoint {name!r}"

    def restore(self, name: str) -> NoReturn:
        self._refuse_elsewhere(name, "gone back to")
        # If it does not exist, this raises, and the run continues.
        self._calls.call_sync(None, "find_checkpoint", {"name": name})
        self._copy.goes_back_to = name
        raise RestoreRequested

    def checkpoints(self) -> Checkpoints:
        self._refuse_in_job()
        return Checkpoints(self._calls.call_sync(None, "list_checkpoints", {}))

    def forget(self, name: str) -> None:
        _refuse_no_text(name)
        self._refuse_in_job()
        self._calls.call_sync(None, "forget_checkpoint", {"name": name})

    def _refuse_elsewhere(self, name: object, what: str) -> None:
        _refuse_no_text(name)
        self._refuse_in_job()
        if self._calls.in_child:
            raise CheckpointError(f"a checkpoint can only be {what} by the main process, not by a forked one")
        if get_ident() != main_thread().ident:
            raise CheckpointError(f"a checkpoint can only be {what} on the main thread: it holds no other ones")

    def _refuse_in_job(self) -> None:
        if self._calls.is_of_job:
            raise CheckpointError("a job has no checkpoints: they are made, and gone back to, in a run")

    def _become_the_worker(self, frames: int) -> NoReturn:
        """Nothing of the run that made the checkpoint continues, neither its `finally` blocks nor its event loop."""
        sys.setrecursionlimit(sys.getrecursionlimit() + frames)
        if "asyncio" in sys.modules:
            from ..worker.event_loop import leave

            leave()
        self._go_on_from_here()


class Checkpoints(Awaitable, list["dict[str, Any]"]):
    """Dicts with name, run, line, seconds (the age), bytes (of the interpreter when it was made) and sleeps.

    sleeps is False if its process was lost; it would be made again from the journal.
    """

    def __repr__(self) -> str:
        if not self:
            return "no checkpoints"
        rows = [("name", "made in", "age", "interpreter", "")]
        for one in self:
            line = f", line {one['line']}" if one.get("line") else ""
            kept = "" if one["sleeps"] else "lost with its sandbox"
            made, size = f"run {one['run']}{line}", f"{one['bytes'] // _MIB} MiB"
            rows.append((repr(one["name"]), made, _age(one["seconds"]), size, kept))
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        return "\n".join(lines)


def _refuse_no_text(name: object) -> None:
    if type(name) is not str:
        raise TypeError(f"a checkpoint's name is a str, not {type(name).__name__}")


def _place(file: str) -> tuple[int, int]:
    """Returns the line of the run's code that is executing, 0 if none is, and the depth of the stack."""
    line = frames = 0
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        frames += 1
        if frame.f_code.co_filename == file:
            line = frame.f_lineno or 0
        frame = frame.f_back
    return line, frames


def _age(seconds: int) -> str:
    if seconds < 60:
        return f"{seconds} s"
    return f"{seconds // 60} min" if seconds < 3600 else f"{seconds // 3600} h {seconds % 3600 // 60} min"
