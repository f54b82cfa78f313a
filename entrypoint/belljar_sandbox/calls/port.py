"""The servers of a run, and the port, which makes calls. Values that were unpickled look the port up here."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol

    class Port(Protocol):
        """An object that makes calls in the current run."""

        async def call(self, server: str | None, tool: str, arguments: object, handle: bool = False) -> Any: ...

        def call_sync(self, server: str | None, tool: str, arguments: object, handle: bool = False) -> Any: ...


class Server(tuple[str, str, str, bool]):
    """A server of the current run. As a tuple, it cannot be changed into another server."""

    __slots__ = ()

    def __new__(cls, name: str, alias: str, description: str, takes_files: bool) -> Server:
        return super().__new__(cls, (name, alias, description, takes_files))

    @property
    def name(self) -> str:
        return self[0]

    @property
    def alias(self) -> str:
        return self[1]

    @property
    def description(self) -> str:
        return self[2]

    @property
    def takes_files(self) -> bool:
        return self[3]


class _Holder:
    port: Port
    made: Callable[..., Any]


def open_port(port: Port, made: Callable[..., Any]) -> None:
    """Called once, at the start of the worker. `made` decides whether a helper returns a coroutine."""
    _Holder.port = port
    _Holder.made = made


def port() -> Port:
    """Returns the port of this process."""
    return _Holder.port


def maker() -> Callable[..., Any]:
    """Returns the function by which a method decides what it returns: maker()(later, now, *arguments).

    That is the coroutine of `later` if the caller of the method awaits it, otherwise the result of `now`.
    """
    return _Holder.made
