//! The bridge killed at once, at every point of its life, alone or with its helpers: nothing of it is left.
//!
//! `make chaos` does the same at random points.

use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

use crate::support::engine_gate::{EngineGate, Hold};
use crate::support::processes::{guardian_of, is_alive, keepers_of, marked};
use crate::support::survivors::files;
use crate::support::{Bridge, Engine, Fixture, Home, PATIENCE, eventually};
use crate::{on_every_container_engine, on_every_engine};

on_every_engine!(
    killed_while_idle_in_a_run_and_in_a_call_it_leaves_nothing,
    killed_with_its_guardian_it_leaves_no_process_and_no_container,
    killed_with_its_keepers_it_leaves_no_process,
    a_guardian_that_is_killed_is_started_again_and_does_its_work,
    a_server_whose_keeper_is_killed_ends_with_the_bridge,
    two_bridges_side_by_side_do_not_hear_of_each_others_end,
);

on_every_container_engine!(
    killed_before_the_container_is_created_it_leaves_nothing,
    killed_while_the_container_is_created_it_leaves_nothing,
    killed_before_the_container_is_started_it_leaves_nothing,
    killed_while_its_engine_restarts_it_leaves_nothing,
    stale_containers_of_dead_owners_only_are_removed,
);

/// How long everything may take to go.
const AFTER_A_KILL: Duration = Duration::from_secs(30);
/// In the environment of everything that a test's bridge starts.
const TEST: &str = "BELLJAR_TEST";
/// Servers that do what they can to stay.
const STUBBORN: [&str; 3] = ["--ignore-endings", "--grandchild", "--escapee"];
/// Processes of one such server.
const EACH: usize = 3;

fn kill_now(pid: i32) {
    kill(Pid::from_raw(pid), Signal::SIGKILL).expect("the process is there");
}

/// A home whose processes can be told from others by the name of its folder.
fn home(engine: &Engine) -> Home {
    let home = Home::on(engine);
    let name = name(&home);
    home.env(TEST, &name)
}

fn name(home: &Home) -> String {
    home.path().file_name().unwrap().to_str().unwrap().to_owned()
}

/// Waits until none of the bridge's files, containers and processes is left.
#[track_caller]
fn nothing_is_left(engine: &Engine, home: &Home, owners: &[String], pids: &[i32]) {
    let name = name(home);
    eventually("the containers go", AFTER_A_KILL, || engine.containers_of(owners).is_empty());
    eventually("the processes go", AFTER_A_KILL, || !pids.iter().any(|pid| is_alive(*pid)));
    eventually("its own processes go", AFTER_A_KILL, || marked(TEST, &name).is_empty());
    assert_eq!(files(home), [""; 0]);
}

/// Killed while the engine has this request.
fn killed_at(engine: &Engine, hold: Hold) -> Vec<String> {
    let proxy = EngineGate::new(engine, hold);
    let home = home(engine).env("MCP_BRIDGE_RUNTIME", &proxy.address()).env("MCP_BRIDGE_PREWARM", "1");
    let bridge = Bridge::start(&home);
    proxy.wait();
    let owners = home.owners();
    assert_eq!(owners.len(), 1);
    kill_now(bridge.pid());
    proxy.release();
    nothing_is_left(engine, &home, &owners, &[]);
    owners
}

fn killed_before_the_container_is_created_it_leaves_nothing(engine: &Engine) {
    assert_eq!(killed_at(engine, Hold::Before("/containers/create")).len(), 1);
}

fn killed_while_the_container_is_created_it_leaves_nothing(engine: &Engine) {
    let owners = killed_at(engine, Hold::Until("/containers/create"));
    // Nor does it come later.
    std::thread::park_timeout(Duration::from_secs(2));
    assert_eq!(engine.containers_of(&owners), [""; 0]);
}

fn killed_before_the_container_is_started_it_leaves_nothing(engine: &Engine) {
    assert_eq!(killed_at(engine, Hold::Before("/start")).len(), 1);
}

fn killed_while_its_engine_restarts_it_leaves_nothing(engine: &Engine) {
    let proxy = EngineGate::new(engine, Hold::Before("/start"));
    let home = home(engine).env("MCP_BRIDGE_RUNTIME", &proxy.address()).env("MCP_BRIDGE_PREWARM", "1");
    let bridge = Bridge::start(&home);
    proxy.wait();
    let owners = home.owners();
    proxy.set_down(true);
    kill_now(bridge.pid());
    std::thread::park_timeout(Duration::from_secs(1));
    // Never started, it would stay for ever.
    assert_eq!(engine.containers_of(&owners).len(), 1);
    proxy.set_down(false);
    nothing_is_left(engine, &home, &owners, &[]);
}

/// A bridge with a sandbox and a stubborn server, and the server's processes.
fn busy(engine: &Engine, home: Home, flags: &[&str]) -> (Bridge, Home, Fixture, Vec<i32>) {
    let fixture = Fixture::new(flags);
    let home = home.server("one", fixture.entry());
    let mut bridge = Bridge::start(&home).warm();
    bridge.ok("await mcp_one.pid()\nopen('kept', 'w').close()");
    let each = 1 + flags.iter().filter(|flag| ["--grandchild", "--escapee"].contains(flag)).count();
    eventually("the grandchildren start", PATIENCE, || fixture.pids().len() == each);
    let pids = fixture.pids();
    assert!(pids.iter().all(|pid| is_alive(*pid)), "{pids:?}");
    assert_eq!(engine.containers_of(&home.owners()).len(), 1);
    (bridge, home, fixture, pids)
}

fn killed_while_idle_in_a_run_and_in_a_call_it_leaves_nothing(engine: &Engine) {
    for code in ["", "open('/tmp/there', 'w')\nwhile True: pass", "await mcp_one.hang()"] {
        let (mut bridge, home, fixture, pids) = busy(engine, home(engine), &STUBBORN);
        assert_eq!(pids.len(), EACH);
        if !code.is_empty() {
            bridge.send_run(json!({"code": code}));
        }
        if code.contains("hang") {
            eventually("the call is under way", PATIENCE, || {
                fixture.ledger().iter().any(|event| event.starts_with("call hang"))
            });
        }
        let owners = home.owners();
        kill_now(bridge.pid());
        nothing_is_left(engine, &home, &owners, &pids);
    }
}

fn killed_with_its_guardian_it_leaves_no_process_and_no_container(engine: &Engine) {
    let (bridge, home, _fixture, pids) = busy(engine, home(engine), &STUBBORN);
    let owners = home.owners();
    let guardian = guardian_of(bridge.pid()).expect("there is a guardian");
    kill_now(guardian);
    kill_now(bridge.pid());
    eventually("the processes go", AFTER_A_KILL, || !pids.iter().any(|pid| is_alive(*pid)));
    // The supervisor sees the end of its stdin.
    eventually("the containers go", AFTER_A_KILL, || engine.containers_of(&owners).is_empty());
    // The lock and the files of the session are what the next start sweeps.
    assert_eq!((home.owners(), files(&home).len()), (owners.clone(), 2));
    let mut next = Bridge::start(&home);
    next.first("open('kept', 'w').close()");
    assert!(!home.owners().contains(&owners[0]));
    next.hang_up();
    next.wait(PATIENCE);
    assert_eq!(files(&home), [""; 0]);
}

fn killed_with_its_keepers_it_leaves_no_process(engine: &Engine) {
    let flags = ["--ignore-endings", "--grandchild", "--escapee", "--keep-environment"];
    let (bridge, home, _fixture, pids) = busy(engine, home(engine), &flags);
    let owners = home.owners();
    let keepers = keepers_of(bridge.pid());
    assert_eq!(keepers.len(), 1);
    kill_now(bridge.pid());
    kill_now(keepers[0]);
    nothing_is_left(engine, &home, &owners, &pids);
}

fn a_guardian_that_is_killed_is_started_again_and_does_its_work(engine: &Engine) {
    let mut bridge;
    let home = {
        let home = home(engine);
        bridge = Bridge::start(&home).warm();
        home
    };
    let first = guardian_of(bridge.pid()).expect("there is a guardian");
    kill_now(first);
    eventually("another one comes", PATIENCE, || {
        guardian_of(bridge.pid()).is_some_and(|now| now != first && is_alive(now))
    });
    bridge.says("the guardian ended, and is started again");
    assert_eq!(bridge.ok("1 + 1"), "2");
    let owners = home.owners();
    kill_now(bridge.pid());
    nothing_is_left(engine, &home, &owners, &[]);
}

fn a_server_whose_keeper_is_killed_ends_with_the_bridge(engine: &Engine) {
    let (mut bridge, _home, _fixture, pids) =
        busy(engine, home(engine), &["--ignore-endings", "--grandchild"]);
    kill_now(keepers_of(bridge.pid())[0]);
    bridge.hang_up();
    bridge.wait(Duration::from_secs(3));
    eventually("the processes go", AFTER_A_KILL, || !pids.iter().any(|pid| is_alive(*pid)));
}

fn stale_containers_of_dead_owners_only_are_removed(engine: &Engine) {
    let home = home(engine);
    let mut living = Bridge::start(&home);
    living.first("x = 1");
    let owner = home.owners().remove(0);
    let own = engine.containers_of(std::slice::from_ref(&owner)).remove(0);
    let locks = engine.inspect_container(&own)["Config"]["Labels"]["belljar.locks"].clone();
    let create = |owner: &str| {
        engine.create_container(
            &json!({"belljar.owner": owner, "belljar.locks": locks, "belljar.sandbox": "1"}),
        )
    };
    // Of one dead owner the lock is left, of the other nothing is.
    std::fs::write(home.path().join("run/belljar/owner-crashed.lock"), "").unwrap();
    let stale: Vec<String> = (0..50).map(|n| create(["owner-crashed", "owner-gone"][n % 2])).collect();
    let kept = [
        create(&owner),
        engine.create_container(&json!({"belljar.locks": locks})),
        engine.create_container(&json!({})),
    ];
    assert!(Bridge::start(&home).first("1").starts_with('1'));
    let left = engine.containers();
    assert!(!stale.iter().any(|id| left.contains(id)));
    let wrong: Vec<&String> = kept.iter().filter(|id| !left.contains(id)).collect();
    kept.iter().for_each(|id| engine.remove_container(id));
    assert!(wrong.is_empty(), "{wrong:?}");
    assert_eq!(living.ok("x"), "1");
    assert!(!home.owners().contains(&"owner-crashed".to_owned()));
}

fn two_bridges_side_by_side_do_not_hear_of_each_others_end(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let home = home(engine).server("one", fixture.entry());
    let mut staying = Bridge::start(&home).warm();
    let theirs = home.owners();
    staying.ok("x = await mcp_one.pid()");
    let server = fixture.pids();
    for signal in [Signal::SIGKILL, Signal::SIGTERM] {
        let mut going = Bridge::start(&home).warm();
        going.ok("await mcp_one.pid()");
        let all = home.owners();
        let (own, pids) = (
            all.iter().filter(|owner| !theirs.contains(owner)).cloned().collect::<Vec<_>>(),
            fixture.pids().into_iter().filter(|pid| !server.contains(pid)).collect::<Vec<_>>(),
        );
        assert_eq!(own.len(), 1);
        going.signal(signal);
        eventually("its container goes", AFTER_A_KILL, || engine.containers_of(&own).is_empty());
        eventually("its server goes", AFTER_A_KILL, || !pids.iter().any(|pid| is_alive(*pid)));
        eventually("its lock goes", AFTER_A_KILL, || home.owners() == theirs);
        assert_eq!(staying.ok("x == await mcp_one.pid()"), "True");
    }
}
