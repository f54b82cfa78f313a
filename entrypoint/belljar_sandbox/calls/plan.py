"""Lists the calls of a block of code. In a dry run, calls that may change something are not made.

The bridge decides which calls are made.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..display.text import begin
from ..wire.frames import Frame
from .awaitable import Awaitable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol, Self

    class Planning(Protocol):
        """An object that lists its calls in a plan while one is open."""

        plan: Plan | None


_LINES_MAX = 50
_LINE_CHARACTERS_MAX = 300


class PlannedCall:
    """A call of the block, as the code made it."""

    def __init__(self, server: str, tool: str, arguments: object) -> None:
        self.server = server
        self.tool = tool
        self.arguments: dict[str, Any] = dict(arguments) if isinstance(arguments, Mapping) else {}
        self.outcome = "not answered"

    def ended(self, frame: Frame) -> None:
        if "planned" in frame:
            self.outcome = "not made"
        elif "fault" in frame:
            self.outcome = "refused"
        else:
            self.outcome = "made"

    def __repr__(self) -> str:
        arguments = ", ".join(f"{name}={value!r}" for name, value in self.arguments.items())
        return begin(f"{self.server}.{self.tool}({arguments})", _LINE_CHARACTERS_MAX)


class Plan(Awaitable):
    """A block whose calls are listed: `.calls` has all of them, in order, each with `.outcome`."""

    def __init__(self, calls: Planning, dry_run: bool) -> None:
        self.dry_run = dry_run
        self.calls: list[PlannedCall] = []
        self._calls = calls

    def begin(self, server: str, tool: str, arguments: object) -> PlannedCall:
        call = PlannedCall(server, tool, arguments)
        self.calls.append(call)
        return call

    def __enter__(self) -> Self:
        if self._calls.plan is not None:
            raise RuntimeError("a plan is open already: leave its block first")
        self._calls.plan = self
        return self

    def __exit__(self, *_error: object) -> None:
        if self._calls.plan is self:
            self._calls.plan = None

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(self, *_error: object) -> None:
        self.__exit__()

    def __repr__(self) -> str:
        calls = f"{len(self.calls)} call{'' if len(self.calls) == 1 else 's'}"
        lines = [f"{'plan of a dry run' if self.dry_run else 'plan'}, {calls}:"]
        lines += [f"  {call.outcome}: {call!r}" for call in self.calls[:_LINES_MAX]]
        if len(self.calls) > _LINES_MAX:
            lines.append(f"  and {len(self.calls) - _LINES_MAX} more, in .calls")
        return "\n".join(lines)
