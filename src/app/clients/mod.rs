//! `belljar import`, `install` and `uninstall`, and the environment that belljar gets from a client.
//!
//! `clients` knows the files of clients.

pub(super) mod import;
pub(super) mod install;
pub(super) mod through_client;
pub(super) mod uninstall_all;
