//! One tool as its server published it, with text made harmless to show and anything malformed left out.
//!
//! A missing or broken schema counts as an empty one. The module `arguments` checks calls against the schema.

use std::sync::Arc;

use belljar_base::digest;
use belljar_base::limits::Limits;
use belljar_base::names::{NameError, ToolName};
use belljar_base::text;
use serde_json::{Map, Value};

use super::alias::fnv1a;
use super::schema_subset::Checker;
use crate::policy::Names;

/// A tool of a server. Its schemas are as the server sent them; `docs` escapes them.
#[derive(Debug, Clone, PartialEq)]
pub struct Tool {
    /// The raw name, by which the server is called.
    pub name: ToolName,
    /// The Python name, unique within the server. Before the tool joins a catalog, it is the raw name.
    pub alias: String,
    /// A name for people.
    pub title: Option<String>,
    /// The description of the tool, bounded and without control characters.
    pub description: String,
    /// The schema of its arguments.
    pub input_schema: Arc<Map<String, Value>>,
    /// The schema of its structured result.
    pub output_schema: Option<Map<String, Value>>,
    /// The server's hints, such as `readOnlyHint`. They are not reliable.
    pub annotations: Map<String, Value>,
    /// The signature, one line of Python, which is made when the tool joins a catalog.
    pub signature: String,
    /// The hash of the arguments' schema. What was learned about a tool with this name and another schema does not
    /// apply.
    pub schema_hash: u64,
    pub(super) checker: Checker,
}

/// The reason for which an item of `tools/list` is not a tool.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ToolRefusal {
    /// The item is not an object, or its name is not a string.
    #[error("an item of tools/list has no name")]
    Nameless,
    /// The name cannot be used.
    #[error(transparent)]
    Name(#[from] NameError),
}

impl Tool {
    /// Reads the usable parts of an item of `tools/list`.
    ///
    /// # Errors
    /// [`ToolRefusal`] if it has no usable name; no other defect makes a tool unusable.
    pub fn from_json(item: &Value, limits: &Limits) -> Result<Self, ToolRefusal> {
        let name = ToolName::new(item.get("name").and_then(Value::as_str).ok_or(ToolRefusal::Nameless)?)?;
        let object = |keys: &[&str]| keys.iter().find_map(|key| item.get(key)?.as_object().cloned());
        let annotations = object(&["annotations"]).unwrap_or_default();
        let title = item.get("title").or_else(|| annotations.get("title")).and_then(Value::as_str);
        let schema = ["inputSchema", "input_schema"].iter().filter_map(|key| item.get(key));
        let schema_hash = schema.map(|schema| fnv1a(0, digest::canonical(schema.clone()).as_bytes())).next();
        Ok(Self {
            alias: name.as_str().to_owned(),
            title: title
                .map(|title| text::inert_excerpt(title, limits.alias_bytes_max))
                .filter(|title| !title.is_empty()),
            description: shown(item.get("description").and_then(Value::as_str).unwrap_or(""), limits),
            schema_hash: schema_hash.unwrap_or(0),
            input_schema: object(&["inputSchema", "input_schema"]).unwrap_or_default().into(),
            output_schema: object(&["outputSchema", "output_schema"]),
            annotations,
            signature: String::new(),
            checker: Checker::default(),
            name,
        })
    }

    /// The name and alias of the tool.
    #[must_use]
    pub fn names(&self) -> Names<'_> {
        Names { name: self.name.as_str(), alias: &self.alias }
    }

    /// The schema of the member `result`, if that is the only member of a result: Python servers wrap values that are
    /// no objects in this way (FastMCP 2 and the official SDK).
    #[must_use]
    pub fn wrapped_result(&self) -> Option<&Map<String, Value>> {
        let properties = self.output_schema.as_ref()?.get("properties")?.as_object()?;
        properties.get("result").filter(|_| properties.len() == 1)?.as_object()
    }

    /// Whether its server says that the tool changes nothing.
    #[must_use]
    pub fn only_reads(&self) -> bool {
        self.annotations.get("readOnlyHint") == Some(&Value::Bool(true))
    }
}

/// A description in its stored form: bounded before it is escaped, and again after that.
pub(super) fn shown(description: &str, limits: &Limits) -> String {
    let bounded = text::bounded(description.trim(), limits.description_chars_max);
    text::bounded(&text::inert(&bounded), limits.description_chars_max).into_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn whatever_a_server_says_of_its_tool_only_a_name_is_needed() {
        let limits = Limits::default();
        for broken in [json!(null), json!([]), json!("x"), json!({}), json!({"name": 3})] {
            assert_eq!(Tool::from_json(&broken, &limits), Err(ToolRefusal::Nameless));
        }
        let tool = Tool::from_json(
            &json!({"name": "t", "description": 7, "inputSchema": "no", "outputSchema": [], "annotations": 1, "title": {}}),
            &limits,
        )
        .unwrap();
        assert_eq!((tool.description.as_str(), tool.title, tool.input_schema.len()), ("", None, 0));
    }

    #[test]
    fn hostile_text_is_shown_and_bounded() {
        let limits = Limits::default();
        let description = format!("\u{1b}[8m\u{202e}\u{e0041}{}", "x".repeat(1 << 20));
        let tool = Tool::from_json(&json!({"name": "t", "description": description}), &limits).unwrap();
        assert!(tool.description.starts_with("\\x1b[8m\\u202e\\U000e0041xxx"));
        assert_eq!(tool.description.chars().count(), limits.description_chars_max);
    }
}
