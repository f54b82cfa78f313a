//! Sessions that are kept, as far as no engine is needed: runs that find none are kept as well.

use std::path::PathBuf;

use crate::support::home::Output;
use crate::support::{Bridge, Home, PATIENCE};

fn dir(home: &Home) -> PathBuf {
    home.path().join(".local/state/belljar/sessions")
}

/// A session with a run that has found no engine; its name.
fn session(home: &Home) -> String {
    let before: Vec<String> = names(home);
    let mut bridge = Bridge::start(home);
    assert!(bridge.run("x = 1").is_error);
    bridge.hang_up();
    bridge.wait(PATIENCE);
    names(home).into_iter().find(|name| !before.contains(name)).expect("it is kept")
}

fn names(home: &Home) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(dir(home)) else { return vec![] };
    let name = |entry: std::fs::DirEntry| entry.path().file_stem().unwrap().to_str().unwrap().to_owned();
    entries.map(|entry| name(entry.unwrap())).collect()
}

fn failed(code: i32, stderr: &str) -> Output {
    Output { code: Some(code), stdout: String::new(), stderr: format!("belljar: {stderr}\n") }
}

#[test]
fn sessions_are_named_and_removed_by_the_beginning_of_their_names() {
    let home = Home::new();
    let none = format!("no session is kept yet in {}", dir(&home).display());
    assert_eq!(home.run(&["session", "ls"]), failed(0, &none));
    let unknown = "there is no session \"5f1c\"; none is kept yet";
    for command in [vec!["show", "5f1c"], vec!["export", "5f1c"], vec!["rm", "5f1c"], vec!["replay", "5f1c"]]
    {
        assert_eq!(home.run(&[vec!["session"], command].concat()), failed(2, unknown));
    }
    assert_eq!(home.run(&["session", "rm"]).code, Some(2));
    let (one, other) = (session(&home), session(&home));
    assert_eq!(home.run(&["session", "ls"]).stdout.lines().count(), 2);
    let shown = home.run(&["session", "show", &one[..10]]).stdout;
    assert!(shown.contains("    x = 1\n") && shown.contains("  not_started, "), "{shown}");
    assert_eq!(home.run(&["session", "show", "last", "--run", "7"]), failed(2, "it has no run 7; it has 1"));
    let until = "--until 7: the session has no such run; it has 1";
    assert_eq!(home.run(&["session", "replay", "last", "--until", "7"]), failed(2, until));
    let left_out = home.run(&["session", "replay", "last"]);
    assert_eq!(
        (left_out.stdout.as_str(), left_out.code),
        ("run 1: left out\n  it had no sandbox\n", Some(0))
    );
    assert_eq!(home.run(&["session", "rm", "--older-than", "1"]).stdout, "0 removed\n");
    assert_eq!(home.run(&["session", "rm", &one, &other[..12]]).stdout, "2 removed\n");
    assert_eq!(names(&home), [""; 0]);
    session(&home);
    assert_eq!(home.run(&["session", "rm", "--older-than", "0"]).stdout, "1 removed\n");
}

#[test]
fn a_session_in_use_stays() {
    let home = Home::new();
    let mut bridge = Bridge::start(&home);
    bridge.run("x = 1");
    let id = names(&home).remove(0);
    let removed = home.run(&["session", "rm", &id]);
    assert_eq!((removed.stdout.as_str(), removed.code), ("0 removed\n", Some(1)));
    assert!(
        removed.stderr.contains(&format!("the session {} is in use, and stays", &id[..8])),
        "{}",
        removed.stderr
    );
    assert_eq!(home.run(&["session", "rm", "--all"]).stdout, "0 removed\n");
    assert!(home.run(&["session", "ls"]).stdout.contains(", in use"));
    bridge.hang_up();
    bridge.wait(PATIENCE);
    assert_eq!(home.run(&["session", "rm", "--all"]).stdout, "1 removed\n");
}

#[test]
fn a_journal_that_cannot_be_written_is_said_once_and_no_run_waits_for_it() {
    let home = Home::new().full_folder(".local/state/belljar/sessions");
    let mut bridge = Bridge::start(&home);
    let said = "note: the journal of this session cannot be written, and ends here: ";
    let replies: Vec<String> = (0..3).map(|_| bridge.run("x = 1").text).collect();
    assert!(
        replies[0].contains(said) && !replies[1].contains(said) && !replies[2].contains(said),
        "{replies:?}"
    );
}

#[test]
fn nothing_is_kept_where_the_setting_is_off_or_cannot_be_read() {
    for value in ["off", "everything"] {
        let home = Home::new().env("MCP_BRIDGE_JOURNAL", value);
        Bridge::start(&home).run("x = 1");
        assert_eq!(names(&home), [""; 0], "{value}");
        let said = home.run(&["session", "ls"]).stderr;
        assert!(said.contains("nothing is added, since MCP_BRIDGE_JOURNAL is off"), "{said}");
    }
}

#[test]
fn a_session_that_is_not_there_cannot_be_resumed() {
    let home = Home::new().env("MCP_BRIDGE_RESUME", "5f1c");
    let reply = Bridge::start(&home).run("x = 1").text;
    let said = "error: cannot resume the session: there is no session \"5f1c\"; none is kept yet\nhint: ";
    assert!(reply.contains(said), "{reply}");
    let last = Bridge::start(&home.env("MCP_BRIDGE_RESUME", "last")).run("x = 1").text;
    assert!(!last.contains("cannot resume"), "{last}");
    let wrong = Home::new().run(&["run", "--session", "../x", "-c", "1"]);
    let said = "belljar: --session is \"../x\", which names no session: write the beginning of its name, or last, and :N \
                behind it for its run N\n";
    assert_eq!((wrong.stderr.as_str(), wrong.code), (said, Some(2)));
}
