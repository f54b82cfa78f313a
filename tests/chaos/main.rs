//! `make chaos`: kills the bridge at random points of its life, round after round, and counts what is left of it.
//!
//! The seed decides everything but the machine's own timing. It prints a table and fails when anything survives.

#[path = "../support/mod.rs"]
mod support;

mod round;
mod table;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use support::Engine;
use table::Table;

fn main() -> ExitCode {
    let (rounds, seed) = (number("--rounds", 20), number("--seed", 1));
    let within = Duration::from_secs(number("--seconds", u64::MAX / 2));
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
        let plan = round::Plan::random(&mut random);
        let result = round::run(engine, &plan);
        for survivor in &result.survivors {
            println!("round {number}, {}, {plan}: {survivor} is left", engine.name);
        }
        table.add(engine.name, &plan, result);
    }
    println!("seed {seed}\n{table}");
    ExitCode::from(u8::from(table.survivors() > 0 || table.is_empty()))
}

/// The number after an option; the default when it is not there.
fn number(option: &str, default: u64) -> u64 {
    let arguments: Vec<String> = std::env::args().collect();
    let after = arguments.iter().position(|argument| argument == option).map(|at| at + 1);
    after.map_or(default, |at| {
        arguments.get(at).and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("{option} NUMBER"))
    })
}

/// SplitMix64: small, and the same everywhere.
pub struct Random(u64);

impl Random {
    /// A number below the bound.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}
