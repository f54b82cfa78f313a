"""The functions and numbers of `signal`, from its part in C, and a `kill` for processes that may have ended.

`signal` wraps them in enums, which takes 4 ms at each start and 20 us in each run.
"""

from __future__ import annotations

from os import kill as _kill

TYPE_CHECKING = False
if TYPE_CHECKING:
    from signal import *  # noqa: F403
else:
    from _signal import *  # noqa: F403


def kill(pid: int, number: int) -> None:
    try:
        _kill(pid, number)
    except ProcessLookupError:
        pass
