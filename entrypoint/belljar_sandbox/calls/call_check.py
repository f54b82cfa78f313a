"""Refuses code with calls of tools that cannot succeed, before any of it runs, and reports all of them at once.

The bridge judges the calls. It says nothing about servers whose tools it does not know yet.
"""

from __future__ import annotations

from ..display.text import begin
from .calls import Calls
from .results import InvalidCallError, MCPError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .literal_calls import LiteralCall

_CODE_CHARACTERS_MAX = 200_000
_CALLS_MAX = 100
_SHOWN_MAX = 5
_LINE_CHARACTERS_MAX = 100
_MESSAGE_CHARACTERS_MAX = 1_300


def refuse_what_cannot_succeed(code: str, calls: Calls, namespace: dict[str, Any]) -> None:
    """Raises InvalidCallError, or ImportError if only imports are wrong, which names the lines.

    Code without calls only pays for the first test.
    """
    if ("mcp" not in code and "call_tool" not in code) or len(code) > _CODE_CHARACTERS_MAX:
        return
    try:
        # Imported here, so that a first run without calls does not wait for it.
        from .literal_calls import literal_calls

        found = literal_calls(code, namespace)[:_CALLS_MAX]
    except Exception:  # user code has replaced something that this needs
        return
    if not found:
        return
    asked = [
        {
            "server": call.server,
            "tool": call.tool,
            "names": call.names,
            "by_place": call.by_place,
            "is_certain": not call.is_conditional,
        }
        for call in found
    ]
    try:
        faults = calls.call_sync(None, "check_calls", {"calls": asked})
    except MCPError:  # the calls themselves will fail with the reason
        return
    if not isinstance(faults, list):
        return
    wrong = [(call, fault) for call, fault in zip(found, faults, strict=False) if fault]
    if wrong:
        line = wrong[0][0].line
        if all(call.is_import for call, _ in wrong):
            error = ImportError(_message(code, wrong, "import"))
            setattr(error, "line", line)
            raise error
        raise InvalidCallError(_message(code, wrong, "call"), line=line)


def _message(code: str, wrong: list[tuple[LiteralCall, dict[str, str]]], kind: str) -> str:
    lines = code.split("\n")
    count = f"{len(wrong)} {kind}s" if len(wrong) > 1 else "an import" if kind == "import" else "a call"
    parts = [f"nothing was run, since {count} in the code cannot succeed:"]
    hints: dict[int, str] = {}
    for call, fault in wrong[:_SHOWN_MAX]:
        source = begin(lines[call.line - 1].strip(), _LINE_CHARACTERS_MAX)
        parts.append(f"line {call.line}: {source}\n  " + fault["message"].replace("\n", "\n  "))
        if fault["hint"] and fault["hint"] not in hints.values():
            hints[len(parts) - 1] = fault["hint"]
    if len(wrong) > _SHOWN_MAX:
        parts.append(f"(+{len(wrong) - _SHOWN_MAX} more)")
    if any(fault["code"] == "unknown_tool" for _, fault in wrong):
        parts.append("(A tool that an earlier line adds: call it in a later run, or in a `try`.)")
    # The faults are more important than the hints, if there is no room for both.
    room = _MESSAGE_CHARACTERS_MAX - sum(map(len, parts))
    for at, hint in hints.items():
        if len(hint) <= room:
            room -= len(hint)
            parts[at] += "\n  " + hint.replace("\n", "\n  ")
    return "\n".join(parts)
