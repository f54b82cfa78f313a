"""Helpers with and without `await`, and the warning of a coroutine that was never awaited."""

from __future__ import annotations

import pytest

from sandbox import Frame, Sandbox

HELPERS = {
    "list_servers()": "('a',)",
    "discovered_servers()": "('a',)",
    "describe_server('a')": "{'name': 'a'}",
    "list_tools('a')": "[{'name': 't'}]",
    "capability_summary()": "'manual'",
    "ask_llm('p')": "'yes'",
    "call_tool('a', 't', {})": "[1]",
    "call_tool('a', 'nothing', {})": "None",
    "run('bash', 'echo hi').stdout": "'hi\\n'",
    "chunk('a b', size=2, overlap=0)[0]": "'a '",
    "last_output()": "''",
    "show('x')": "None",
    "handles()[0].load()": "[1]",
    "handles()[0].head(3)": "'[1]'",
    "handles()[0].drop()": "None",
    "job(1).wait()": "'finished'",
    "job(1).tail()": "'said'",
    "job(1).cancel()": "'cancelled'",
    "skills.show('s')": "source",
    "skills.rm('s')": "'removed'",
}
ANSWERS: dict[str, object] = {
    "list_servers": ["a"],
    "discovered_servers": ["a"],
    "describe_server": {"name": "a"},
    "list_tools": [{"name": "t"}],
    "capability_summary": "manual",
    "ask_llm": {"text": "yes"},
    "t": {"content": [{"type": "text", "text": "[1]"}]},
    "nothing": {"content": []},
    "handles": [{"handle": 1, "server": "a", "tool": "t", "bytes": 3, "told": "a list of 1"}],
    "drop_handle": None,
    "job": {"job": 1},
    "wait_job": {"status": "finished"},
    "job_tail": "said",
    "cancel_job": {"status": "cancelled"},
    "show_skill": "source",
    "remove_skill": "removed",
}


def on_call(call: Frame) -> object:
    if call["tool"] == "load_handle":
        return "[1]" if "chars" in call["arguments"] else ANSWERS["t"]
    return ANSWERS[call["tool"]]


def value(sandbox: Sandbox, code: str) -> str:
    done = sandbox.run(code, ("a",), on_call)
    assert done["outcome"] == "finished", done.get("error")
    assert "never awaited" not in done["stderr"]
    return str(done["value"])


@pytest.mark.parametrize("helper", HELPERS)
def test_helper_gives_the_same_with_and_without_await(sandbox: Sandbox, helper: str) -> None:
    call, end = helper[: helper.rindex(")") + 1], helper[helper.rindex(")") + 1 :]
    expected = HELPERS[helper]
    for code in (
        f"repr(runtime.{helper})",
        f"repr((await runtime.{call}){end})",
        f"import asyncio\nx = runtime.{call}\nawait asyncio.sleep(0)\nrepr(x{end})",
        f"async def f():\n    return runtime.{call}\nrepr((await f()){end})",
        f"import asyncio\nasync def f():\n    return await runtime.{call}\nrepr(asyncio.run(f()){end})",
        f"import asyncio\nrepr((await asyncio.gather(runtime.{call}))[0]{end})",
        f"import asyncio\nrepr((await asyncio.create_task(runtime.{call})){end})",
        f"import asyncio\nrepr((await asyncio.to_thread(lambda: runtime.{call})){end})",
        f"x = runtime.{call}\nrepr((await x){end})",
        f"call = lambda: runtime.{call}\nrepr(call(){end})",
        f"async def tried(it): return await it\nrepr((await tried(runtime.{call})){end})",
        f"async def tried(*, it): return await it\nrepr((await tried(it=runtime.{call})){end})",
    ):
        assert value(sandbox, code) == repr(expected), code


def test_result_in_hand_can_be_awaited_where_its_call_is_out_of_sight(sandbox: Sandbox) -> None:
    for helper in ("list_servers()", "describe_server('a')", "ask_llm('p')", "run('bash', 'true')", "chunk('a')"):
        code = f"def plain():\n    return runtime.{helper}\nx = plain()\n(await plain()) == x or x.status"
        assert value(sandbox, code) in ("True", "'completed'"), helper


@pytest.mark.parametrize(
    "calls",
    [
        "await asyncio.gather(*[runtime.call_tool('a', 't', {'i': i}) for i in range(3)])",
        "await asyncio.gather(*(runtime.call_tool('a', 't', {'i': i}) for i in range(3)), return_exceptions=True)",
        "await asyncio.gather(*map(lambda i: runtime.call_tool('a', 't', {'i': i}), range(3)))",
        "calls = [runtime.call_tool('a', 't', {'i': i}) for i in range(3)]\nawait asyncio.gather(*calls)",
        "calls = []\nfor i in range(3):\n    calls.append(runtime.call_tool('a', 't', {'i': i}))\n"
        "await asyncio.gather(*calls)",
        "calls = {i: runtime.call_tool('a', 't', {'i': i}) for i in range(3)}\nawait asyncio.gather(*calls.values())",
        "tasks = [asyncio.create_task(runtime.call_tool('a', 't', {'i': i})) for i in range(3)]\n"
        "for task in tasks: await task",
        "async with asyncio.TaskGroup() as group:\n"
        "    for i in range(3): group.create_task(runtime.call_tool('a', 't', {'i': i}))",
    ],
)
def test_helpers_that_are_awaited_together_go_on_side_by_side(sandbox: Sandbox, calls: str) -> None:
    run = sandbox.start(f"import asyncio\n{calls}", ("a",))
    asked = [sandbox.wait("call") for _ in range(3)]
    for call in asked:
        sandbox.answer(call, ANSWERS["t"])
    assert sandbox.finish(run)["outcome"] == "finished"


def test_name_with_sync_is_the_same_helper(sandbox: Sandbox) -> None:
    names = "[n for n in dir(runtime) if n.endswith('_sync') and getattr(runtime, n) is not getattr(runtime, n[:-5])]"
    # This one always gives a list; a job's are made when they are looked up.
    others = {"query_tool_docs_sync", "spawn_sync", "job_sync", "jobs_sync"}
    assert set(eval(value(sandbox, names))) <= others


def test_warning_of_a_coroutine_quotes_the_run_that_made_it(sandbox: Sandbox) -> None:
    sandbox.run("async def f(): pass\nx = f()\ny = mcp_a.t()\nz = [f()]", ("a",))
    for code, line, name, source in (
        ("x = 5\nprint(1)", 2, "f", "x = f()"),
        ("y = None", 3, "a.t", "y = mcp_a.t()"),
        ("def g():\n  global z\n  z = 1\ng()", 4, "f", "z = [f()]"),
    ):
        stderr = sandbox.run(code)["stderr"]
        expected = f"<run 1>:{line}: RuntimeWarning: coroutine '{name}' was never awaited\n  {source}\n"
        assert stderr == expected


def test_coroutine_of_a_thread_is_warned_of_at_its_function(sandbox: Sandbox) -> None:
    code = "import threading\nasync def f(): pass\ndef make():\n  global kept\n  kept = f()\n"
    sandbox.run(f"{code}t = threading.Thread(target=make); t.start(); t.join()")
    stderr = sandbox.run("print('later')\nkept = 1")["stderr"]
    assert stderr.startswith("<run 1>:2: RuntimeWarning: coroutine 'f' was never awaited\n  async def f(): pass\n")
