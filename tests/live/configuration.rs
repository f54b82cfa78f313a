//! Configuration files that are changed while the bridge runs: what they hold counts from the next run on.

use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use crate::on_one_engine_and_processes;
use crate::support::processes::is_alive;
use crate::support::{Bridge, Engine, Fixture, Home, PATIENCE, eventually};

on_one_engine_and_processes!(
    a_file_edited_added_broken_or_removed_counts_from_the_next_run_on,
    settings_that_are_edited_count_from_the_next_run_or_the_next_sandbox_on,
    a_sandbox_starts_where_another_user_has_taken_the_place_of_the_locks,
);

fn a_sandbox_starts_where_another_user_has_taken_the_place_of_the_locks(engine: &Engine) {
    let temporary = tempfile::tempdir().unwrap();
    let taken = temporary.path().join(format!("belljar-{}", nix::unistd::geteuid()));
    std::fs::create_dir(&taken).unwrap();
    // A folder that others can write is as unusable as one of another user, which only root could make here.
    std::fs::set_permissions(&taken, PermissionsExt::from_mode(0o777)).unwrap();
    let home = Home::on(engine)
        .without_env("XDG_RUNTIME_DIR")
        .env("TMPDIR", temporary.path().to_str().unwrap())
        .env("MCP_BRIDGE_PREWARM", "0");
    let mut bridge = Bridge::start(&home);
    assert_eq!(bridge.ok("6 * 7").lines().next(), Some("42"));
    assert!(home.path().join(".local/state/belljar/locks").read_dir().unwrap().count() > 0);
    assert_eq!(taken.read_dir().unwrap().count(), 0);
}

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
    let cannot = "'x'\nnote: a configuration file cannot be used: ";
    assert!(said.starts_with(cannot) && said.contains("more.json:1:"), "{said}");
    assert!(said.ends_with("; what it said before counts"), "{said}");
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

fn settings_that_are_edited_count_from_the_next_run_or_the_next_sandbox_on(engine: &Engine) {
    let server = Fixture::new(&[]);
    let home = Home::on(engine).server("one", server.entry()).server("two", server.entry());
    let mut bridge = Bridge::start(&home).warm();
    let file = home.path().join(".config/belljar/config.toml");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    let edit = |text: &str| std::fs::write(&file, text).unwrap();
    let containers = || engine.containers_of(&home.owners());
    // The interpreter's own bound follows it also where the engine enforces none.
    let memory = "import resource\nresource.getrlimit(resource.RLIMIT_DATA)[0] * 16 // 15 // 2**20";
    assert_ne!(bridge.ok(memory), "300");
    let before = bridge.ok(memory);

    // The servers, the time of a run and how replies are written: from the next run on.
    edit("[run]\ntimeout = 2\nservers = [\"two\"]\n");
    let reply = bridge.run("import time\ntime.sleep(10)");
    assert!(reply.text.starts_with("status: timeout"), "{}", reply.text);
    assert!(
        reply.text.contains("the user has changed the configured servers (removed: one)"),
        "{}",
        reply.text
    );
    assert!(
        reply.text.contains("the user has changed settings (run.timeout, run.servers)"),
        "{}",
        reply.text
    );
    assert!(bridge.run("await mcp_one.echo(text='x')").is_error);
    assert_eq!(bridge.ok("await mcp_two.echo(text='x')"), "'x'");
    edit("[output]\nmode = \"json\"\n");
    assert!(bridge.ok("print('x')").starts_with('{'));

    // What cannot be used changes nothing, and is said once.
    edit("[output]\nmode = \"jsn\"\n");
    let said = bridge.ok("print('x')");
    assert!(
        said.starts_with('{') && said.contains("what it said before counts") && said.contains("jsn"),
        "{said}"
    );
    assert!(!bridge.ok("print('x')").contains("jsn"));

    // The sandbox's own: from the next one on.
    edit("[sandbox]\nmemory = \"300m\"\nidle_timeout = 1\n");
    let said = bridge.ok(memory);
    let counts = "(output.mode; sandbox.memory, sandbox.idle_timeout for the next sandbox)";
    assert!(said.starts_with(&before) && said.contains(counts), "{said}");
    engine.remove_container(&containers()[0]);
    // It may be noticed only by this run.
    bridge.run("1");
    assert_eq!(bridge.ok(memory), "300");
    eventually("the idle container goes", PATIENCE, || containers().is_empty());
}
