"""Values that can be awaited although they are there already.

With them nobody needs to know which helper waits for something. See `awaiting` for when a helper returns a coroutine.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator
    from typing import Any, Self


class Awaitable:
    """`await` gives the value itself."""

    __slots__ = ()

    def __await__(self) -> Generator[Any, Any, Self]:
        return self
        yield
