//! The value of a tool's result, whole or in part, when it is an argument of another call.
//!
//! It is the value that code would get for the same result, except for texts. A text is parsed as JSON or as the repr
//! of a Python value only if code requests its JSON or a part of it.

use belljar_base::text;
use belljar_tools::catalog::json_of_repr;
use serde::Deserialize;
use serde_json::Value;

/// Longest description of a value, in characters.
const TOLD_CHARS_MAX: usize = 160;
/// The largest number of keys in a description.
const KEYS_MAX: usize = 8;
/// Longest step in a message, in characters.
const STEP_CHARS_MAX: usize = 80;

/// One step into a value.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(super) enum Step {
    /// The item of a list; negative indices count from the end.
    Item(i64),
    /// The value of a key in an object.
    Key(String),
}

/// A part of a result.
#[derive(Debug)]
pub(super) struct Part<'a> {
    /// The steps to the part.
    pub(crate) path: &'a [Step],
    /// Whether a text is parsed as JSON.
    pub(crate) json: bool,
}

/// The value of this part of a result. `wraps`: the tool wraps its results. The error is a predicate, such as "has no
/// key 'x'".
pub(super) fn held_value(result: Value, wraps: bool, part: &Part<'_>) -> Result<Value, String> {
    let mut value = unwrapped(result, wraps);
    if (part.json || !part.path.is_empty())
        && let Value::String(text) = &value
    {
        if text::has_reserved_key(text.as_bytes()) {
            return Err(
                "has a key that begins with $serde_json::private::, which belljar does not read".into()
            );
        }
        value = serde_json::from_str(text)
            .or_else(|error| json_of_repr(text).ok_or_else(|| format!("is no JSON: {error}")))?;
    }
    for step in part.path {
        value = match (value, step) {
            (Value::Object(mut fields), Step::Key(key)) => {
                fields.remove(key).ok_or_else(|| format!("has no key '{}'", excerpt(key)))?
            }
            (Value::Array(mut items), Step::Item(at)) => {
                let count = items.len();
                let place = if *at < 0 { at.checked_add_unsigned(count as u64) } else { Some(*at) };
                let place =
                    place.and_then(|place| usize::try_from(place).ok()).filter(|place| *place < count);
                items.swap_remove(place.ok_or_else(|| format!("has no item {at}: it has {count}"))?)
            }
            (value, Step::Key(key)) => {
                return Err(format!("has no key '{}' there, but {}", excerpt(key), kind(&value)));
            }
            (value, Step::Item(at)) => return Err(format!("has no item {at} there, but {}", kind(&value))),
        };
    }
    Ok(value)
}

/// Describes a result in a few words that reveal nothing of it but its keys.
pub(crate) fn told(result: &Value, wraps: bool) -> String {
    let value = unwrapped(result.clone(), wraps);
    text::bounded(&text::inert_line(&kind(&value)), TOLD_CHARS_MAX).into_owned()
}

/// Whether a part of the result is binary.
pub(super) fn holds_files(result: &Value) -> bool {
    let is_file = |block: &Value| {
        block.get("data").is_some_and(Value::is_string)
            || block.pointer("/resource/blob").is_some_and(Value::is_string)
    };
    result.get("content").and_then(Value::as_array).is_some_and(|blocks| blocks.iter().any(is_file))
}

/// What may stand in a result beside its value.
const MEMBERS: [&str; 4] = ["structuredContent", "isError", "_meta", "resultType"];

/// Unwraps the result as `unwrap` of the Python runtime does.
fn unwrapped(mut result: Value, wraps: bool) -> Value {
    if let Some(structured) = result.get_mut("structuredContent").filter(|structured| !structured.is_null()) {
        return match structured.take() {
            Value::Object(mut fields) if wraps && fields.len() == 1 => {
                fields.remove("result").unwrap_or(Value::Object(fields))
            }
            value => value,
        };
    }
    let Value::Object(members) = &mut result else { return result };
    let blocks = match members.shift_remove("content") {
        Some(Value::Array(blocks)) => blocks,
        one => one.into_iter().collect(),
    };
    let blocks = blocks.into_iter().filter(|block| !block.is_null());
    let mut values: Vec<Value> = blocks.map(block_value).collect();
    match values.len() {
        0 => {
            members.retain(|name, _| !MEMBERS.contains(&name.as_str()));
            if members.is_empty() { Value::Null } else { result }
        }
        1 => values.remove(0),
        _ => Value::Array(values),
    }
}

fn block_value(mut block: Value) -> Value {
    let place = match block.get("type").and_then(Value::as_str) {
        Some("text") => "/text",
        Some("image" | "audio") => "/data",
        Some("resource") if block.pointer("/resource/text").is_some_and(Value::is_string) => "/resource/text",
        Some("resource") => "/resource/blob",
        _ => return block,
    };
    match block.pointer_mut(place) {
        Some(value) if value.is_string() => value.take(),
        _ => block,
    }
}

fn kind(value: &Value) -> String {
    match value {
        Value::Null => "nothing".into(),
        Value::Bool(_) => "a truth value".into(),
        Value::Number(_) => "a number".into(),
        Value::String(text) => format!("a text of {} characters", text.chars().count()),
        Value::Array(items) => format!("a list of {}", items.len()),
        Value::Object(fields) => {
            let keys: Vec<String> =
                fields.keys().take(KEYS_MAX).map(|key| format!("'{}'", excerpt(key))).collect();
            let more = if fields.len() > KEYS_MAX {
                format!(" and {} more", fields.len() - KEYS_MAX)
            } else {
                String::new()
            };
            format!(
                "an object with {}{more}",
                if keys.is_empty() { "no keys".into() } else { keys.join(", ") }
            )
        }
    }
}

fn excerpt(word: &str) -> String {
    text::inert_excerpt(word, STEP_CHARS_MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn steps(path: &Value) -> Vec<Step> {
        serde_json::from_value(path.clone()).unwrap()
    }

    fn part(result: Value, path: &Value) -> Result<Value, String> {
        held_value(result, false, &Part { path: &steps(path), json: false })
    }

    #[test]
    fn a_result_is_the_value_that_code_has_of_it() {
        let structured = json!({"content": [{"type": "text", "text": "x"}], "structuredContent": {"n": 1}});
        assert_eq!(part(structured.clone(), &json!([])).unwrap(), json!({"n": 1}));
        assert_eq!(part(structured, &json!(["n"])).unwrap(), json!(1));
        let text = json!({"content": [{"type": "text", "text": "[1, {\"a\": \"b\"}]"}]});
        assert_eq!(part(text.clone(), &json!([])).unwrap(), json!("[1, {\"a\": \"b\"}]"), "a text stays one");
        assert_eq!(
            held_value(text.clone(), false, &Part { path: &[], json: true }).unwrap(),
            json!([1, {"a": "b"}])
        );
        assert_eq!(part(text, &json!([-1, "a"])).unwrap(), json!("b"));
        let repr = json!({"content": [{"type": "text", "text": "[1, {'a': None}]"}]});
        assert_eq!(part(repr, &json!([-1, "a"])).unwrap(), Value::Null);
        let image = json!({"type": "image", "mimeType": "image/png", "data": "aGk="});
        let blob = json!({"type": "resource", "resource": {"uri": "x:", "blob": "aG8="}});
        let resource = json!({"type": "resource", "resource": {"uri": "x:", "text": "read"}});
        let link = json!({"type": "resource_link", "uri": "x:"});
        let several = json!({"content": [image, blob, resource, link]});
        assert_eq!(part(several, &json!([])).unwrap(), json!(["aGk=", "aG8=", "read", link]));
        assert_eq!(part(json!({"content": []}), &json!([])).unwrap(), Value::Null);
    }

    #[test]
    fn a_part_that_is_not_there_is_said() {
        let result = || json!({"content": [], "structuredContent": {"rows": [1, 2], "text": "x"}});
        for (path, why) in [
            (json!(["row"]), "has no key 'row'"),
            (json!(["rows", 2]), "has no item 2: it has 2"),
            (json!(["rows", -3]), "has no item -3: it has 2"),
            (json!(["rows", "0"]), "has no key '0' there, but a list of 2"),
            (json!(["text", 0]), "has no item 0 there, but a text of 1 characters"),
            (json!(["\u{1b}[2J"]), "has no key '\\x1b[2J'"),
        ] {
            assert_eq!(part(result(), &path).unwrap_err(), why);
        }
        let text = json!({"content": [{"type": "text", "text": "no json"}]});
        assert!(part(text, &json!([0])).unwrap_err().starts_with("is no JSON: expected"));
    }

    #[test]
    fn it_is_told_what_a_result_is_and_not_what_it_says() {
        for (result, said) in [
            (json!({"content": [{"type": "text", "text": "secret"}]}), "a text of 6 characters"),
            (
                json!({"structuredContent": {"a": 1, "b\u{1b}": 2}, "content": []}),
                "an object with 'a', 'b\\x1b'",
            ),
            (json!({"structuredContent": [1, 2, 3], "content": []}), "a list of 3"),
            (json!({"content": []}), "nothing"),
        ] {
            assert_eq!(told(&result, false), said);
        }
    }

    #[test]
    fn binary_parts_are_seen() {
        let of = |block: Value| holds_files(&json!({"content": [{"type": "text", "text": "x"}, block]}));
        assert!(of(json!({"type": "audio", "data": "aGk="})));
        assert!(of(json!({"type": "resource", "resource": {"blob": "aGk="}})));
        assert!(!of(json!({"type": "resource", "resource": {"text": "aGk="}})));
    }
}
