//! Adds belljar to a client's file, and removes it again.
//!
//! It starts no client.

mod backup;
pub(super) mod edit;
pub(super) mod passed;
pub(super) mod passing;

#[cfg(test)]
mod install_tests;
