//! The common parts of commands: output, failures, signals, the log, and files that they write.
//!
//! These parts do not depend on any command.

pub(super) mod failure;
pub(super) mod logging;
pub(super) mod named;
pub(super) mod printing;
pub(super) mod progress;
pub(super) mod report;
pub(super) mod signals;
pub(super) mod state_version;
pub(super) mod user_file;
