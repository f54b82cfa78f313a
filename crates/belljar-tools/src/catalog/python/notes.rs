//! The notes about a parameter or key beside its type: its description, format and bounds.
//!
//! It checks nothing: only the server can tell whether a value keeps the bounds.

use belljar_base::text;
use serde_json::Value;

use super::facts::Facts;

const FORMAT_CHARS_MAX: usize = 40;
const PATTERN_CHARS_MAX: usize = 120;

/// The notes in one line that is safe to show, with at most `chars_max` characters of the description.
pub(super) fn notes(facts: &Facts<'_>, chars_max: usize) -> String {
    let description = facts.first("description").and_then(Value::as_str).unwrap_or("");
    let description = text::inert_excerpt(description, chars_max);
    let bounds = bounds(facts).join(", ");
    match (description.is_empty(), bounds.is_empty()) {
        (_, true) => description,
        (true, false) => bounds,
        (false, false) => format!("{description} ({bounds})"),
    }
}

fn bounds(facts: &Facts<'_>) -> Vec<String> {
    let excerpt = |key: &str, chars_max: usize| {
        let said = facts.first(key).and_then(Value::as_str)?;
        Some(text::inert_excerpt(said, chars_max)).filter(|said| !said.is_empty())
    };
    let is_true = |key: &str| facts.first(key) == Some(&Value::Bool(true));
    let mut bounds = Vec::new();
    bounds.extend(excerpt("format", FORMAT_CHARS_MAX));
    bounds.extend(excerpt("contentEncoding", FORMAT_CHARS_MAX));
    bounds.extend(range(facts));
    for (least, most, what) in [
        ("minLength", "maxLength", "characters"),
        ("minItems", "maxItems", "items"),
        ("minProperties", "maxProperties", "keys"),
    ] {
        bounds.extend(count(facts, least, most, what));
    }
    if let Some(step) = number(facts, "multipleOf") {
        bounds.push(format!("a multiple of {step}"));
    }
    if is_true("uniqueItems") {
        bounds.push("no item twice".to_owned());
    }
    bounds.extend(excerpt("pattern", PATTERN_CHARS_MAX).map(|pattern| format!("matches {pattern}")));
    if is_true("deprecated") {
        bounds.push("deprecated".to_owned());
    }
    bounds
}

/// The bounds of a number. In old drafts, `exclusiveMinimum: true` refers to `minimum`.
fn range(facts: &Facts<'_>) -> Option<String> {
    let is_true = |key: &str| facts.first(key) == Some(&Value::Bool(true));
    let least = number(facts, "minimum").filter(|_| !is_true("exclusiveMinimum"));
    let most = number(facts, "maximum").filter(|_| !is_true("exclusiveMaximum"));
    let above = number(facts, "exclusiveMinimum").or_else(|| number(facts, "minimum"));
    let below = number(facts, "exclusiveMaximum").or_else(|| number(facts, "maximum"));
    let lower = match (&least, &above) {
        (Some(least), _) => Some(format!(">= {least}")),
        (None, Some(above)) => Some(format!("> {above}")),
        (None, None) => None,
    };
    let upper = match (&most, &below) {
        (Some(most), _) => Some(format!("<= {most}")),
        (None, Some(below)) => Some(format!("< {below}")),
        (None, None) => None,
    };
    match (least, most, lower, upper) {
        (Some(least), Some(most), ..) => Some(format!("{least} to {most}")),
        (.., Some(lower), Some(upper)) => Some(format!("{lower} and {upper}")),
        (.., lower, upper) => lower.or(upper),
    }
}

fn count(facts: &Facts<'_>, least: &str, most: &str, what: &str) -> Option<String> {
    let whole = |key: &str| facts.first(key).and_then(Value::as_u64);
    match (whole(least).filter(|least| *least > 0), whole(most)) {
        (Some(least), Some(most)) if least == most => Some(format!("{least} {what}")),
        (Some(least), Some(most)) => Some(format!("{least} to {most} {what}")),
        (Some(least), None) => Some(format!("at least {least} {what}")),
        (None, Some(most)) => Some(format!("at most {most} {what}")),
        (None, None) => None,
    }
}

fn number(facts: &Facts<'_>, key: &str) -> Option<String> {
    match facts.first(key) {
        Some(Value::Number(number)) => Some(number.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn noted(schema: &Value) -> String {
        let mut facts = Facts::default();
        let root = serde_json::Map::new();
        facts.add(schema, &root, &mut 100);
        notes(&facts, 30)
    }

    #[test]
    fn bounds_are_said_in_few_words() {
        for (schema, words) in [
            (json!({"minimum": 1, "maximum": 100}), "1 to 100"),
            (json!({"minimum": 0.5}), ">= 0.5"),
            (json!({"exclusiveMinimum": 0, "maximum": 9}), "> 0 and <= 9"),
            (json!({"minimum": 0, "exclusiveMinimum": true}), "> 0"),
            (
                json!({"minLength": 0, "maxLength": 39, "format": "date-time"}),
                "date-time, at most 39 characters",
            ),
            (json!({"minItems": 2, "maxItems": 2, "uniqueItems": true}), "2 items, no item twice"),
            (json!({"multipleOf": 5, "deprecated": true}), "a multiple of 5, deprecated"),
            (
                json!({"pattern": "^[a-z]\u{1b}+$", "minLength": 1}),
                "at least 1 characters, matches ^[a-z]\\x1b+$",
            ),
            (json!({"description": "Who\nowns it."}), "Who owns it."),
            (
                json!({"description": "x".repeat(99), "minProperties": 1}),
                &format!("{}… (at least 1 keys)", "x".repeat(29)),
            ),
            (json!({"minimum": "1", "format": 3, "minLength": -1}), ""),
        ] {
            assert_eq!(noted(&schema), words, "{schema}");
        }
    }
}
