"""Bounds the time of user code that makes a text of a value.

It cannot bound code that holds the interpreter's lock or sets a timer of its own.
"""

from __future__ import annotations

from _thread import get_ident
from collections.abc import Callable

from ..kernel.signals import ITIMER_REAL, SIG_DFL, SIGALRM, getitimer, getsignal, setitimer, signal

_MAIN_THREAD = get_ident()


class TooSlow(BaseException):
    """The time is over. Not an Exception, so that the slow code does not catch it."""


def within(seconds: float, make: Callable[[], str]) -> str:
    """Returns the text, or raises TooSlow. Not bounded in other threads, or while a timer of user code runs."""
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


def _ring(_number: int, _frame: object) -> None:
    raise TooSlow
