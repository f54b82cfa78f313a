"""Records which run started the code that makes a call: the run's own code, its asyncio tasks, and its threads.

A context variable holds the run's number. Tasks copy it when they are created, threads when they are started, and work
for a thread pool when it is submitted. It is not a security boundary, since user code can set the variable.
"""

from __future__ import annotations

import _thread
import threading
from collections.abc import Callable
from contextvars import ContextVar
from functools import partial
from types import ModuleType

from ..kernel.type_names import Any
from .after_import import after_import

# `_start_joinable_thread` exists since Python 3.13.
_STARTERS = ("_start_new_thread", "_start_joinable_thread")

RUN: ContextVar[int | None] = ContextVar("run", default=None)


def install() -> None:
    """Makes new threads and submitted work carry the run's number. To be called before any user code runs."""
    _thread.start_new_thread = _carrying(_thread.start_new_thread)
    for name in _STARTERS:
        if hasattr(threading, name):
            setattr(threading, name, _carrying(getattr(threading, name)))
    after_import("concurrent.futures.thread", _carry_submitted)


def _carrying(start: Callable[..., Any]) -> Callable[..., Any]:
    def start_thread(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        return start(partial(_in_thread, RUN.get(), function) if callable(function) else function, *args, **kwargs)

    return start_thread


def _in_thread(run: int | None, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> None:
    RUN.set(run)
    function(*args, **kwargs)


def _carry_submitted(module: ModuleType) -> None:
    """Makes submitted work carry its run. A pool's threads outlive the run that started them."""
    item = module._WorkItem
    initialize, run_item = item.__init__, item.run

    def initialize_with_run(self: Any, *args: Any, **kwargs: Any) -> None:
        initialize(self, *args, **kwargs)
        self.submitted_in = RUN.get()

    def run_as_submitted(self: Any, *args: Any, **kwargs: Any) -> None:
        token = RUN.set(self.submitted_in)
        try:
            run_item(self, *args, **kwargs)
        finally:
            RUN.reset(token)

    item.__init__, item.run = initialize_with_run, run_as_submitted
