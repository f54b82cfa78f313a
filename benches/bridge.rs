//! `make bench`: what belljar costs, beside the floor that it stands on, for each engine; one table and one JSON file.
//!
//! It measures the built program over its stdio, as a client does, and judges nothing: a target that is missed is printed
//! as missed.

#![allow(clippy::restriction, reason = "a benchmark ends at what it does not expect, and prints")]

#[path = "bridge/belljar.rs"]
mod belljar_program;
#[path = "bridge/direct.rs"]
mod direct;
#[path = "bridge/figures.rs"]
mod figures;
#[path = "bridge/floor.rs"]
mod floor;
#[path = "../tests/support/mod.rs"]
mod support;

use std::path::PathBuf;
use std::process::ExitCode;

use figures::{Figures, machine};
use support::Engine;

fn main() -> ExitCode {
    #[cfg(target_os = "linux")]
    if let Some(ended) = confined() {
        return ended;
    }
    // cargo passes `--bench`, which says nothing here.
    let wanted = std::env::var("BELLJAR_BENCH_ENGINES").unwrap_or_default();
    let is_wanted =
        |engine: &Engine| wanted.is_empty() || wanted.split(',').any(|name| name.trim() == engine.name);
    let engines: Vec<&'static Engine> =
        Engine::all().into_iter().filter(is_wanted).map(|engine| &*Box::leak(Box::new(engine))).collect();
    if engines.is_empty() {
        eprintln!("bench: no engine to measure; scripts/setup.sh engines-up starts them, ENGINE= chooses");
        return ExitCode::FAILURE;
    }
    println!("machine: {}", machine());
    let mut measured = Vec::new();
    let mut of_podman = None;
    for engine in engines {
        eprintln!("measuring {} ...", engine.name);
        let (figures, medians) = measure(engine, of_podman);
        if engine.name == "podman-rootless" {
            of_podman = Some(medians);
        }
        println!("\n{}\n{figures}", engine.name);
        measured.push((engine.name, figures));
    }
    let report = figures::report(&measured);
    let target = PathBuf::from(env!("CARGO_BIN_EXE_belljar"));
    let file = target
        .parent()
        .and_then(|profile| profile.parent())
        .expect("target/release/belljar")
        .join("bench.json");
    std::fs::write(&file, report).expect("the target folder is writable");
    println!("\nas JSON: {}", file.display());
    ExitCode::SUCCESS
}

/// The process engine starts the program again that uses it, which is this one where the floor is measured.
#[cfg(target_os = "linux")]
fn confined() -> Option<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["confine", "--parent", parent, plan] => {
            Some(belljar_engine::begin(parent.parse().expect("a number"), plan))
        }
        ["confine", "--inside", plan] => Some(belljar_engine::enter(plan)),
        _ => None,
    }
}

fn measure(
    engine: &'static Engine,
    of_podman: Option<belljar_program::WarmMedians>,
) -> (Figures, belljar_program::WarmMedians) {
    let mut figures = Figures::default();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let (serial, parallel_per_s) = runtime.block_on(direct::through_rmcp());
    drop(runtime);
    figures.add("direct: a call through rmcp's client, p50", serial.p50_ms(), "ms");
    figures.add("direct: 1,000 calls at once through it", parallel_per_s, "calls/s");
    let medians = belljar_program::measure(engine, of_podman, &mut figures);
    (figures, medians)
}
