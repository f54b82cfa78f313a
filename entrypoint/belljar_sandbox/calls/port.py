"""The way to the bridge, for values that live as long as the process or were unpickled in it.

Everything else is given the calls that it makes.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol

    class Port(Protocol):
        """What makes calls of the current run."""

        async def call(self, server: str | None, tool: str, arguments: object, handle: bool = False) -> Any: ...

        def call_sync(self, server: str | None, tool: str, arguments: object, handle: bool = False) -> Any: ...


class _Holder:
    port: Port


def open_port(port: Port) -> None:
    """Once, at the start of the worker."""
    _Holder.port = port


def port() -> Port:
    """That of this process."""
    return _Holder.port
