//! Owns a client's sandbox from its handshake to its end: the queue of runs, their deadlines, and the calls in
//! progress.
//!
//! It does not decide whether a call is allowed (`broker` does) and writes no text for the model (`render` does).

mod actor;
mod checkpoints;
mod ending;
mod files;
mod handle;
mod machine;
mod output;
mod phase;
mod request;
mod run_queue;
mod sandbox;
mod turn;

#[cfg(test)]
pub(crate) use actor::BREAKS;
pub use checkpoints::{CheckpointPositions, Checkpoints};
pub use files::Files;
pub use handle::Session;
pub use machine::checkpoint_error;
pub use request::{FinishedRun, RunSubmission, Snapshot, SnapshotEnd};
pub use sandbox::{CpuLimit, GuardedResources, SandboxReport, SandboxSettings, SettingsSource};
pub use turn::Turn;
