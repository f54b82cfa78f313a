"""Makes asyncio.run work while an event loop runs, by running it in a thread of its own.

It does not support any other nesting of event loops.
"""

from __future__ import annotations

import asyncio
import asyncio.runners
from _thread import allocate_lock, start_new_thread
from asyncio import AbstractEventLoop, CancelledError, Task
from collections.abc import Coroutine
from contextvars import copy_context
from functools import partial, wraps
from typing import Any

_run = asyncio.run
_current_loop = asyncio._get_running_loop
# A signal that comes just before a lock is waited for does not end the wait, and its handler runs only after it.
_LOOK_FOR_SIGNALS_S = 0.1


def install_asyncio_run() -> None:
    """Replaces asyncio.run: code that awaits at top level runs inside an event loop, where asyncio.run would refuse."""

    @wraps(_run)
    def run(main: Coroutine[Any, Any, Any], **options: Any) -> Any:
        if _current_loop() is None:
            return _run(main, **options)
        return _run_on_thread(main, options)

    asyncio.run = run
    asyncio.runners.run = run


def _run_on_thread(main: Coroutine[Any, Any, Any], options: dict[str, Any]) -> Any:
    finished = allocate_lock()
    finished.acquire()
    outcome: list[Any] = []
    stopping: list[bool] = []
    started: list[tuple[AbstractEventLoop, Task[Any]]] = []

    async def supervised() -> Any:
        task = asyncio.current_task()
        assert task is not None
        started.append((asyncio.get_running_loop(), task))
        if stopping:
            raise CancelledError
        return await main

    def work() -> None:
        try:
            outcome.extend((True, copied.run(partial(_run, **options), supervised())))
        except BaseException as error:
            outcome.extend((False, error))
        finally:
            finished.release()

    copied = copy_context()
    start_new_thread(work, ())
    try:
        while not finished.acquire(timeout=_LOOK_FOR_SIGNALS_S):
            pass
    except BaseException:
        stopping.append(True)
        for loop, task in started:
            try:
                loop.call_soon_threadsafe(task.cancel)
            except RuntimeError:  # it has just ended
                pass
        # If the signal came after the first wait, this thread holds the lock already.
        while not outcome and not finished.acquire(timeout=_LOOK_FOR_SIGNALS_S):
            pass
        raise
    succeeded, result = outcome
    if succeeded:
        return result
    raise result
