//! The machine's clock jumps, as after sleep or when its time is set: nothing of belljar goes by it. And the sandbox's
//! clock has the user's time zone.

use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use crate::on_every_engine;
use crate::support::{Bridge, Engine, Fixture, Home, PATIENCE};

on_every_engine!(
    a_clock_that_jumps_costs_no_run_and_no_sandbox,
    code_has_the_time_zone_of_the_user_and_a_resumed_session_that_of_before,
);

/// Ten years, there and back.
const JUMPS: [&str; 3] = ["+3650d", "-3650d", "+0"];

fn code_has_the_time_zone_of_the_user_and_a_resumed_session_that_of_before(engine: &Engine) {
    let home = Home::on(engine).env("TZ", "Asia/Tokyo");
    let mut bridge = Bridge::start(&home).warm();
    let hours = "import datetime\ndatetime.datetime.now().astimezone().utcoffset().seconds / 3600";
    assert_eq!(bridge.ok(hours), "9.0");
    assert!(
        bridge.ok("print(runtime.capability_summary())").contains("the user's time zone, Asia/Tokyo, or")
    );
    bridge.hang_up();
    bridge.wait(PATIENCE);
    let home = home.env("TZ", "UTC");
    let mut other = Bridge::start(&home);
    assert_eq!(other.first(hours), "0.0");
    let earlier = sessions(&home).swap_remove(0);
    // There its sandbox goes on, whose clock is another one.
    let said = other.ok("runtime.resume('last')");
    assert!(said.contains("; its clock had the time zone Asia/Tokyo, and here it has UTC"), "{said}");
    let replayed = home.run(&["session", "replay", &earlier]);
    assert!(replayed.stdout.contains("run 2: same"), "{} {}", replayed.stdout, replayed.stderr);
    let home = home.env("MCP_BRIDGE_RESUME", &earlier);
    let resumed = Bridge::start(&home).first(hours);
    assert!(resumed.starts_with("9.0"), "{resumed}");
}

/// The sessions of this home, the earliest first.
fn sessions(home: &Home) -> Vec<String> {
    let listed = home.run(&["session", "ls", "--json"]).stdout;
    let id = |line: &str| serde_json::from_str::<Value>(line).unwrap()["id"].as_str().unwrap().to_owned();
    listed.lines().map(id).collect()
}

fn a_clock_that_jumps_costs_no_run_and_no_sandbox(engine: &Engine) {
    let library = library();
    let fixture = Fixture::new(&[]);
    let home = Home::on(engine).server("fixture", fixture.entry()).file("clock", "+0");
    let clock = home.path().join("clock");
    let jumping = [
        ("LD_PRELOAD", library.to_str().unwrap()),
        ("FAKETIME_TIMESTAMP_FILE", clock.to_str().unwrap()),
        ("FAKETIME_NO_CACHE", "1"),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
    ];
    let home = jumping.iter().fold(home, |home, (name, value)| home.env(name, value));
    let year = || -> i32 {
        let date = Command::new("date").arg("+%Y").envs(jumping).output().unwrap();
        String::from_utf8(date.stdout).unwrap().trim().parse().unwrap()
    };
    let mut bridge = Bridge::start(&home).warm();
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", bridge.pid())).unwrap();
    assert!(maps.contains("libfaketime"), "the program has the clock that jumps");
    bridge.ok("import time\nkept = 1");
    let (containers, now) = (engine.containers_of(&home.owners()), year());
    for jump in JUMPS {
        let id = bridge.send_run(json!({"code": "print(await mcp_fixture.slow(ms=700))", "timeout": 20}));
        std::fs::write(&clock, jump).unwrap();
        assert!((year() - now).abs() == if jump == "+0" { 0 } else { 10 }, "{jump}: {}", year());
        let reply = bridge.reply(id);
        assert!(!reply.is_error, "{jump}: {}", reply.text);
        // Its time is neither over at once nor without end.
        let reply = bridge.run_with(json!({"code": "print('began')\nwhile True: pass", "timeout": 1}));
        assert!(reply.text.contains("began") && reply.text.contains("timed out after 1s"), "{}", reply.text);
        // One that starts now does not take the first one for dead.
        let mut other = Bridge::start(&home);
        assert!(other.ok("1 + 1").starts_with('2'), "{jump}");
        assert_eq!(bridge.ok("kept"), "1", "{jump}");
    }
    assert!(engine.containers_of(&home.owners()).contains(&containers[0]));
}

/// Set up by the same script as the engines.
fn library() -> PathBuf {
    let folders = std::fs::read_dir("/usr/lib").unwrap().map(|entry| entry.unwrap().path());
    folders
        .map(|folder| folder.join("faketime/libfaketimeMT.so.1"))
        .find(|file| file.exists())
        .expect("the package libfaketime is there; `scripts/setup.sh test` installs it")
}
