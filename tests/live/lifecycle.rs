//! Sandboxes and servers come and go: idle ones are stopped, lost ones replaced, and nothing is left behind.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::json;

use crate::support::engine_proxy::EngineProxy;
use crate::support::processes::is_alive;
use crate::support::{Bridge, Engine, Fixture, Home, PATIENCE, eventually};
use crate::{on_every_container_engine, on_every_engine};

on_every_container_engine!(a_container_that_runs_out_of_memory_is_told_once,);

on_every_engine!(
    an_idle_sandbox_is_stopped_and_the_next_run_says_so,
    prewarm_starts_the_sandbox_before_the_first_run,
    later_sandboxes_use_the_code_that_the_first_one_compiled,
    a_container_that_is_removed_while_idle_is_replaced_and_said,
    a_container_that_is_killed_in_a_run_is_told_at_once,
    nothing_is_left_when_the_client_hangs_up,
    nothing_is_left_after_each_ending_signal,
    nothing_is_left_when_the_end_comes_in_the_middle_of_a_call,
    nothing_is_left_when_a_second_signal_asks_for_the_end_at_once,
    nothing_is_left_of_servers_that_ignore_every_ending,
    nothing_is_left_when_the_end_comes_while_the_sandbox_starts,
    a_container_that_is_removed_in_a_run_is_told_at_once,
    a_bridge_that_stands_still_for_nine_seconds_keeps_its_variables,
);

/// How long what is left to the guardian and the keepers may take.
const AT_ONCE: Duration = Duration::from_secs(10);
/// How long everything may take to go.
const AT_EXIT: Duration = Duration::from_secs(3);

fn an_idle_sandbox_is_stopped_and_the_next_run_says_so(engine: &Engine) {
    let home = Home::on(engine).env("MCP_BRIDGE_RUNTIME_IDLE_TIMEOUT", "1");
    let mut bridge = Bridge::start(&home);
    bridge.first("x = 1");
    let owners = home.owners();
    eventually("the idle container goes", PATIENCE, || engine.containers_of(&owners).is_empty());
    assert_eq!(
        bridge.ok("'x' in globals()"),
        "False\nstate: fresh interpreter: the sandbox had been stopped for being idle; earlier variables are gone\n\
         note: runtime.resume(\"last\") makes the variables again from the journal; files in /workspace and runtime.state are still there"
    );
    let resumed = bridge.run("runtime.resume('last')").text;
    assert!(
        resumed.contains("variables are as after run 1 of this session: 1 run was made once more"),
        "{resumed}"
    );
    assert_eq!(bridge.ok("x"), "1");
}

fn prewarm_starts_the_sandbox_before_the_first_run(engine: &Engine) {
    let home = Home::on(engine).env("MCP_BRIDGE_PREWARM", "1");
    let mut bridge = Bridge::start(&home);
    eventually("a container comes", PATIENCE, || engine.containers_of(&home.owners()).len() == 1);
    let containers = engine.containers_of(&home.owners());
    assert_eq!(bridge.first("1 + 1"), "2");
    assert_eq!(engine.containers_of(&home.owners()), containers);
}

fn later_sandboxes_use_the_code_that_the_first_one_compiled(engine: &Engine) {
    let home = Home::on(engine).without_compiled_code();
    // The importer of the runtime, and what it was given and what it had to compile.
    let code = "import sys\nof = next(vars(f) for f in sys.meta_path if hasattr(f, 'sources'))\n\
                'mcp.runtime' in of['code'], 'mcp.runtime' in of['fresh']";
    let folder = home.compiled_code();
    let stored =
        || std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>();
    Bridge::start(&home).first("1");
    let (file, mode) =
        (stored().remove(0), |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777);
    assert_eq!((stored().len(), mode(&folder), mode(&file)), (1, 0o700, 0o600));
    assert_eq!(Bridge::start(&home).first(code), "(True, False)");

    // A damaged file is made again, and the run does not notice.
    let whole = std::fs::read(&file).unwrap();
    std::fs::write(&file, &whole[..whole.len() / 2]).unwrap();
    assert_eq!(Bridge::start(&home).first("1"), "1");
    assert_eq!(std::fs::read(&file).unwrap(), whole);
}

fn a_container_that_is_removed_while_idle_is_replaced_and_said(engine: &Engine) {
    let home = Home::on(engine);
    let mut bridge = Bridge::start(&home).warm();
    bridge.ok("x = 1");
    let before = engine.containers_of(&home.owners());
    engine.remove_container(&before[0]);
    // Whether the bridge has noticed already is a race; that it tells the truth is not.
    let reply = bridge.run("'x' in globals()");
    if reply.is_error {
        assert!(reply.text.starts_with("status: error\nerror: the sandbox went away"), "{}", reply.text);
        assert!(bridge.ok("'x' in globals()").starts_with("False\nstate: fresh interpreter"));
    } else {
        let fresh =
            "False\nstate: fresh interpreter: the previous one was lost; earlier variables are gone\nnote: ";
        assert!(reply.text.starts_with(fresh), "{}", reply.text);
    }
    let after = engine.containers_of(&home.owners());
    assert!(after.len() == 1 && after != before, "{after:?}");
}

fn a_container_that_is_killed_in_a_run_is_told_at_once(engine: &Engine) {
    let said = if engine.name == "process" { SIGKILLED } else { REMOVED };
    goes_in_a_run(engine, Engine::kill_container, said);
}

fn a_container_that_is_removed_in_a_run_is_told_at_once(engine: &Engine) {
    // Podman reports no command here, only the end.
    let said = if engine.name == "docker" { REMOVED } else { SIGKILLED };
    goes_in_a_run(engine, Engine::remove_container, said);
}

/// Files stay in memory when the interpreter that wrote them is killed, so PID 1 is mostly killed too.
fn a_container_that_runs_out_of_memory_is_told_once(engine: &Engine) {
    let proxy = EngineProxy::changing(engine, |body| {
        for limit in ["Memory", "MemorySwap"] {
            body["HostConfig"][limit] = json!(128 << 20);
        }
    });
    let mut bridge = Bridge::start(&Home::on(engine).env("MCP_BRIDGE_RUNTIME", &proxy.address()));
    if bridge.run("1").text.contains("the memory limit of 512 MiB is not enforced") {
        return;
    }
    let code = "for folder in ('/tmp', '/workspace', '/var/tmp', '/dev/shm', '/run'):\n  try:\n    \
                with open(f'{folder}/full', 'wb') as file:\n      while True: file.write(bytes(1 << 20))\n  \
                except OSError: pass";
    let reply = bridge.run(code);
    // The interpreter is killed first, and mostly the supervisor lives long enough to report it.
    let said = ["ran out of memory", "memory ran out"].map(|said| reply.text.matches(said).count());
    assert!(reply.is_error && said.iter().sum::<usize>() == 1, "{}", reply.text);
}

const REMOVED: &str = "somebody killed or removed it by a command to the engine\n";
const SIGKILLED: &str = "it was killed (SIGKILL) from outside, or by the kernel because memory ran out\n";

fn goes_in_a_run(engine: &Engine, end: fn(&Engine, &str), said: &str) {
    let fixture = Fixture::new(&[]);
    let home = Home::on(engine).server("fixture", fixture.entry());
    let mut bridge = Bridge::start(&home).warm();
    let id = bridge.send_run(json!({"code": "print('tick')\nawait mcp_fixture.hang()", "timeout": 60}));
    eventually("the run is under way", PATIENCE, || !fixture.ledger().is_empty());
    end(engine, &engine.containers_of(&home.owners())[0]);
    let reply = bridge.reply(id);
    let said = format!("status: error\ntick\nerror: the sandbox went away: {said}");
    assert!(reply.text.starts_with(&said), "{}", reply.text);
    assert!(reply.text.contains("state: variables lost; the next run starts with a fresh interpreter"));
    assert!(
        reply.text.contains("note: what the run has changed in /workspace is not kept"),
        "{}",
        reply.text
    );
    assert!(reply.text.contains("calls with unknown outcome (they may have taken effect): fixture.hang"));
    eventually("the server is told", PATIENCE, || fixture.ledger().contains(&"cancelled".to_owned()));
    assert!(bridge.ok("1 + 1").starts_with("2\nstate: fresh interpreter"));
}

/// A session with a container and servers that have a grandchild each; `end` ends it.
fn leaves_nothing(
    engine: &Engine,
    flags: &[&str],
    code: &str,
    within: Duration,
    end: impl FnOnce(&mut Bridge),
) {
    let fixtures = [Fixture::new(flags), Fixture::new(flags)];
    let mut home = Home::on(engine);
    for (name, fixture) in ["one", "two"].into_iter().zip(&fixtures) {
        home = home.server(name, fixture.entry());
    }
    let mut bridge = Bridge::start(&home).warm();
    bridge.ok("(mcp_one.pid.sync(), mcp_two.pid.sync())");
    if !code.is_empty() {
        bridge.send_run(json!({"code": code}));
        let called = || fixtures[0].ledger().iter().any(|event| event.starts_with("call hang"));
        eventually("the call is under way", PATIENCE, called);
    }
    let owners = home.owners();
    let containers = || engine.containers_of(&owners);
    let each = 1 + flags.iter().filter(|flag| ["--grandchild", "--escapee"].contains(flag)).count();
    eventually("the grandchildren start", PATIENCE, || {
        fixtures.iter().all(|fixture| fixture.pids().len() == each)
    });
    let pids: Vec<i32> = fixtures.iter().flat_map(Fixture::pids).collect();
    assert_eq!(containers().len(), 1);
    assert!(pids.iter().all(|pid| is_alive(*pid)), "{pids:?}");
    end(&mut bridge);
    let (status, took) = bridge.wait(within);
    let left = within.saturating_sub(took);
    eventually("the containers go", left, || containers().is_empty());
    eventually("the servers go", left, || !pids.iter().any(|pid| is_alive(*pid)));
    if status.code().is_some() {
        assert_eq!(home.owners(), [""; 0], "the lock is left");
    }
}

fn nothing_is_left_when_the_client_hangs_up(engine: &Engine) {
    leaves_nothing(engine, &["--grandchild"], "", AT_EXIT, Bridge::hang_up);
}

fn nothing_is_left_after_each_ending_signal(engine: &Engine) {
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        leaves_nothing(engine, &["--grandchild"], "", AT_EXIT, |bridge| bridge.signal(signal));
    }
}

fn nothing_is_left_when_the_end_comes_in_the_middle_of_a_call(engine: &Engine) {
    leaves_nothing(engine, &[], "await mcp_one.hang()", AT_EXIT, Bridge::hang_up);
    leaves_nothing(engine, &[], "mcp_one.hang.sync()", AT_EXIT, |bridge| bridge.signal(Signal::SIGTERM));
}

fn nothing_is_left_when_a_second_signal_asks_for_the_end_at_once(engine: &Engine) {
    // Servers that stay as long as they can, so that the second signal comes while they are being ended.
    leaves_nothing(engine, &["--ignore-endings"], "await mcp_one.hang()", AT_ONCE, |bridge| {
        bridge.signal(Signal::SIGTERM);
        std::thread::park_timeout(Duration::from_millis(300));
        bridge.signal(Signal::SIGINT);
        let (status, _) = bridge.wait(AT_ONCE);
        // The second one's: the first one's end was not waited for.
        assert_eq!(status.code(), Some(130));
    });
}

fn nothing_is_left_of_servers_that_ignore_every_ending(engine: &Engine) {
    let flags = ["--ignore-endings", "--grandchild", "--escapee"];
    leaves_nothing(engine, &flags, "", AT_EXIT, Bridge::hang_up);
}

fn nothing_is_left_when_the_end_comes_while_the_sandbox_starts(engine: &Engine) {
    for wait in [0, 30, 60, 120, 250] {
        let home = Home::on(engine).env("MCP_BRIDGE_PREWARM", "1");
        let mut bridge = Bridge::start(&home);
        std::thread::park_timeout(Duration::from_millis(wait));
        let owners = home.owners();
        bridge.hang_up();
        let (_, took) = bridge.wait(AT_EXIT);
        let left = AT_EXIT.saturating_sub(took);
        eventually("the containers go", left, || engine.containers_of(&owners).is_empty());
    }
}

fn a_bridge_that_stands_still_for_nine_seconds_keeps_its_variables(engine: &Engine) {
    let mut bridge = Bridge::start(&Home::on(engine)).warm();
    bridge.ok("x = 1");
    bridge.signal(Signal::SIGSTOP);
    std::thread::park_timeout(Duration::from_secs(9));
    bridge.signal(Signal::SIGCONT);
    assert_eq!(bridge.ok("x"), "1");
}
