//! Configuration files that are changed while the bridge runs: what they hold counts from the next run on.

use serde_json::json;

use crate::on_every_engine;
use crate::support::processes::is_alive;
use crate::support::{Bridge, Engine, Fixture, Home, PATIENCE, eventually};

on_every_engine!(a_file_edited_added_broken_or_removed_counts_from_the_next_run_on);

fn a_file_edited_added_broken_or_removed_counts_from_the_next_run_on(engine: &Engine) {
    let [first, edited, other] = [(); 3].map(|()| Fixture::new(&[]));
    let home = Home::on(engine).server("one", first.entry());
    let mut bridge = Bridge::start(&home).warm();
    let echo = |server: &str| format!("await mcp_{server}.echo(text='x')");
    let note = |change: &str| format!("'x'\nnote: the user has changed the configured servers ({change})");
    assert_eq!(bridge.ok(&echo("one")), "'x'");

    // Edited: another process, and the one before is gone.
    let home = home.server("one", edited.entry());
    assert_eq!(bridge.ok(&echo("one")), note("changed: one"));
    assert_eq!((first.ledger().len(), edited.ledger().len()), (1, 1));
    eventually("the old process is stopped", PATIENCE, || !is_alive(first.pids()[0]));
    assert_eq!(bridge.ok(&echo("one")), "'x'");

    // Added: also as one of a run's own servers.
    let two = json!({"mcpServers": {"two": other.entry()}}).to_string();
    let home = home.file("MCPs/more.json", &two);
    let reply = bridge.run_with(json!({"code": echo("two"), "servers": ["two"]}));
    assert_eq!(reply.text, note("added: two"));

    // Broken: its servers are as they were, and it is said once.
    let home = home.file("MCPs/more.json", &two[..two.len() - 1]);
    let said = bridge.ok(&echo("one"));
    let cannot = "'x'\nnote: a configuration file cannot be read, and its servers stay as they were: ";
    assert!(said.starts_with(cannot) && said.contains("more.json:1:"), "{said}");
    bridge.says("more.json:1:");
    assert_eq!([bridge.ok(&echo("two")), bridge.ok(&echo("one"))], ["'x'", "'x'"]);

    // Mended: as before. Without its entry: gone. With it: there again. Removed: gone.
    let home = home.file("MCPs/more.json", &two);
    assert_eq!(bridge.ok(&echo("two")), "'x'");
    let home = home.file("MCPs/more.json", r#"{"mcpServers": {}}"#);
    assert_eq!(bridge.ok(&echo("one")), note("removed: two"));
    eventually("its process is stopped", PATIENCE, || !is_alive(other.pids()[0]));
    let refused = bridge.run_with(json!({"code": "1", "servers": ["two"]}));
    assert!(refused.text.contains("Server 'two' is not available"), "{}", refused.text);
    let home = home.file("MCPs/more.json", &two);
    assert_eq!(bridge.ok(&echo("two")), note("added: two"));
    std::fs::remove_file(home.path().join("MCPs/servers.json")).unwrap();
    let reply = bridge.run(&echo("one"));
    assert!(reply.is_error && reply.text.contains("note: the user has changed"), "{}", reply.text);
    assert!(reply.text.contains("(removed: one)"), "{}", reply.text);
    eventually("its process is stopped", PATIENCE, || !is_alive(edited.pids()[0]));
    assert_eq!(bridge.ok(&echo("two")), "'x'");
    assert_eq!([&first, &edited, &other].map(|fixture| fixture.pids().len()), [1, 1, 2]);
}
