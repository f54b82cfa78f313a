//! `make stubs-check`: whether tools' schemas become Python that the real Python takes, always the same, and how fast.
//!
//! `TOOLS` names a file in the form of that in `tests/search`.

#![allow(clippy::restriction, reason = "a benchmark ends at what it does not expect, and prints")]

#[path = "../tests/stubs/judge.rs"]
mod judge;
#[allow(dead_code)]
#[path = "../tests/search/quality.rs"]
mod quality;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use belljar_base::limits::Limits;
use belljar_tools::catalog::{Catalog, Shapes, signature};

/// Stubs that are shown of all that are wrong.
const SHOWN: usize = 5;

fn main() -> ExitCode {
    let named = std::env::var_os("TOOLS").filter(|name| !name.is_empty());
    let catalog = quality::catalog(&named.map_or_else(|| PathBuf::from(quality::TOOLS), PathBuf::from));
    let started = Instant::now();
    let lines = each(&catalog, |_, tool| signature(tool, &Limits::default()));
    let signatures_took = started.elapsed();
    let started = Instant::now();
    let stubs = stubs(&catalog);
    let stubs_took = started.elapsed();
    let longest = stubs.iter().map(|(stub, ..)| stub.chars().count()).max().unwrap_or(0);
    let chars: usize = stubs.iter().map(|(stub, ..)| stub.chars().count()).sum();
    println!(
        "{} tools: signatures in {} ms, stubs in {} ms; {} characters a stub, at most {longest}",
        stubs.len(),
        signatures_took.as_millis(),
        stubs_took.as_millis(),
        chars / stubs.len().max(1),
    );
    let is_stable = self::stubs(&catalog) == stubs
        && each(&catalog, |_, tool| signature(tool, &Limits::default())) == lines;
    let wrong =
        judge::judged(stubs.iter().map(|(stub, alias, said)| (stub.as_str(), alias.as_str(), said.as_str())));
    let wrong = wrong.as_array().expect("a list");
    for fault in wrong.iter().take(SHOWN) {
        println!("\n{}\nis wrong: {}", fault[0].as_str().unwrap_or_default(), fault[1]);
    }
    println!(
        "{} are wrong; the second time they are {}",
        wrong.len(),
        if is_stable { "the same" } else { "OTHERS" }
    );
    if wrong.is_empty() && is_stable { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Stub, alias and description of every tool.
fn stubs(catalog: &Catalog) -> Vec<(String, String, String)> {
    let shapes = Shapes::default();
    each(catalog, |server, tool| (shapes.stub(server, tool), tool.alias.clone(), tool.description.clone()))
}

fn each<T>(
    catalog: &Catalog,
    made: impl Fn(&belljar_base::names::ServerName, &belljar_tools::catalog::Tool) -> T,
) -> Vec<T> {
    let tools =
        catalog.servers().iter().flat_map(|server| server.listed().iter().map(move |tool| (server, tool)));
    tools.map(|(server, tool)| made(&server.name, tool)).collect()
}
