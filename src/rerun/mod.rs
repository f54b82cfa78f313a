//! Runs earlier runs again, as a client of the session: a replay, a session that is resumed, a checkpoint that was lost.
//!
//! The broker answers their calls.

mod client;
mod earlier;
mod own_runs;
mod rebuild;
mod replay;
mod resumed;
mod run_diff;

pub use client::Reruns;
pub use replay::{RerunOptions, RunComparison};
pub use resumed::ResumedSession;
