//! YAML as Goose writes it, read with positions. Aliases, merges and second documents are not followed, which is
//! reported.
//!
//! It edits nothing: `yaml_edit` does.

use std::ops::Range;

use saphyr_parser::{Event, Parser, ScalarStyle, Span};
use serde_json::Number;

use super::spanned::{FormatError, Member, Node, Value};

/// The distance of stored positions, in characters.
const STEP: usize = 256;

/// Reads a whole text. A text without a document is an empty table.
pub(crate) fn read(text: &str, depth_max: usize) -> Result<Value, FormatError> {
    let bytes = Bytes::of(text);
    let mut reader = Reader { bytes: &bytes, depth_max, open: Vec::new(), root: None };
    let mut parser = Parser::new_from_str(text);
    while let Some(event) = parser.next_event() {
        let (event, span) = event.map_err(|error| FormatError {
            at: bytes.at(error.marker().index()),
            message: error.info().to_owned(),
            hint: "",
        })?;
        reader.take(event, span)?;
    }
    let root = reader.root.unwrap_or_else(Value::empty);
    // The parser reads a file of comments as one empty scalar.
    Ok(if root.node == Node::Null { Value { range: root.range, ..Value::empty() } } else { root })
}

/// A node that has begun and not ended.
struct OpenNode {
    at: usize,
    node: Node,
    /// The key whose value comes next.
    key: Option<(String, usize)>,
}

struct Reader<'b> {
    bytes: &'b Bytes<'b>,
    depth_max: usize,
    open: Vec<OpenNode>,
    root: Option<Value>,
}

impl Reader<'_> {
    fn take(&mut self, event: Event<'_>, span: Span) -> Result<(), FormatError> {
        let range = self.bytes.range(span);
        match event {
            Event::DocumentStart(_) if self.root.is_some() => Err(FormatError {
                at: range.start,
                message: "a second document".into(),
                hint: "keep one in the file",
            }),
            Event::MappingStart(..) => self.begin(range.start, Node::Table(Vec::new())),
            Event::SequenceStart(..) => self.begin(range.start, Node::List(Vec::new())),
            Event::MappingEnd | Event::SequenceEnd => match self.open.pop() {
                Some(OpenNode { at, node, .. }) => self.give(Value { range: at..range.start.max(at), node }),
                None => Ok(()),
            },
            Event::Scalar(text, style, _, tag) => {
                let is_text = tag.is_some_and(|tag| tag.is_yaml_core_schema() && tag.suffix == "str");
                let node = match style {
                    ScalarStyle::Plain if !is_text => plain(&text),
                    _ => Node::Text(text.into_owned()),
                };
                self.give(Value { range, node })
            }
            Event::Alias(_) => self.give(Value { range, node: Node::Unread("an alias") }),
            Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(_)
            | Event::DocumentEnd => Ok(()),
        }
    }

    fn begin(&mut self, at: usize, node: Node) -> Result<(), FormatError> {
        if self.open.len() >= self.depth_max {
            return Err(FormatError::too_deep(at, self.depth_max));
        }
        self.open.push(OpenNode { at, node, key: None });
        Ok(())
    }

    /// Adds a value to the open node: as an item, as a key, as the value of the last key, or as the root.
    fn give(&mut self, value: Value) -> Result<(), FormatError> {
        let Some(OpenNode { node, key, .. }) = self.open.last_mut() else {
            self.root = Some(value);
            return Ok(());
        };
        match (node, key.take()) {
            (Node::List(items), _) => items.push(value),
            (Node::Table(members), Some((name, at))) => members.push(Member { key: name, at, value }),
            (_, _) => {
                let at = value.range.start;
                let name = match value.node {
                    Node::Text(text) => text,
                    Node::Null => "null".into(),
                    Node::Bool(value) => value.to_string(),
                    Node::Number(number) => number.to_string(),
                    Node::List(_) | Node::Table(_) | Node::Unread(_) => {
                        return Err(FormatError { at, message: "a key that is no text".into(), hint: "" });
                    }
                };
                *key = Some((name, at));
            }
        }
        Ok(())
    }
}

/// The value of a scalar without quotes, by the core schema.
fn plain(text: &str) -> Node {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Node::Null,
        "true" | "True" | "TRUE" => return Node::Bool(true),
        "false" | "False" | "FALSE" => return Node::Bool(false),
        _ => {}
    }
    let looks_like_number =
        text.trim_start_matches(['+', '-', '.']).starts_with(|c: char| c.is_ascii_digit());
    let number = match text.parse::<i64>() {
        Ok(whole) => Some(Number::from(whole)),
        Err(_) => text.parse::<f64>().ok().and_then(Number::from_f64),
    };
    match number {
        Some(number) if looks_like_number => Node::Number(number),
        _ => Node::Text(text.to_owned()),
    }
}

/// The byte offsets of the characters of a text.
struct Bytes<'t> {
    text: &'t str,
    /// The byte offset of every `STEP`th character.
    steps: Vec<usize>,
}

impl<'t> Bytes<'t> {
    fn of(text: &'t str) -> Self {
        Self { text, steps: text.char_indices().step_by(STEP).map(|(at, _)| at).collect() }
    }

    /// The byte at which a character begins; the end of the text for a character after it.
    fn at(&self, index: usize) -> usize {
        let Some(&step) = self.steps.get(index / STEP) else { return self.text.len() };
        let rest = &self.text[step..];
        step + rest.char_indices().nth(index % STEP).map_or(rest.len(), |(at, _)| at)
    }

    fn range(&self, span: Span) -> Range<usize> {
        let start = self.at(span.start.index());
        start..self.at(span.end.index()).max(start)
    }
}
