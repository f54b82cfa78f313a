//! The arguments of a call as a human is asked about them: every name stands there, long texts and lists are shortened, and
//! what is missing is counted.
//!
//! It asks nobody, and decides nothing but that arguments cannot be shown.

use std::fmt::Write;

use serde_json::{Map, Value};

use crate::text;

/// How much stands there of a text, in characters, and of a list, in items: the first that fits counts.
const SHORTENINGS: [(usize, usize); 5] = [(2_000, 100), (400, 20), (120, 8), (40, 4), (20, 2)];

/// The arguments, with all names, in at most so many characters; `None` where that is not enough.
pub(super) fn shown(arguments: &Map<String, Value>, chars_max: usize) -> Option<String> {
    SHORTENINGS.into_iter().find_map(|(text_chars, items)| {
        let mut shown = Shown { text: String::new(), chars_left: chars_max, text_chars, items };
        shown.object(arguments, 0)?;
        Some(shown.text)
    })
}

/// Laid out as JSON is. What is missing stands outside of quotes, where no value can write.
struct Shown {
    text: String,
    chars_left: usize,
    text_chars: usize,
    items: usize,
}

impl Shown {
    fn value(&mut self, value: &Value, depth: usize) -> Option<()> {
        match value {
            Value::Object(fields) => self.object(fields, depth),
            Value::Array(items) => self.array(items, depth),
            Value::String(text) => self.string(text),
            other => self.push(&other.to_string()),
        }
    }

    fn object(&mut self, fields: &Map<String, Value>, depth: usize) -> Option<()> {
        self.push("{")?;
        for (at, (name, value)) in fields.iter().enumerate() {
            self.next(at, depth + 1)?;
            self.quoted(name)?;
            self.push(": ")?;
            self.value(value, depth + 1)?;
        }
        self.end("}", fields.is_empty(), depth)
    }

    fn array(&mut self, items: &[Value], depth: usize) -> Option<()> {
        self.push("[")?;
        let missing = items.len().saturating_sub(self.items);
        let head = if missing == 0 { items.len() } else { self.items.div_ceil(2) };
        for (at, value) in items.iter().enumerate() {
            if at >= head && at < head + missing {
                if at == head {
                    self.next(at, depth + 1)?;
                    self.push(&format!("… {missing} more, not shown …"))?;
                }
            } else {
                self.next(at, depth + 1)?;
                self.value(value, depth + 1)?;
            }
        }
        self.end("]", items.is_empty(), depth)
    }

    fn string(&mut self, text: &str) -> Option<()> {
        let missing = text.chars().count().saturating_sub(self.text_chars);
        if missing == 0 {
            return self.quoted(text);
        }
        let head = self.text_chars.div_ceil(2);
        let begin: String = text.chars().take(head).collect();
        let end: String = text.chars().skip(head + missing).collect();
        self.quoted(&begin)?;
        self.push(&format!(" … {missing} characters not shown … "))?;
        self.quoted(&end)
    }

    fn quoted(&mut self, text: &str) -> Option<()> {
        // Its escapes only make it longer.
        if text.len() > 4 * self.chars_left {
            return None;
        }
        self.push(&text::for_human(&Value::from(text).to_string()))
    }

    fn next(&mut self, at: usize, depth: usize) -> Option<()> {
        self.push(if at == 0 { "" } else { "," })?;
        self.line(depth)
    }

    fn end(&mut self, bracket: &str, is_empty: bool, depth: usize) -> Option<()> {
        if !is_empty {
            self.line(depth)?;
        }
        self.push(bracket)
    }

    fn line(&mut self, depth: usize) -> Option<()> {
        let indent = 2 * depth;
        self.chars_left = self.chars_left.checked_sub(1 + indent)?;
        write!(self.text, "\n{:indent$}", "").ok()
    }

    fn push(&mut self, text: &str) -> Option<()> {
        self.chars_left = self.chars_left.checked_sub(text.chars().count())?;
        self.text.push_str(text);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn of(arguments: Value, chars_max: usize) -> Option<String> {
        shown(arguments.as_object().unwrap(), chars_max)
    }

    #[test]
    fn short_arguments_stand_there_as_they_are() {
        let arguments =
            json!({"path": "/a\u{202e}", "options": {"force": true, "lines": [1, "b"]}, "none": []});
        let expected = "{\n  \"path\": \"/a\\u202e\",\n  \"options\": {\n    \"force\": true,\n    \"lines\": [\n      1,\n      \
                        \"b\"\n    ]\n  },\n  \"none\": []\n}";
        assert_eq!(of(arguments, 2_000).as_deref(), Some(expected));
        assert_eq!(of(json!({}), 2).as_deref(), Some("{}"));
    }

    #[test]
    fn a_long_text_does_not_hide_the_names_behind_it() {
        let arguments =
            json!({"body": format!("first{}last", "x".repeat(100_000)), "force": true, "to": "all"});
        let shown = of(arguments, 4_000).unwrap();
        assert!(shown.contains("\"force\": true") && shown.contains("\"to\": \"all\""), "{shown}");
        assert!(shown.contains("\"first") && shown.contains("last\""), "{shown}");
        assert!(shown.contains("\" … 98009 characters not shown … \""), "{shown}");
    }

    #[test]
    fn what_is_missing_cannot_be_said_by_a_value() {
        let shown = of(json!({"body": "a\" … 3 characters not shown … \"b"}), 2_000).unwrap();
        assert_eq!(shown, "{\n  \"body\": \"a\\\" … 3 characters not shown … \\\"b\"\n}");
    }

    #[test]
    fn long_lists_are_counted_and_names_in_them_stand_there() {
        let rows: Vec<Value> = (0..1_000).map(|row| json!({"id": row, "text": "x".repeat(50)})).collect();
        let shown = of(json!({"rows": rows, "table": "t"}), 2_000).unwrap();
        assert!(shown.contains("\"id\": 0,") && shown.contains("\"id\": 999,"), "{shown}");
        assert!(shown.contains(" more, not shown …,") && shown.contains("\"table\": \"t\""), "{shown}");
    }

    #[test]
    fn arguments_whose_names_do_not_fit_are_not_shown() {
        let names: Map<String, Value> = (0..1_000).map(|n| (format!("name {n}"), json!(n))).collect();
        assert_eq!(shown(&names, 4_000), None);
        assert_eq!(of(json!({"x".repeat(8 << 20): 1}), 4_000), None);
        assert_eq!(
            of(json!({"hidden": "\u{202e}".repeat(10_000)}), 4_000).map(|text| text.len() < 4_000),
            Some(true)
        );
    }

    proptest! {
        #[test]
        fn all_names_stand_there_within_the_bound_or_nothing_does(
            names in prop::collection::btree_set("[a-z]{1,20}", 0..40),
            length in 0..5_000_usize,
        ) {
            let arguments: Map<String, Value> =
                names.iter().map(|name| (name.clone(), json!("é".repeat(length)))).collect();
            if let Some(shown) = shown(&arguments, 2_000) {
                prop_assert!(shown.chars().count() <= 2_000);
                for name in &names {
                    let quoted = format!("\"{name}\": ");
                    prop_assert!(shown.contains(&quoted));
                }
            } else {
                prop_assert!(names.len() > 15);
            }
        }
    }
}
