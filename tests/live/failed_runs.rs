//! Runs that fail after they have called: the reply lists what was done already, however the run ended.

use serde_json::{Value, json};

use crate::on_one_engine_and_processes;
use crate::support::bridge::Reply;
use crate::support::{Bridge, Engine, Fixture, Home, PATIENCE, eventually};

on_one_engine_and_processes!(a_run_that_fails_lists_the_calls_that_it_made_however_it_ends);

const FIRST: &str =
    "import os\nmcp_fixture.echo.sync(text='1')\nmcp_fixture.echo.sync(text='2')\nmcp_fixture.peak.sync()\n";

/// The calls by tool: answered, failed, unknown, not sent, and whether the tool is not marked read-only.
type Listed<'a> = &'a [(&'a str, [u64; 4], bool)];

#[track_caller]
fn lists(reply: &Reply, line: &str, further: Listed) {
    assert!(reply.is_error);
    let begun = "calls made: fixture.echo* 2 ok, fixture.peak 1 ok";
    let found = reply.text.lines().find(|line| line.starts_with("calls made: "));
    assert_eq!(found, Some(format!("{begun}{line} (* not marked read-only)").as_str()), "{}", reply.text);
    let row = |(tool, [ok, failed, unknown, refused], unmarked): &(&str, [u64; 4], bool)| {
        json!({
            "tool": format!("fixture.{tool}"), "ok": ok, "failed": failed, "unknown": unknown,
            "notSent": refused, "notMarkedReadOnly": unmarked
        })
    };
    let begun: Listed = &[("echo", [2, 0, 0, 0], true), ("peak", [1, 0, 0, 0], false)];
    let structured = reply.structured.as_ref().expect("structured content was asked for");
    assert_eq!(structured["calls"], begun.iter().chain(further).map(row).collect::<Value>());
}

fn a_run_that_fails_lists_the_calls_that_it_made_however_it_ends(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let home = Home::on(engine).server("fixture", fixture.entry()).env("MCP_BRIDGE_STRUCTURED", "1");
    let mut bridge = Bridge::start(&home).warm();
    let mut run = |code: &str| bridge.run_with(json!({"code": format!("{FIRST}{code}"), "timeout": 2}));

    let exception = run("try: mcp_fixture.fail.sync()\nexcept Exception: pass\n1 / 0");
    lists(&exception, ", fixture.fail* 1 failed", &[("fail", [0, 1, 0, 0], true)]);
    let refused = run("mcp_fixture.refuse.sync()");
    lists(&refused, ", fixture.refuse* 1 failed", &[("refuse", [0, 1, 0, 0], true)]);
    let never_sent = run("getattr(mcp_fixture, 'ecko').sync()");
    lists(&never_sent, ", fixture.ecko 1 not sent", &[("ecko", [0, 0, 0, 1], false)]);
    let timeout = run("mcp_fixture.hang.sync()");
    lists(&timeout, ", fixture.hang* 1 of unknown outcome", &[("hang", [0, 0, 1, 0], true)]);
    for death in ["os._exit(7)", "os.kill(os.getpid(), 9)"] {
        lists(&run(death), "", &[]);
    }
    let dead_server = run("mcp_fixture.crash.sync()");
    lists(&dead_server, ", fixture.crash* 1 of unknown outcome", &[("crash", [0, 0, 1, 0], true)]);
    let succeeded = run("1");
    assert_eq!(succeeded.text, "1");
    assert_eq!(succeeded.structured.unwrap().get("calls"), None);

    let hangs = || fixture.ledger().iter().filter(|event| event.starts_with("call hang")).count();
    let before = hangs();
    let id = bridge.send_run(json!({"code": format!("{FIRST}mcp_fixture.hang.sync()"), "timeout": 60}));
    eventually("the call is under way", PATIENCE, || hangs() > before);
    engine.kill_container(&engine.containers_of(&home.owners())[0]);
    lists(&bridge.reply(id), ", fixture.hang* 1 of unknown outcome", &[("hang", [0, 0, 1, 0], true)]);
}
