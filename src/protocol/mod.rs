//! What the bridge and the sandbox may say and how it becomes bytes; it does no input or output itself.
//!
//! Both ends run the golden fixtures under `tests/fixtures/protocol`.
#![doc = ""]
#![doc = include_str!("PROTOCOL.md")]

mod depth;
mod from_sandbox;
mod lines;
mod to_sandbox;

pub use depth::depth_exceeds;
pub use from_sandbox::{CallFrame, DoneFrame, DoneOutcome, FromSandbox, FromSupervisor, FromWorker, Posture};
pub use lines::{Decoder, Dropped};
pub use to_sandbox::{
    Result as CallResult, RunServer, SandboxLimits, ToSupervisor, ToWorker, VERSION, bundle_line,
};

#[cfg(test)]
mod fixture_tests;
