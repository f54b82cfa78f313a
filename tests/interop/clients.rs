//! `make clients`: real agent programs and SDKs use belljar, as the tables of docs/reference/compatibility.md.
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
/// Those that are tried over HTTP, with the versions of the protocol that they are told to speak. Without one, it is their
/// own choice.
const HTTP: [(&str, &[&str]); 9] = [
    ("@anthropic-ai/claude-code", &[""]),
    ("@google/gemini-cli", &[""]),
    ("@modelcontextprotocol/client", &["", "2026-07-28"]),
    ("@modelcontextprotocol/inspector", &[""]),
    ("@modelcontextprotocol/sdk", &[""]),
    ("@openai/codex", &[""]),
    ("fastmcp-slim", &[""]),
    ("mcp", &["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"]),
    ("opencode", &[""]),
];

#[test]
#[ignore = "needs 3.5 GB of programs; `make clients` installs them and runs it"]
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
#[ignore = "needs 3.5 GB of programs; `make clients` installs them and runs it"]
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
#[ignore = "needs 3.5 GB of programs; `make clients` installs them and runs it"]
fn real_clients_reach_belljar_over_http() {
    let engine = Engine::any().expect("an engine is there");
    let versions = http_clients();
    let mut table = String::from(HTTP_HEAD);
    for (client, protocol) in HTTP.iter().flat_map(|(client, all)| all.iter().map(move |one| (*client, *one)))
    {
        let outcome = outcome(&engine, &[client, "http", protocol]);
        assert_eq!(outcome["has_answer"], true, "{client} {protocol}: {outcome:#}");
        assert_eq!(outcome["exit_code"], 0, "{client} {protocol}: {outcome:#}");
        assert_eq!(outcome["warnings"], serde_json::json!([]), "{client} {protocol}: {outcome:#}");
        assert_eq!(outcome["left"], serde_json::json!([]), "{client} {protocol}: {outcome:#}");
        assert!(protocol.is_empty() || outcome["protocol"] == protocol, "{client} {protocol}: {outcome:#}");
        table.push_str(&http_row(client, &versions[client], &outcome));
    }
    table::check(PAGE, "clients", "http-clients", &table);
}

#[test]
fn clients_page_names_the_pinned_versions() {
    let written = |name: &str| {
        let table = table::written(PAGE, "clients", name);
        let rows = table.lines().skip(2).map(|line| {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            (cells[1].to_owned(), cells[2].to_owned())
        });
        rows.collect::<BTreeMap<_, _>>()
    };
    assert_eq!(written("clients"), clients(), "`make clients` writes the table anew");
    assert_eq!(written("http-clients"), http_clients(), "`make clients` writes the table anew");
}

fn clients() -> BTreeMap<String, String> {
    table::versions("real_clients", &PINS)
}

fn http_clients() -> BTreeMap<String, String> {
    let pins: Vec<&str> = PINS.into_iter().chain(["inspector/package.json"]).collect();
    let mut versions = table::versions("real_clients", &pins);
    versions.retain(|client, _| HTTP.iter().any(|(name, _)| name == client));
    versions
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

const HTTP_HEAD: &str = "| client | version | name in MCP | protocol | model | ends its session | refused requests |\n\
     |---|---|---|---|---|---|---|\n";

fn http_row(client: &str, version: &str, outcome: &Value) -> String {
    let text = |key: &str| outcome[key].as_str().unwrap_or_default();
    let (name, protocol) = (text("name"), text("protocol"));
    let model = if outcome["has_asked_model"] == true { "scripted" } else { "none" };
    let ends = match (protocol >= WITHOUT_SESSIONS, outcome["ended"] == serde_json::json!([])) {
        (true, _) => "has none",
        (false, true) => "no",
        (false, false) => "yes",
    };
    let of = |key: &str| outcome[key].as_array().into_iter().flatten().filter_map(Value::as_str);
    let refused: Vec<String> =
        of("refused").chain(of("refused_http")).map(|request| format!("`{request}`")).collect();
    let refused = refused.join(", ");
    format!("| {client} | {version} | {name} | {protocol} | {model} | {ends} | {refused} |\n")
}

/// The first version of the protocol that has no sessions.
const WITHOUT_SESSIONS: &str = "2026-07-28";

/// What `run.py` says of the client. The words after the client are what it answers to a form, or how it reaches belljar.
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
