//! `make clients`: real agent programs and SDKs use belljar, as the table of docs/reference/compatibility.md.
//!
//! `tests/clients/run.py` drives one client and plays its model. Each client has a network of its own, in which there is
//! nothing but the loopback interface.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::support::Engine;
use crate::support::engines::cache;
use crate::table;

const PAGE: &str = "docs/reference/compatibility.md";
/// Has all of them pinned.
const PINS: [&str; 4] = ["package.json", "requirements.in", "requirements-older.in", "requirements-vibe.in"];
/// Eleven agent programs and ten SDKs and frameworks.
const CLIENTS_MIN: usize = 21;
/// Those that can be made to answer a form without a person.
const ASKING: [&str; 3] = ["@anthropic-ai/claude-code", "@openai/codex", "mcp"];

#[test]
#[ignore = "needs 3.4 GB of programs; `make clients` installs them and runs it"]
fn real_clients_call_the_tool_and_get_its_result() {
    let engine = Engine::any().expect("an engine is there");
    let clients = clients();
    assert!(clients.len() >= CLIENTS_MIN, "{clients:?}");
    let mut table = String::from(HEAD);
    for (client, version) in &clients {
        let outcome = outcome(&engine, &[client.as_str()]);
        let has = |method: &str| outcome["methods"].as_array().unwrap().iter().any(|found| found == method);
        assert!(has("tools/list") && has("tools/call"), "{client}: {outcome:#}");
        assert_eq!(outcome["has_answer"], true, "{client}: {outcome:#}");
        assert_eq!(outcome["exit_code"], 0, "{client}: {outcome:#}");
        assert_eq!(outcome["warnings"], serde_json::json!([]), "{client}: {outcome:#}");
        assert_eq!(outcome["left"], serde_json::json!([]), "{client}: {outcome:#}");
        table.push_str(&row(client, version, &outcome));
    }
    table::check(PAGE, "clients", "clients", &table);
}

#[test]
#[ignore = "needs 3.4 GB of programs; `make clients` installs them and runs it"]
fn real_clients_answer_the_question_of_an_approval() {
    let engine = Engine::any().expect("an engine is there");
    for (client, action) in ASKING.into_iter().flat_map(|client| [(client, "accept"), (client, "decline")]) {
        let is_accepted = action == "accept";
        let outcome = outcome(&engine, &[client, action]);
        assert_eq!(outcome["answers"], serde_json::json!([action]), "{client}: {outcome:#}");
        assert_eq!(outcome["has_answer"], is_accepted, "{client}: {outcome:#}");
        assert_eq!(outcome["is_denied"], !is_accepted, "{client}: {outcome:#}");
        assert_eq!(outcome["exit_code"], 0, "{client}: {outcome:#}");
        assert_eq!(outcome["left"], serde_json::json!([]), "{client}: {outcome:#}");
    }
}

#[test]
fn clients_page_names_the_pinned_versions() {
    let written = table::written(PAGE, "clients", "clients");
    let rows = written.lines().skip(2).map(|line| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        (cells[1].to_owned(), cells[2].to_owned())
    });
    assert_eq!(rows.collect::<BTreeMap<_, _>>(), clients(), "`make clients` writes the table anew");
}

fn clients() -> BTreeMap<String, String> {
    table::versions("real_clients", &PINS)
}

const HEAD: &str = "| client | version | name in MCP | protocol | model | schema for the model | refused requests |\n\
     |---|---|---|---|---|---|---|\n";

fn row(client: &str, version: &str, outcome: &Value) -> String {
    let list = |value: &Value| {
        let texts = value.as_array().into_iter().flatten().filter_map(Value::as_str);
        texts.map(str::to_owned).collect::<Vec<_>>()
    };
    let text = |key: &str| outcome[key].as_str().unwrap_or_default();
    let model = if outcome["has_asked_model"] == true { "scripted" } else { "none" };
    let schema = match (outcome["schema"].is_null(), list(&outcome["schema"])) {
        (true, _) => String::new(),
        (false, changes) if changes.is_empty() => "as sent".into(),
        (false, changes) => changes.join(", "),
    };
    let refused: Vec<String> = list(&outcome["refused"]).iter().map(|method| format!("`{method}`")).collect();
    let (name, protocol, refused) = (text("name"), text("protocol"), refused.join(", "));
    format!("| {client} | {version} | {name} | {protocol} | {model} | {schema} | {refused} |\n")
}

/// What `run.py` says of the client. The words after the client are what it answers to a form.
fn outcome(engine: &Engine, client: &[&str]) -> Value {
    // Root needs no user namespace.
    let unshare: &[&str] = match nix::unistd::geteuid().is_root() {
        true => &["--net"],
        false => &["--net", "--user", "--map-root-user"],
    };
    let driver = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/run.py");
    let output = Command::new("unshare")
        .args(unshare)
        .args(["sh", "-c", "PATH=$PATH:/usr/sbin:/sbin ip link set lo up && exec python3 \"$@\"", "sh"])
        .arg(driver)
        .args(client)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("BELLJAR", env!("CARGO_BIN_EXE_belljar"))
        .env("BELLJAR_ENGINE", engine.address())
        .env("CLIENTS", cache().join("clients"))
        .env("SERVERS", cache().join("servers"))
        .output()
        .unwrap();
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{client:?}: {}", String::from_utf8_lossy(&output.stderr)))
}
