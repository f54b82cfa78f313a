"""The functions and numbers of `signal`, from its part in C.

`signal` wraps them in enums, which takes 4 ms at each start and 20 us in each run.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from signal import *  # noqa: F403
else:
    from _signal import *  # noqa: F403
