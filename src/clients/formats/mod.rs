//! The formats of clients' files: JSON with comments, TOML and YAML, read with positions and edited in place.
//!
//! It knows no client.

pub(super) mod format;
pub(super) mod json_text;
pub(super) mod masked;
pub(super) mod spanned;
mod toml_text;
mod yaml_edit;
mod yaml_text;

#[cfg(test)]
mod format_tests;
