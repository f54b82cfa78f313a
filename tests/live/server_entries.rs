//! What a server's entry says, held also against code: tools that are kept back, the time of calls, values from files and
//! commands.

use serde_json::{Value, json};

use crate::on_one_engine_and_processes;
use crate::support::{Bridge, Engine, Fixture, Home};

on_one_engine_and_processes!(
    tools_that_an_entry_keeps_back_are_found_nowhere_and_called_by_no_name,
    a_call_ends_with_the_time_of_its_entry_and_the_run_goes_on,
    binary_values_are_sent_to_no_server_whose_entry_keeps_them,
    a_server_that_cannot_be_used_is_told_with_its_reason,
    values_from_files_and_commands_reach_the_server_and_no_text,
);

/// The fixture's entry with more keys.
fn entry(fixture: &Fixture, more: Value) -> Value {
    let mut entry = fixture.entry();
    entry.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    entry
}

/// What code raises: the code and the message without its hint.
fn raised(bridge: &mut Bridge, call: &str) -> String {
    let code = format!(
        "name, server = 'add', 'fixture'\ntry:\n  {call}\nexcept runtime.MCPError as error:\n  \
         print(error.code, error.args[0])"
    );
    bridge.ok(&code).lines().next().unwrap_or_default().to_owned()
}

fn tools_that_an_entry_keeps_back_are_found_nowhere_and_called_by_no_name(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let chosen = entry(&fixture, json!({"allow": ["echo", "add", "im*"], "deny": ["add"]}));
    let home = Home::on(engine).server("fixture", chosen);
    let file = home.path().join("MCPs/servers.json").display().to_string();
    let mut bridge = Bridge::start(&home).warm();
    assert_eq!(bridge.ok("[tool['name'] for tool in await mcp_fixture.list_tools()]"), "['echo', 'image']");
    let found = "found = runtime.search_tool_docs_sync('', limit=50)\n[hit['tool'] for hit in found]";
    assert_eq!(bridge.ok(found), "['echo', 'image']");
    assert_eq!(
        bridge.ok("[name for name in dir(mcp_fixture) if name in ('add', 'peak', 'echo')]"),
        "['echo']"
    );
    let kept_back = |tool: &str, key: &str| {
        format!("denied fixture.{tool} is not offered: mcpServers.fixture.{key} of {file} keeps it back")
    };
    for (call, tool, key) in [
        ("await runtime.call_tool(server, name, {'a': 1, 'b': 2})", "add", "deny"),
        ("getattr(mcp_fixture, name).sync(a=1, b=2)", "add", "deny"),
        ("await mcp_servers[server].__getattr__(name.upper())(a=1, b=2)", "add", "deny"),
        ("runtime.query_tool_docs_sync(server, name)", "add", "deny"),
        ("await runtime.call_tool(server, 'pe' + 'ak', {})", "peak", "allow"),
    ] {
        assert_eq!(raised(&mut bridge, call), kept_back(tool, key), "{call}");
    }
    // Before any of the code runs.
    let reply = bridge.run("print('begun')\nawait mcp_fixture.add(a=1, b=2)");
    assert!(
        reply.is_error && reply.text.contains(&kept_back("add", "deny")["denied ".len()..]),
        "{}",
        reply.text
    );
    assert!(!reply.text.contains("begun"), "{}", reply.text);
    assert_eq!(fixture.ledger(), [""; 0]);
    assert_eq!(bridge.ok("await mcp_fixture.echo(text='x')"), "'x'");
    assert_eq!(fixture.ledger().len(), 1, "{:?}", fixture.ledger());
    drop(bridge);

    // Found from what was kept on the disk, by a bridge that starts no server.
    let mut bridge = Bridge::start(&home).warm();
    let starts = fixture.pids().len();
    assert_eq!(bridge.ok(found), "['echo', 'image']");
    assert_eq!(fixture.pids().len(), starts);
    // Edited: it counts from the next run on, and what is known is as the entry says now.
    let home = home.server("fixture", entry(&fixture, json!({"allow": ["add"]})));
    assert!(bridge.ok("await mcp_fixture.add(a=1, b=2)").contains("changed: fixture"));
    assert!(
        raised(&mut bridge, "await runtime.call_tool(server, 'ec' + 'ho', {})")
            .starts_with("denied fixture.echo")
    );
    drop(home);
}

fn a_call_ends_with_the_time_of_its_entry_and_the_run_goes_on(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let home =
        Home::on(engine).server("fixture", entry(&fixture, json!({"timeout": 0.3, "maxConcurrency": 2})));
    let file = home.path().join("MCPs/servers.json").display().to_string();
    let mut bridge = Bridge::start(&home).warm();
    let said = raised(&mut bridge, "await mcp_fixture.hang()");
    let limit = "server 'fixture' did not answer within the 0.3 s that it has for a call";
    assert_eq!(
        said,
        format!(
            "deadline {limit} (timeout in mcpServers.fixture of {file}); whether the call took effect is unknown"
        )
    );
    let code = "import asyncio\nawait asyncio.gather(*(mcp_fixture.slow(ms=20) for _ in range(6)))\nawait mcp_fixture.peak()";
    assert!(["'1'", "'2'"].contains(&bridge.ok(code).as_str()));
}

fn binary_values_are_sent_to_no_server_whose_entry_keeps_them(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let home = Home::on(engine).server("fixture", entry(&fixture, json!({"sandboxFiles": false})));
    let mut bridge = Bridge::start(&home).warm();
    let said =
        raised(&mut bridge, "picture = await mcp_fixture.image()\n  await mcp_fixture.echo(text=picture)");
    assert_eq!(
        said,
        "invalid_arguments nothing was sent to fixture.echo: arguments['text'] is a binary value of the sandbox, which its \
         entry keeps from this server (sandbox_files = false)"
    );
    assert!(fixture.ledger().iter().all(|line| !line.contains("echo")), "{:?}", fixture.ledger());
}

fn a_server_that_cannot_be_used_is_told_with_its_reason(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let unset = entry(&fixture, json!({"env": {"TOKEN": "${NO_SUCH_TOKEN}"}}));
    let failing = entry(&fixture, json!({"env": {"TOKEN": "${cmd:sh -c 'echo s3cret; exit 9'}"}}));
    let home =
        Home::on(engine).env("MCP_BRIDGE_ALLOW_CMD", "1").server("un-set", unset).server("failing", failing);
    let mut bridge = Bridge::start(&home).warm();
    let said = bridge.run("print('begun')\nawait mcp_un_set.echo(text='x')").text;
    assert!(said.contains("server 'un-set' is configured, but cannot be used: "), "{said}");
    assert!(
        said.contains("refers to ${NO_SUCH_TOKEN}, which is not set") && !said.contains("begun"),
        "{said}"
    );
    let said =
        raised(&mut bridge, "server = 'un-set'\n  await runtime.call_tool(server, 'echo', {'text': 'x'})");
    assert!(
        said.starts_with("server_unavailable server 'un-set' is configured, but cannot be used: "),
        "{said}"
    );
    let said =
        raised(&mut bridge, "server = 'failing'\n  await runtime.call_tool(server, 'echo', {'text': 'x'})");
    assert_eq!(
        said,
        "server_unavailable server 'failing' is configured, but cannot be used: its ${cmd:sh …} failed (exit status: 9)"
    );
    assert_eq!(fixture.pids(), [0; 0]);
}

fn values_from_files_and_commands_reach_the_server_and_no_text(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let env = json!({"A": "a ${file:tokens/a}", "B": "b ${cmd:printf from-a-command}"});
    let home = Home::on(engine)
        .env("MCP_BRIDGE_ALLOW_CMD", "1")
        .file("MCPs/tokens/a", "from-a-file\n")
        .server("fixture", entry(&fixture, json!({"env": env})));
    let mut bridge = Bridge::start(&home).warm();
    let said = raised(&mut bridge, "await mcp_fixture.fail(message='from-a-' + 'file, from-a-' + 'command')");
    assert!(said.contains("[file], [cmd]"), "{said}");
    let environment = |pid: i32| std::fs::read(format!("/proc/{pid}/environ")).unwrap();
    let holds = |pid: i32, pair: &[u8]| environment(pid).split(|byte| *byte == 0).any(|found| found == pair);
    let first = fixture.living()[0];
    assert!(holds(first, b"A=a from-a-file") && holds(first, b"B=b from-a-command"));
    // A file that is changed is a change of its server.
    let home = home.file("MCPs/tokens/a", "from-another-file\n");
    assert!(bridge.ok("await mcp_fixture.echo(text='x')").contains("(changed: fixture)"));
    let second = *fixture.pids().last().unwrap();
    assert!(first != second && holds(second, b"A=a from-another-file"));
    assert!(!bridge.stderr().contains("from-a-"), "{}", bridge.stderr());
    drop(home);
}
