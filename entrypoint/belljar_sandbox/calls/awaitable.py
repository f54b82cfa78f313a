"""Values that can be awaited although they are already available.

Code can therefore await the result of every helper. `run/await_detection.py` decides when a helper returns a coroutine
instead.
"""

from __future__ import annotations

from collections.abc import Generator

from ..kernel.type_names import Any, Self


class Awaitable:
    """`await` returns the value itself."""

    __slots__ = ()

    def __await__(self) -> Generator[Any, Any, Self]:
        return self
        yield
