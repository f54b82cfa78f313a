//! The formats of clients' files, with one interface to read a file, add an entry and remove it.
//!
//! The result of every edit is parsed and compared, and an edit with any other effect is not returned.

use super::spanned::{FormatError, Value};
use super::{json_text, toml_text, yaml_edit, yaml_text};
use crate::limits::Limits;

/// The format of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::clients) enum Format {
    /// JSON with the extensions that editors allow: comments, and a comma after the last item.
    Json,
    Toml,
    Yaml,
}

impl Format {
    /// Reads a whole text.
    pub(in crate::clients) fn read(self, text: &str, limits: &Limits) -> Result<Value, FormatError> {
        match self {
            Self::Json => json_text::read(text, limits.json_depth_max),
            Self::Toml => toml_text::read(text, limits.json_depth_max),
            Self::Yaml => yaml_text::read(text, limits.json_depth_max),
        }
    }

    /// The text with this entry below `path`, which replaces one of the same name; `None`: no edit keeps the rest of
    /// the text.
    pub(in crate::clients) fn put(
        self,
        text: &str,
        (path, name): (&[&str], &str),
        entry: &serde_json::Value,
        limits: &Limits,
    ) -> Option<String> {
        let edited = match self {
            Self::Json => json_text::put(text, path, name, entry),
            Self::Toml => toml_text::put(text, path, name, entry),
            Self::Yaml => yaml_edit::put(text, path, name, entry),
        }?;
        let mut meant = self.read(text, limits).ok()?.to_json();
        members_at(&mut meant, path)?.insert(name.to_owned(), entry.clone());
        (self.read(&edited, limits).ok()?.to_json() == meant).then_some(edited)
    }

    /// The text without this entry; `None`: no edit keeps the rest of the text.
    pub(in crate::clients) fn take_out(
        self,
        text: &str,
        (path, name): (&[&str], &str),
        limits: &Limits,
    ) -> Option<String> {
        let edited = match self {
            Self::Json => json_text::take_out(text, path, name),
            Self::Toml => toml_text::take_out(text, path, name),
            Self::Yaml => yaml_edit::take_out(text, path, name),
        }?;
        let mut meant = self.read(text, limits).ok()?.to_json();
        members_at(&mut meant, path)?.shift_remove(name)?;
        let mut found = self.read(&edited, limits).ok()?.to_json();
        // In TOML, an empty table may have been removed with its last member.
        members_at(&mut found, path)?;
        (found == meant).then_some(edited)
    }

    /// The text of an entry for a person to paste.
    pub(in crate::clients) fn block(self, path: &[&str], name: &str, entry: &serde_json::Value) -> String {
        match self {
            Self::Json => {
                let mut nested = serde_json::json!({name: entry});
                for key in path.iter().rev() {
                    nested = serde_json::json!({*key: nested});
                }
                format!("{nested:#}\n")
            }
            Self::Toml => toml_text::put("", path, name, entry).unwrap_or_default(),
            Self::Yaml => yaml_edit::put("", path, name, entry).unwrap_or_default(),
        }
    }
}

/// The members at a path. Missing tables on the path are created.
fn members_at<'v>(
    value: &'v mut serde_json::Value,
    path: &[&str],
) -> Option<&'v mut serde_json::Map<String, serde_json::Value>> {
    let mut value = value;
    for key in path {
        let member = value.as_object_mut()?.entry(*key).or_insert(serde_json::Value::Null);
        if member.is_null() {
            *member = serde_json::json!({});
        }
        value = member;
    }
    value.as_object_mut()
}
