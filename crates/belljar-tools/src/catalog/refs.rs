//! Resolves the local `$ref` of a JSON Schema.
//!
//! It never fetches: a reference to another document, to an anchor or by an id resolves to nothing.

use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

/// The longest reference that is resolved, in bytes. A reference that many schemas share is parsed for each of them.
const REFERENCE_BYTES_MAX: usize = 1024;

/// The value in the document at a reference such as `#/$defs/Issue`; `None` if there is no such value.
pub(super) fn target<'s>(reference: &str, root: &'s Map<String, Value>) -> Option<&'s Value> {
    if reference.len() > REFERENCE_BYTES_MAX {
        return None;
    }
    let pointer = reference.strip_prefix("#/")?;
    // Not all generators encode every character that a URI must encode.
    let decoded = percent_decode_str(pointer).decode_utf8().ok();
    decoded.and_then(|decoded| pointed(&decoded, root)).or_else(|| pointed(pointer, root))
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

    #[test]
    fn a_pointer_is_read_percent_decoded_and_else_as_it_is_written() {
        let document = json!({"$defs": {"My Mode": 1, "Partial<Options>": 2, "50%25": 3, "\u{fc}": 4}});
        let root = document.as_object().unwrap();
        for (reference, expected) in [
            ("#/$defs/My%20Mode", 1),
            ("#/$defs/My Mode", 1),
            ("#/%24defs/Partial%3COptions%3e", 2),
            ("#/$defs/50%2525", 3),
            ("#/$defs/50%25", 3),
            ("#/$defs/%C3%BC", 4),
        ] {
            assert_eq!(target(reference, root), Some(&json!(expected)), "{reference}");
        }
        assert_eq!(target("#/$defs/%ff", root), None);
    }
}
