"""The result of a search for tools: a list of hits that prints one line for each, and names servers that are missing.

The bridge searches and ranks.
"""

from __future__ import annotations

from json.encoder import JSONEncoder
from typing import Any

from ..display.text import begin
from .awaitable import Awaitable

_json = JSONEncoder(ensure_ascii=False).encode
_UNAVAILABLE_SHOWN_MAX = 10
_INDEXING_SHOWN_MAX = 10
_QUERY_CHARACTERS_MAX = 80
# The form of a search with several wordings.
_WORDINGS = 'print(runtime.search_tool_docs(["show unstaged changes", "git diff"]))'
# The servers that could not be searched, and why, as far as this session has printed them.
_said: set[tuple[str, str]] = set()


class SearchResults(Awaitable, list[dict[str, Any]]):
    """One page of hits, best first. Each has server, serverAlias, tool, toolAlias, signature and usually description.

    total: how many were found; weak: whether no tool matches well; offset: how many come before this page; tools,
    servers, skills: how many were searched, where skills also count as tools; a hit that is a skill has skill: True,
    and one of a tool that its server marks as read-only has readOnly: True; unavailable: servers that could not be
    searched, with the reason; folders: those that servers of the hits were started with, by alias; indexing: servers
    that have not answered yet.
    """

    def __init__(self, answer: dict[str, Any], query: str | list[str], by_server: bool) -> None:
        super().__init__(answer["hits"])
        self.query = query
        self.total: int = answer["total"]
        self.weak: bool = answer["weak"]
        self.offset: int = answer["offset"]
        self.tools: int = answer["tools"]
        self.servers: int = answer["servers"]
        self.skills: int = answer["skills"]
        self.unavailable: list[dict[str, str]] = answer["unavailable"]["servers"]
        self.indexing: list[str] = answer["indexing"]
        self.folders: dict[str, list[str]] = answer.get("folders", {})
        self._unavailable_total: int = answer["unavailable"]["total"]
        self._indexing_total: int = answer["indexing_total"]
        self._indexing_seconds: int | None = answer.get("indexing_seconds")
        self._by_server = by_server
        self._asked = [text for text in ([query] if isinstance(query, str) else query) if text.strip()]
        # Decided when this is printed for the first time.
        self._says_reasons: bool | None = None

    def __repr__(self) -> str:
        return "\n".join([self._header(), *self._not_answered(), *self._weak(), *self._lines(), *self._left_out()])

    def _header(self) -> str:
        quoted = " or ".join(repr(begin(query, _QUERY_CHARACTERS_MAX)) for query in self._asked)
        what = f"for {quoted}" if quoted else "of all"
        if self._indexing_total:
            # First, so that the hits are not taken for all that there are.
            what += " so far"
        if not self.total:
            skills = f" and {_count(self.skills, 'skill')}" if self.skills else ""
            tools = _count(self.tools - self.skills, "tool")
            servers = _count(self.servers - self._indexing_total, "server")
            return f"no tool {what}: {tools} of {servers}{skills} searched"
        if not self:
            return f"none from {self.offset} on: {_count(self.total, 'tool')} {what}"
        last = self.offset + len(self)
        page = f"{len(self)}" if self.offset == 0 else f"{self.offset + 1}-{last}"
        more = f"; the next: offset={last}" if last < self.total else ""
        return f"{page} of {_count(self.total, 'tool')} {what}{more}"

    def _not_answered(self) -> list[str]:
        if not self._indexing_total:
            return []
        names = self.indexing[:_INDEXING_SHOWN_MAX]
        more = self._indexing_total - len(names)
        have, them = ("has", "it") if self._indexing_total == 1 else ("have", "them")
        time = f"; a start may take {self._indexing_seconds} s" if self._indexing_seconds else ""
        return [
            f"INCOMPLETE: {self._indexing_total} of {_count(self.servers, 'server')} {have} not answered yet "
            f"(search again to wait for {them}{time}): {', '.join(names)}{f' and {more} more' if more else ''}"
        ]

    def _weak(self) -> list[str]:
        # While servers are missing, the advice is to wait for them.
        if not self.weak or self.offset or self._indexing_total:
            return []
        if len(self._asked) > 1:
            return ["WEAK: if none of these does it, try other plain wordings; there may be no such tool"]
        return [
            f"WEAK: if none of these does it, search again with two or three plain wordings of it, such as {_WORDINGS}"
        ]

    def _lines(self) -> list[str]:
        lines: list[str] = []
        server: object = None
        for hit in self:
            if self._by_server and hit.get("server") != server:
                server = hit.get("server")
                lines.append(f"{server} ({hit.get('serverHits')} found):")
            lines.extend(_line(hit, "  " if self._by_server else ""))
        return lines

    def _left_out(self) -> list[str]:
        lines = [f"mcp_{alias} was started with {', '.join(paths)}" for alias, paths in self.folders.items()]
        reasons = {(row["server"], row["reason"]) for row in self.unavailable}
        if self._says_reasons is None:
            self._says_reasons = not reasons <= _said
            _said.update(reasons)
        if not self._says_reasons and reasons:
            lines.append(f"{self._unavailable_total} unavailable, as said before")
        elif self._unavailable_total:
            shown = self.unavailable[:_UNAVAILABLE_SHOWN_MAX]
            more = self._unavailable_total - len(shown)
            said = "; ".join(f"{row['server']}: {row['reason']}" for row in shown)
            lines.append(f"{self._unavailable_total} unavailable: {said}{f'; and {more} more' if more else ''}")
        return lines


def _line(hit: dict[str, Any], indent: str) -> list[str]:
    call = indent + _call(hit)
    description = str(hit.get("description", ""))
    if hit.get("readOnly"):
        description = f"[read-only] {description}".rstrip()
    schema = hit.get("inputSchema")
    if schema is None and "\n" not in description:
        return [f"{call}  # {description}" if description else call]
    lines = [call, *(f"{indent}    {line}" for line in description.splitlines())]
    if schema is not None:
        lines.append(f"{indent}    inputSchema: {_json(schema)}")
    return lines


def _call(hit: dict[str, Any]) -> str:
    signature = str(hit.get("signature"))
    if not hit.get("skill"):
        return f"mcp_{hit.get('serverAlias')}.{signature}"
    plain = signature.removeprefix("async ")
    return f"{'' if plain == signature else 'await '}skills.{plain}"


def _count(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"
