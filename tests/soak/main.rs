//! `make soak`: random runs, calls and faults against a server that writes down every call before it does anything, on
//! all engines side by side; afterwards the history is checked.
//!
//! The seed decides everything but the machine's own timing. It prints a table for each engine, and fails when a rule
//! was violated, something survived, or the bridge grew.

#![allow(clippy::restriction, reason = "a test ends at what it does not expect, and prints")]

#[path = "../support/mod.rs"]
mod support;

mod checks;
mod deeds;
mod facts;
mod flat;
mod history;
mod link;
mod session;
mod shared;
mod table;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use deeds::Runs;
use session::{End, Log, Past, Session};
use support::Engine;
use support::random::{Random, option};
use table::Soaked;

/// Runs of different engines have different numbers.
const RUNS_OF_AN_ENGINE: u64 = 100_000_000;

fn main() -> ExitCode {
    let (seed, seconds) = (option("--seed", 1), option("--seconds", 20));
    let wanted = std::env::var("BELLJAR_SOAK_ENGINES").unwrap_or_default();
    let is_wanted =
        |engine: &Engine| wanted.is_empty() || wanted.split(',').any(|name| name.trim() == engine.name);
    let engines: Vec<Engine> = Engine::all().into_iter().filter(is_wanted).collect();
    if engines.is_empty() {
        eprintln!("soak: no engine to work on; scripts/setup.sh engines-up starts them, ENGINE= chooses");
        return ExitCode::FAILURE;
    }
    let file = log_file(seed);
    let log: Log = Arc::new(Mutex::new(File::create(&file).expect("the target folder is writable")));
    let until = Instant::now() + Duration::from_secs(seconds);
    let soaked: Vec<(&str, Option<Soaked>)> = std::thread::scope(|scope| {
        let drivers: Vec<_> = (1..)
            .zip(&engines)
            .map(|(number, engine)| {
                let (mut random, log) =
                    (Random(seed.wrapping_mul(31).wrapping_add(number)), Arc::clone(&log));
                let mut runs = Runs(number * RUNS_OF_AN_ENGINE);
                let drive = move || drive(engine, until, &mut random, &mut runs, &log);
                (engine.name, scope.spawn(drive))
            })
            .collect();
        drivers.into_iter().map(|(name, driver)| (name, driver.join().ok())).collect()
    });
    let mut is_clean = true;
    println!("seed {seed}, {seconds} s");
    for (engine, soaked) in soaked {
        match soaked {
            Some(soaked) => {
                is_clean &= soaked.is_clean();
                println!("\n{engine}\n{soaked}");
            }
            None => {
                is_clean = false;
                println!("\n{engine}\nVIOLATION: the soak broke off; the panic above says where");
            }
        }
    }
    println!("history: {}", file.display());
    ExitCode::from(u8::from(!is_clean))
}

/// One bridge lives as long as the soak; beside it others come and go, and some of them are shared by two clients.
fn drive(engine: &Engine, until: Instant, random: &mut Random, runs: &mut Runs, log: &Log) -> Soaked {
    let mut pasts: Vec<Past> = Vec::new();
    let mut bridges = 1;
    let mut standing = Session::start(engine, bridges, log);
    pasts.extend(shared::passing(engine, &mut bridges, log, random, runs));
    while Instant::now() < until && !standing.is_stuck {
        if random.below(30) == 0 {
            pasts.extend(shared::passing(engine, &mut bridges, log, random, runs));
        }
        if random.below(30) == 0 {
            bridges += 1;
            pasts.push(passing(Session::start(engine, bridges, log), random, runs));
        }
        deeds::step(&mut standing, random, runs);
        standing.sample();
    }
    pasts.insert(0, standing.end(End::HangUp));
    Soaked::of(pasts)
}

fn passing(mut session: Session<'_>, random: &mut Random, runs: &mut Runs) -> Past {
    for _ in 0..random.below(8) {
        if !session.is_stuck {
            deeds::step(&mut session, random, runs);
        }
    }
    if random.below(2) == 0 {
        deeds::begin(&mut session, random, runs);
    }
    session.end(random.of(&[End::HangUp, End::Terminate, End::Kill, End::Kill]))
}

/// `target/soak-SEED.jsonl`.
fn log_file(seed: u64) -> PathBuf {
    let program = Path::new(env!("CARGO_BIN_EXE_belljar"));
    let target = program.parent().and_then(Path::parent).expect("target/PROFILE/belljar");
    target.join(format!("soak-{seed}.jsonl"))
}
