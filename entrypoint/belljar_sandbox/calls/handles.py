"""Handles: references to results of tools that stay on the host.

A handle has a number and the path to a part of the result. In calls, the bridge replaces it by the value.
"""

from __future__ import annotations

from ..kernel.type_names import Any, NoReturn
from .arguments import Reference
from .awaitable import Awaitable
from .port import asked, port
from .results import unwrap

_KEY = "belljar/handle"
_HEAD_CHARACTERS = 1000
_ELSEWHERE = "its result is on the host; handle.load() brings it here"


class Handle(Reference):
    """A tool's result that stays on the host, or a part of it: an argument for further calls.

    handle["rows"][0] and handle.json (its text read as JSON) are parts. They are not checked before they are used.
    """

    __module__ = "mcp.runtime"  # where users know it from

    def __init__(self, told: dict[str, Any], path: tuple[str | int, ...] = (), json: bool = False) -> None:
        Reference.made += 1
        self._told = told
        self._path = path
        self._json = json

    @property
    def number(self) -> int:
        return int(self._told["handle"])

    @property
    def server(self) -> str:
        return str(self._told["server"])

    @property
    def tool(self) -> str:
        return str(self._told["tool"])

    @property
    def bytes(self) -> int:
        """The size of the whole result, as the server sent it."""
        return int(self._told["bytes"])

    @property
    def json(self) -> Handle:
        return Handle(self._told, self._path, True)

    def __getitem__(self, key: str | int) -> Handle:
        if type(key) is not str and type(key) is not int:
            raise TypeError(f"a handle takes keys and places of items, not {type(key).__name__}; .load() it for more")
        return Handle(self._told, (*self._path, key), self._json)

    def load(self) -> Any:
        """Returns the value that the call itself would have returned. Works with and without await."""
        return asked("load_handle", self._loaded, reference=self._reference())

    def head(self, characters: int = _HEAD_CHARACTERS) -> str:
        """Returns the beginning of a text, or of another value as JSON. Works with and without await."""
        return asked("load_handle", str, reference=self._reference(), chars=[0, max(0, int(characters))])

    def drop(self) -> None:
        """Deletes the result from the host. No part of it can be used any more. Works with and without await."""
        return asked("drop_handle", lambda _dropped: None, number=self.number)

    load_sync, head_sync, drop_sync = load, head, drop

    def as_argument(self) -> dict[str, object]:
        return {_KEY: self._reference()}

    def __reduce__(self) -> tuple[Any, ...]:
        return Handle, (self._told, self._path, self._json)

    def _reference(self) -> dict[str, object]:
        return {"number": self.number, "path": list(self._path), "json": self._json}

    def _loaded(self, value: Any) -> Any:
        if self._path or self._json:
            return value
        return unwrap(value, self.server, self.tool, self._told.get("wraps") is True)

    def __iter__(self) -> NoReturn:
        self._refuse("be gone through")

    def __contains__(self, _thing: object) -> NoReturn:
        self._refuse("be looked into")

    def __len__(self) -> int:
        raise TypeError(f"a handle has no length here: {_ELSEWHERE}")

    def __bool__(self) -> bool:
        return True

    def _refuse(self, what: str) -> NoReturn:
        raise TypeError(f"a handle cannot {what}: {_ELSEWHERE}")

    def __repr__(self) -> str:
        path = "".join(f"[{step!r}]" for step in self._path)
        part = f"{path}{'.json' if self._json else ''} of " if path or self._json else ""
        name = f"{self.server}.{self.tool}"
        return f"<{part}handle {self.number}: {self._told['told']} from {name}, {self.bytes:,} bytes>"


class Handles(Awaitable, list[Handle]):
    """All results that are on the host."""

    def __repr__(self) -> str:
        return "\n".join(map(repr, self)) or "no handles"


def kept() -> Handles:
    return Handles(map(Handle, port().call_sync(None, "handles", {})))
