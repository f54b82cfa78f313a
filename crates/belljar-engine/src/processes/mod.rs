//! Sandboxes without a container engine: processes of this machine in namespaces of their own.
//!
//! The bridge starts this program again in a hidden mode (`begin`), which makes the namespaces and has its first child
//! build the sandbox's root, confine itself and become the sandbox's PID 1 (`enter`).

mod answer;
mod engine;
mod environment;
mod environment_build;
mod identity;
mod init;
mod init_exit;
mod namespaces;
mod plan;
mod python;
mod start;

pub use engine::ProcessEngine;
pub use environment::Environments;
pub use init::enter;
pub use namespaces::begin;
