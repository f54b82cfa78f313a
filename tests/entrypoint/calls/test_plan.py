"""Plans: which frames they make, and what code gets in place of results."""

from __future__ import annotations

from collections.abc import Callable

from belljar_sandbox.wire.frames import Frame
from sandbox import Sandbox


def planning(sandbox: Sandbox, seen: list[Frame]) -> Callable[[Frame], object]:
    """Answers as the bridge does: only `get` reads."""

    def on_call(call: Frame) -> object:
        seen.append(call)
        if call.get("placeholders") or (call.get("dry_run") and call["tool"] not in ("get", "read_resource")):
            sandbox.plan(call)
            return ...
        return {"content": [{"type": "text", "text": '{"n": 1}'}]}

    return on_call


def test_calls_of_a_block_are_listed_and_those_that_write_not_made(sandbox: Sandbox) -> None:
    seen: list[Frame] = []
    code = """
with runtime.plan(dry_run=True) as plan:
    found = await mcp_a.get(id=1)
    made = mcp_a.create.sync(title=f"number {found['n']}")
    await mcp_a.close(number=made["number"], why=made.get("why")[0])
    for each in made["items"]:
        await mcp_a.get(id=each.id)
after = await mcp_a.create(title="real")
plan
"""
    done = sandbox.run(code, ("a",), planning(sandbox, seen))
    flags = [(call["tool"], call.get("dry_run", False), call.get("placeholders", False)) for call in seen]
    assert flags == [
        ("get", True, False),
        ("create", True, False),
        ("close", True, True),
        ("get", True, True),
        ("create", False, False),
    ]
    assert seen[2]["arguments"] == {
        "number": "<result of a.create>['number']",
        "why": "<result of a.create>.get(...)[0]",
    }
    assert done["value"].splitlines() == [
        "plan of a dry run, 4 calls:",
        "  made: a.get(id=1)",
        "  not made: a.create(title='number 1')",
        "  not made: a.close(number=<result of a.create>['number'], why=<result of a.create>.get(...)[0])",
        "  not made: a.get(id=<result of a.create>['items'][each].id)",
    ]


def test_a_plan_without_dry_run_only_lists(sandbox: Sandbox) -> None:
    seen: list[Frame] = []
    code = "with runtime.plan(dry_run=False) as p:\n  await mcp_a.create(title='x')\np.calls[0].outcome, len(p.calls)"
    assert sandbox.run(code, ("a",), planning(sandbox, seen))["value"] == "('made', 1)"
    assert "dry_run" not in seen[0]


def test_a_block_ends_with_its_run_and_holds_no_other(sandbox: Sandbox) -> None:
    seen: list[Frame] = []
    on_call = planning(sandbox, seen)
    nested = sandbox.run("with runtime.plan():\n  with runtime.plan(): pass", ("a",), on_call)
    assert "open already" in nested["error"]["message"]
    sandbox.run("left_open = runtime.plan().__enter__()\nawait mcp_a.create()", ("a",), on_call)
    sandbox.run("await mcp_a.create()", ("a",), on_call)
    assert [call.get("dry_run", False) for call in seen] == [True, False]


def test_long_plans_are_shown_within_bounds(sandbox: Sandbox) -> None:
    code = "with runtime.plan() as plan:\n  for n in range(60): mcp_a.create.sync(text='x' * 1000)\nprint(plan)"
    shown = sandbox.run(code, ("a",), planning(sandbox, []))["stdout"]
    lines = shown.splitlines()
    assert len(lines) == 52
    assert lines[-1] == "  and 10 more, in .calls"
    assert max(map(len, lines)) < 330


def test_what_is_computed_of_a_placeholder_is_one_too(sandbox: Sandbox) -> None:
    code = """
with runtime.plan() as plan:
    made = await mcp_a.create()
    made["title"] = "other"
    del made["body"]
    for value in (
        made["n"] + 1, 1 + made["n"], "#" + made["n"], [1] + made, made["n"] % 2, 2 ** made["n"], -made["n"],
        made["n"] // 2 - 3, round(made["n"], 2), made["n"] > 3, made["x" * 100], "x" * 100 + made,
        f"number {made['n']:>8}", "%s" % made, {f"{made}": 1}, str(made),
    ):
        await mcp_a.get(value=value)
    if made["n"] > 3:
        print("holds")
print(made == made, made == 1, made["n"] == made["n"], 1 in made)
"""
    seen: list[Frame] = []
    done = sandbox.run(code, ("a",), planning(sandbox, seen))
    assert done["stdout"] == "holds\nTrue False False False\n", done
    assert all(call["placeholders"] for call in seen[1:])
    made = "<result of a.create>"
    arguments: list[Frame] = [call["arguments"] for call in seen[1:]]  # type: ignore[misc]
    assert [given["value"] for given in arguments] == [
        f"{made}['n'] + 1",
        f"1 + {made}['n']",
        f"'#' + {made}['n']",
        f"[1] + {made}",
        f"{made}['n'] % 2",
        f"2 ** {made}['n']",
        f"-{made}['n']",
        f"{made}['n'] // 2 - 3",
        f"round({made}['n'])",
        f"{made}['n'] > 3",
        f"{made}['{'x' * 58}…]",
        f"'{'x' * 58}… + {made}",
        f"number {made}['n']",
        made,
        {made: 1},
        made,
    ]


def test_what_helpers_change_or_read_beyond_the_bridge_is_listed_too(sandbox: Sandbox) -> None:
    code = """
def double(x): return 2 * x
with runtime.plan() as plan:
    saved = runtime.save_tool(double)
    made = await mcp_a.create()
    text = await runtime.read_resource(made["uri"], server="a")
    await runtime.read_resource("file:///x", server="a")
print(text, plan.calls[2].outcome, plan.calls[3].outcome)
[call.tool for call in plan.calls]
"""
    seen: list[Frame] = []
    done = sandbox.run(code, ("a",), planning(sandbox, seen))
    assert done["value"] == "['save_tool', 'create', 'read_resource', 'read_resource']"
    assert done["stdout"] == "<result of runtime.read_resource> not made made\n"
    flags = [(call["tool"], call.get("placeholders", False)) for call in seen if call["server"] is None]
    assert flags == [("save_tool", False), ("read_resource", True), ("read_resource", False)]


def test_placeholders_are_values_of_nothing_but_code_can_go_on(sandbox: Sandbox) -> None:
    code = """
with runtime.plan():
    made = await mcp_a.create()
print(made, made.a.b['c'](1)[0], hasattr(made, '_repr_html_'), sep='|')
import json
try:
    json.dumps(made)
except TypeError:
    print("no JSON")
await mcp_a.create(body=made)
"""
    seen: list[Frame] = []
    done = sandbox.run(code, ("a",), planning(sandbox, seen))
    assert done["stdout"] == "<result of a.create>|<result of a.create>.a.b['c'](...)[0]|False\nno JSON\n"
    # Without a dry run too: what does not exist must not be sent as a text.
    assert seen[1]["placeholders"]
    assert "dry_run" not in seen[1]


def test_placeholders_that_are_used_as_results_are_named_in_the_reply(sandbox: Sandbox) -> None:
    seen: list[Frame] = []
    for code, uses in (
        ("for each in r: pass", "iteration as one item"),
        ("r['tickets']", "item"),
        ("r.tickets", "attribute"),
        ("len(r)", "length"),
        ("bool(r)", "condition taken as true"),
        ("f'{r}'", "text"),
        ("print(r)", "text"),
        ("'; '.join(map(str, r['a']))", "item, iteration as one item, text"),
        ("plan", ""),
        ("await mcp_a.close(issue=r)", ""),
    ):
        run = f"with runtime.plan() as plan:\n    r = await mcp_a.create()\n    {code}\nplan"
        notes = sandbox.run(run, ("a",), planning(sandbox, seen))["notes"]
        assert bool(notes) == bool(uses), code
        if uses:
            assert notes[0].startswith(f"results that do not exist were used: a.create ({uses}). "), code
            assert notes[0].endswith("make them before the `with` block of the dry run")
    code = "with runtime.plan():\n    for n in range(7): (await runtime.call_tool('a', f'create{n}'))['x']"
    assert "a.create4 (item), 2 more." in sandbox.run(code, ("a",), planning(sandbox, seen))["notes"][0]
    assert sandbox.run("1", ("a",), planning(sandbox, seen))["notes"] == []
