//! `make tokens`: what a model reads of all servers' tools at once, and of belljar in front of them.
//!
//! `TOOLS` names a file in the form of the one in `tests/search`.

#![allow(clippy::restriction, reason = "a benchmark ends at what it does not expect, and prints")]

#[path = "../tests/tokens/listing.rs"]
mod listing;
// Much of it is for tests of runs.
#[allow(unused_imports)]
#[path = "../tests/support/mod.rs"]
mod support;

use std::path::PathBuf;

use listing::{of_belljar, of_servers, tokens};

const COMMITTED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/search/tools.jsonl");

fn main() {
    let given = std::env::var_os("TOOLS").filter(|name| !name.is_empty()).map(PathBuf::from);
    println!(
        "| servers | tools | tokens of all their schemas | of belljar's one tool | a part of |\n|---:|---:|---:|---:|---:|"
    );
    for file in std::iter::once(PathBuf::from(COMMITTED)).chain(given) {
        let (servers, tools) = of_servers(&file);
        let all: usize = tools.iter().map(|tool| tokens(&tool.to_string())).sum();
        let own = tokens(&of_belljar(servers.iter().map(String::as_str)).to_string());
        println!("| {} | {} | {all} | {own} | {:.0} |", servers.len(), tools.len(), all as f64 / own as f64);
    }
}
