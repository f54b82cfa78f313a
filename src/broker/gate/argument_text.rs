//! The text of a call's arguments for a question to the human: every name is in it, long texts and lists are shortened,
//! and omitted parts are counted.
//!
//! Claude Code shows four lines of a question and cuts each at the width of the terminal, so arguments use as few lines
//! as possible. If they do not fit, an overview of all names comes first. This module asks nobody. It decides only
//! whether arguments can be shown.

use belljar_base::text;
use serde_json::{Map, Value};

/// The shown length of a text, in characters, and of a list, in items. The first pair with which the arguments fit is
/// used.
const SHORTENINGS: [(usize, usize); 5] = [(2_000, 100), (400, 20), (120, 8), (40, 4), (20, 2)];
/// The shown lengths in the overview.
const OVERVIEW_SHORTENINGS: [(usize, usize); 4] = [(40, 4), (20, 2), (8, 1), (0, 0)];
/// A text that exceeds the limit by at most this many characters is shown whole in the overview: the count of omitted
/// characters would take as much space.
const SLACK_CHARS: usize = 10;
/// Longest line, in characters: a terminal has 80 columns, and clients indent.
const LINE_CHARS_MAX: usize = 72;
/// Lines of arguments that every known client shows, below the line with the name of the tool.
const SEEN_LINES_MAX: usize = 3;
/// Lines of the overview: one less, since the client uses its last line for the number of omitted lines.
const OVERVIEW_LINES_MAX: usize = 2;
/// Longest overview, including both labels.
const OVERVIEW_CHARS_MAX: usize =
    OVERVIEW_LINES_MAX * (LINE_CHARS_MAX + 1) + LABEL.len() + DETAIL_LABEL.len();
const LABEL: &str = "Arguments: ";
const DETAIL_LABEL: &str = "In detail: ";
const INDENT: &str = "  ";

/// The text of the arguments, with all names, in at most `chars_max` characters; `None`: they do not fit.
pub(crate) fn shown(arguments: &Map<String, Value>, chars_max: usize) -> Option<String> {
    let whole = (usize::MAX, usize::MAX);
    if let Some(lines) = overview(arguments, whole, SEEN_LINES_MAX) {
        return Some(lines);
    }
    let left = chars_max.checked_sub(OVERVIEW_CHARS_MAX)?;
    let detail =
        SHORTENINGS.into_iter().find_map(|lengths| pieces(arguments, (Excerpt::Detail, lengths), left))?;
    let overview =
        OVERVIEW_SHORTENINGS.into_iter().find_map(|lengths| overview(arguments, lengths, OVERVIEW_LINES_MAX));
    Some(match overview {
        Some(overview) => format!("{overview}\n{}", lines(DETAIL_LABEL, &detail).join("\n")),
        None => lines(LABEL, &detail).join("\n"),
    })
}

/// The arguments in at most `lines_max` lines; `None`: they do not fit.
fn overview(arguments: &Map<String, Value>, lengths: (usize, usize), lines_max: usize) -> Option<String> {
    let pieces = pieces(arguments, (Excerpt::Overview, lengths), lines_max * LINE_CHARS_MAX)?;
    let lines = lines(LABEL, &pieces);
    let fits = lines.len() <= lines_max && lines.iter().all(|line| line.chars().count() <= LINE_CHARS_MAX);
    fits.then(|| lines.join("\n"))
}

/// The part of a long value that is shown.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Excerpt {
    /// The beginning and the end are shown.
    Detail,
    /// The beginning is shown.
    Overview,
}

/// Puts as many pieces into each line as fit. A line begins with a piece, never within a value, so that no value can
/// look like a line of belljar's.
fn lines(label: &str, pieces: &[String]) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = label.to_owned();
    for (at, piece) in pieces.iter().enumerate() {
        let space = if at == 0 { "" } else { " " };
        let chars = piece.chars().count();
        let fits = line.chars().count() + space.len() + chars <= LINE_CHARS_MAX;
        // A first piece that fits into no line follows the label directly.
        if fits || at == 0 && INDENT.len() + chars > LINE_CHARS_MAX {
            line.push_str(space);
            line.push_str(piece);
        } else {
            lines.push(line.trim_end().to_owned());
            line = format!("{INDENT}{piece}");
        }
    }
    lines.push(line);
    lines
}

/// The arguments as JSON, in pieces that a line break must not split. A new piece begins after each comma between items
/// or entries.
fn pieces(
    arguments: &Map<String, Value>,
    (excerpt, (text_chars, items)): (Excerpt, (usize, usize)),
    chars_max: usize,
) -> Option<Vec<String>> {
    let mut writer =
        ArgumentWriter { pieces: vec![String::new()], chars_left: chars_max, excerpt, text_chars, items };
    writer.object(arguments)?;
    Some(writer.pieces)
}

/// Writes arguments as JSON, in pieces. Pieces end outside of quotes only, so that no value can determine where a piece
/// ends.
struct ArgumentWriter {
    pieces: Vec<String>,
    chars_left: usize,
    excerpt: Excerpt,
    text_chars: usize,
    items: usize,
}

impl ArgumentWriter {
    fn value(&mut self, value: &Value) -> Option<()> {
        match value {
            Value::Object(fields) => self.object(fields),
            Value::Array(items) => self.array(items),
            Value::String(text) => self.string(text),
            other => self.push(&other.to_string()),
        }
    }

    fn object(&mut self, fields: &Map<String, Value>) -> Option<()> {
        self.push("{")?;
        for (at, (name, value)) in fields.iter().enumerate() {
            self.next(at)?;
            self.quoted(name)?;
            self.push(": ")?;
            self.value(value)?;
        }
        self.push("}")
    }

    fn array(&mut self, items: &[Value]) -> Option<()> {
        self.push("[")?;
        let missing = items.len().saturating_sub(self.items);
        let head = match self.excerpt {
            Excerpt::Detail if missing > 0 => self.items.div_ceil(2),
            Excerpt::Detail | Excerpt::Overview => items.len() - missing,
        };
        for (at, value) in items.iter().enumerate() {
            if at >= head && at < head + missing {
                if at == head {
                    self.next(at)?;
                    self.push(&match self.excerpt {
                        Excerpt::Detail => format!("… {missing} more, not shown …"),
                        Excerpt::Overview => format!("… {missing} more"),
                    })?;
                }
            } else {
                self.next(at)?;
                self.value(value)?;
            }
        }
        self.push("]")
    }

    fn string(&mut self, text: &str) -> Option<()> {
        let missing = text.chars().count().saturating_sub(self.text_chars);
        let begin = |chars: usize| text.chars().take(chars).collect::<String>();
        match self.excerpt {
            Excerpt::Detail if missing > 0 => {
                let head = self.text_chars.div_ceil(2);
                let end: String = text.chars().skip(head + missing).collect();
                self.quoted(&begin(head))?;
                self.push(&format!(" … {missing} characters not shown … "))?;
                self.quoted(&end)
            }
            Excerpt::Overview if missing > SLACK_CHARS => {
                self.quoted(&begin(self.text_chars))?;
                self.push(&format!(" … {missing} more"))
            }
            Excerpt::Detail | Excerpt::Overview => self.quoted(text),
        }
    }

    fn quoted(&mut self, text: &str) -> Option<()> {
        // Escapes can only make the text longer.
        if text.len() > 4 * self.chars_left {
            return None;
        }
        self.push(&text::for_human(&Value::from(text).to_string()))
    }

    fn next(&mut self, at: usize) -> Option<()> {
        if at > 0 {
            self.push(",")?;
            // Counts the space between two pieces, or the indentation of a line.
            self.chars_left = self.chars_left.checked_sub(INDENT.len() + 1)?;
            self.pieces.push(String::new());
        }
        Some(())
    }

    fn push(&mut self, text: &str) -> Option<()> {
        self.chars_left = self.chars_left.checked_sub(text.chars().count())?;
        self.pieces.last_mut()?.push_str(text);
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
    fn short_arguments_are_one_line() {
        let arguments =
            json!({"path": "/a\u{202e}", "options": {"force": true, "lines": [1, "b"]}, "none": []});
        let expected = r#"Arguments: {"path": "/a\u202e", "options": {"force": true, "lines": [1,
  "b"]}, "none": []}"#;
        assert_eq!(of(arguments, 2_000).as_deref(), Some(expected));
        assert_eq!(of(json!({}), 2).as_deref(), Some("Arguments: {}"));
    }

    #[test]
    fn all_names_stand_in_the_first_lines() {
        let shown = of(json!({"to": "a@example.org", "body": "word ".repeat(60), "cc": vec!["b"; 9]}), 4_000)
            .unwrap();
        let expected = r#"Arguments: {"to": "a@example.org",
  "body": "word word word word " … 280 more, "cc": ["b", "b", … 7 more]}
In detail: {"to": "a@example.org","#;
        assert_eq!(shown.lines().take(3).collect::<Vec<_>>().join("\n"), expected);
        assert!(shown.contains(&"word ".repeat(60)), "{shown}");
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
        assert_eq!(shown, "Arguments: {\"body\": \"a\\\" … 3 characters not shown … \\\"b\"}");
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
