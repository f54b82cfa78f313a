"""Waits so long, and no longer, for code of the user that makes a text of something.

It does not bound code that holds on to the interpreter's lock, nor any that sets a timer of its own.
"""

from __future__ import annotations

# signal.py wraps each of these in enums, which costs 20 us a run.
from _signal import ITIMER_REAL, SIG_DFL, SIGALRM, getitimer, getsignal, setitimer, signal  # type: ignore[import-not-found]
from collections.abc import Callable
from threading import get_ident

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

_MAIN_THREAD = get_ident()


class TooSlow(BaseException):
    """No Exception, so that the slow code does not take it for one of its own."""


def within(seconds: float, make: Callable[[], str]) -> str:
    """What it makes, or TooSlow. In other threads, and where a timer of the user's runs, it may take its time."""
    if get_ident() != _MAIN_THREAD or getitimer(ITIMER_REAL)[0]:
        return make()
    before = getsignal(SIGALRM)
    try:
        signal(SIGALRM, _ring)
        setitimer(ITIMER_REAL, seconds)
        try:
            return make()
        finally:
            setitimer(ITIMER_REAL, 0)
    finally:
        signal(SIGALRM, SIG_DFL if before is None else before)


def _ring(_number: int, _frame: object) -> NoReturn:
    raise TooSlow
