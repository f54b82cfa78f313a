//! Owns one sandbox from handshake to death: runs one after the other, deadlines, calls in flight.
//!
//! It admits no call (`broker` does) and writes no text for the model (`render` does).

mod actor;
mod again;
mod answered;
mod argument_room;
mod asked;
mod attention;
mod calls;
mod checkpoints;
mod compared;
mod earlier;
mod ending;
mod files;
mod handle;
mod in_flight;
mod machine;
mod notes;
mod outgoing;
mod output;
mod phase;
mod posture;
mod remade;
mod runtime;
mod sandbox;
mod turns;
mod watchdog;

#[cfg(test)]
pub(crate) use actor::BREAKS;
pub use again::{Anew, Compared, Resumed};
pub use asked::RunAsked;
pub use files::Files;
pub use handle::Session;
pub use runtime::{BOOTSTRAP, bundle};
pub use sandbox::{CpuLimit, SandboxReport, SandboxSettings, Wanted};
