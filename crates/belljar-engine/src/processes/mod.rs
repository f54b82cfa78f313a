//! Sandboxes without a container engine: processes of this machine in namespaces of their own.
//!
//! The bridge starts this program again in a hidden mode (`begin`), which makes the namespaces and has its first child
//! build the sandbox's root, confine itself and become the sandbox's PID 1 (`enter`).

#[cfg(target_os = "linux")]
mod answer;
mod engine;
mod environment;
mod environment_build;
mod identity;
#[cfg(target_os = "linux")]
mod init;
mod init_exit;
#[cfg(target_os = "linux")]
mod namespaces;
mod plan;
mod python;
#[cfg(target_os = "linux")]
mod start;

pub use engine::{InsteadOf, ProcessEngine};
pub use environment::Environments;
#[cfg(target_os = "linux")]
pub use init::enter;
#[cfg(target_os = "linux")]
pub use namespaces::begin;
