//! The state and the result of the translation of one entry.
//!
//! It does not know which key means what: `entry` does.

use serde_json::{Map, Value as Json};

use super::dialect::Dialect;
use super::references::Context;

/// A translated entry.
#[derive(Debug, Default)]
pub(crate) struct Translation {
    pub(crate) entry: Map<String, Json>,
    /// Keys without a counterpart, each with advice.
    pub(crate) foreign: Vec<(String, &'static str)>,
    /// Variables that the user has to set, each with its purpose.
    pub(crate) needs: Vec<(String, String)>,
    /// The keys of secrets that were copied literally.
    pub(crate) literal_secrets: Vec<String>,
    /// Other notes, each with its key.
    pub(crate) notes: Vec<(String, String)>,
}

/// The reason for which an entry has no translation, with its byte and key.
#[derive(Debug)]
pub(crate) struct UntranslatedEntry {
    pub(crate) at: usize,
    pub(crate) key: String,
    pub(crate) message: String,
}

/// An entry that is being translated.
pub(super) struct Translator<'t> {
    pub(super) dialect: &'static Dialect,
    pub(super) context: Context<'t>,
    pub(super) done: Translation,
}
