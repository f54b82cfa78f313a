//! Sandboxes without a container engine: processes of this machine in namespaces of their own.
//!
//! The bridge starts this program again in a hidden mode (`begin`), which makes the namespaces and has its first child
//! build the sandbox's root, confine itself and become the sandbox's PID 1 (`enter`).

#[cfg(target_os = "linux")]
mod answer;
#[cfg(target_os = "linux")]
mod begin;
mod engine;
#[cfg(target_os = "linux")]
mod enter;
mod environment;
mod environment_build;
mod first;
mod identity;
mod plan;
mod python;
mod refusal;
#[cfg(target_os = "linux")]
mod root;
mod start;

#[cfg(target_os = "linux")]
pub use begin::begin;
pub use engine::{InsteadOf, ProcessEngine};
#[cfg(target_os = "linux")]
pub use enter::enter;
pub use environment::Environments;
