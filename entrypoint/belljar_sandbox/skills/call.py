"""Calls a skill for somebody who stands outside: `belljar skill run` has the sandbox do this.

It prints the result: text as it is, anything else as JSON where that can say it, and nothing of None.
"""

from __future__ import annotations

import json
from typing import Any

from ..calls.results import MCPError


async def call(name: str, arguments: str) -> None:
    """`arguments`: JSON, an object by name or an array by place."""
    import skills  # type: ignore[import-not-found] # the runtime makes it

    given = json.loads(arguments)
    try:
        function = getattr(skills, name)
    except AttributeError as error:
        raise MCPError(f"there is no skill {name!r} any more: {error}") from None
    value = function(*given) if isinstance(given, list) else function(**given)
    if hasattr(value, "__await__"):
        value = await value
    if value is not None:
        print(_shown(value))


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        return str(value)
