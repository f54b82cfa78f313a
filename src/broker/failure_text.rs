//! Texts of failures and arguments as the model reads them: bounded, and without secrets.

use serde_json::Value;

/// Longest text of a server's failure that the model reads, in characters.
pub(super) const FAILURE_CHARS_MAX: usize = 2_000;
/// The hint for a server that is configured and cannot be used.
pub(super) const UNAVAILABLE_HINT: &str = "the user must fix it; `belljar config` shows where it stands";

/// Applies `redacted` to every text in a value, but to no key.
pub(super) fn redact(value: &mut Value, redacted: &dyn Fn(String) -> String) {
    match value {
        Value::String(text) => *text = redacted(std::mem::take(text)),
        Value::Array(items) => items.iter_mut().for_each(|item| redact(item, redacted)),
        Value::Object(fields) => fields.values_mut().for_each(|field| redact(field, redacted)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
