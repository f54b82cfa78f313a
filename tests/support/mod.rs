//! What the tests share: a client that speaks to the built program over its stdio, a home of its own for each, the
//! engines, and the fixture server.
//!
//! It uses nothing of the library: what is tested is the program.

// Each test program uses its own part of this.
#![allow(dead_code)]

pub mod authorization;
pub mod bridge;
pub mod cluster;
pub mod each_write;
pub mod engine_gate;
pub mod engine_proxy;
pub mod engines;
pub mod environments;
pub mod everything;
pub mod fixture;
pub mod home;
pub mod http_fixture;
pub mod images;
pub mod issuer;
pub mod model_server;
pub mod office;
pub mod processes;
pub mod random;
pub mod survivors;
pub mod ten_servers;
pub mod web;

pub use bridge::Bridge;
pub use engines::Engine;
pub use fixture::Fixture;
pub use home::Home;

use std::time::{Duration, Instant};

/// Long enough for anything that works at all; only a hang takes it.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Waits for something that has no event to wait for, such as the end of somebody else's process.
#[track_caller]
pub fn eventually(what: &str, within: Duration, mut holds: impl FnMut() -> bool) -> Duration {
    let started = Instant::now();
    loop {
        if holds() {
            return started.elapsed();
        }
        assert!(started.elapsed() < within, "{what}: not within {within:?}");
        std::thread::park_timeout(Duration::from_millis(10));
    }
}

/// The clock that all processes of the machine share and nobody sets.
pub fn monotonic_ns() -> u64 {
    let now = nix::time::ClockId::CLOCK_MONOTONIC.now().expect("the clock is there");
    now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64
}

/// Where cargo puts the programs of this package.
pub fn program(name: &str) -> std::path::PathBuf {
    let belljar = std::path::Path::new(env!("CARGO_BIN_EXE_belljar"));
    match name {
        "belljar" => belljar.to_owned(),
        example => belljar.with_file_name("examples").join(example),
    }
}
