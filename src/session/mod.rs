//! Owns one sandbox from handshake to death: runs one after the other, deadlines, calls in flight.
//!
//! It admits no call (`broker` does) and writes no text for the model (`render` does).

mod actor;
mod checkpoints;
mod ending;
mod files;
mod handle;
mod machine;
mod notes;
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
pub use sandbox::bundle::{BOOTSTRAP, bundle};
pub use sandbox::{CpuLimit, SandboxReport, SandboxSettings, SettingsSource};
pub use turn::Turn;
