//! What the servers are trusted with stays with them: it is nowhere in the sandbox, on no command line, in no log.

use serde_json::json;

use crate::on_one_engine_and_processes;
use crate::support::{Bridge, Engine, Fixture, Home};

on_one_engine_and_processes!(
    no_secret_of_a_server_reaches_the_sandbox_the_engine_or_the_log,
    secrets_in_a_server_s_errors_are_written_as_their_names,
);

/// Looks wherever code inside can look.
const SEARCH: &str = r#"
import glob, os
seen = {name: value for name, value in os.environ.items()}
for path in glob.glob("/proc/[0-9]*/environ") + glob.glob("/proc/[0-9]*/cmdline") + ["/proc/self/mountinfo"]:
    try:
        seen[path] = open(path, errors="replace").read()
    except OSError:
        pass
for folder in ("/workspace", "/tmp", "/run", "/var/tmp", "/dev/shm"):
    for path, _, files in os.walk(folder):
        for name in files:
            seen[os.path.join(path, name)] = open(os.path.join(path, name), errors="replace").read()
print(len(seen) > 5, sorted(name for name, text in seen.items() if any(word in text for word in words)))
"#;

fn no_secret_of_a_server_reaches_the_sandbox_the_engine_or_the_log(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let mut entry = fixture.entry();
    // Put together here, so that the test's own code does not hold what it looks for.
    let canary = ["canary", "7f3a", "token"].join("-");
    entry["env"]["API_TOKEN"] = json!(canary);
    let home =
        Home::on(engine).env("FIXTURE_TOKEN", &format!("from-{canary}")).env("MCP_BRIDGE_LOG_LEVEL", "DEBUG");
    entry["env"]["OTHER"] = json!("${FIXTURE_TOKEN}");
    let home = home.server("fixture", entry);
    let mut bridge = Bridge::start(&home).warm();
    assert_eq!(bridge.ok("await mcp_fixture.echo(text='used')"), "'used'");

    let words = format!("words = ['-'.join(('canary', '7f3a')), {:?}]", home.path().to_str().unwrap());
    assert_eq!(bridge.ok(&format!("{words}{SEARCH}")).lines().next(), Some("True []"));
    for id in engine.containers_of(&home.owners()) {
        let inspected = engine.inspect_container(&id).to_string();
        assert!(!inspected.contains(&canary) && !inspected.contains("API_TOKEN"), "{inspected}");
    }
    for process in std::fs::read_dir("/proc").unwrap().flatten() {
        let line = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
        assert!(!String::from_utf8_lossy(&line).contains(&canary), "{:?}", process.path());
    }
    assert!(!bridge.stderr().contains(&canary), "{}", bridge.stderr());
}

fn secrets_in_a_server_s_errors_are_written_as_their_names(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let canary = "canary-\"quoted\"-7f3a";
    let with_secret = |mut entry: serde_json::Value| {
        entry["env"]["API_TOKEN"] = json!(canary);
        entry
    };
    let script = r#"echo "no access with $API_TOKEN" >&2; exit 4"#;
    let home = Home::on(engine)
        .server("fixture", with_secret(fixture.entry()))
        .server("broken", with_secret(json!({"command": "sh", "args": ["-c", script], "env": {}})));
    let mut bridge = Bridge::start(&home).warm();
    bridge.ok(
        "def caught(call):\n  try:\n    return call()\n  except Exception as error:\n    return str(error)",
    );
    let failed =
        bridge.ok(&format!("print(caught(lambda: mcp_fixture.fail.sync(message={canary:?} + '!')))"));
    assert_eq!(failed.lines().next(), Some("[API_TOKEN]!"));
    let text = bridge
        .ok("print(caught(mcp_broken.echo.sync))\nprint(await runtime.list_servers(), runtime.capability_summary())");
    assert!(text.contains("no access with [API_TOKEN]") && !text.contains("7f3a"), "{text}");
    let echoed = bridge.ok(&format!("print(mcp_fixture.echo.sync(text={canary:?} + ' in no error'))"));
    assert_eq!(echoed, "[API_TOKEN] in no error");
    drop(bridge);

    // Asked in the background, it leaves its last words in the log.
    let mut bridge = Bridge::start(&home).warm();
    bridge.ok("runtime.search_tool_docs_sync('echo')");
    bridge.says("a server's tools are not known");
    bridge.says("no access with [API_TOKEN]");
    assert!(!bridge.stderr().contains("7f3a"), "{}", bridge.stderr());
}
