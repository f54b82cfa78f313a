//! Bridge, container and interpreter killed while code saves one version after the other: what was acknowledged is there, and
//! nothing is half written.

use std::path::Path;
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::on_one_engine_and_processes;
use crate::support::{Bridge, Engine, Fixture, Home, PATIENCE, eventually};

on_one_engine_and_processes!(
    a_bridge_that_is_killed_while_it_saves_loses_nothing_acknowledged,
    a_container_that_is_killed_while_it_saves_loses_nothing_acknowledged,
    an_interpreter_that_is_killed_while_it_saves_loses_nothing_acknowledged,
);

/// Saves ever new versions; a server hears of each once it has been acknowledged.
const SAVES: &str = "\
n = 0
while True:
    n += 1
    source = f'def counted():\\n    \"{\"x\" * 20_000}\"\\n    return {n}\\n'
    mcp.runtime._calls.call_sync(None, 'save_tool', {'name': 'counted', 'source': source})
    mcp_fixture.echo.sync(text=str(n))
";

fn acknowledged(fixture: &Fixture) -> u64 {
    let heard = fixture.ledger();
    let number = |line: &String| {
        let digits: String = line.strip_prefix("call echo")?.chars().filter(char::is_ascii_digit).collect();
        digits.parse().ok()
    };
    heard.iter().filter_map(number).max().unwrap_or(0)
}

/// The number that the kept function returns in a session of its own, once every file is whole.
fn kept(home: &Home, least: u64) {
    let tools = home.path().join("MCPs/tools");
    let versions = whole_files(&tools.join(".history/counted"));
    // A kill between a new version and the removal of the oldest one leaves one more than the 20 that are kept.
    assert!((1..=21).contains(&versions), "{versions} versions");
    let listed = home.run(&["skill", "ls"]);
    assert_eq!((listed.code, listed.stdout.lines().count()), (Some(0), 1), "{listed:?}");
    let history = home.run(&["skill", "history", "counted"]);
    assert_eq!(history.stdout.lines().count(), versions, "none of them was changed: {history:?}");
    let mut bridge = Bridge::start(home).warm();
    let now: u64 = bridge.ok("from skills import counted\ncounted()").parse().unwrap();
    // The last one may have been kept without anybody hearing of it.
    assert!((least..=least + 1).contains(&now), "{now}, acknowledged {least}");
    bridge.ok("def counted():\n    return -1\nsave_tool(counted)");
    assert!(!tools.join(".part").exists(), "what was half written is gone with the next");
    assert_eq!(bridge.ok("counted()"), "-1");
}

/// How many versions stand there; besides, at most what was being written.
fn whole_files(dir: &Path) -> usize {
    let entries =
        std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let (versions, other): (Vec<_>, Vec<_>) = entries.partition(|name| name.ends_with(".py"));
    assert!(other.is_empty() || other == [".part"], "{other:?}");
    versions.len()
}

/// Kills at several moments of its writing.
fn each_time(engine: &Engine, mut kill: impl FnMut(&mut Bridge, &Home)) {
    for saved in [1, 3, 4, 6, 25] {
        let fixture = Fixture::new(&[]);
        let home = Home::on(engine).server("fixture", fixture.entry());
        let mut bridge = Bridge::start(&home).warm();
        bridge.send_run(serde_json::json!({"code": SAVES, "timeout": 100}));
        eventually("some are kept", PATIENCE, || acknowledged(&fixture) >= saved);
        std::thread::park_timeout(Duration::from_micros(saved * 317));
        kill(&mut bridge, &home);
        drop(bridge);
        kept(&home, acknowledged(&fixture));
    }
}

fn a_bridge_that_is_killed_while_it_saves_loses_nothing_acknowledged(engine: &Engine) {
    each_time(engine, |bridge, _| {
        bridge.signal(Signal::SIGKILL);
        bridge.wait(PATIENCE);
    });
}

fn a_container_that_is_killed_while_it_saves_loses_nothing_acknowledged(engine: &Engine) {
    each_time(engine, |bridge, home| {
        for container in engine.containers_of(&home.owners()) {
            engine.kill_container(&container);
        }
        bridge.says("went away");
    });
}

fn an_interpreter_that_is_killed_while_it_saves_loses_nothing_acknowledged(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let home = Home::on(engine).server("fixture", fixture.entry());
    let mut bridge = Bridge::start(&home).warm();
    // By a thread of its own, in the middle of whatever the main one does.
    let dies = "import os, threading, time\nthreading.Thread(target=lambda: (time.sleep(0.4), os.kill(os.getpid(), 9))).start()\n";
    let reply = bridge.run(&format!("{dies}{SAVES}"));
    assert!(reply.is_error, "{}", reply.text);
    drop(bridge);
    let least = acknowledged(&fixture);
    assert!(least > 0, "{}", reply.text);
    kept(&home, least);
}
