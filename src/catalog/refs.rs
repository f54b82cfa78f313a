//! Where a local `$ref` of a JSON Schema leads.
//!
//! It never fetches: a reference to another document leads nowhere.

use serde_json::{Map, Value};

/// Longest reference that is followed: many schemas may share one.
const REFERENCE_BYTES_MAX: usize = 1024;

/// What stands at a reference such as `#/$defs/Issue` in the document; nothing when it leads nowhere.
pub(super) fn target<'s>(reference: &str, root: &'s Map<String, Value>) -> Option<&'s Value> {
    if reference.len() > REFERENCE_BYTES_MAX {
        return None;
    }
    pointed(reference.strip_prefix("#/")?, root)
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_references_into_the_same_document_lead_somewhere() {
        let document = json!({"$defs": {"a/b": [true, {"type": "string"}]}});
        let root = document.as_object().unwrap();
        assert_eq!(target("#/$defs/a~1b/1", root), Some(&json!({"type": "string"})));
        for nowhere in ["https://example.com/#/$defs/a~1b", "#/$defs/a~1b/2", "#/$defs/x", "$defs", "#"] {
            assert_eq!(target(nowhere, root), None, "{nowhere}");
        }
        assert_eq!(target(&format!("#/$defs/{}", "x".repeat(2000)), root), None);
    }
}
