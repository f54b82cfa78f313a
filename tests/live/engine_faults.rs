//! Engines that fail: what the model is told, that nothing is left, and that the next run works.

use serde_json::json;

use crate::support::engine_gate::{EngineGate, Hold};
use crate::support::{Bridge, Engine, Fixture, Home, PATIENCE, eventually};
use crate::{on_every_container_engine, on_every_engine};

on_every_engine!(where_one_is_named_and_does_not_answer_no_other_is_taken,);

on_every_container_engine!(
    an_engine_that_answers_with_errors_or_nonsense_is_quoted_and_asked_again,
    images_are_listed_again_when_one_is_removed_meanwhile,
    an_engine_that_takes_a_minute_costs_the_run_ten_seconds_and_leaves_nothing,
    an_engine_that_goes_down_in_a_run_costs_that_run_and_is_found_again,
    a_place_without_an_engine_does_not_hide_one_that_works,
    an_engine_of_another_kind_than_asked_for_is_not_used,
);

const FULL: &str = "HTTP/1.1 500 Internal Server Error\r\nContent-Type: application/json\r\nContent-Length: 37\r\n\
                    Connection: close\r\n\r\n{\"message\":\"no space left on device\"}";
const IMAGE_GONE: &str = "HTTP/1.1 500 Internal Server Error\r\nContent-Type: application/json\r\nContent-Length: 56\r\n\
                          Connection: close\r\n\r\n{\"message\":\"locating image with ID 51: image not known\"}";
const TOO_NEW: &str = "HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\
                       Connection: close\r\n\r\n{\"message\":\"client version 1.41 is not supported\"}";
const HALF: &str =
    "HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n{\"Id\":\"ab";
const NONSENSE: &str = "HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: 4\r\nConnection: close\r\n\r\n[}{]";
const NO_HTTP: &str = "SSH-2.0-OpenSSH_9.2\r\n";

fn an_engine_that_answers_with_errors_or_nonsense_is_quoted_and_asked_again(engine: &Engine) {
    for (hold, said) in [
        (Hold::Instead("/containers/create", FULL), "no space left on device"),
        (Hold::Instead("/containers/create", TOO_NEW), "client version 1.41 is not supported"),
        (Hold::Instead("/containers/create", HALF), "the engine could not create the container: "),
        (Hold::Instead("/containers/create", NONSENSE), "the engine could not create the container: "),
        (Hold::Instead("/containers/create", NO_HTTP), "the engine could not create the container: "),
        (Hold::Instead("/containers/create", ""), "the engine could not create the container: "),
        (Hold::Instead("/attach", FULL), "no space left on device"),
        (Hold::Instead("/start", FULL), "no space left on device"),
        (Hold::Instead("/start", ""), "the engine could not start the container: "),
    ] {
        let gate = EngineGate::new(engine, hold);
        let home = Home::on(engine).env("MCP_BRIDGE_RUNTIME", &gate.address());
        let mut bridge = Bridge::start(&home);
        let reply = bridge.run("1");
        assert!(reply.is_error, "{hold:?}: {}", reply.text);
        assert!(
            reply.text.starts_with("status: error\nerror: ") && reply.text.contains(said),
            "{hold:?}: {}",
            reply.text
        );
        assert!(reply.text.contains("\nhint: "), "{hold:?}: {}", reply.text);
        let owners = home.owners();
        eventually("no container is left", PATIENCE, || engine.containers_of(&owners).is_empty());
        assert!(bridge.ok("1 + 1").starts_with('2'), "{hold:?}");
        assert_eq!(engine.containers_of(&owners).len(), 1, "{hold:?}");
    }
}

fn images_are_listed_again_when_one_is_removed_meanwhile(engine: &Engine) {
    let gate = EngineGate::new(engine, Hold::Instead("/images/json", IMAGE_GONE));
    let listed = Home::on(engine).env("MCP_BRIDGE_RUNTIME", &gate.address()).run(&["image", "ls"]);
    assert_eq!(listed.code, Some(0), "{}", listed.stderr);
    assert!(listed.stdout.contains("default"), "{}", listed.stdout);
}

fn an_engine_that_takes_a_minute_costs_the_run_ten_seconds_and_leaves_nothing(engine: &Engine) {
    let gate = EngineGate::new(engine, Hold::Until("/containers/create"));
    let home = Home::on(engine).env("MCP_BRIDGE_RUNTIME", &gate.address());
    let mut bridge = Bridge::start(&home);
    let id = bridge.send_run(json!({"code": "1"}));
    gate.wait();
    // Whatever needs no engine goes on.
    bridge.request("tools/list", json!({})).unwrap();
    let reply = bridge.reply(id);
    let said = "status: error\nerror: the engine did not create the container within 10 s\n";
    assert!(reply.text.starts_with(said), "{}", reply.text);
    let owners = home.owners();
    assert!(bridge.ok("1 + 1").starts_with('2'));
    // The engine gets at last to what nobody waits for any more.
    gate.release();
    bridge.hang_up();
    bridge.wait(PATIENCE);
    eventually("no container is left", PATIENCE, || engine.containers_of(&owners).is_empty());
}

fn an_engine_that_goes_down_in_a_run_costs_that_run_and_is_found_again(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let gate = EngineGate::new(engine, Hold::Until("POST /nothing"));
    let home = Home::on(engine).env("MCP_BRIDGE_RUNTIME", &gate.address()).server("fixture", fixture.entry());
    let mut bridge = Bridge::start(&home).warm();
    let id = bridge.send_run(json!({"code": "print('tick')\nawait mcp_fixture.hang()", "timeout": 60}));
    eventually("the run is under way", PATIENCE, || !fixture.ledger().is_empty());
    gate.go_down();
    let reply = bridge.reply(id);
    let said = "status: error\ntick\nerror: the sandbox went away: its engine does not answer any more; restart the engine";
    assert!(reply.text.starts_with(said), "{}", reply.text);
    assert!(reply.text.contains("state: variables lost"), "{}", reply.text);
    let reply = bridge.run("1");
    let socket = gate.address();
    assert!(
        reply.text.starts_with(&format!("status: error\nerror: no container engine is running ({socket}: ")),
        "{}",
        reply.text
    );
    bridge.request("ping", json!({})).unwrap();
    gate.set_down(false);
    let reply = bridge.ok("1 + 1");
    let fresh = "2\nstate: fresh interpreter: the previous one was lost; earlier variables are gone\nnote: ";
    assert!(reply.starts_with(fresh), "{reply}");
    let owners = home.owners();
    eventually("the old container goes", PATIENCE, || engine.containers_of(&owners).len() == 1);
}

fn a_place_without_an_engine_does_not_hide_one_that_works(engine: &Engine) {
    let home = Home::on(engine).without_env("MCP_BRIDGE_RUNTIME");
    let nobody = home.path().join("nobody.sock");
    // Bound, and nobody listens any more.
    drop(std::os::unix::net::UnixListener::bind(&nobody).unwrap());
    let home = home
        .env("CONTAINER_HOST", &format!("unix://{}", nobody.display()))
        .env("DOCKER_HOST", engine.address());
    let mut bridge = Bridge::start(&home);
    assert!(bridge.ok("1 + 1").starts_with('2'));
    assert_eq!(engine.containers_of(&home.owners()).len(), 1);
}

fn an_engine_of_another_kind_than_asked_for_is_not_used(engine: &Engine) {
    let (kind, other) = if engine.name == "docker" { ("docker", "podman") } else { ("podman", "docker") };
    let home = Home::on(engine)
        .env("MCP_BRIDGE_RUNTIME", other)
        .env("DOCKER_HOST", engine.address())
        // Where no Podman is, so that none is started.
        .env("PATH", "/nowhere");
    let reply = Bridge::start(&home).run("1");
    assert_eq!(engine.containers_of(&home.owners()), [""; 0]);
    let said = format!("{}: answers as {kind}, which was not asked for", engine.address());
    assert!(reply.is_error && reply.text.contains(&said), "{}", reply.text);
}

fn where_one_is_named_and_does_not_answer_no_other_is_taken(engine: &Engine) {
    let home = Home::on(engine).without_env("MCP_BRIDGE_RUNTIME");
    let place = home.path().join("podman/podman.sock");
    std::fs::create_dir(place.parent().unwrap()).unwrap();
    // Where an engine is looked for first of all.
    std::os::unix::fs::symlink(engine.address().trim_start_matches("unix://"), place).unwrap();
    let runtime = home.path().display().to_string();
    let home = home.env("XDG_RUNTIME_DIR", &runtime);
    assert!(Bridge::start(&home).ok("1").starts_with('1'));
    let home = home.env("DOCKER_HOST", "unix:///nowhere.sock");
    let reply = Bridge::start(&home).run("1");
    let hint = "hint: start the engine there, or correct CONTAINER_HOST or DOCKER_HOST, whichever names it, or unset it";
    assert!(
        reply.is_error && reply.text.contains("/nowhere.sock") && reply.text.contains(hint),
        "{}",
        reply.text
    );
}
