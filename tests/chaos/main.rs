//! `make chaos`: kills the bridge at random points of its life, round after round, and counts what is left of it. Some rounds
//! have a bridge that two clients share, and look whether the rest goes on.
//!
//! The seed decides everything but the machine's own timing. It prints a table and fails when anything survives or is wrong.

#![allow(clippy::restriction, reason = "a test ends at what it does not expect, and prints")]

#[path = "../support/mod.rs"]
mod support;

mod round;
mod shared;
mod table;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use support::Engine;
use support::random::{Random, option};
use table::Table;

fn main() -> ExitCode {
    let (rounds, seed) = (option("--rounds", 20), option("--seed", 1));
    // How many of ten rounds have a bridge that two clients share.
    let shared = option("--shared", 3);
    let within = Duration::from_secs(option("--seconds", u64::MAX / 2));
    let engines = Engine::all();
    if engines.is_empty() {
        eprintln!("chaos: no engine to kill bridges on; scripts/setup.sh engines-up starts them");
        return ExitCode::FAILURE;
    }
    let started = Instant::now();
    let mut random = Random(seed);
    let mut table = Table::default();
    for number in 0..rounds {
        if started.elapsed() > within {
            println!("stopped after {number} of {rounds} rounds: the time that was given is over");
            break;
        }
        let engine = &engines[random.below(engines.len() as u64) as usize];
        let (plan, row, result) = if random.below(10) < shared {
            let plan = shared::Plan::random(&mut random);
            let row = format!("shared: {:?}, {:?}", plan.point, plan.victim);
            (plan.to_string(), row, shared::run(engine, &plan))
        } else {
            let plan = round::Plan::random(&mut random);
            (plan.to_string(), plan.row(), round::run(engine, &plan))
        };
        for survivor in &result.survivors {
            println!("round {number}, {}, {plan}: {survivor} is left", engine.name);
        }
        for fault in &result.faults {
            println!("round {number}, {}, {plan}: {fault}", engine.name);
        }
        table.add(engine.name, row, result);
    }
    println!("seed {seed}\n{table}");
    ExitCode::from(u8::from(table.faults() > 0 || table.is_empty()))
}
