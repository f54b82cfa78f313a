//! Follows a local `$ref` of a JSON Schema.
//!
//! It never fetches: a reference to another document leads nowhere.

use serde_json::{Map, Value};

/// References followed in a row; a longer chain is taken for a loop.
const STEPS_MAX: usize = 16;
/// Longest reference that is followed: many schemas may share one.
const REFERENCE_BYTES_MAX: usize = 1024;

/// The schema behind a schema's `$ref`, or itself when it has none; `None` when the reference leads nowhere.
pub(super) fn resolved<'s>(schema: &'s Value, root: &'s Map<String, Value>) -> Option<&'s Value> {
    let mut schema = schema;
    for _ in 0..STEPS_MAX {
        let Some(reference) = schema.get("$ref").and_then(Value::as_str) else {
            return Some(schema);
        };
        if reference.len() > REFERENCE_BYTES_MAX {
            return None;
        }
        schema = pointed(reference.strip_prefix("#/")?, root)?;
    }
    None
}

/// The value at a JSON Pointer without its first slash.
pub(super) fn pointed<'s>(pointer: &str, root: &'s Map<String, Value>) -> Option<&'s Value> {
    let mut steps = pointer.split('/').map(|step| step.replace("~1", "/").replace("~0", "~"));
    let first = root.get(&steps.next()?)?;
    steps.try_fold(first, |value, step| match value {
        Value::Object(members) => members.get(&step),
        Value::Array(items) => items.get(step.parse::<usize>().ok()?),
        _ => None,
    })
}
