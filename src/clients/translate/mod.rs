//! Translates an entry of a client into one of belljar.
//!
//! It opens no file.

pub(super) mod dialect;
pub(super) mod entry;
mod entry_values;
pub(super) mod redact_keeping_references;
pub(super) mod references;
pub(super) mod secrets;
pub(super) mod translator;
