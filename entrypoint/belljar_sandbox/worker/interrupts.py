"""Handles SIGINT depending on what the main thread is doing.

The bridge decides when to interrupt. If code swallows KeyboardInterrupt, the bridge has the worker replaced.
"""

from __future__ import annotations

import os
from _thread import get_ident
from types import CodeType, FrameType, TracebackType

from ..kernel.signals import SIG_UNBLOCK, SIGINT, pthread_sigmask, signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from asyncio import Task
    from typing import Any

OURS = "<belljar>/"
LIBRARY = os.path.dirname(os.__file__)
# Found by its path instead of an import, which takes 40 ms.
ASYNCIO = os.path.join(LIBRARY, "asyncio")
_INTERRUPT = frozenset((SIGINT,))
_MAIN_THREAD = get_ident()
_SELECTORS = os.path.join(LIBRARY, "selectors.py")


class Interrupts:
    """The handler, and a context manager: within it, an interrupt of the main thread is delayed until its end."""

    def __init__(self) -> None:
        self.run_active = False
        self.task: Task[Any] | None = None
        self.cancelled = False
        # The function that prepares a run and reports on it. It is not interrupted itself, but what it calls is.
        self.run_code: CodeType | None = None
        self._depth = 0
        self._pending = False

    def arm(self) -> None:
        """Restores the handler, which user code may have changed."""
        signal(SIGINT, self._handle)
        pthread_sigmask(SIG_UNBLOCK, _INTERRUPT)

    def begin_run(self) -> None:
        """Drops interrupts that were meant for an earlier run."""
        self._pending = False
        self._depth = 0
        self.cancelled = False
        self.task = None

    def __enter__(self) -> None:
        if get_ident() == _MAIN_THREAD:
            self._depth += 1

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if get_ident() == _MAIN_THREAD:
            self._depth -= 1
            if self._pending and self._depth == 0 and self.run_active:
                self._pending = False
                raise KeyboardInterrupt

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if not self.run_active:
            return
        if self._depth or (frame is not None and frame.f_code is self.run_code):
            self._pending = True
            return
        task = self.task
        if task is None or _in_user_code(frame):
            raise KeyboardInterrupt
        # The event loop waits or is between two steps. An exception raised here would hit asyncio itself.
        self.cancelled = True
        task.get_loop().call_soon_threadsafe(task.cancel)


def _in_user_code(frame: FrameType | None) -> bool:
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith(OURS):
            if frame.f_code.co_name == "drive":
                return False
        elif not file.startswith(ASYNCIO) and file != _SELECTORS:
            return True
        frame = frame.f_back
    return False
