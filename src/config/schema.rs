//! The JSON schema of a config.toml, for editors: made from the same table as the settings themselves.
//!
//! The reader does not use it: its own problems say more.

use serde_json::{Map, Value, json};

use super::defaults::{Definition, Form, definitions};

/// The schema.
#[must_use]
pub fn schema() -> Value {
    let mut sections = Map::new();
    for row in definitions() {
        let Some((section, key)) = row.key.as_deref().and_then(|key| key.split_once('.')) else { continue };
        let section = sections
            .entry(section)
            .or_insert_with(|| json!({"type": "object", "additionalProperties": false, "properties": {}}));
        section["properties"][key] = of(&row);
    }
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "config.toml of hotcell",
        "type": "object",
        "additionalProperties": false,
        "properties": sections,
    })
}

fn of(row: &Definition) -> Value {
    let mut schema = match row.form {
        Form::Text => json!({"type": "string"}),
        Form::Integer => json!({"type": "integer"}),
        Form::Number => json!({"type": "number"}),
        Form::Switch => json!({"type": "boolean"}),
        Form::Size => json!({"type": ["string", "integer"]}),
        Form::List => json!({"type": "array", "items": {"type": "string", "pattern": "^[^,]*$"}}),
    };
    schema["description"] = json!(format!("{}. As a variable: {}.", row.allowed, row.variable));
    if !row.words.is_empty() {
        schema["enum"] = json!(row.words);
    }
    if let Some((minimum, maximum)) = &row.bounds {
        schema["minimum"] = minimum.clone();
        schema["maximum"] = maximum.clone();
    }
    if let Some(default) = &row.default {
        let typed = row.typed(default);
        // Words are written small there.
        schema["default"] = match &typed {
            Value::String(word) if !row.words.is_empty() => json!(word.to_lowercase()),
            _ => typed,
        };
    }
    schema
}

#[cfg(test)]
#[path = "schema_tests.rs"]
mod tests;
