//! Sessions of one shared bridge: they share servers, and nothing else.

use serde_json::json;

use crate::on_one_engine_and_processes;
use crate::support::{Bridge, Engine, Fixture, Home, PATIENCE, eventually};

on_one_engine_and_processes!(sessions_share_the_servers_of_equal_configurations_and_nothing_else,);

const SERVER: &str = "import mcp.servers.one as one\nprint(await one.pid())";

fn sessions_share_the_servers_of_equal_configurations_and_nothing_else(engine: &Engine) {
    let one = Fixture::new(&[]);
    let home = Home::on(engine).server("one", one.entry()).env("MCP_BRIDGE_SHARED", "1");
    let mut first = Bridge::start(&home).warm();
    let mut second = Bridge::start(&home).warm();
    let server = first.ok(SERVER);
    assert_eq!(second.ok(SERVER), server, "one process for both");
    first.ok("x = 1\nopen('/workspace/x', 'w').write('x')\nruntime.state['x'] = 1");
    assert_eq!(
        second.ok("import os\nprint('x' in globals(), os.listdir('/workspace'), dict(runtime.state))"),
        "False [] {}"
    );
    // Another setting is another configuration.
    let other = home.clone().env("MCP_BRIDGE_TIMEOUT", "17");
    let mut third = Bridge::start(&other).warm();
    assert_ne!(third.ok(SERVER), server);
    // A killed client takes its sandbox with it, and nobody else's.
    let sandbox = first.ok("import os\nprint(os.stat('/').st_dev)");
    drop(first);
    eventually("its session has ended", PATIENCE, || {
        home.run(&["serve", "status"]).stdout.contains("serves 2 ")
    });
    assert_eq!(second.ok(SERVER), server, "{sandbox}");
    assert_eq!(second.request("tools/list", json!({})).unwrap()["tools"][0]["name"], "run_python");
    assert_eq!(home.run(&["serve", "stop"]).code, Some(0));
    second.says("the shared bridge has ended");
}
