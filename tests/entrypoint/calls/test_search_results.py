"""Searches for tools: what the bridge is asked, and how what it found reads."""

from __future__ import annotations

from typing import Any

import pytest

from sandbox import Frame, Sandbox

HITS = [
    {
        "server": "git hub",
        "serverAlias": "git_hub",
        "tool": "list-issues",
        "toolAlias": "list_issues",
        "description": "List issues",
        "signature": "list_issues(*, repo: str)",
    },
    {"server": "fs", "serverAlias": "fs", "tool": "ls", "toolAlias": "ls", "signature": "ls()"},
]


def found(hits: list[dict[str, Any]], total: int, **rest: object) -> dict[str, object]:
    whole: dict[str, object] = {
        "hits": hits,
        "total": total,
        "weak": False,
        "offset": 0,
        "tools": 1234,
        "servers": 3,
        "skills": 0,
        "unavailable": {"servers": [], "total": 0},
        "folders": {},
        "indexing": [],
        "indexing_total": 0,
    }
    return whole | rest


def printed(sandbox: Sandbox, code: str, answer: dict[str, object]) -> str:
    done = sandbox.run(f"print({code})", (), lambda call: answer)
    assert done["outcome"] == "finished", done
    return str(done["stdout"]).removesuffix("\n")


def test_a_skill_is_shown_as_it_is_called(sandbox: Sandbox) -> None:
    about = {"server": "skills", "serverAlias": "skills", "skill": True, "description": "Does."}
    hits = [{**about, "signature": "go(x)"}, {**about, "signature": "async go_on(x)"}]
    shown = printed(sandbox, "runtime.search_tool_docs_sync('go')", found(hits, 2))
    assert shown == "2 of 2 tools for 'go'\nskills.go(x)  # Does.\nawait skills.go_on(x)  # Does."
    none = printed(sandbox, "runtime.search_tool_docs_sync('go')", found([], 0, skills=4))
    assert none == "no tool for 'go': 1,230 tools of 3 servers and 4 skills searched"


def test_folders_of_servers_are_named_below_the_hits(sandbox: Sandbox) -> None:
    shown = printed(
        sandbox, "runtime.search_tool_docs_sync('ls')", found(HITS[1:], 1, folders={"fs": ["/srv/a", "/srv/b"]})
    )
    assert shown.splitlines()[1:] == ["mcp_fs.ls()", "mcp_fs was started with /srv/a, /srv/b"]


def test_every_parameter_reaches_the_bridge_by_its_name(sandbox: Sandbox) -> None:
    asked: list[object] = []

    def on_call(call: Frame) -> object:
        asked.append((call["server"], call["tool"], call["arguments"]))
        return found([], 0)

    whole = {"query": "q", "limit": 8, "detail": "signature", "offset": 0}
    for code, arguments in [
        ("runtime.search_tool_docs_sync('q')", whole),
        ("await runtime.search_tool_docs('q')", whole),
        ("await runtime.search_tool_docs()", whole | {"query": ""}),
        (
            "runtime.search_tool_docs_sync('q', 3, 'full', 8, 'server', ('a', 'b'))",
            {"query": "q", "limit": 3, "detail": "full", "offset": 8, "group_by": "server", "servers": ["a", "b"]},
        ),
        ("await runtime.search_tool_docs('q', servers='a')", whole | {"servers": ["a"]}),
        ("await runtime.search_tool_docs(q for q in 'ab')", whole | {"query": ["a", "b"]}),
    ]:
        assert sandbox.run(code, (), on_call)["outcome"] == "finished", code
        assert asked.pop() == (None, "search_tool_docs", arguments)


def test_each_hit_is_one_line_below_the_number_of_all(sandbox: Sandbox) -> None:
    code = "runtime.search_tool_docs_sync('issues')"
    assert printed(sandbox, code, found(HITS, 41)) == (
        "2 of 41 tools for 'issues'; the next: offset=2\n"
        "mcp_git_hub.list_issues(*, repo: str)  # List issues\n"
        "mcp_fs.ls()"
    )
    assert printed(sandbox, code, found(HITS, 41, offset=39)).startswith("40-41 of 41 tools for 'issues'\nmcp_git_hub.")
    assert printed(sandbox, code, found([], 41, offset=50)) == "none from 50 on: 41 tools for 'issues'"
    assert printed(sandbox, code, found([], 0)) == "no tool for 'issues': 1,234 tools of 3 servers searched"
    browsed = printed(sandbox, "runtime.search_tool_docs_sync()", found(HITS, 1234))
    assert browsed.startswith("2 of 1,234 tools of all; the next: offset=2\n")
    several = printed(sandbox, "runtime.search_tool_docs_sync(['issues', ' ', 'bugs'])", found(HITS, 41))
    assert several.startswith("2 of 41 tools for 'issues' or 'bugs'; the next: offset=2\n")
    long = printed(sandbox, "runtime.search_tool_docs_sync('x' * 1000)", found([], 0))
    assert len(long) < 200


def test_a_weak_search_leads_to_a_search_with_several_wordings(sandbox: Sandbox) -> None:
    asked: list[object] = []

    def on_call(call: Frame) -> object:
        asked.append(call["arguments"]["query"])
        return found(HITS, 2)

    one, code = printed(sandbox, "runtime.search_tool_docs_sync('bugs')", found(HITS, 2, weak=True)).split("such as ")
    assert one.endswith("\nWEAK: if none of these does it, search again with two or three plain wordings of it, ")
    code, hit = code.split("\n", 1)
    assert hit.startswith("mcp_git_hub.")
    assert sandbox.run(code, (), on_call)["outcome"] == "finished"
    assert asked == [["show unstaged changes", "git diff"]]
    none = printed(sandbox, "runtime.search_tool_docs_sync('bugs')", found([], 0, weak=True))
    assert none.endswith(f" searched\nWEAK: {one.split('WEAK: ')[1]}such as {code}")
    several = printed(sandbox, "runtime.search_tool_docs_sync(['bugs', 'errors'])", found(HITS, 2, weak=True))
    assert (
        several.splitlines()[1] == "WEAK: if none of these does it, try other plain wordings; there may be no such tool"
    )
    for answer in (found(HITS, 2), found(HITS, 9, weak=True, offset=2), found(HITS, 2, weak=True, indexing_total=1)):
        assert "WEAK" not in printed(sandbox, "runtime.search_tool_docs_sync('bugs')", answer)


def test_hits_stay_plain_dicts_in_a_list(sandbox: Sandbox) -> None:
    code = (
        "r = runtime.search_tool_docs_sync('q')\n"
        "(isinstance(r, list), r[1]['tool'], len(r), r.total, r.offset, r.unavailable, r.indexing, type(r[:1]) is list)"
    )
    answer = found(HITS, 41, offset=8)
    assert sandbox.run(code, (), lambda call: answer)["value"] == "(True, 'ls', 2, 41, 8, [], [], True)"


def test_grouped_hits_stand_below_their_servers(sandbox: Sandbox) -> None:
    hits = [{**hit, "serverHits": 7} for hit in (HITS[0], HITS[0], HITS[1])]
    assert printed(sandbox, "runtime.search_tool_docs_sync('q', group_by='server')", found(hits, 3)) == (
        "3 of 3 tools for 'q'\n"
        "git hub (7 found):\n"
        "  mcp_git_hub.list_issues(*, repo: str)  # List issues\n"
        "  mcp_git_hub.list_issues(*, repo: str)  # List issues\n"
        "fs (7 found):\n"
        "  mcp_fs.ls()"
    )


def test_longer_documents_stand_below_their_lines(sandbox: Sandbox) -> None:
    hit = {**HITS[0], "description": "List issues\nof a repository", "inputSchema": {"type": "object"}}
    assert printed(sandbox, "runtime.search_tool_docs_sync('q', detail='full')", found([hit], 1)) == (
        "1 of 1 tool for 'q'\n"
        "mcp_git_hub.list_issues(*, repo: str)\n"
        "    List issues\n"
        "    of a repository\n"
        '    inputSchema: {"type": "object"}'
    )


@pytest.mark.parametrize("hits", [[], HITS])
def test_servers_that_were_not_searched_are_named(sandbox: Sandbox, hits: list[dict[str, Any]]) -> None:
    rows = [{"server": f"s{n}", "reason": f"exited {n}"} for n in range(50)]
    unavailable = {"servers": rows, "total": 60}
    text = printed(
        sandbox,
        "runtime.search_tool_docs_sync('q')",
        found(
            hits,
            2,
            unavailable=unavailable,
            indexing=["a", "b"],
            indexing_total=5,
            indexing_seconds=30,
            servers=9,
        ),
    )
    reasons = "; ".join(f"s{n}: exited {n}" for n in range(10))
    assert text.endswith(f"\n60 unavailable: {reasons}; and 50 more")
    header, incomplete = text.splitlines()[:2]
    assert " so far" in header
    assert incomplete == (
        "INCOMPLETE: 5 of 9 servers have not answered yet (search again to wait for them; a start may take 30 s): "
        "a, b and 3 more"
    )
    alone = {"servers": rows[:1], "total": 1}
    text = printed(sandbox, "runtime.search_tool_docs_sync('q')", found(hits, 2, unavailable=alone))
    assert text.endswith("\n1 unavailable, as said before")
    other = {"servers": [{"server": "s0", "reason": "exited 7"}], "total": 1}
    text = printed(sandbox, "runtime.search_tool_docs_sync('q')", found(hits, 2, unavailable=other))
    assert text.endswith("\n1 unavailable: s0: exited 7")
