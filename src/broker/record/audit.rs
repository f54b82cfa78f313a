//! The line that each call leaves in the audit log.

use belljar_base::digest;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::broker::failure_text::redact;
use crate::config::Audit;

/// Largest arguments that are logged whole, in bytes of JSON; for larger ones the hash is logged.
const ARGUMENTS_BYTES_MAX: usize = 16 * 1024;

/// The part of the arguments that the log has, without the values of the server's configured variables, and their size.
pub(crate) fn logged(
    amount: Audit,
    arguments: &RawValue,
    redacted: &dyn Fn(String) -> String,
) -> (Value, u64) {
    let json = arguments.get();
    let whole = (amount == Audit::Arguments && json.len() <= ARGUMENTS_BYTES_MAX)
        .then(|| serde_json::from_str::<Value>(json).ok())
        .flatten();
    let written = match whole {
        Some(mut value) => {
            redact(&mut value, redacted);
            value
        }
        None => Value::String(format!("sha256:{}", digest::sha256(json.as_bytes()))),
    };
    (written, json.len() as u64)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use serde_json::value::to_raw_value;

    use super::*;

    #[test]
    fn arguments_are_hashed_or_written_without_secrets() {
        let arguments = to_raw_value(&json!({"path": "/a", "token": "hunter22"})).unwrap();
        let redacted = |text: String| text.replace("hunter22", "${TOKEN}");
        let (hash, bytes) = logged(Audit::Hash, &arguments, &redacted);
        assert_eq!((hash.as_str().unwrap().len(), bytes), (7 + 64, arguments.get().len() as u64));
        let (whole, _) = logged(Audit::Arguments, &arguments, &redacted);
        assert_eq!(whole, json!({"path": "/a", "token": "${TOKEN}"}));
        let large = to_raw_value(&json!({"text": "x".repeat(20_000)})).unwrap();
        assert!(logged(Audit::Arguments, &large, &redacted).0.as_str().unwrap().starts_with("sha256:"));
    }
}
