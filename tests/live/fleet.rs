//! Several engines: each new session gets one, and goes on at another one if its engine is lost.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::json;

use crate::support::engine_gate::{EngineGate, Hold};
use crate::support::engines::cache;
use crate::support::{Bridge, Engine, Fixture, Home, PATIENCE, eventually};

/// The answer of an engine that has two sandboxes.
const TWO: &str = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 45\r\nConnection: close\r\n\r\n\
                   [{\"Id\":\"a\",\"State\":\"\"},{\"Id\":\"b\",\"State\":\"\"}]";

/// Two different engines that are there.
fn two() -> Option<[Engine; 2]> {
    let all = Engine::all();
    let [one, other, ..] = all.as_slice() else {
        eprintln!("SKIPPED: there are no two container engines");
        return None;
    };
    Some([one.clone(), other.clone()])
}

/// A home whose sandboxes run on these engines.
fn home_on(engines: &[&str]) -> Home {
    Home::new().env("MCP_BRIDGE_RUNTIME", &engines.join(","))
}

/// The path of the engine's socket.
fn path(engine: &Engine) -> String {
    engine.address().strip_prefix("unix://").unwrap().to_owned()
}

/// Something in front of an engine, until it is dropped.
struct Front {
    child: Child,
    said: BufReader<ChildStdout>,
    port: u16,
}

impl Front {
    fn new(words: &[&str]) -> Self {
        let program = cache().join("dev/bin/python");
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/engine_fronts.py");
        let mut command = Command::new(program);
        command.arg(script).args(words).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        said.read_line(&mut line).unwrap();
        Self { child, said, port: line.trim().parse().expect("it prints its port") }
    }

    fn tell(&mut self, command: &str) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{command}").unwrap();
        self.said.read_line(&mut String::new()).unwrap();
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

#[test]
fn a_session_begins_where_the_fewest_sandboxes_are_and_a_place_that_fails_is_named() {
    let Some([one, other]) = two() else { return };
    let busy = EngineGate::new(&one, Hold::Instead("/containers/json", TWO));
    let free = EngineGate::new(
        &other,
        Hold::Instead(
            "/containers/json",
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\nConnection: close\r\n\r\n[]",
        ),
    );
    let gone = "unix:///nowhere.sock";
    let home = home_on(&[&busy.address(), gone, &free.address()]);
    let mut bridge = Bridge::start(&home);
    let reply = bridge.ok("1 + 1");
    let named = format!("note: the engine {gone} is left out: ");
    assert!(reply.starts_with('2') && reply.contains(&named), "{reply}");
    let owners = home.owners();
    assert_eq!((one.containers_of(&owners).len(), other.containers_of(&owners).len()), (0, 1));
    let doctor = home.run(&["doctor"]).stdout;
    let line = |address: &str, said: &str| {
        doctor.lines().any(|line| line.contains(&format!("{address}: ")) && line.contains(said))
    };
    assert!(line(&busy.address(), " sandboxes, ") && line(&free.address(), " MiB of memory"), "{doctor}");
    assert!(line(gone, "NOT USED: "), "{doctor}");
}

#[test]
fn a_session_goes_on_at_another_engine_when_its_own_is_lost_under_load() {
    let Some([one, other]) = two() else { return };
    let fixture = Fixture::new(&[]);
    let first = EngineGate::new(&one, Hold::Until("POST /nothing"));
    let second = EngineGate::new(&other, Hold::Instead("/containers/json", TWO));
    let home = home_on(&[&first.address(), &second.address()]).server("fixture", fixture.entry());
    let home = home.env("MCP_BRIDGE_JOURNAL", "full");
    let mut bridge = Bridge::start(&home);
    bridge.ok("total = (await mcp_fixture.add(a=40, b=1))['sum']\nopen('kept.txt', 'w').write('written')");
    bridge.ok("def twice(x):\n    return 2 * x");
    let owners = home.owners();
    assert_eq!((one.containers_of(&owners).len(), other.containers_of(&owners).len()), (1, 0));
    let calls = fixture.ledger().len();
    let lost = bridge.send_run(json!({"code": "await mcp_fixture.hang()", "timeout": 60}));
    eventually("the run is under way", PATIENCE, || fixture.ledger().len() > calls);
    first.go_down();
    let reply = bridge.reply(lost).text;
    assert!(reply.contains("the sandbox went away") && reply.contains("state: variables lost"), "{reply}");
    let adds = || fixture.ledger().iter().filter(|event| event.starts_with("call add")).count();
    let reply = bridge.ok("print(twice(total), open('kept.txt').read())");
    assert!(reply.starts_with("82.0 written\n"), "{reply}");
    let said = "note: the sandbox was lost; variables are as after run 2 of this session: 2 runs were made once more, with calls answered from its journal";
    let place = format!("; the engine is {} now", second.address());
    assert!(reply.contains(said) && reply.contains(&place), "{reply}");
    assert_eq!(adds(), 1, "no call is made twice");
    assert_eq!(other.containers_of(&owners).len(), 1);
    assert_eq!(bridge.ok("print(await mcp_fixture.echo(text='new'), total)"), "new 41.0");
    // The engine that is back has nothing of this session when it has ended.
    first.set_down(false);
    bridge.hang_up();
    bridge.wait(PATIENCE);
    eventually("nothing is left", PATIENCE, || {
        [&one, &other].iter().all(|engine| engine.containers_of(&owners).is_empty())
    });
}

/// Kills the session's sandboxes on these engines.
fn kill_sandboxes(home: &Home, engines: &[Engine; 2]) {
    for engine in engines {
        engine.containers_of(&home.owners()).iter().for_each(|id| engine.kill_container(id));
    }
}

/// The number of runs in the only session's journal, and of those among them that were repeated.
fn journalled_runs(home: &Home) -> (usize, usize) {
    let folder = home.path().join(".local/state/belljar/sessions");
    let mut names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let journal = names.find(|path| path.extension().is_some_and(|ext| ext == "jsonl")).unwrap();
    let text = std::fs::read_to_string(journal).unwrap();
    let runs = || text.lines().filter(|line| line.starts_with("{\"run\""));
    (runs().count(), runs().filter(|line| line.contains("\"aside\":true")).count())
}

#[test]
fn runs_are_repeated_from_the_first_when_the_sandbox_is_lost_again_meanwhile() {
    let Some(engines) = two() else { return };
    let home = home_on(&[engines[0].address(), engines[1].address()]);
    let mut bridge = Bridge::start(&home);
    bridge.ok("log = ['a']\nopen('f', 'w').write('A');");
    bridge.ok("import time\nlog.append('b')\nopen('f', 'a').write('B')\ntime.sleep(3)");
    bridge.ok("log.append('c')\nopen('f', 'a').write('C');");
    let look = "print(log, open('f').read())";
    // Lost while the second run is repeated.
    kill_sandboxes(&home, &engines);
    let run = bridge.send_run(json!({"code": look, "timeout": 60}));
    eventually("the second run is repeated", PATIENCE, || journalled_runs(&home).1 == 2);
    kill_sandboxes(&home, &engines);
    let reply = bridge.reply(run).text;
    assert!(
        reply.starts_with("['a', 'b', 'c'] ABC\n") && reply.contains("3 runs were made once more"),
        "{reply}"
    );
    // Cancelled at the same place: the next run begins with them anew.
    kill_sandboxes(&home, &engines);
    let before = journalled_runs(&home).1;
    let run = bridge.send_run(json!({"code": look, "timeout": 60}));
    eventually("the second run is repeated", PATIENCE, || journalled_runs(&home).1 == before + 2);
    bridge.notify("notifications/cancelled", json!({"requestId": run}));
    let reply = bridge.ok(look);
    assert!(
        reply.starts_with("['a', 'b', 'c'] ABC\n") && reply.contains("4 runs were made once more"),
        "{reply}"
    );
    assert_eq!(bridge.ok(look), "['a', 'b', 'c'] ABC");
}

#[test]
fn the_runs_that_a_resume_repeats_do_not_grow_with_each_loss() {
    let Some(engines) = two() else { return };
    let home = home_on(&[engines[0].address(), engines[1].address()]);
    let mut bridge = Bridge::start(&home);
    bridge.ok("before = 'a reset'");
    let reset = bridge.send_run(json!({"code": "count = 0", "reset": true}));
    assert!(!bridge.reply(reset).is_error);
    for loss in 1..5 {
        kill_sandboxes(&home, &engines);
        let (runs, _) = journalled_runs(&home);
        assert!(bridge.ok("count += 1\ncount").starts_with(&format!("{loss}\n")));
        // The run after the reset, one for each loss before, and the new one.
        assert_eq!(journalled_runs(&home).0 - runs, loss + 1);
    }
}

#[test]
fn an_engine_whose_image_has_other_packages_is_left_out() {
    let Some([one, other]) = two() else { return };
    let image = format!("localhost/belljar-fleet-{}:latest", std::process::id());
    let build = |engine: &Engine, packages: &str| {
        let recipe = format!("FROM localhost/belljar-sandbox:latest\nLABEL org.belljar.with={packages}\n");
        engine.build_image(&image, &[("Dockerfile", &recipe)]);
    };
    build(&one, "one");
    build(&other, "another");
    let home = home_on(&[one.address(), other.address()]).env("MCP_BRIDGE_IMAGE", &image);
    let reply = Bridge::start(&home).ok("1");
    let said = format!(
        "the engine {} is left out: its image has other packages than the image of {}",
        other.address(),
        one.address()
    );
    assert!(reply.contains(&said), "{reply}");
    build(&other, "one");
    let reply = Bridge::start(&home).ok("1");
    assert!(!reply.contains("is left out"), "{reply}");
    [&one, &other].iter().for_each(|engine| engine.remove_image(&image));
}

#[test]
fn engines_are_reached_by_tls_with_a_certificate_and_by_ssh_and_one_that_is_killed_is_replaced() {
    let Some([by_tls, by_ssh]) = two() else { return };
    let keys = tempfile::tempdir().unwrap();
    let [tls, ssh] = ["tls", "ssh"].map(|name| {
        let folder = keys.path().join(name);
        std::fs::create_dir(&folder).unwrap();
        folder
    });
    let front = Front::new(&["tls", tls.to_str().unwrap(), &path(&by_tls)]);
    let tls_address = format!("tcp://127.0.0.1:{}", front.port);
    let server = Front::new(&["ssh", ssh.to_str().unwrap()]);
    let ssh_address = format!("ssh://127.0.0.1:{}{}", server.port, path(&by_ssh));
    // In place of the user's own configuration, which ssh reads from the user's real home.
    let home = home_on(&[&tls_address]).file("bin/ssh", "");
    let wrapper = format!(
        "#!/bin/sh\nexec /usr/bin/ssh -F none -i {0}/key -o UserKnownHostsFile={0}/known_hosts -o StrictHostKeyChecking=yes \"$@\"\n",
        ssh.display()
    );
    let home = home.file("bin/ssh", &wrapper);
    let programs = home.path().join("bin");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(programs.join("ssh"), mode).unwrap();
    let search = format!("{}:{}", programs.display(), home.search_path());
    let home = home.env("PATH", &search);

    // Without a certificate, the engine is not reached.
    let reply = Bridge::start(&home).run("1");
    assert!(reply.is_error && reply.text.contains(&tls_address), "{}", reply.text);
    let home = home.env("MCP_BRIDGE_CERTIFICATES", tls.to_str().unwrap());
    assert!(Bridge::start(&home).ok("6 * 7").starts_with("42"));
    // Docker's own variables say the same.
    let of_docker = home.without_env("MCP_BRIDGE_CERTIFICATES").env("DOCKER_TLS_VERIFY", "1");
    let of_docker = of_docker.env("DOCKER_CERT_PATH", tls.to_str().unwrap());
    assert!(Bridge::start(&of_docker).ok("6 * 7").starts_with("42"));

    let home = of_docker.env("MCP_BRIDGE_RUNTIME", &ssh_address);
    assert!(Bridge::start(&home).ok("6 * 7").starts_with("42"));
    let home = home.env("MCP_BRIDGE_RUNTIME", &format!("{ssh_address},{tls_address}"));
    let home = home.env("MCP_BRIDGE_RECONNECT_TIMEOUT", "2");
    let mut bridge = Bridge::start(&home);
    bridge.ok("x = 'kept'");
    let owners = home.owners();
    let is_by_ssh = by_ssh.containers_of(&owners).len() == 1;
    let (killed, stays) = if is_by_ssh { (server, front) } else { (front, server) };
    drop(killed);
    let reply = bridge.run("x");
    let reply = if reply.is_error { bridge.ok("x") } else { reply.text };
    assert!(reply.starts_with("'kept'\n"), "{reply}");
    let there = if is_by_ssh { &by_tls } else { &by_ssh };
    assert_eq!(there.containers_of(&owners).len(), 1);
    drop(bridge);
    drop(stays);
}

crate::on_every_container_engine!(a_session_does_not_notice_that_its_connections_break);

fn a_session_does_not_notice_that_its_connections_break(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let mut front = Front::new(&["tcp", &path(engine)]);
    let home = home_on(&[&format!("tcp://127.0.0.1:{}", front.port)]).server("fixture", fixture.entry());
    let mut bridge = Bridge::start(&home);
    bridge.ok("x = 41");
    let long = "import time\nfor i in range(20):\n    print(i)\n    time.sleep(0.1)\n\
                print((await mcp_fixture.add(a=x, b=1))['sum'], len(await mcp_fixture.echo(text='y' * 3_000_000)))";
    let printed: String = (0..20).map(|i| format!("{i}\n")).collect();
    for seed in 1..4 {
        front.tell(&format!("random {seed}"));
        front.tell("cut");
        let calls = fixture.ledger().len();
        assert_eq!(bridge.ok(long), format!("{printed}42.0 3000000"));
        assert_eq!(fixture.ledger().len(), calls + 2, "each call is made once");
        // Too much for one connection, in both directions.
        assert_eq!(bridge.ok("data = bytes(30_000_000)\nprint('z' * 20_000_000)\nx")[..1], *"z");
    }
    front.tell("calm");
    // The proxy refuses connections for a while, as one that restarts.
    front.tell("refuse");
    front.tell("cut");
    let run = bridge.send_run(json!({"code": "x + 1", "timeout": 60}));
    front.tell("wait");
    front.tell("calm");
    assert_eq!(bridge.reply(run).text, "42");
    // Bytes go astray, and neither end sees the end of the connection.
    front.tell("hold");
    let run = bridge.send_run(json!({"code": "x + 2", "timeout": 90}));
    assert_eq!(bridge.reply(run).text, "43");
    let owners = home.owners();
    bridge.hang_up();
    bridge.wait(PATIENCE);
    eventually("nothing is left", PATIENCE, || engine.containers_of(&owners).is_empty());
}

#[test]
fn code_cannot_reach_the_stream_of_its_sandbox() {
    let Some(engine) = Engine::all().into_iter().next() else { return };
    let front = Front::new(&["tcp", &path(&engine)]);
    let home = home_on(&[&format!("tcp://127.0.0.1:{}", front.port)]);
    let mut bridge = Bridge::start(&home);
    let knock = "import socket\ntry:\n    s = socket.socket(socket.AF_UNIX)\n    s.connect('\\0belljar')\nexcept OSError as error:\n    print(type(error).__name__)";
    assert!(bridge.ok(knock).starts_with("PermissionError"));
    assert!(bridge.ok("1 + 1").starts_with('2'));
}
