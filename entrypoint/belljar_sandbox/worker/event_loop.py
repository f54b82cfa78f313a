"""The session's event loop: it runs code that awaits at top level, and its tasks continue from run to run.

Imported when code may need it: asyncio takes 40 ms, and a first run that does not await does not wait for it.
"""

from __future__ import annotations

import asyncio
import sys
from asyncio import CancelledError, Task, all_tasks, new_event_loop, set_event_loop
from asyncio import get_running_loop as get_running_loop
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from .blocking_asyncio import install_asyncio_run
from .interrupts import Interrupts


class LoopUser(Protocol):
    """An object that is told which loop the main thread runs."""

    main_loop: asyncio.AbstractEventLoop | None


class EventLoop:
    # Held here, since user code may remove it from sys.modules.
    asyncio = asyncio

    def __init__(self, interrupts: Interrupts, calls: LoopUser, on_loop: Callable[[Any], None]) -> None:
        """`on_loop` is called with each new loop."""
        install_asyncio_run()
        self._on_loop = on_loop
        self._interrupts = interrupts
        self._calls = calls
        self._loop = self._new_loop()
        self._may_have_tasks = False

    def prepare(self) -> None:
        """Restores the loop if user code has closed or replaced it."""
        if self._loop.is_closed():
            self._loop = self._new_loop()
        set_event_loop(self._loop)

    def _new_loop(self) -> asyncio.AbstractEventLoop:
        loop = new_event_loop()
        self._on_loop(loop)
        return loop

    # `interrupts` looks for this name: if all frames above it belong to asyncio, user code is waiting.
    def drive(self, main: Coroutine[Any, Any, object]) -> object:
        loop = self._loop
        self._may_have_tasks = True
        self._calls.main_loop = loop
        task = None
        try:
            # An interrupt before `interrupts` knows the task would leave the task to the next run that awaits.
            with self._interrupts:
                task = loop.create_task(main)
                self._interrupts.task = task
            return loop.run_until_complete(task)
        except CancelledError as error:
            if self._interrupts.cancelled:
                raise KeyboardInterrupt().with_traceback(error.__traceback__) from None
            raise
        except (KeyboardInterrupt, SystemExit):
            # Raised in a step of some task. The main task still runs its `finally` blocks.
            if task is None:
                main.close()
            elif not task.done():
                task.cancel()
                try:
                    loop.run_until_complete(task)
                except (CancelledError, Exception):
                    pass
            else:
                task.cancelled() or task.exception()
            raise
        finally:
            self._interrupts.task = None

    def unfinished(self) -> list[Task[Any]]:
        """Returns the tasks that are paused until a run awaits again."""
        # A task that was created while the loop was stopped waits in `_ready` for its first step.
        if not self._may_have_tasks and not getattr(self._loop, "_ready", True):
            return []
        tasks = [task for task in all_tasks(self._loop) if not task.done()]
        self._may_have_tasks = bool(tasks)
        return tasks


def leave() -> None:
    """Called in a copy of this process that becomes the worker: leaves the loop and the task that it was copied in."""
    loop = asyncio._get_running_loop()
    if loop is not None:
        task = asyncio.current_task(loop)
        if task is not None:
            asyncio.tasks._leave_task(loop, task)
        asyncio._set_running_loop(None)
        sys.set_asyncgen_hooks(None, None)
