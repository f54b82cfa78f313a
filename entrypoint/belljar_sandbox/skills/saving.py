"""Saves a function as a skill: collects its source with everything that it needs, checks it, and sends it to the
bridge.

The bridge decides what may be saved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from inspect import isfunction, unwrap
from typing import Any

from ..calls.port import port
from ..calls.results import MCPError
from .check import check
from .definitions import NotOnlyDefinitionsError, compiled
from .loader import SkillLoader
from .sources import SourceCollector, servers_named, test_text


def saving(
    skills: SkillLoader,
    function: Callable[..., Any],
    *,
    description: str | None,
    tags: str | Iterable[str],
    test: Callable[..., Any] | str | None,
) -> str:
    """Saves a skill and returns the answer of the bridge."""
    if not isfunction(unwrap(function)):
        raise TypeError(f"save_tool takes a function, not {type(function).__name__}")
    gathering = SourceCollector(skills, skills.namespace)
    gathering.add(function)
    name = str(function.__name__)
    test_name = None
    if isinstance(test, str):
        test_name = f"test_{name}"
        gathering.add_text(test_name, test_text(test_name, test))
    elif test is not None:
        if not isfunction(unwrap(test)):
            raise TypeError(f"test is a function or a source with asserts, not {type(test).__name__}")
        gathering.add(test)
        test_name = str(test.__name__)
    source = gathering.source()
    try:
        compiled(source, f"<skill {name}>")
    except NotOnlyDefinitionsError as error:
        raise MCPError(f"{name} is not kept: in its source {error}", code="invalid_arguments") from None
    check(name, source, test_name, skills.lend)
    arguments = {
        "name": name,
        "source": source,
        "description": description,
        "tags": [tags] if isinstance(tags, str) else [str(tag) for tag in tags],
        "servers": servers_named(source, skills.lent),
        "test": test_name,
    }
    answer = port().call_sync(None, "save_tool", {key: value for key, value in arguments.items() if value})
    skills.forget(name)
    return answer if isinstance(answer, str) else str(answer)
