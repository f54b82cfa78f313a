//! What the bridge and the sandbox may say, how it becomes bytes, and the Python runtime that speaks it in the sandbox. It
//! does no input or output itself.
//!
//! Both ends run the golden fixtures under `tests/fixtures/protocol`.
#![doc = ""]
#![doc = include_str!("PROTOCOL.md")]

mod bundle;
mod depth;
mod from_sandbox;
mod lines;
mod posture;
mod system_calls;
mod to_sandbox;

pub use bundle::{BOOTSTRAP, BundleCode, RELAY, REMOTE_BOOTSTRAP, runtime_bundle, runtime_modules};
pub use depth::depth_exceeds;
pub use from_sandbox::DroppedLine;
pub use from_sandbox::{
    CallFrame, DeniedCall, DoneFrame, DoneOutcome, FromJob, FromSandbox, FromSupervisor, FromWorker, JobDone,
    RuntimeCode,
};
pub use lines::Decoder;
pub use posture::{FileIdentity, Mount, Posture, PostureField, ProcessPosture, Rlimits, WorkerPosture};
pub use system_calls::{ExtraNumbers, ExtraSystemCall, system_call_name};
pub use to_sandbox::{
    FilePiece, Result as CallResult, RunServer, SandboxBounds, SandboxLimits, ToSupervisor, ToWorker, VERSION,
};

#[cfg(test)]
mod fixture_tests;
