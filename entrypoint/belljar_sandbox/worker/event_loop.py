"""The session's event loop: runs code that awaits at top level, and keeps its tasks from run to run.

Imported when code first may need it: asyncio takes 40 ms, for which a first run that does not await need not wait.
"""

from __future__ import annotations

import asyncio
import sys
from asyncio import CancelledError, Task, all_tasks, new_event_loop, set_event_loop
from asyncio import get_running_loop as get_running_loop
from collections.abc import Coroutine
from typing import Any, Protocol

from .blocking_asyncio import install_asyncio_run
from .interrupts import Interrupts


class LoopUser(Protocol):
    """What reads from the loop that the main thread runs."""

    main_loop: asyncio.AbstractEventLoop | None


class EventLoop:
    # Kept here, since user code may take it out of sys.modules.
    asyncio = asyncio

    def __init__(self, interrupts: Interrupts, calls: LoopUser) -> None:
        install_asyncio_run()
        self._interrupts = interrupts
        self._calls = calls
        self._loop = new_event_loop()
        self._may_have_tasks = False

    def prepare(self) -> None:
        """What user code closed or replaced is as at the start again."""
        if self._loop.is_closed():
            self._loop = new_event_loop()
        set_event_loop(self._loop)

    # The name is known to `interrupts`: above its frame, asyncio alone means that user code waits.
    def drive(self, main: Coroutine[Any, Any, object]) -> object:
        loop = self._loop
        task = loop.create_task(main)
        self._may_have_tasks = True
        self._interrupts.task = task
        self._calls.main_loop = loop
        try:
            return loop.run_until_complete(task)
        except CancelledError as error:
            if self._interrupts.cancelled:
                raise KeyboardInterrupt().with_traceback(error.__traceback__) from None
            raise
        except (KeyboardInterrupt, SystemExit):
            # Raised in a step of some task: the main one gets to run its `finally` blocks.
            if not task.done():
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
        """Tasks that stand still until a run awaits again."""
        # One that was made while the loop stood still waits there for its first step.
        if not self._may_have_tasks and not getattr(self._loop, "_ready", True):
            return []
        tasks = [task for task in all_tasks(self._loop) if not task.done()]
        self._may_have_tasks = bool(tasks)
        return tasks


def leave() -> None:
    """In a copy of this process that takes its place, wherever it stands: no loop runs, and none is in a step."""
    loop = asyncio._get_running_loop()
    if loop is not None:
        task = asyncio.current_task(loop)
        if task is not None:
            asyncio.tasks._leave_task(loop, task)
        asyncio._set_running_loop(None)
        sys.set_asyncgen_hooks(None, None)
