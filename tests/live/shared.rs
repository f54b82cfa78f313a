//! Sessions of one shared bridge: they share servers, and nothing else.

use serde_json::json;

use crate::on_one_engine_and_processes;
use crate::support::{Bridge, Engine, Fixture, Home, PATIENCE, eventually};

on_one_engine_and_processes!(
    sessions_share_the_servers_of_equal_configurations_and_nothing_else,
    runs_of_one_client_have_the_order_of_its_requests,
    many_calls_of_one_session_keep_no_other_one_waiting,
    each_session_has_a_private_server_of_its_own,
);

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

fn runs_of_one_client_have_the_order_of_its_requests(engine: &Engine) {
    let home = Home::on(engine).env("MCP_BRIDGE_SHARED", "1");
    let mut client = Bridge::start(&home).warm();
    client.ok("seen = []");
    let runs: Vec<i64> =
        (0..15).map(|n| client.send_run(json!({"code": format!("seen.append({n})")}))).collect();
    for run in runs {
        client.reply(run);
    }
    assert_eq!(client.ok("print(seen == list(range(15)), seen)").split(' ').next(), Some("True"));
    home.run(&["serve", "stop"]);
}

fn many_calls_of_one_session_keep_no_other_one_waiting(engine: &Engine) {
    let one = Fixture::new(&[]);
    let mut entry = one.entry();
    entry["max_concurrency"] = json!(2);
    let home = Home::on(engine).server("one", entry).env("MCP_BRIDGE_SHARED", "1");
    let mut first = Bridge::start(&home).warm();
    let mut second = Bridge::start(&home).warm();
    let warm = "import asyncio, time\nimport mcp.servers.one as one\nawait one.slow(ms=1)";
    first.ok(warm);
    second.ok(warm);
    let flood = "ends = []\nasync def call():\n    await one.slow(ms=50)\n    ends.append(time.time())\n\
                 await asyncio.gather(*[call() for _ in range(80)])\nprint(*ends)";
    let flood = first.send_run(json!({"code": flood}));
    let times = second
        .ok("await asyncio.sleep(0.5)\nbegan = time.time()\nawait one.slow(ms=1)\nprint(began, time.time())");
    let numbers = |text: &str| -> Vec<f64> {
        text.split_whitespace().filter_map(|number| number.parse().ok()).collect()
    };
    let (ends, times) = (numbers(&first.reply(flood).text), numbers(&times));
    let meanwhile = ends.iter().filter(|end| (times[0]..times[1]).contains(end)).count();
    let later = ends.iter().filter(|end| **end > times[1]).count();
    // Two calls were in progress, and as many more could begin before the other session's. A busy machine adds some.
    assert!(ends.len() == 80 && meanwhile <= 30 && later > 20, "{meanwhile} ended meanwhile, {later} later");
    home.run(&["serve", "stop"]);
}

fn each_session_has_a_private_server_of_its_own(engine: &Engine) {
    let one = Fixture::new(&[]);
    let mut entry = one.entry();
    entry["private"] = json!(true);
    let home = Home::on(engine).server("one", entry).env("MCP_BRIDGE_SHARED", "1");
    let mut first = Bridge::start(&home).warm();
    let mut second = Bridge::start(&home).warm();
    let (of_first, of_second) = (first.ok(SERVER), second.ok(SERVER));
    assert_ne!(of_first, of_second);
    assert_eq!((first.ok(SERVER), second.ok(SERVER)), (of_first.clone(), of_second.clone()));
    drop(first);
    let pid = of_first.trim().to_owned();
    eventually("its server has ended", PATIENCE, || !std::path::Path::new("/proc").join(&pid).exists());
    assert_eq!(second.ok(SERVER), of_second);
    home.run(&["serve", "stop"]);
}
