//! `belljar serve` and the relays that clients start: who gets a session, what ends, and what is refused.

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Stdio;

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

use crate::support::{Bridge, Home, PATIENCE, eventually};

/// A home whose clients share one bridge, which ends with this value.
struct SharedHome(Home);

impl SharedHome {
    fn new() -> Self {
        Self(Home::new().env("MCP_BRIDGE_SHARED", "1"))
    }

    fn socket(&self) -> PathBuf {
        self.0.path().join("run/belljar/serve.sock")
    }

    fn status(&self) -> String {
        self.0.run(&["serve", "status"]).stdout
    }

    fn has_sessions(&self, number: usize) -> bool {
        self.status().contains(&format!("serves {number} sessions"))
    }

    /// The process of the shared bridge.
    fn process(&self) -> Pid {
        let status = self.status();
        let number = status.split("(process ").nth(1).and_then(|rest| rest.split(')').next()).unwrap();
        Pid::from_raw(number.parse().unwrap())
    }

    /// What the shared bridge answers to these bytes.
    fn answer(&self, bytes: &[u8]) -> String {
        let mut stream = UnixStream::connect(self.socket()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(bytes).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }
}

impl Drop for SharedHome {
    fn drop(&mut self) {
        self.0.run(&["serve", "stop"]);
    }
}

#[test]
fn clients_that_start_at_once_agree_on_one_bridge_and_each_has_a_session() {
    let home = SharedHome::new();
    let mut clients: Vec<Bridge> = (0..6).map(|_| Bridge::spawn(&home.0)).collect();
    for client in &mut clients {
        client.initialize("2025-11-25");
    }
    assert!(home.has_sessions(6), "{}", home.status());
    // Only this user can come in.
    let mode = |path: PathBuf| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(home.socket()), mode(home.socket().parent().unwrap().into())), (0o600, 0o700));
    // A client that is killed ends its own session only.
    drop(clients.pop());
    eventually("one session has ended", PATIENCE, || home.has_sessions(5));
    assert!(clients[0].request("tools/list", serde_json::json!({})).is_ok());
    assert_eq!(home.0.run(&["serve", "stop"]).code, Some(0));
    for client in &clients {
        client.says("the shared bridge has ended");
    }
    assert!(home.status().contains("is not running") && !home.socket().exists());
}

#[test]
fn the_place_of_a_killed_bridge_is_taken_by_the_next_and_a_second_one_is_refused() {
    let home = SharedHome::new();
    let first = Bridge::start(&home.0);
    let process = home.process();
    let second = home.0.run(&["serve"]);
    assert!(second.code == Some(1) && second.stderr.contains("is running already"), "{}", second.stderr);
    kill(process, Signal::SIGKILL).unwrap();
    first.says("the shared bridge has ended");
    let mut next = Bridge::start(&home.0);
    assert_ne!(home.process(), process);
    assert!(next.request("tools/list", serde_json::json!({})).is_ok());
}

#[test]
fn a_client_whose_processes_are_all_killed_leaves_the_bridge_to_others() {
    let home = SharedHome::new();
    let mut command = home.0.command(&[]);
    let mut client = command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    eventually("it has a session", PATIENCE, || home.has_sessions(1));
    let mut other = Bridge::start(&home.0);
    killpg(Pid::from_raw(i32::try_from(client.id()).unwrap()), Signal::SIGKILL).unwrap();
    client.wait().unwrap();
    eventually("its session has ended", PATIENCE, || home.has_sessions(1));
    assert!(other.request("tools/list", serde_json::json!({})).is_ok());
}

#[test]
fn what_is_no_relay_gets_no_session() {
    let home = SharedHome::new();
    let mut client = Bridge::start(&home.0);
    for bytes in [
        &b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"[..],
        b"{\"jsonrpc\": \"2.0\", \"id\": 1, \"method\": \"initialize\"}\n",
        b"belljar 9 9.9.9 0\n",
        b"belljar 1 0.1.0 99999999999\n",
    ] {
        let answer = home.answer(bytes);
        assert!(answer.starts_with("no "), "{}: {answer}", String::from_utf8_lossy(bytes));
    }
    // Nor do silent connections hold it up.
    let silent: Vec<UnixStream> = (0..50).map(|_| UnixStream::connect(home.socket()).unwrap()).collect();
    assert!(client.request("tools/list", serde_json::json!({})).is_ok());
    assert!(home.has_sessions(1), "{}", home.status());
    drop(silent);
}

#[test]
fn problems_of_a_client_s_configuration_are_said_to_that_client() {
    let home = SharedHome::new();
    std::fs::create_dir_all(home.0.path().join("MCPs")).unwrap();
    std::fs::write(home.0.path().join("MCPs/a.json"), "{\"mcpServers\": {\"a\": {}}}").unwrap();
    let client = Bridge::start(&home.0);
    client.says("a.json");
}

#[test]
fn where_the_shared_bridge_cannot_be_started_the_client_has_one_of_its_own() {
    // The path of a socket has at most 108 bytes.
    let home = Home::new();
    let deep = home.path().join("x".repeat(100));
    std::fs::create_dir(&deep).unwrap();
    let home = home.env("MCP_BRIDGE_SHARED", "1").env("XDG_RUNTIME_DIR", deep.to_str().unwrap());
    let mut client = Bridge::start(&home);
    client.says("this client has a bridge of its own: ");
    assert!(client.request("tools/list", serde_json::json!({})).is_ok());
}

#[test]
fn only_who_can_read_the_key_gets_a_session() {
    let home = SharedHome::new();
    let mut client = Bridge::start(&home.0);
    let keys = || {
        let state = std::fs::read_dir(home.0.path().join(".local/state/belljar")).unwrap();
        let files = state.map(|file| file.unwrap().path());
        files.filter(|file| file.extension().is_some_and(|ending| ending == "key")).collect::<Vec<_>>()
    };
    let key_file = keys().remove(0);
    let key = std::fs::read_to_string(&key_file).unwrap();
    assert_eq!(key_file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    for word in ["belljar", "status", "stop"] {
        for wrong in ["", "0", &key[1..], &key.to_uppercase()] {
            let answer = home.answer(format!("{word} 1 0.1.0 {wrong} 0\n").as_bytes());
            assert!(answer.starts_with("no "), "{word} {wrong}: {answer}");
        }
        // The length is not read for anybody else.
        assert!(home.answer(format!("{word} 1 0.1.0 0 16000000\n").as_bytes()).starts_with("no "));
    }
    assert!(client.request("tools/list", serde_json::json!({})).is_ok(), "nothing was stopped");
    assert!(home.answer(format!("status 1 0.1.0 {key} 0\n").as_bytes()).starts_with("ok "));
    // A client without the variable for the folder of locks has another bridge, which leaves this one its key.
    let elsewhere = home.0.path().join("tmp");
    std::fs::create_dir(&elsewhere).unwrap();
    let without = home.0.clone().env("XDG_RUNTIME_DIR", "").env("TMPDIR", elsewhere.to_str().unwrap());
    Bridge::start(&without);
    assert_eq!((keys().len(), home.has_sessions(1)), (2, true), "{}", home.status());
    assert_eq!(without.run(&["serve", "stop"]).code, Some(0));
    // Each bridge has a key of its own.
    drop(client);
    home.0.run(&["serve", "stop"]);
    Bridge::start(&home.0);
    assert_ne!(std::fs::read_to_string(&key_file).unwrap(), key);
}

#[test]
fn a_socket_of_another_user_is_sent_nothing() {
    let Ok(root) = nix::unistd::User::from_uid(nix::unistd::Uid::from_raw(65_534)) else { return };
    if !nix::unistd::geteuid().is_root() || root.is_none() {
        eprintln!("SKIPPED: only root can start a program of another user");
        return;
    }
    let home = SharedHome::new();
    let folder = home.socket().parent().unwrap().to_owned();
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::set_permissions(home.0.path(), PermissionsExt::from_mode(0o711)).unwrap();
    for open in [folder.parent().unwrap(), &folder] {
        std::fs::set_permissions(open, PermissionsExt::from_mode(0o711)).unwrap();
    }
    let socket = home.socket();
    // It is put there as by a user who could write the folder for a moment.
    let other = "import os, socket, sys\ns = socket.socket(socket.AF_UNIX)\ns.bind(sys.argv[1])\nos.chown(sys.argv[1], 65534, 65534)\n\
                 os.setuid(65534)\ns.listen()\nprint('ready', flush=True)\nc, _ = s.accept()\nprint(c.recv(100), flush=True)\n";
    let mut command = std::process::Command::new("python3");
    let mut listener = command.args(["-c", other]).arg(&socket).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = std::io::BufReader::new(listener.stdout.take().unwrap());
    let mut line = String::new();
    std::io::BufRead::read_line(&mut said, &mut line).unwrap();
    assert_eq!(line, "ready\n");
    let mut client = Bridge::start(&home.0);
    assert!(client.request("tools/list", serde_json::json!({})).is_ok(), "it has a bridge all the same");
    let mut sent = String::new();
    said.read_to_string(&mut sent).unwrap();
    assert_eq!(sent, "b''\n", "nothing was sent");
    listener.wait().unwrap();
}

#[test]
fn a_socket_that_a_confined_server_could_replace_is_not_used() {
    let home = Home::new();
    let shared = home.path().join("shared");
    std::fs::create_dir(&shared).unwrap();
    let entry = serde_json::json!({"command": "true", "sandbox": {"write": [shared]}});
    let elsewhere = home.path().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    let home = home.server("s", entry).env("MCP_BRIDGE_SHARED", "1").env("XDG_RUNTIME_DIR", "");
    let socket = |dir: &std::path::Path| {
        let uid = nix::unistd::geteuid();
        dir.join(format!("belljar-{uid}/serve.sock")).exists()
    };
    let first = SharedHome(home.clone().env("TMPDIR", elsewhere.to_str().unwrap()));
    let _first = Bridge::start(&first.0);
    assert!(first.has_sessions(1) && socket(&elsewhere), "control");
    // Its server can change the folder that another client of the user has for its temporary files.
    let second = SharedHome(home.env("TMPDIR", shared.to_str().unwrap()));
    let mut client = Bridge::start(&second.0);
    assert!(second.has_sessions(1) && !socket(&shared), "{}", second.status());
    assert!(second.0.path().join(".local/state/belljar/locks/serve.sock").exists());
    assert!(client.request("tools/list", serde_json::json!({})).is_ok());
    // Nor is what listens in that folder asked by commands.
    let folder = shared.join(format!("belljar-{}", nix::unistd::geteuid()));
    std::fs::create_dir(&folder).unwrap();
    std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o700)).unwrap();
    let listener = UnixListener::bind(folder.join("serve.sock")).unwrap();
    listener.set_nonblocking(true).unwrap();
    assert!(second.0.run(&["doctor"]).stdout.contains("serves 1 sessions"));
    assert_eq!(listener.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
}

#[test]
fn doctor_and_the_list_of_sessions_tell_what_the_running_bridge_serves_and_start_none() {
    let home = SharedHome::new();
    let doctor = || home.0.run(&["doctor"]).stdout;
    assert!(!doctor().contains("\nshared ") && !home.socket().exists());
    assert_eq!(home.0.run(&["serve", "status", "--json"]).stdout, "null\n");
    let mut client = Bridge::start(&home.0);
    client.run("x = 1");
    let mut alone = Bridge::start(&home.0.clone().env("MCP_BRIDGE_SHARED", "0"));
    alone.run("x = 1");
    let status = home.status();
    let (head, session) = status.trim_end().split_once('\n').unwrap();
    let id = &session[..8];
    let json: serde_json::Value =
        serde_json::from_str(&home.0.run(&["serve", "status", "--json"]).stdout).unwrap();
    let (folder, age_s) = (home.0.path().to_str().unwrap(), json["sessions"][0]["age_s"].as_u64().unwrap());
    let session =
        serde_json::json!({"id": id, "age_s": age_s, "owner": null, "servers": 0, "folder": folder});
    let process = home.process().as_raw();
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(json, serde_json::json!({"version": version, "process": process, "sessions": [session]}));
    let said = doctor();
    assert!(said.contains(&format!("\nshared     {head}\n           {id} ")), "{said}");
    let listed = home.0.run(&["session", "ls"]).stdout;
    let (shared, others): (Vec<_>, Vec<_>) = listed.lines().partition(|line| line.starts_with(id));
    assert!(shared.len() == 1 && shared[0].ends_with(", in use by `belljar serve`"), "{listed}");
    assert!(others.len() == 1 && others[0].ends_with(", in use"), "{listed}");
    let listed = home.0.run(&["session", "ls", "--json"]).stdout;
    let json = listed.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    for session in json {
        let is_shared = session["id"].as_str().unwrap().starts_with(id);
        assert_eq!((&session["in_use"], &session["shared"]), (&true.into(), &is_shared.into()));
    }
    let mut more: Vec<Bridge> = (0..4).map(|_| Bridge::start(&home.0)).collect();
    assert!(doctor().contains("\n           and 2 more: `belljar serve status`\n"), "{}", doctor());
    more.clear();
    // One that does not answer holds nobody up.
    let process = home.process();
    kill(process, Signal::SIGSTOP).unwrap();
    let (said, listed) = (doctor(), home.0.run(&["session", "ls"]));
    kill(process, Signal::SIGCONT).unwrap();
    let why = "it has not answered within 5 s";
    assert!(said.contains(&format!("\nshared     `belljar serve` CANNOT BE ASKED: {why}\n")), "{said}");
    assert!(listed.stderr.contains(why) && listed.stdout.lines().count() == 2, "{listed:?}");
}
