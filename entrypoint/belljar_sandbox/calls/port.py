"""The servers of a run, and the port, which makes calls. Values that were unpickled look the port up here."""

from __future__ import annotations

from operator import itemgetter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol, TypeVar

    T = TypeVar("T")

    class Port(Protocol):
        """An object that makes calls in the current run."""

        async def call(self, server: str | None, tool: str, arguments: object, handle: bool = False) -> Any: ...

        def call_sync(self, server: str | None, tool: str, arguments: object, handle: bool = False) -> Any: ...


class Server(tuple[str, str, str, bool]):
    """A server of the current run. As a tuple, it cannot be changed into another server."""

    __slots__ = ()

    def __new__(cls, name: str, alias: str, description: str, takes_files: bool) -> Server:
        return super().__new__(cls, (name, alias, description, takes_files))

    name, alias, description, takes_files = (property(itemgetter(place)) for place in range(4))


_port: Port
_made: Callable[..., Any]


def open_port(port: Port, made: Callable[..., Any]) -> None:
    """Called once, at the start of the worker. `made` decides whether a helper returns a coroutine."""
    global _port, _made
    _port, _made = port, made


def port() -> Port:
    """Returns the port of this process."""
    return _port


def asked(helper: str, read: Callable[[Any], T], /, **arguments: Any) -> T:
    """Asks the bridge for its caller, as a coroutine if that is awaited. Arguments that are None are left to the
    bridge."""
    arguments = {name: value for name, value in arguments.items() if value is not None}

    async def later() -> T:
        return read(await _port.call(None, helper, arguments))

    answer: T = _made(later, lambda: read(_port.call_sync(None, helper, arguments)))
    return answer


def given(value: T) -> T:
    """Returns a value that is already known, or a coroutine with it if the caller of this function's caller awaits."""

    async def later() -> T:
        return value

    same: T = _made(later, lambda: value)
    return same
