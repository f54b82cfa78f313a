//! The servers: reads their entries, and decides which of several entries with one name is used.
//!
//! It starts nothing and connects to nothing.

pub(super) mod deferred_entry;
pub(super) mod endpoint;
mod entry;
mod entry_values;
pub(super) mod env_pattern;
pub(super) mod inherited;
mod launch;
pub(super) mod load;
pub(super) mod login;
mod precedence;
mod reading;
pub(super) mod self_reference;
pub(super) mod server;
pub(super) mod server_keys;
pub(super) mod transport;
