//! Text in Python's syntax: which names are identifiers, and how a value is written as a literal.
//!
//! It evaluates nothing. A literal from here is harmless wherever it is pasted.

use belljar_base::text;
use serde_json::Value;

const KEYWORDS: [&str; 35] = [
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue", "def",
    "del", "elif", "else", "except", "finally", "for", "from", "global", "if", "import", "in", "is",
    "lambda", "nonlocal", "not", "or", "pass", "raise", "return", "try", "while", "with", "yield",
];

/// Whether the word is a keyword of Python.
pub(super) fn is_keyword(word: &str) -> bool {
    KEYWORDS.contains(&word)
}

/// Whether the text is an ASCII identifier that can be assigned. Other identifiers are avoided, since Python normalises
/// some of them to the same one.
pub(super) fn is_identifier(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with(|c: char| c.is_ascii_digit())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && !is_keyword(text)
        && text != "__debug__"
}

/// The text in single quotes. It is exact unless it is longer than `chars_max`.
pub(super) fn quoted(text: &str, chars_max: usize) -> String {
    let mut escaped = String::with_capacity(text.len() + 2);
    for character in text::bounded(text, chars_max).chars() {
        match character {
            '\\' => escaped.push_str("\\\\"),
            '\'' => escaped.push_str("\\'"),
            '\n' => escaped.push_str("\\n"),
            '\t' => escaped.push_str("\\t"),
            '\r' => escaped.push_str("\\r"),
            _ => escaped.push(character),
        }
    }
    format!("'{}'", text::inert(&escaped))
}

/// A JSON value as a Python literal; `None` if that is longer than `chars_max`.
pub(super) fn literal(value: &Value, chars_max: usize) -> Option<String> {
    let written = match value {
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::Number(number) => number.to_string(),
        Value::String(text) if text.len() <= chars_max => quoted(text, chars_max),
        Value::String(_) => return None,
        Value::Array(items) if items.len() <= chars_max => {
            let items: Option<Vec<String>> = items.iter().map(|item| literal(item, chars_max)).collect();
            format!("[{}]", items?.join(", "))
        }
        Value::Object(members) if members.len() <= chars_max => {
            let members: Option<Vec<String>> = members
                .iter()
                .map(|(key, value)| {
                    Some(format!("{}: {}", quoted(key, chars_max), literal(value, chars_max)?))
                })
                .collect();
            format!("{{{}}}", members?.join(", "))
        }
        Value::Array(_) | Value::Object(_) => return None,
    };
    (written.len() <= chars_max).then_some(written)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_spelled_as_python_does() {
        let spelled = literal(&json!({"a": [1, 2.5, true, null], "b'": "x\n\u{202e}\\"}), 80);
        assert_eq!(spelled.as_deref(), Some(r"{'a': [1, 2.5, True, None], 'b\'': 'x\n\u202e\\'}"));
        assert_eq!(literal(&json!("long enough"), 5), None);
    }

    #[test]
    fn keywords_and_foreign_letters_are_no_identifiers() {
        let identifiers: Vec<&str> =
            ["a", "_a1", "class", "None", "match", "__debug__", "1a", "a-b", "é", ""]
                .into_iter()
                .filter(|t| is_identifier(t))
                .collect();
        assert_eq!(identifiers, ["a", "_a1", "match"]);
    }
}
