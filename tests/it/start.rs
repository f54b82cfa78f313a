//! The start: fast, without an engine, and what is said when one is needed.

use std::os::unix::net::UnixListener;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::{Bridge, Home};

/// What people may notice, allowed on top of what starting any program costs here.
const UNNOTICED: Duration = Duration::from_millis(50);

#[test]
fn initialize_costs_little_more_than_starting_the_program() {
    let home = Home::new();
    let best = |mut once: Box<dyn FnMut() -> Duration + '_>| (0..5).map(|_| once()).min().unwrap();
    let floor = best(Box::new(|| {
        let started = Instant::now();
        home.run(&["--version"]);
        started.elapsed()
    }));
    let answered = best(Box::new(|| {
        let started = Instant::now();
        Bridge::start(&home);
        started.elapsed()
    }));
    assert!(answered <= floor * 3 + UNNOTICED, "floor {floor:?}, initialize {answered:?}");
}

#[test]
fn a_person_at_a_terminal_is_told_what_was_found_and_what_comes_next() {
    let greeting = |home: &Home| {
        let terminal = nix::pty::openpty(None, None).unwrap();
        let output = home.command(&[]).stdin(Stdio::from(terminal.slave)).output().unwrap();
        assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(2), &b""[..]));
        let said = String::from_utf8(output.stderr).unwrap();
        let (first, rest) = said.split_once("\n\n").unwrap();
        assert!(first.ends_with("It reads MCP messages from stdin, which is a terminal here."), "{said}");
        rest.to_owned()
    };
    assert_eq!(
        greeting(&Home::new()),
        "clients  none that belljar knows\n\
         servers  0\n\
         engine   NONE that can be used; `belljar doctor` says why\n\
         \n\
         belljar install     put it into the configuration of your MCP client\n\
         belljar run -c '1'  run Python in a sandbox now\n\
         belljar doctor      check the engine, the sandbox and your MCP servers\n\
         belljar --help      list all commands\n"
    );
    let servers = json!({"mcpServers": {"time": {"command": "t"}, "git": {"command": "g"}}}).to_string();
    let home = Home::new().file(".cursor/mcp.json", &servers).file(".config/zed/settings.json", "{}");
    let said = greeting(&home);
    let found =
        "clients  Cursor and Zed; belljar is in none of them\nservers  0, and 2 in the files of Cursor\n";
    assert!(said.starts_with(found), "{said}");
    let next: Vec<&str> = said.lines().skip(4).map(|line| line.split("  ").next().unwrap()).collect();
    let install = "belljar install --client cursor";
    assert_eq!(next, ["belljar import", install, "belljar run -c '1'", "belljar --help"]);
    // Each is followed, and is not shown again.
    assert_eq!(home.run(&["import", "--client", "cursor", "--yes"]).code, Some(0));
    assert_eq!(home.run(&install.split(' ').skip(1).collect::<Vec<_>>()).code, Some(0));
    let said = greeting(&home);
    assert!(
        said.starts_with("clients  belljar is in Cursor\nservers  2, and 2 in the files of Cursor\n"),
        "{said}"
    );
    let next: Vec<&str> = said.lines().skip(4).map(|line| line.split("  ").next().unwrap()).collect();
    assert_eq!(next, ["belljar run -c '1'", "belljar doctor", "belljar session ls", "belljar --help"]);
}

#[test]
fn an_engine_that_never_answers_holds_up_neither_initialize_nor_anything_but_runs() {
    let home = Home::new();
    let socket = home.path().join("silent.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let home = home.env("MCP_BRIDGE_RUNTIME", &format!("unix://{}", socket.display()));
    let mut bridge = Bridge::start(&home);
    // The sandbox is being started in the background now: the engine has been asked, and says nothing.
    let (_asked, _) = listener.accept().unwrap();
    bridge.request("tools/list", json!({})).unwrap();
    let run = bridge.send_run(json!({"code": "1"}));
    bridge.request("ping", json!({})).unwrap();
    let reply = bridge.reply(run);
    assert!(reply.is_error);
    assert!(
        reply.text.starts_with("status: error\nerror: no container engine is running ("),
        "{}",
        reply.text
    );
    assert!(reply.text.contains("did not answer within"), "{}", reply.text);
}

#[test]
fn without_prewarm_no_engine_is_asked_before_the_first_run() {
    let home = Home::new();
    let socket = home.path().join("watched.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    listener.set_nonblocking(true).unwrap();
    let home = home
        .env("MCP_BRIDGE_RUNTIME", &format!("unix://{}", socket.display()))
        .env("MCP_BRIDGE_PREWARM", "0");
    let mut bridge = Bridge::start(&home);
    bridge.request("tools/list", json!({})).unwrap();
    bridge.request("ping", json!({})).unwrap();
    assert_eq!(listener.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
}

#[test]
fn a_run_without_an_engine_says_what_is_missing_and_what_to_type() {
    let home = Home::new();
    let mut bridge = Bridge::start(&home);
    let reply = bridge.run("print(1)");
    let socket = home.path().join("no-engine.sock").display().to_string();
    assert!(reply.is_error);
    assert_eq!(
        reply.text,
        format!(
            "status: error\n\
             error: no container engine is running (unix://{socket}: Socket not found: {socket})\n\
             hint: start the engine there (`systemctl --user start podman.socket` for rootless Podman), or correct MCP_BRIDGE_RUNTIME, or unset it to have an engine looked for"
        )
    );
    // It serves on, and looks again each time.
    assert_eq!(bridge.run("print(1)").text, reply.text);
    bridge.request("ping", json!({})).unwrap();
}

#[test]
fn a_server_is_not_started_before_its_first_call() {
    let fixture = crate::support::Fixture::new(&[]);
    let home = Home::new().server("fixture", fixture.entry());
    let mut bridge = Bridge::start(&home);
    bridge.request("tools/list", json!({})).unwrap();
    bridge.run("print(1)");
    assert_eq!(fixture.pids(), [0; 0]);
}

#[test]
fn the_end_of_stdin_ends_it_with_success() {
    let mut bridge = Bridge::start(&Home::new());
    bridge.hang_up();
    let (status, _) = bridge.wait(Duration::from_secs(3));
    assert_eq!(status.code(), Some(0), "{}", bridge.stderr());
}

#[test]
fn a_client_that_leaves_before_it_says_anything_is_no_error() {
    let mut bridge = Bridge::spawn(&Home::new());
    bridge.hang_up();
    let (status, _) = bridge.wait(Duration::from_secs(3));
    assert_eq!(status.code(), Some(0), "{}", bridge.stderr());
}

#[test]
fn each_ending_signal_has_its_shells_exit_code() {
    use nix::sys::signal::Signal;
    for (signal, code) in [(Signal::SIGHUP, 129), (Signal::SIGINT, 130), (Signal::SIGTERM, 143)] {
        let mut bridge = Bridge::start(&Home::new());
        bridge.signal(signal);
        let (status, _) = bridge.wait(Duration::from_secs(3));
        assert_eq!(status.code(), Some(code), "{signal}");
    }
}

#[test]
fn a_server_starts_with_no_signal_blocked() {
    if !cfg!(target_os = "linux") {
        eprintln!("SKIPPED: only Linux has keepers");
        return;
    }
    let own = std::process::id().to_string();
    let kept = Home::new().run(&[
        "keep",
        "--bridge",
        &own,
        "--token",
        "t",
        "--",
        "grep",
        "SigBlk",
        "/proc/self/status",
    ]);
    assert_eq!(kept.stdout, "SigBlk:\t0000000000000000\n", "{}", kept.stderr);
}
