//! What belljar stores for its user: each version of it is read, and one of the future is not written over.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::on_one_engine_and_processes;
use crate::support::{Bridge, Engine, Fixture, Home};

on_one_engine_and_processes!(state_of_version_1_is_read,);

/// The state of a user who has run code, saved a function, handed a file over, made a token, trusted a project and used a tool of a
/// server, as the version has stored it. `@HOME@` stands for the home.
const VERSION_1: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/state-1");
/// The session of that state.
const SESSION: &str = "558f6f8f";

/// Copies the files, which only their owner can read.
fn copied(from: &Path, to: &Path, home: &str) {
    fs::create_dir_all(to).unwrap();
    fs::set_permissions(to, fs::Permissions::from_mode(0o700)).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() {
            copied(&from, &to, home);
            continue;
        }
        fs::write(&to, fs::read_to_string(from).unwrap().replace("@HOME@", home)).unwrap();
        fs::set_permissions(to, fs::Permissions::from_mode(0o600)).unwrap();
    }
}

fn state_of_version_1_is_read(engine: &Engine) {
    let home = Home::on(engine);
    let path = home.path().canonicalize().unwrap();
    for (stored, place) in [("state", ".local/state/belljar"), ("MCPs", "MCPs")] {
        copied(&Path::new(VERSION_1).join(stored), &path.join(place), path.to_str().unwrap());
    }
    fs::create_dir_all(path.join("project/.belljar")).unwrap();
    fs::create_dir(path.join("project/.git")).unwrap();
    let settings = "[sandbox]\nimage = \"localhost/x\"\n";
    fs::write(path.join("project/.belljar/config.toml"), settings).unwrap();

    let config = home.command(&["config"]).current_dir(path.join("project")).output().unwrap();
    let config = String::from_utf8(config.stdout).unwrap();
    assert!(
        config.lines().any(|line| line.starts_with("sandbox.image") && line.contains("localhost/x")),
        "{config}"
    );
    let said = |arguments: &[&str]| {
        let output = home.run(arguments);
        assert_eq!(output.code, Some(0), "{arguments:?}: {}", output.stderr);
        output.stdout
    };
    assert!(said(&["log"]).contains("fixture.echo answered, 2 ms, 13 B out, 41 B in"));
    assert!(
        said(&["session", "ls"]).starts_with(&format!("{SESSION}  2026-11-30T15:37:19.020Z  2 runs, 1 call"))
    );
    assert!(said(&["session", "export", SESSION]).contains("x = 6"));
    assert_eq!(said(&["token", "ls"]), "laptop  created 2026-11-30T15:37:25.021Z\n");
    assert_eq!(said(&["files", "--session", SESSION, "get", "a.txt", "-"]), "a");

    let fixture = Fixture::new(&[]);
    let home = home.server("fixture", fixture.entry());
    let mut bridge = Bridge::start(&home.env("MCP_BRIDGE_RESUME", SESSION));
    let resumed = bridge.first("from skills import double\n(x, await double(4))");
    assert!(resumed.contains("(6, 8)"), "{resumed}");
    let denied = bridge.run("await mcp_fixture.echo(text='x')");
    assert!(denied.text.contains("have changed since they were first used: echo"), "{}", denied.text);
}
