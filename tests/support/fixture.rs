//! The fixture server as a configured server, and what it wrote down.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::processes::is_alive;
use super::program;

/// One fixture server's place: its ledger and the process numbers that it had.
pub struct Fixture {
    dir: tempfile::TempDir,
    arguments: Vec<String>,
}

impl Fixture {
    /// With flags of `fixture_server.rs`.
    pub fn new(flags: &[&str]) -> Self {
        let dir = tempfile::Builder::new().prefix("belljar-fixture-").tempdir().unwrap();
        let state = ["--state".to_owned(), dir.path().to_str().unwrap().to_owned()];
        let arguments = state.into_iter().chain(flags.iter().map(|flag| (*flag).to_owned())).collect();
        Self { dir, arguments }
    }

    /// The entry for a configuration file.
    pub fn entry(&self) -> Value {
        json!({"command": Self::program(), "args": self.arguments})
    }

    /// The entry of one that starts after this shell command.
    pub fn entry_after(&self, command: &str) -> Value {
        let script = format!("{command}; exec '{}' {}", Self::program().display(), self.arguments.join(" "));
        json!({"command": "sh", "args": ["-c", script]})
    }

    /// What attacks by text say: the file of `--attacks`.
    pub fn attacks() -> PathBuf {
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/injection/attacks.json")
    }

    pub fn program() -> PathBuf {
        program("fixture_server")
    }

    /// What reached it, in order.
    pub fn ledger(&self) -> Vec<String> {
        self.lines("ledger")
    }

    /// The processes that it has had, grandchildren included.
    pub fn pids(&self) -> Vec<i32> {
        self.lines("pids").iter().map(|pid| pid.parse().unwrap()).collect()
    }

    /// Those that live. A number that another process has got meanwhile does not count: this one's name the folder.
    pub fn living(&self) -> Vec<i32> {
        let folder = self.dir.path().to_str().unwrap();
        let is_ours = |pid: &i32| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.split(|byte| *byte == 0).any(|word| word == folder.as_bytes())
        };
        self.pids().into_iter().filter(is_ours).filter(|pid| is_alive(*pid)).collect()
    }

    fn lines(&self, name: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.dir.path().join(name)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}
