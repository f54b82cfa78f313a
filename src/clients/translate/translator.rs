//! The state and the result of the translation of one entry.
//!
//! It does not know which key means what: `entry` does.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value as Json};

use super::dialect::Dialect;
use super::references::Context;

/// The client and the folders that an entry is translated for.
pub(in crate::clients) struct EntryContext<'s> {
    pub(in crate::clients) dialect: &'static Dialect,
    pub(in crate::clients) title: &'static str,
    pub(in crate::clients) home: &'s Path,
    pub(in crate::clients) project: Option<&'s Path>,
    pub(in crate::clients) folder: &'s Path,
    pub(in crate::clients) inputs: &'s BTreeMap<String, String>,
}

/// A translated entry.
#[derive(Debug, Default)]
pub(in crate::clients) struct Translation {
    pub(in crate::clients) entry: Map<String, Json>,
    /// Keys without a counterpart, each with advice.
    pub(in crate::clients) foreign: Vec<(String, &'static str)>,
    /// Variables that the user has to set, each with its purpose.
    pub(in crate::clients) needs: Vec<(String, String)>,
    /// The keys of secrets that were copied literally.
    pub(in crate::clients) literal_secrets: Vec<String>,
    /// Other notes, each with its key.
    pub(in crate::clients) notes: Vec<(String, String)>,
}

/// The reason for which an entry has no translation, with its byte and key.
#[derive(Debug)]
pub(in crate::clients) struct UntranslatedEntry {
    pub(in crate::clients) at: usize,
    pub(in crate::clients) key: String,
    pub(in crate::clients) message: String,
}

/// An entry that is being translated.
pub(super) struct Translator<'t> {
    pub(super) surroundings: &'t EntryContext<'t>,
    pub(super) context: Context<'t>,
    pub(super) done: Translation,
}
