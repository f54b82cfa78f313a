//! `belljar import`, `install` and `uninstall`, and what comes through a client.
//!
//! What the files of clients look like is known to `clients`.

pub(super) mod import;
pub(super) mod install;
pub(super) mod through_client;
