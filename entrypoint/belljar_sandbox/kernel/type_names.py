"""The names of `typing` that annotations use, which are not evaluated: its import takes 3 ms at each start."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import *  # noqa: F403
else:
    Any = NoReturn = Self = object
