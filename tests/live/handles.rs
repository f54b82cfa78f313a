//! Results that stay on the host: data goes from tool to tool, and code holds a handle.

use serde_json::json;

use crate::on_one_engine_and_processes;
use crate::support::{Bridge, Engine, Fixture, Home};

on_one_engine_and_processes!(
    a_large_result_goes_from_tool_to_tool_without_entering_the_sandbox,
    parts_of_a_result_are_arguments_and_can_be_loaded,
    a_handle_that_stands_for_nothing_is_said_and_nothing_is_sent,
    a_failed_call_raises_and_gives_no_handle,
    binary_results_stay_from_servers_whose_entry_keeps_them,
    arguments_are_checked_as_if_they_had_been_sent,
    jobs_use_handles_and_return_them,
    handles_are_listed_dropped_and_outlive_the_interpreter_of_their_session,
);

fn warm(engine: &Engine, fixture: &Fixture) -> Bridge {
    Bridge::start(&Home::on(engine).server("fixture", fixture.entry())).warm()
}

/// What reached the tool.
fn calls(fixture: &Fixture, tool: &str) -> Vec<String> {
    let start = format!("call {tool} ");
    fixture.ledger().into_iter().filter(|event| event.starts_with(&start)).collect()
}

fn raised(bridge: &mut Bridge, code: &str) -> String {
    bridge
        .run(&format!("try:\n  {code}\nexcept Exception as error:\n  print(type(error).__name__, error)"))
        .text
}

fn a_large_result_goes_from_tool_to_tool_without_entering_the_sandbox(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let mut bridge = warm(engine, &fixture);
    let bytes = 24_000_000;
    // What the interpreter reads is in its memory as a whole.
    let code = format!(
        "from resource import getrusage\nbefore = getrusage(0).ru_maxrss\n\
         h = await mcp_fixture.big.handle(bytes={bytes})\n\
         echoed = await mcp_fixture.echo.handle(text=h)\n\
         print(h, echoed.bytes == h.bytes, getrusage(0).ru_maxrss - before < 8 << 10)"
    );
    let said = bridge.ok(&code);
    assert!(said.starts_with("<handle 1: a text of 24000000 characters from fixture.big, 24,0"), "{said}");
    assert!(said.ends_with("True True"), "{said}");
    let echoed = calls(&fixture, "echo");
    assert_eq!(echoed.len(), 1);
    assert!(echoed[0].len() > bytes, "{}", echoed[0].len());
    assert_eq!(
        bridge.ok("text = await h.load()\nlen(text), text[:3] == await h.head(3)"),
        format!("({bytes}, True)")
    );
}

fn parts_of_a_result_are_arguments_and_can_be_loaded(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let mut bridge = warm(engine, &fixture);
    let code = "rows = mcp_fixture.structured.handle_sync()\n\
                print(rows)\n\
                print(rows['rows'][-1]['title'])\n\
                await mcp_fixture.echo(text=rows['rows'][-1]['title']), mcp_fixture.add.sync(a=rows['rows'][0]['id'], b=40)";
    let said = bridge.ok(code);
    let lines: Vec<&str> = said.lines().collect();
    assert!(
        lines[0].starts_with("<handle 1: an object with 'rows', 'next' from fixture.structured, "),
        "{said}"
    );
    assert!(lines[1].starts_with("<['rows'][-1]['title'] of handle 1: "), "{said}");
    assert_eq!(lines[2], "('two', {'sum': 41.0})", "{said}");
    assert_eq!(calls(&fixture, "echo"), [r#"call echo {"text":"two"}"#]);
    assert_eq!(bridge.ok("rows['rows'][0].load_sync()"), "{'id': 1, 'title': 'one'}");
    assert_eq!(bridge.ok("(await rows.load())['rows'][1]['id']"), "2");
    let code = "listed = await runtime.call_tool('fixture', 'echo', {'text': '[1, [2, 3]]'}, handle=True)\n\
                await mcp_fixture.echo(text=listed), await listed.json.load(), await listed[1][0].load()";
    assert_eq!(bridge.ok(code), "([1, [2, 3]], [1, [2, 3]], 2)");
    assert_eq!(calls(&fixture, "echo").last().unwrap(), r#"call echo {"text":"[1, [2, 3]]"}"#);
}

fn a_handle_that_stands_for_nothing_is_said_and_nothing_is_sent(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let mut bridge = warm(engine, &fixture);
    bridge.ok("rows = await mcp_fixture.structured.handle();");
    let missing = raised(&mut bridge, "await mcp_fixture.echo(text=rows['row'])");
    assert!(missing.contains("handle 1 (fixture.structured) has no key 'row'"), "{missing}");
    assert!(missing.contains("it is an object with 'rows', 'next'"), "{missing}");
    let gone = raised(&mut bridge, "rows.drop(); await mcp_fixture.echo(text=rows)");
    assert!(gone.contains("handle 1 is not kept any more"), "{gone}");
    assert!(gone.contains("make its call again"), "{gone}");
    let looked = raised(&mut bridge, "for row in rows: pass");
    assert!(looked.contains("TypeError a handle cannot be gone through"), "{looked}");
    let made_up = "await runtime.call_tool('fixture', 'echo', {'text': type(rows)({'handle': 99, 'server': 'x', 'tool': 'y', 'bytes': 1, 'told': ''})})";
    let made_up = raised(&mut bridge, made_up);
    assert!(made_up.contains("there is no handle 99"), "{made_up}");
    assert!(calls(&fixture, "echo").is_empty(), "{:?}", fixture.ledger());
}

fn a_failed_call_raises_and_gives_no_handle(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let mut bridge = warm(engine, &fixture);
    let said = raised(&mut bridge, "await mcp_fixture.fail.handle(message='no such order')");
    assert!(said.contains("ToolError") && said.contains("no such order"), "{said}");
    assert_eq!(bridge.ok("runtime.handles()"), "no handles");
}

fn binary_results_stay_from_servers_whose_entry_keeps_them(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let mut entry = fixture.entry();
    entry["sandboxFiles"] = json!(false);
    let home = Home::on(engine).server("fixture", entry);
    let mut bridge = Bridge::start(&home).warm();
    let said = raised(&mut bridge, "await mcp_fixture.echo(text=await mcp_fixture.image.handle())");
    assert!(said.contains("holds binary content, which the server's entry keeps from it"), "{said}");
    assert!(calls(&fixture, "echo").is_empty(), "{:?}", fixture.ledger());
}

fn arguments_are_checked_as_if_they_had_been_sent(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let policy = "[[rule]]\narguments = { text = \"two\" }\ndecision = \"deny\"\n";
    let home =
        Home::on(engine).server("fixture", fixture.entry()).file(".config/belljar/policy.toml", policy);
    let mut bridge = Bridge::start(&home).warm();
    bridge.ok("rows = await mcp_fixture.structured.handle();");
    let wrong = raised(&mut bridge, "await mcp_fixture.echo(text=rows['rows'])");
    assert!(wrong.contains("InvalidCallError"), "{wrong}");
    let denied = raised(&mut bridge, "await mcp_fixture.echo(text=rows['rows'][1]['title'])");
    assert!(denied.contains("fixture.echo was not called: rule 1"), "{denied}");
    assert_eq!(bridge.ok("await mcp_fixture.echo(text=rows['rows'][0]['title'])"), "'one'");
    assert_eq!(calls(&fixture, "echo"), [r#"call echo {"text":"one"}"#]);
}

fn jobs_use_handles_and_return_them(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let mut bridge = warm(engine, &fixture);
    let code = "rows = await mcp_fixture.structured.handle()\n\
                async def f():\n  await mcp_fixture.echo(text=rows['rows'][1]['title'])\n  \
                return await mcp_fixture.big.handle(bytes=2_000_000)\n\
                big = await runtime.spawn(f())\nprint(big, len(await big.load()))";
    let said = bridge.ok(code);
    assert!(said.starts_with("<handle 2: a text of 2000000 characters from fixture.big, "), "{said}");
    assert!(said.lines().next().unwrap().ends_with(" bytes> 2000000"), "{said}");
    assert_eq!(calls(&fixture, "echo"), [r#"call echo {"text":"two"}"#]);
}

fn handles_are_listed_dropped_and_outlive_the_interpreter_of_their_session(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let mut bridge = warm(engine, &fixture);
    bridge.ok("for text in ('a', 'b', 'c'): await mcp_fixture.echo.handle(text=text)");
    bridge.ok("runtime.handles()[1].drop()");
    let lost = bridge.run("import os\nos._exit(1)");
    assert!(lost.is_error, "{}", lost.text);
    let said = bridge.ok("print(runtime.handles())\nawait mcp_fixture.echo(text=runtime.handles()[-1])");
    let lines: Vec<&str> = said.lines().filter(|line| !line.starts_with("state: ")).collect();
    assert_eq!(lines.len(), 3, "{said}");
    assert!(lines[0].starts_with("<handle 1: a text of 1 characters from fixture.echo, "), "{said}");
    assert!(lines[1].starts_with("<handle 3: "), "{said}");
    assert_eq!(lines[2], "'c'", "{said}");
}
