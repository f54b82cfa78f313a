//! Reads files and texts: the environment, files with their owners, JSON with positions, references, and trust.
//!
//! It does not know what a setting or a server's entry means.

pub(super) mod address;
pub(super) mod changeable;
pub(super) mod environment;
pub(super) mod file;
pub(super) mod given_places;
pub(super) mod line_index;
mod plain_value;
pub(super) mod references;
pub(super) mod trust;
