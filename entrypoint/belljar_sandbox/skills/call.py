"""Calls a skill for `belljar skill run`.

It prints the result: text unchanged, other values as JSON if possible, and nothing for None.
"""

from __future__ import annotations

import json
from typing import Any

from ..calls.results import MCPError


async def call(name: str, arguments: str) -> None:
    """Calls a skill and prints its result. `arguments`: JSON, an object for named ones or an array for positional
    ones."""
    import skills  # type: ignore[import-not-found, unused-ignore] # the runtime makes it

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
