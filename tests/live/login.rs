//! A server that wants a login, as code and its user meet it.

use serde_json::json;

use crate::on_one_engine_and_processes;
use crate::support::authorization::{Authorization, log_in};
use crate::support::{Bridge, Engine, Home};

on_one_engine_and_processes!(a_run_that_needs_a_login_says_the_command_and_the_next_one_after_it_works);

fn a_run_that_needs_a_login_says_the_command_and_the_next_one_after_it_works(engine: &Engine) {
    let servers = Authorization::start(3_600);
    let home =
        Home::on(engine).server("far", json!({"url": servers.mcp})).env("MCP_BRIDGE_LOG_LEVEL", "TRACE");
    let mut bridge = Bridge::start(&home).warm();
    let call = "r = await mcp_far.whoami(); print(r)";

    let without = bridge.run(call);
    assert!(without.is_error, "{}", without.text);
    assert!(without.text.contains("belljar login far"), "{}", without.text);
    let listed = bridge.ok("print(await runtime.search_tool_docs('who'))");
    assert!(listed.contains("belljar login far"), "{listed}");

    assert_eq!(log_in(&home, &["far"]).code, Some(0));
    assert!(bridge.ok(call).contains("you are ada"));
    let found = bridge.ok("print(await runtime.search_tool_docs('who'))");
    assert!(found.contains("whoami"), "{found}");
    servers.expire();
    assert!(bridge.ok(call).contains("you are ada"), "the token is renewed");
    let echoed = bridge.run("await mcp_far.echo_token()");
    assert!(echoed.is_error && echoed.text.contains("your token is [login]"), "{}", echoed.text);
    let inside = bridge.ok("import os; print(dict(os.environ), open('/proc/self/mountinfo').read())");

    servers.revoke();
    let revoked = bridge.run(call);
    assert!(revoked.is_error && revoked.text.contains("belljar login far"), "{}", revoked.text);
    assert_eq!(log_in(&home, &["far"]).code, Some(0));
    assert!(bridge.ok(call).contains("you are ada"));
    assert_eq!(home.run(&["logout", "far"]).code, Some(0));
    let gone = bridge.run(call);
    assert!(gone.is_error && gone.text.contains("belljar login far"), "{}", gone.text);

    let said = format!("{}{inside}{}{}{}", bridge.stderr(), without.text, revoked.text, echoed.text);
    let tokens = servers.tokens();
    assert!(tokens.len() > 4);
    assert!(tokens.iter().all(|token| !said.contains(token)), "a token is in what the bridge says");
    let log = home.run(&["log", "--json"]).stdout;
    assert!(log.contains("whoami") && tokens.iter().all(|token| !log.contains(token)), "{log}");
}
