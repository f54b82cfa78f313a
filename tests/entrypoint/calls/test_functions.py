"""Tools as functions of Python: what help, inspect, dir and imports see of them."""

from __future__ import annotations

from typing import Any

from sandbox import Frame, Sandbox

STUB = """\
class SearchFilter(TypedDict, total=False):
    since: str  # date-time

async def search(
    *,
    query: str,
    state: Literal['open', 'it\\'s "closed"'] = 'open',
    labels: list[Literal['\\u3164']] = ...,
    filter: SearchFilter | None = None,
    **more: int,
) -> dict[str, Any]:
    \"\"\"Searches \\\\x1b.

      Indented.

    query: What to look for\"\"\"
"""


class Docs:
    """Answers as the bridge does, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[Frame] = []

    def __call__(self, call: Frame) -> object:
        assert call["server"] is None
        if call["tool"] != "query_tool_docs":
            return []
        self.asked.append(call["arguments"])
        if "tool" in call["arguments"]:
            return [{"tool": "search", "toolAlias": "search", "stub": STUB}]
        return [{"toolAlias": "search"}, {"toolAlias": "a_b"}]


def value(sandbox: Sandbox, code: str, docs: Docs) -> Any:
    done = sandbox.run(code, ("a-c",), docs)
    assert done["outcome"] == "finished", done
    return done["value"] if done["value"] is not None else done["stdout"]


def test_nothing_is_asked_for_until_it_is_looked_at(sandbox: Sandbox) -> None:
    docs = Docs()
    code = "from mcp.servers.a_c import search\nsearch.__name__, search.__module__, search, mcp_a_c is mcp.servers.a_c"
    assert value(sandbox, code, docs) == "('search', 'mcp.servers.a_c', <tool a-c.search>, True)"
    assert docs.asked == []


def test_signature_has_keyword_only_parameters_and_text_for_annotations(sandbox: Sandbox) -> None:
    docs = Docs()
    code = "import inspect\ns = inspect.signature(mcp_a_c.search)\nprint(s)"
    assert value(sandbox, code, docs) == (
        "(*, query: str, state: Literal['open', 'it\\'s \"closed\"'] = 'open', labels: list[Literal['\\u3164']] = ..., "
        "filter: SearchFilter | None = None, **more: int) -> dict[str, Any]\n"
    )
    code = (
        "p = s.parameters['filter']\n"
        "isinstance(p.annotation, str), p.kind.name, p.default, s.parameters['query'].default is p.empty"
    )
    assert value(sandbox, code, docs) == "(True, 'KEYWORD_ONLY', None, True)"
    assert docs.asked == [{"server": "a-c", "tool": "search", "detail": "stub"}]


def test_docstring_says_what_the_bridge_says_and_which_types_there_are(sandbox: Sandbox) -> None:
    doc = (
        "Searches \\x1b.\n\n  Indented.\n\nquery: What to look for\n\n"
        "class SearchFilter(TypedDict, total=False):\n    since: str  # date-time"
    )
    assert value(sandbox, "mcp_a_c.search.__doc__", Docs()) == repr(doc)


def plain(text: str) -> str:
    return " ".join(text.split())


def test_help_shows_a_tool_as_a_function_and_a_server_as_a_module(sandbox: Sandbox) -> None:
    shown = value(sandbox, "help(mcp_a_c.search)", Docs())
    # From Python 3.14 on a long signature has a line for each parameter.
    assert "search( *, query: str, state: " in plain(shown).replace("(*", "( *")
    assert "\n    query: What to look for\n" in shown
    for module in ("mcp_a_c", "mcp.servers.a_c"):
        shown = value(sandbox, f"import mcp.servers.a_c\nhelp({module})", Docs())
        assert "Help on module mcp.servers.a_c" in shown
        assert all(f" {name}( *, query: str" in plain(shown).replace("(*", "( *") for name in ("search", "a_b"))
        assert "_calls" not in shown and "DATA" not in shown


def test_dir_and_star_import_name_the_tools(sandbox: Sandbox) -> None:
    docs = Docs()
    assert (
        value(sandbox, "[name for name in dir(mcp_a_c) if name[0] != '_']", docs) == "['a_b', 'list_tools', 'search']"
    )
    assert value(sandbox, "from mcp.servers.a_c import *\na_b, search", docs) == "(<tool a-c.a_b>, <tool a-c.search>)"
    assert docs.asked == [{"server": "a-c", "detail": "signature"}] * 2


def test_what_cannot_be_had_is_said_and_breaks_nothing(sandbox: Sandbox) -> None:
    for code, shown in (
        ("mcp_a.t.__doc__", "\"no documentation: no tool 't'\\ndid you mean 'u'?\""),
        ("import inspect\nstr(inspect.signature(mcp_a.t))", "'(**arguments: Any) -> Any'"),
        ("[name for name in dir(mcp_a) if name[0] != '_']", "['list_tools']"),
    ):
        run = sandbox.start(code, ("a",))
        sandbox.fail(sandbox.wait("call"), "unknown_tool", "no tool 't'", "did you mean 'u'?")
        assert sandbox.finish(run)["value"] == shown


def test_a_tool_that_is_an_attribute_of_a_class_stays_a_tool(sandbox: Sandbox) -> None:
    code = "class A:\n    call = mcp_a.t\n(await A().call(i=1))['i']"
    done = sandbox.run(code, ("a",), lambda call: {"content": [], "structuredContent": call["arguments"]})
    assert done["value"] == "1"
