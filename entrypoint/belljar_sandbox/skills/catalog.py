"""`runtime.skills`: the saved skills as a list to print, with the source, the versions and the test of each.

It requests the list from the bridge each time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..calls.awaitable import Awaitable
from ..calls.port import given, port
from ..calls.results import MCPError
from .loader import SkillLoader, load_skills

_SHOWN_MAX = 100


class SkillCatalog:
    """The saved skills. Prints one line for each. .show(name), .history(name), .test(name), .rm(name)."""

    def __init__(self, skills: SkillLoader) -> None:
        self._skills = skills

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self._rows())

    def __len__(self) -> int:
        return len(self._rows())

    def __contains__(self, name: object) -> bool:
        return any(row["name"] == name for row in self._rows())

    def __repr__(self) -> str:
        rows = self._rows()
        if not rows:
            return "no skill is kept yet: save_tool(function) keeps one"
        more = [f"and {len(rows) - _SHOWN_MAX} more"] if len(rows) > _SHOWN_MAX else []
        return "\n".join([*map(_line, rows[:_SHOWN_MAX]), *more])

    def show(self, name: str) -> Text:
        """Returns the source with its header."""
        return given(Text(port().call_sync(None, "show_skill", {"name": name})))

    def history(self, name: str) -> Rows:
        """Returns the stored versions, the newest first. The user can restore each: `belljar skill restore`."""
        return given(Rows(port().call_sync(None, "skill_history", {"name": name})))

    def test(self, name: str) -> str:
        """Imports a skill and runs its test again, in a process of its own. MCPError if that fails."""
        from .check import check

        rows = load_skills([name])
        row = rows[0] if rows else {"problem": f"there is no skill {name!r}"}
        if "problem" in row:
            raise MCPError(str(row["problem"]), code="unknown_tool")
        test = next((row.get("test") for row in self._rows() if row["name"] == name), None)
        check(name, str(row["source"]), test, self._skills.lend)
        return given(f"{name} can be imported" + (f", and {test} passes" if test else "; it has no test"))

    def rm(self, name: str) -> str:
        """Removes a skill. The user can restore it: `belljar skill restore`."""
        answer = port().call_sync(None, "remove_skill", {"name": name})
        self._skills.forget(name)
        return given(str(answer))

    def _rows(self) -> list[dict[str, Any]]:
        return list(port().call_sync(None, "list_skills", {}))


class Text(Awaitable, str):
    """A text that is shown without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class Rows(Awaitable, list[dict[str, Any]]):
    """Versions of a skill. Prints one line for each."""

    def __repr__(self) -> str:
        return "\n".join(
            f"version {row['version']}{' (current)' if row['is_current'] else ''}, {row['saved']}: {row['description']}"
            for row in self
        )


def _line(row: dict[str, Any]) -> str:
    if "signature" not in row:
        return f"{row['name']}: {row.get('problem')}"
    about = [row["description"], f"tags: {', '.join(row['tags'])}" if row["tags"] else "", f"version {row['version']}"]
    return f"{row['signature']}  # {'; '.join(part for part in about if part)}"
