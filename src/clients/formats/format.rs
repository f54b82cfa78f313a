//! The formats of clients' files, with one interface to read a file, add an entry and remove it.
//!
//! The result of every edit is parsed and compared, and an edit with any other effect is not returned.

use belljar_base::limits::Limits;

use super::spanned::{Collection, FormatError, Value};
use super::{json_text, toml_text, yaml_edit, yaml_text};

/// The format of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// JSON with the extensions that editors allow: comments, and a comma after the last item.
    Json,
    Toml,
    /// TOML in which the entries are a list of tables, each with its name under the key `name`.
    TomlList,
    Yaml,
    /// YAML in which the entries are a list of tables, each with its name under the key `name`.
    YamlList,
}

impl Format {
    /// Reads a whole text. Lists of entries are read as tables.
    pub(crate) fn read(self, text: &str, limits: &Limits) -> Result<Value, FormatError> {
        let value = self.parsed(text, limits)?;
        Ok(match self.collection() {
            Collection::Table => value,
            Collection::List => value.with_named_lists(),
        })
    }

    fn parsed(self, text: &str, limits: &Limits) -> Result<Value, FormatError> {
        match self {
            Self::Json => json_text::read(text, limits.json_depth_max),
            Self::Toml | Self::TomlList => toml_text::read(text, limits.json_depth_max),
            Self::Yaml | Self::YamlList => yaml_text::read(text, limits.json_depth_max),
        }
    }

    fn collection(self) -> Collection {
        match self {
            Self::Json | Self::Toml | Self::Yaml => Collection::Table,
            Self::TomlList | Self::YamlList => Collection::List,
        }
    }

    /// The text with this entry below `path`, which replaces one of the same name; `None`: no edit keeps the rest of
    /// the text.
    pub(crate) fn put(
        self,
        text: &str,
        (path, name): (&[&str], &str),
        entry: &serde_json::Value,
        limits: &Limits,
    ) -> Option<String> {
        let edited = self.unchecked_put(text, (path, name), entry)?;
        let mut before = self.parsed(text, limits).ok()?.to_json();
        let mut found = self.parsed(&edited, limits).ok()?.to_json();
        self.taken(&mut before, (path, name))?;
        let is_there = self.taken(&mut found, (path, name))?.as_ref() == Some(entry);
        (is_there && found == before).then_some(edited)
    }

    /// The text without this entry; `None`: no edit keeps the rest of the text.
    pub(crate) fn take_out(
        self,
        text: &str,
        (path, name): (&[&str], &str),
        limits: &Limits,
    ) -> Option<String> {
        let edited = match self {
            Self::Json => json_text::take_out(text, path, name),
            Self::Toml => toml_text::take_out(text, path, name),
            Self::TomlList => toml_text::take_out_item(text, path, name),
            Self::Yaml | Self::YamlList => yaml_edit::take_out(text, (path, name), self.collection()),
        }?;
        let mut before = self.parsed(text, limits).ok()?.to_json();
        let mut found = self.parsed(&edited, limits).ok()?.to_json();
        self.taken(&mut before, (path, name))??;
        // In TOML, an empty table may have been removed with its last member.
        let is_gone = self.taken(&mut found, (path, name))?.is_none();
        (is_gone && found == before).then_some(edited)
    }

    /// The text of an entry for a person to paste.
    pub(crate) fn block(self, path: &[&str], name: &str, entry: &serde_json::Value) -> String {
        match self {
            Self::Json => {
                let mut nested = serde_json::json!({name: entry});
                for key in path.iter().rev() {
                    nested = serde_json::json!({*key: nested});
                }
                format!("{nested:#}\n")
            }
            _ => self.unchecked_put("", (path, name), entry).unwrap_or_default(),
        }
    }

    fn unchecked_put(
        self,
        text: &str,
        (path, name): (&[&str], &str),
        entry: &serde_json::Value,
    ) -> Option<String> {
        match self {
            Self::Json => json_text::put(text, path, name, entry),
            Self::Toml => toml_text::put(text, path, name, entry),
            Self::TomlList => toml_text::put_item(text, path, name, entry),
            Self::Yaml | Self::YamlList => yaml_edit::put(text, (path, name), entry, self.collection()),
        }
    }

    /// Takes the entry out of the content of a file; `None`: there are no entries at this path. Missing tables and lists
    /// on the path are created, so that two contents can be compared.
    fn taken(
        self,
        content: &mut serde_json::Value,
        (path, name): (&[&str], &str),
    ) -> Option<Option<serde_json::Value>> {
        if self.collection() == Collection::Table {
            return Some(members_at(content, path)?.shift_remove(name));
        }
        let (last, path) = path.split_last()?;
        let list = members_at(content, path)?.entry(*last).or_insert(serde_json::Value::Null);
        if list.is_null() {
            *list = serde_json::json!([]);
        }
        let items = list.as_array_mut()?;
        let at = items.iter().position(|item| item.get("name").is_some_and(|text| text == name));
        Some(at.map(|at| items.remove(at)))
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
