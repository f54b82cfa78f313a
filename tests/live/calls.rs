//! Calls of servers from the sandbox: every way to make one, what comes back, bounds and refusals.

use serde_json::json;

use crate::on_one_engine_and_processes;
use crate::support::{Bridge, Engine, Fixture, Home, PATIENCE, eventually};

on_one_engine_and_processes!(
    every_way_to_call_a_tool_gives_the_same,
    results_are_unwrapped_and_the_whole_is_kept,
    errors_of_tools_and_servers_raise,
    calls_of_one_run_are_concurrent_and_bounded,
    calls_beyond_the_bound_of_a_run_that_bounds_itself_no_more_are_refused,
    a_thousand_calls_at_once_get_each_its_own_answer,
    what_the_bridge_answers_itself_comes_behind_results_that_fill_the_way,
    a_call_that_nobody_waits_for_any_longer_is_cancelled_at_the_server,
    a_read_that_was_cut_off_took_no_effect,
    a_run_over_its_time_cancels_its_calls_at_the_server,
    calls_left_behind_by_a_run_are_cancelled,
    a_large_result_arrives_whole,
    numbers_arrive_exactly_as_they_were_sent,
    a_result_over_the_bound_is_refused_by_name,
    arguments_that_are_no_json_are_refused_before_they_leave,
    servers_that_were_not_given_are_unavailable_and_not_started,
    all_pages_of_tools_are_read,
    every_tool_is_callable_whatever_its_name,
    a_changed_list_of_tools_is_read_again,
    an_unknown_tool_is_refused_with_the_nearest_name,
    progress_is_told_to_a_client_that_asks,
    a_slow_start_of_a_server_is_in_the_progress_of_the_run_and_on_a_terminal,
    a_run_that_waits_for_another_one_says_so_and_reset_ends_the_other_one,
    helpers_tell_of_the_servers,
    helpers_without_await_say_what_those_with_it_do,
    python_in_the_sandbox_writes_at_once_in_utf_8_and_keeps_no_bytecode,
);

fn bridge(engine: &Engine, fixture: &Fixture) -> Bridge {
    Bridge::start(&Home::on(engine).server("fixture", fixture.entry())).warm()
}

fn every_way_to_call_a_tool_gives_the_same(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let mut bridge = bridge(engine, &fixture);
    for way in [
        "await mcp_fixture.echo(text='hi')",
        "mcp_fixture.echo.sync(text='hi')",
        "await mcp_servers['fixture'].echo(text='hi')",
        "from mcp.servers.fixture import echo\nawait echo(text='hi')",
        "from mcp import runtime\nawait runtime.call_tool('fixture', 'echo', {'text': 'hi'})",
        "runtime.call_tool_sync('fixture', 'echo', {'text': 'hi'})",
        "async def main():\n  return await mcp_fixture.echo(text='hi')\nimport asyncio\nasyncio.run(main())",
        "import concurrent.futures as f\nf.ThreadPoolExecutor().submit(lambda: mcp_fixture.echo.sync(text='hi')).result()",
    ] {
        assert_eq!(bridge.ok(way), "'hi'", "{way}");
    }
    assert_eq!(fixture.ledger(), vec![r#"call echo {"text":"hi"}"#; 8]);
    assert_eq!(fixture.pids().len(), 1, "started once");
}

fn results_are_unwrapped_and_the_whole_is_kept(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let mut bridge = bridge(engine, &fixture);
    let code =
        "r = await mcp_fixture.structured()\n(r['rows'][1]['title'], r['next'], r.raw['content'][0]['type'])";
    assert_eq!(bridge.ok(code), "('two', None, 'text')");
    assert_eq!(bridge.ok("await mcp_fixture.add(a=2, b=0.5)"), "{'sum': 2.5}");
    assert_eq!(bridge.ok("await mcp_fixture.echo(text='[1, {\"a\": null}]')"), "[1, {'a': None}]");
    assert_eq!(bridge.ok("await mcp_fixture.echo(text='[not json')"), "'[not json'");
    assert_eq!(
        bridge.ok("i = await mcp_fixture.image()\n(i.mime_type, i.data[:4])"),
        "('image/png', b'\\x89PNG')"
    );
    assert_eq!(
        bridge.ok("b = await mcp_fixture.blocks()\n(b[0], b[1], b[2].mime_type)"),
        "('first', [1, 2], 'image/png')"
    );
    let saved = bridge.ok("import os\nos.path.getsize(i.save('/workspace/pixel.png')) == len(i.data)");
    assert_eq!(saved, "True");
}

fn errors_of_tools_and_servers_raise(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let mut bridge = bridge(engine, &fixture);
    let code = |call: &str| {
        format!(
            "from mcp.runtime import MCPError, ToolError\ntry:\n  {call}\nexcept MCPError as error:\n  \
             e = (type(error).__name__, error.code, str(error))\ne"
        )
    };
    assert_eq!(
        bridge.ok(&code("await mcp_fixture.fail(message='no such issue')")),
        "('ToolError', 'tool_error', 'no such issue')"
    );
    let refused = bridge.ok(&code("mcp_fixture.refuse.sync()"));
    assert!(refused.contains("'tool_error'") && refused.contains("refused by the server"), "{refused}");
    let reply = bridge.run("await mcp_fixture.fail(message='no such issue')");
    assert!(reply.is_error);
    assert!(reply.text.contains("ToolError: no such issue\nstate: variables kept"), "{}", reply.text);
}

fn calls_of_one_run_are_concurrent_and_bounded(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let mut bridge = bridge(engine, &fixture);
    bridge.ok("import asyncio\nawait mcp_fixture.peak()");
    bridge.ok("r = await asyncio.gather(*(mcp_fixture.slow(ms=200) for _ in range(10)))");
    assert_eq!(bridge.ok("await mcp_fixture.peak()"), "'10'");
    bridge.ok("r = await asyncio.gather(*(mcp_fixture.slow(ms=20) for _ in range(200)))\nassert r == ['slept'] * 200");
    assert_eq!(bridge.ok("await mcp_fixture.peak()"), "'32'");
}

fn calls_beyond_the_bound_of_a_run_that_bounds_itself_no_more_are_refused(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let mut bridge = bridge(engine, &fixture);
    bridge.ok("await mcp_fixture.echo(text='x')");
    let code = "import asyncio\nruntime._calls._in_flight_max = 1000\n\
                r = await asyncio.gather(*(mcp_fixture.slow(ms=500) for _ in range(100)), return_exceptions=True)\n\
                r.count('slept'), {str(e) for e in r if e != 'slept'}";
    assert_eq!(bridge.ok(code), "(64, {'too many calls are under way, or two with one number'})");
    assert_eq!(fixture.ledger().len(), 1 + 64);
    assert_eq!(bridge.ok("await mcp_fixture.echo(text='x')"), "'x'");
}

fn a_thousand_calls_at_once_get_each_its_own_answer(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let mut bridge = bridge(engine, &fixture);
    let code = "import asyncio\nr = await asyncio.gather(*(mcp_fixture.echo(text=f'n{i}') for i in range(1000)))\n\
                r == [f'n{i}' for i in range(1000)]";
    assert_eq!(bridge.ok(code), "True");
    assert_eq!(fixture.ledger().len(), 1000);
}

fn what_the_bridge_answers_itself_comes_behind_results_that_fill_the_way(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let mut bridge = bridge(engine, &fixture);
    // While these are on their way, more of them wait than the queue has room for.
    let code = "import asyncio\n\
                def ask():\n  return [len(runtime.checkpoints()) for _ in range(20)]\n\
                r = await asyncio.gather(*(mcp_fixture.big(bytes=3_000_000) for _ in range(40)), \
                *(asyncio.to_thread(ask) for _ in range(8)))\nsum(map(len, r[40:]))";
    let reply = bridge.ok(code);
    assert!(reply.starts_with("160"), "{reply}");
}

fn a_call_that_nobody_waits_for_any_longer_is_cancelled_at_the_server(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let mut bridge = bridge(engine, &fixture);
    // Started before, or its start is all that is waited for.
    bridge.ok("await mcp_fixture.pid()");
    let code = "import asyncio\ntry:\n  await asyncio.wait_for(mcp_fixture.hang(), 0.2)\n\
                except asyncio.TimeoutError:\n  print('gave up')\nawait mcp_fixture.echo(text='next')";
    assert_eq!(
        bridge.ok(code),
        "gave up\n'next'\ncalls with unknown outcome (they may have taken effect): fixture.hang"
    );
    eventually("the server is told", PATIENCE, || fixture.ledger().contains(&"cancelled".to_owned()));
}

fn a_read_that_was_cut_off_took_no_effect(engine: &Engine) {
    let fixture = Fixture::new(&["--hang-reads"]);
    let mut bridge = bridge(engine, &fixture);
    bridge.ok("await mcp_fixture.pid()");
    let cut_off = "import asyncio\ntry:\n  await asyncio.wait_for(mcp_fixture.hang(), 0.2)\n\
                   except asyncio.TimeoutError:\n  print('gave up')";
    assert_eq!(bridge.ok(cut_off), "gave up");
    let failed = bridge.run(&format!("{cut_off}\n1 / 0"));
    let listed = failed.text.lines().any(|line| line == "calls made: fixture.hang 1 without an answer");
    assert!(listed, "{}", failed.text);
    assert!(!failed.text.contains("taken effect"), "{}", failed.text);
}

fn a_run_over_its_time_cancels_its_calls_at_the_server(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let mut bridge = bridge(engine, &fixture);
    // The server's start is not to take the time.
    bridge.ok("await mcp_fixture.peak()");
    for call in ["await mcp_fixture.hang()", "mcp_fixture.hang.sync()"] {
        let reply = bridge.run_with(json!({"code": call, "timeout": 0.5}));
        assert!(reply.text.starts_with("status: timeout\n"), "{}", reply.text);
        assert!(reply.text.contains("state: variables kept"), "{}", reply.text);
        assert!(reply.text.contains("(they may have taken effect): fixture.hang"), "{}", reply.text);
    }
    let cancelled = || fixture.ledger().iter().filter(|event| *event == "cancelled").count() == 2;
    eventually("the server is told", PATIENCE, cancelled);
    assert_eq!(bridge.ok("await mcp_fixture.echo(text='next')"), "'next'");
}

fn calls_left_behind_by_a_run_are_cancelled(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let mut bridge = bridge(engine, &fixture);
    // A call that is left while its server still starts is never sent.
    bridge.ok("await mcp_fixture.pid()");
    bridge.ok("import asyncio\ntask = asyncio.ensure_future(mcp_fixture.hang())\nawait asyncio.sleep(1)");
    let told = ["call pid {}", "call hang {}", "cancelled"];
    eventually("the server is told", PATIENCE, || fixture.ledger() == told);
    assert_eq!(bridge.ok("await mcp_fixture.echo(text='next')"), "'next'");
}

fn numbers_arrive_exactly_as_they_were_sent(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let mut bridge = bridge(engine, &fixture);
    let code = r#"
from mcp import runtime
big, result = 2**64 + 1, '{"content": [], "structuredContent": {"n": %d}}'
h = await mcp_fixture.odd.handle(result=result % big)
await mcp_fixture.add(a=big, b=-big)
await runtime.call_tool("fixture", "add", {"a": h["n"], "b": 0.7})
job = runtime.spawn(lambda: mcp_fixture.add.sync(a=10**30, b=1e-05))
job.wait()
(await mcp_fixture.odd(result=result % 10**30))["n"]
"#;
    assert_eq!(bridge.ok(code).lines().next(), Some("1000000000000000000000000000000"));
    let called: Vec<String> =
        fixture.ledger().into_iter().filter(|event| event.starts_with("call add")).collect();
    assert_eq!(
        called,
        [
            r#"call add {"a":18446744073709551617,"b":-18446744073709551617}"#,
            r#"call add {"a":18446744073709551617,"b":0.7}"#,
            r#"call add {"a":1000000000000000000000000000000,"b":1e-05}"#,
        ]
    );
}

fn a_large_result_arrives_whole(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let mut bridge = bridge(engine, &fixture);
    let code = "r = await mcp_fixture.big(bytes=32_000_000)\n(len(r), r.count('x'))";
    assert_eq!(bridge.ok(code), "(32000000, 32000000)");
}

fn a_result_over_the_bound_is_refused_by_name(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let mut bridge = bridge(engine, &fixture);
    let code = "from mcp.runtime import MCPError\ntry:\n  await mcp_fixture.big(bytes=70_000_000)\n\
                except MCPError as error:\n  print(error.code, error)";
    let text = bridge.ok(code);
    assert!(text.starts_with("too_large ") || text.starts_with("server_failed "), "{text}");
    assert!(text.contains("64 MiB") || text.contains("67108864") || text.contains("67,108,864"), "{text}");
    assert_eq!(bridge.ok("await mcp_fixture.echo(text='next')"), "'next'");
}

fn arguments_that_are_no_json_are_refused_before_they_leave(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let mut bridge = bridge(engine, &fixture);
    let cases = [
        ("float('nan')", "ValueError"),
        ("float('inf')", "ValueError"),
        ("loop", "ValueError"),
        ("deep", "ValueError"),
        ("b'bytes'", "TypeError"),
        ("{1, 2}", "TypeError"),
        ("object()", "TypeError"),
        (r"'\ud800'", "ValueError"),
        ("'x' * 9_000_000", "ValueError"),
        ("[{'$serde_json::private::RawValue': '[1]'}]", "InvalidCallError"),
    ];
    bridge.ok("loop = []; loop.append(loop)\ndeep = []\nfor _ in range(100_000): deep = [deep]");
    for (argument, exception) in cases {
        let code = format!(
            "try:\n  await mcp_fixture.echo(text={argument})\nexcept Exception as error:\n  e = error\ntype(e).__name__"
        );
        assert_eq!(bridge.ok(&code), format!("'{exception}'"), "{argument}");
    }
    assert_eq!(fixture.ledger(), [""; 0]);
    assert_eq!(bridge.ok("await mcp_fixture.echo(text='x' * 8_000_000) == 'x' * 8_000_000"), "True");
}

fn servers_that_were_not_given_are_unavailable_and_not_started(engine: &Engine) {
    let (given, other) = (Fixture::new(&[]), Fixture::new(&[]));
    let home = Home::on(engine).server("given", given.entry()).server("other", other.entry());
    let mut bridge = Bridge::start(&home).warm();
    let mut only_given = |code: &str| bridge.run_with(json!({"code": code, "servers": ["given"]})).text;
    assert_eq!(only_given("await mcp_given.echo(text='hi')"), "'hi'");
    for way in [
        "await mcp_servers['other'].echo(text='hi')",
        "runtime.call_tool_sync('other', 'echo', {'text': 'hi'})",
        "await runtime.call_tool('other', 'echo', {'text': 'hi'})",
        "runtime.list_tools_sync('other')",
    ] {
        let text = only_given(way);
        assert!(text.contains("Server 'other' is not available"), "{way}: {text}");
    }
    assert_eq!(only_given("(runtime.list_servers_sync(), LOADED_MCP_SERVERS)"), "(('given',), ('given',))");
    assert_eq!(other.pids(), [0; 0]);
    // A frame of its own making grants user code nothing either.
    let forge = "import os\nframe = b'{\"type\":\"call\",\"run\":%d,\"call\":99999,\"server\":\"other\",\"tool\":\"echo\",\"arguments\":{}}\\n'\n\
                 for fd in os.listdir('/proc/self/fd'):\n  for run in range(1, 12):\n    \
                 try: os.write(int(fd), frame % run)\n    except OSError: pass";
    only_given(forge);
    assert_eq!(only_given("1"), "1");
    assert_eq!(other.pids(), [0; 0]);
    // Omitted, every server can be reached.
    let reply = bridge.run_with(json!({"code": "await mcp_other.echo(text='now')", "reset": true}));
    assert!(reply.text.starts_with("'now'"), "{}", reply.text);
}

fn all_pages_of_tools_are_read(engine: &Engine) {
    let fixture = Fixture::new(&["--pages", "50"]);
    let mut bridge = bridge(engine, &fixture);
    assert_eq!(bridge.ok("len(await runtime.list_tools('fixture'))"), "515");
    assert_eq!(bridge.ok("await mcp_fixture.tool_9_of_page_50()"), "'tool_9_of_page_50 was called'");
}

fn every_tool_is_callable_whatever_its_name(engine: &Engine) {
    let fixture = Fixture::new(&["--awkward-names"]);
    let mut bridge = bridge(engine, &fixture);
    let code = "tools = await runtime.list_tools('fixture')\naliases = [tool['alias'] for tool in tools]\n\
                wrong = [tool for tool in tools if not tool['alias'].isidentifier()\n  \
                or await getattr(mcp_fixture, tool['alias'])() != tool['name'] + ' was called'\n  \
                or runtime.call_tool_sync('fixture', tool['name']) != tool['name'] + ' was called']\n\
                (len(tools), len(set(aliases)), wrong)";
    assert_eq!(bridge.ok(code), "(12, 12, [])");
}

fn a_changed_list_of_tools_is_read_again(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let mut bridge = bridge(engine, &fixture);
    let reply = bridge.run("await mcp_fixture.late()");
    assert!(reply.is_error && reply.text.contains("late"), "{}", reply.text);
    bridge.ok("await mcp_fixture.change_list()");
    let told = "server fixture has changed its tools (added: late)";
    assert_eq!(bridge.ok("await mcp_fixture.late()"), format!("'late was called'\nnote: {told}"));
    assert_eq!(bridge.ok("await mcp_fixture.late()"), "'late was called'");
    // Without a call of it too: it is asked beside the next run, and that run's reply or the one after it says so.
    let other = Fixture::new(&[]);
    let mut bridge = self::bridge(engine, &other);
    bridge.ok("await mcp_fixture.change_list()");
    eventually("it is told of", PATIENCE, || bridge.ok("1").contains(told));
    assert_eq!(bridge.ok("'late' in [tool['name'] for tool in runtime.list_tools_sync('fixture')]"), "True");
}

fn an_unknown_tool_is_refused_with_the_nearest_name(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let mut bridge = bridge(engine, &fixture);
    let reply = bridge.run("await mcp_fixture.ecko(text='hi')");
    assert!(reply.is_error);
    assert!(reply.text.contains("ecko") && reply.text.contains("echo"), "{}", reply.text);
    assert_eq!(fixture.ledger(), [""; 0]);
}

fn progress_is_told_to_a_client_that_asks(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let mut bridge = bridge(engine, &fixture);
    // Its start may take so long that it is reported, too.
    bridge.ok("await mcp_fixture.echo(text='0')");
    let params = json!({
        "name": "run_python",
        "arguments": {"code": "await mcp_fixture.echo(text='1')\nawait mcp_fixture.slow(ms=20)"},
        "_meta": {"progressToken": "mine"}
    });
    bridge.request("tools/call", params).unwrap();
    let heard: Vec<_> = (0..5)
        .map(|_| {
            let mut note = bridge.notification("notifications/progress")["params"].take();
            assert_eq!(note["progressToken"], "mine");
            (note["progress"].as_f64().unwrap(), note["message"].take())
        })
        .collect();
    let steps = ["running", "fixture.echo 0/1", "fixture.echo 1/1", "fixture.slow 1/2", "fixture.slow 2/2"];
    let steps: Vec<_> = (1..).zip(steps).map(|(step, said)| (f64::from(step), json!(said))).collect();
    assert_eq!(heard, steps);
    bridge.ok("await mcp_fixture.echo(text='1')");
    assert_eq!(bridge.rest(), [json!(null); 0], "nobody asked");
}

fn a_slow_start_of_a_server_is_in_the_progress_of_the_run_and_on_a_terminal(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let home = Home::on(engine).server("fixture", fixture.entry_after("sleep 3"));
    let code = "await mcp_fixture.echo(text='1')";
    let mut bridge = Bridge::start(&home).warm();
    let params = json!({"name": "run_python", "arguments": {"code": code}, "_meta": {"progressToken": "p"}});
    let run = bridge.send_request("tools/call", params);
    let waits = "waiting for fixture to start";
    bridge.message("the progress", |message| message["params"]["message"] == waits);
    assert!(bridge.reply(run).text.contains("'1'"));
    let shown = home.on_terminal(&["run", "-c", code], &[("TERM", "xterm")]);
    assert!(shown.contains(waits) && shown.contains("\u{1b}[2K'1'\n"), "{shown:?}");
    let piped = home.run(&["run", "-c", code]);
    assert_eq!((piped.code, piped.stderr.contains(waits)), (Some(0), false), "{}", piped.stderr);
}

fn a_run_that_waits_for_another_one_says_so_and_reset_ends_the_other_one(engine: &Engine) {
    let mut bridge = Bridge::start(&Home::on(engine)).warm();
    let asked = |code: &str, reset: bool| {
        let arguments = json!({"code": code, "reset": reset, "timeout": 60});
        json!({"name": "run_python", "arguments": arguments, "_meta": {"progressToken": code}})
    };
    // A client that sends no cancellation leaves the first run to itself.
    let left = bridge.send_request("tools/call", asked("import time\nx = 1\ntime.sleep(3)", false));
    let next = bridge.send_request("tools/call", asked("x", false));
    let waiting = bridge.message("that the run waits", |message| message["params"]["progressToken"] == "x");
    assert_eq!(waiting["params"]["message"], "waiting for the run before this one (0 s)");
    bridge.answer(left).unwrap();
    let reply = bridge.answer(next).unwrap()["content"][0]["text"].as_str().unwrap().to_owned();
    let note = reply.lines().nth(1).unwrap_or_default();
    assert!(note.starts_with("note: this run waited ") && reply.starts_with("1\n"), "{reply}");
    assert!(
        note.ends_with(" s for the run before it; a run with reset ends that one instead of waiting"),
        "{reply}"
    );
    // It would take longer than the test waits.
    let left = bridge.send_request("tools/call", asked("time.sleep(600)", false));
    bridge.message("that it runs", |message| message["params"]["progressToken"] == "time.sleep(600)");
    let behind = bridge.send_request("tools/call", asked("x", false));
    let fresh = bridge.send_request("tools/call", asked("'x' in globals()", true));
    let ended = [left, behind].map(|id| bridge.reply(id).text);
    let note = "note: a later run with reset has ended this one, and starts with fresh variables";
    assert!(ended[0].contains("error: Execution was cancelled\n") && ended[0].contains(note), "{}", ended[0]);
    assert!(ended[1].contains("the run was cancelled before it started"), "{}", ended[1]);
    assert!(bridge.reply(fresh).text.starts_with("False\nstate: fresh interpreter, as requested by reset"));
}

/// Every helper that the manual names, each with arguments, with `await` and without.
const TWINS: &str = r#"
def twice(x):
    """Two times x."""
    return 2 * x

# What is kept already is kept the same way by either.
runtime.save_tool(twice)
open("/tmp/kept.txt", "w").write("kept")
asked = {
    "search_tool_docs": ("add",), "query_tool_docs": ("fixture",), "list_tools": ("fixture",), "list_servers": (),
    "discovered_servers": (True,), "describe_server": ("fixture",), "list_loaded_server_metadata": (),
    "capability_summary": (), "list_resources": ("fixture",), "list_resource_templates": ("fixture",),
    "read_resource": ("fixture://text", "fixture"), "list_prompts": ("fixture",),
    "get_prompt": ("fixture", "greet", {"name": "Ada"}), "plan": (True,), "save": ("/tmp/kept.txt",),
    "save_tool": (twice,), "ask_llm": ("say it",), "map_llm": (["a", "b"], "say"), "chunk": ("some text",),
    "spawn": (twice, 2), "jobs": (), "job": (1,), "checkpoint": ("here",), "checkpoints": (), "packages": (),
    "run": ("python", "print(6 * 7)"), "call_tool": ("fixture", "echo", {"text": "hi"}), "show": ("shown",),
    "last_output": (), "handles": (), "forget_checkpoint": ("gone",), "restore": ("gone",), "resume": ("nine",),
}

def plain(value):
    # Of a job, a plan and the like what it is: each is another one.
    return value if isinstance(value, (str, tuple, list, dict, type(None))) else type(value).__name__

async def outcome(name, arguments, awaits):
    helper = getattr(runtime, name)
    try:
        return plain((await helper(*arguments)) if awaits else helper(*arguments))
    except Exception as error:
        refused.add(name)
        return type(error).__name__, str(error)

different, refused = {}, set()
for name, arguments in asked.items():
    # To await a job is to wait for its result.
    one = await outcome(name, arguments, awaits=name not in ("spawn", "job"))
    other = await outcome(name, arguments, awaits=False)
    if one != other:
        different[name] = one, other
"#;

fn helpers_without_await_say_what_those_with_it_do(engine: &Engine) {
    let fixture = Fixture::new(&["--resources"]);
    let mut bridge = Bridge::start(&Home::on(engine).server("fixture", fixture.entry())).warm();
    bridge.ok("while runtime.search_tool_docs_sync().indexing: pass");
    bridge.ok(TWINS);
    assert_eq!(bridge.ok("different"), "{}");
    // Without a model, and with names that nothing has; no other.
    assert_eq!(
        bridge.ok("sorted(refused)"),
        "['ask_llm', 'forget_checkpoint', 'map_llm', 'restore', 'resume']"
    );
    // None is left out: neither one of the manual nor one that has a twin.
    let helpers = "import re\nmanual = runtime.capability_summary().split('works with and without')[1].split('Replies:')[0]\n\
                   named = {n for n in re.findall(r'\\b(\\w+)\\(', manual) if hasattr(runtime, n)}\n\
                   twins = {n.removesuffix('_sync') for n in dir(runtime) if n.endswith('_sync')}\n\
                   (named - set(asked), twins ^ set(asked))";
    assert_eq!(bridge.ok(helpers), "(set(), set())");
}

fn python_in_the_sandbox_writes_at_once_in_utf_8_and_keeps_no_bytecode(engine: &Engine) {
    let mut bridge = bridge(engine, &Fixture::new(&[]));
    let names = "('PYTHONUNBUFFERED', 'PYTHONIOENCODING', 'PYTHONDONTWRITEBYTECODE')";
    // For the code, and for what it starts.
    let here = format!("import os, subprocess, sys\n[os.environ.get(name) for name in {names}]");
    assert_eq!(bridge.ok(&here), "['1', 'utf-8', '1']");
    let below = format!(
        "program = 'import os, sys; print([os.environ.get(n) for n in {{}}], sys.stdout.encoding, sys.dont_write_bytecode)'.format({names})\n\
         print(subprocess.run([sys.executable, '-c', program], capture_output=True, text=True).stdout)"
    );
    assert_eq!(bridge.ok(&below), "['1', 'utf-8', '1'] utf-8 True");
}

fn helpers_tell_of_the_servers(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let entry =
        json!({"command": Fixture::program(), "args": ["--crash-at-start"], "description": "the broken one"});
    let mut in_tmp = fixture.entry();
    in_tmp["cwd"] = json!("/tmp");
    let home = Home::on(engine).server("fixture", in_tmp).server("broken", entry);
    let mut bridge = Bridge::start(&home).warm();
    assert_eq!(bridge.ok("runtime.discovered_servers()"), "('broken', 'fixture')");
    let detailed = "({'name': 'broken', 'alias': 'broken', 'description': 'the broken one'},\n {'name': 'fixture', 'alias': 'fixture'})";
    assert_eq!(bridge.ok("runtime.discovered_servers(detailed=True)"), detailed);
    assert_eq!(bridge.ok("runtime.list_servers_sync() == await runtime.list_servers()"), "True");
    let described = "d = runtime.describe_server('fixture')\n(d['name'], d['alias'], d['tools'][0]['name'])";
    assert_eq!(bridge.ok(described), "('fixture', 'fixture', 'add')");
    let places = "[m['cwd'] for m in runtime.list_loaded_server_metadata()], runtime.describe_server('fixture')['cwd']";
    assert_eq!(bridge.ok(places), "([None, '/tmp'], '/tmp')");
    let metadata =
        "[(m['name'], len(m['tools'])) for m in runtime.list_loaded_server_metadata() if m['tools']]";
    assert_eq!(bridge.ok(metadata), "[('fixture', 15)]");
    let docs = "(await runtime.query_tool_docs('fixture', 'add', detail='full'))";
    assert!(bridge.ok(docs).contains("The fixture's add."));
    let found = bridge.ok("runtime.search_tool_docs_sync('add two numbers')");
    assert!(found.contains("add"), "{found}");
    let manual = bridge.ok("print(runtime.capability_summary())");
    assert!(manual.contains("mcp_fixture, 15 tools") && manual.contains("mcp_broken"), "{manual}");
    assert!(manual.contains("the broken one"), "{manual}");
}
