//! The official SDKs in their automatic mode, which speaks 2026-07-28: what they hear of files.

use std::path::Path;

use serde_json::{Value, json};

use crate::support::engines::cache;
use crate::support::{Engine, Home, program};

const WATCHED: &str = "workspace:///out/a%20b.csv";

/// What the client says, as one line of JSON.
fn said(interpreter: &Path, script: &str, packages: &Path) -> Option<Value> {
    let engine = Engine::any()?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/interop").join(script);
    let words = [interpreter, &script, &program("belljar"), packages];
    let words: Vec<String> = words.iter().map(|word| format!("'{}'", word.display())).collect();
    let output = Home::on(&engine).shell(&words.join(" "));
    Some(serde_json::from_str(&output.stdout).unwrap_or_else(|_| panic!("{output:?}")))
}

#[test]
fn the_python_sdk_hears_of_the_files_that_it_listens_for() {
    let python = cache().join("servers/python/bin/python");
    let Some(said) = said(&python, "listen.py", Path::new("")) else { return };
    assert_eq!(
        said,
        json!({
            "version": "2026-07-28",
            "honored": [{"resourcesListChanged": true}, {"resourceSubscriptions": [WATCHED]}],
            "every": ["ResourcesListChanged"],
            "one": [WATCHED],
            "every again": ["ResourcesListChanged"],
            "listed": ["workspace:///other", WATCHED],
            "read": "z",
        })
    );
}

#[test]
fn the_typescript_sdk_hears_of_the_files_that_it_listens_for() {
    let packages = cache().join("conformance");
    let Some(said) = said(Path::new("node"), "listen.mjs", &packages) else { return };
    assert_eq!(
        said,
        json!({
            "version": "2026-07-28",
            "honored": [{"resourcesListChanged": true}, {"resourceSubscriptions": [WATCHED]}],
            "every": ["list"],
            "one": ["list", WATCHED],
            "every again": ["list"],
            "left of both": [],
            "listed": ["workspace:///other", WATCHED],
            "read": "z",
        })
    );
}
