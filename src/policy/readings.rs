//! What a text may read as for a server that decodes percent-encodings or reads JSON in texts. There may be several readings.
//!
//! It compares nothing. What a particular server does is not known.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::map::Entry;
use serde_json::{Map, Value};

use crate::text;

/// Longest text that is read as JSON, in bytes.
const JSON_BYTES_MAX: usize = 64 * 1024;
/// Words that stand for values in JSON or in what lenient readers take for it.
const JSON_WORDS: [&str; 9] = ["true", "false", "null", "none", "nil", "undefined", "nan", "inf", "infinity"];

/// The number of further encodings that are decoded within each other. It bounds the readings of a text to 20.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecodingDepth {
    json: usize,
    percent: usize,
}

impl DecodingDepth {
    /// That of a text that stands in no other.
    pub const OUTERMOST: Self = Self { json: 3, percent: 3 };
}

/// The values that a server may read in a text that holds JSON.
#[derive(Debug, Default)]
pub struct NestedReadings {
    /// Each value that it may read as. Of a key that is repeated, the value is the list of all its values.
    pub readings: Vec<(Value, DecodingDepth)>,
    /// Some reading begins as JSON does, and is too long, too deep or not JSON for us: some server may read it all the same.
    unreadable: Option<UnreadableText>,
}

/// A text that begins like JSON and cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum UnreadableText {
    /// The text is probably not JSON.
    Text,
    /// The text consists only of what JSON consists of, as a lenient reader sees it.
    LikeJson,
}

impl NestedReadings {
    /// Whether a server may read it as a value that is not among the readings.
    pub(super) fn may_be_any_value(&self) -> bool {
        self.unreadable == Some(UnreadableText::LikeJson)
    }

    /// Whether a server may find something within it that is not in the readings.
    pub(super) fn may_hold_anything(&self) -> bool {
        self.may_be_any_value() || (self.unreadable.is_some() && self.readings.is_empty())
    }
}

/// What a server that reads JSON in texts finds in this one, percent-encoded or not.
#[must_use]
pub fn inner(text: &str, depth: DecodingDepth) -> NestedReadings {
    let mut inner = NestedReadings::default();
    let decodings = decodings(text, depth);
    for (text, depth) in
        std::iter::once((text, depth)).chain(decodings.iter().map(|(text, at)| (&**text, *at)))
    {
        let text = text.trim_matches(|one: char| one.is_whitespace() || text::is_unseen(one));
        if !text.starts_with(['{', '[', '"']) {
            continue;
        }
        match read(text, depth) {
            Some(value) => inner.readings.push((value, DecodingDepth { json: depth.json - 1, ..depth })),
            None if is_like_json(text) => inner.unreadable = Some(UnreadableText::LikeJson),
            None => inner.unreadable = inner.unreadable.max(Some(UnreadableText::Text)),
        }
    }
    inner
}

/// Whether a server may take a value for one that was left out.
#[must_use]
pub fn may_be_nothing(value: &Value, depth: DecodingDepth) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => {
            let is_nothing = |text: &str| text::says_nothing(text) || text.trim() == "null";
            is_nothing(text)
                || decodings(text, depth).iter().any(|(text, _)| is_nothing(text))
                || inner(text, depth).readings.iter().any(|(value, depth)| may_be_nothing(value, *depth))
        }
        _ => false,
    }
}

/// What percent-decoding makes of a text, once and again, with what may still be decoded within each. Some servers remove
/// characters that are not drawn before they decode, so that these may split an encoding.
pub(super) fn decodings(text: &str, depth: DecodingDepth) -> Vec<(String, DecodingDepth)> {
    let mut decodings: Vec<(String, DecodingDepth)> = Vec::new();
    if !text.contains('%') {
        return decodings;
    }
    let drawn = text::drawn(text);
    let bases = [Some(text), matches!(drawn, Cow::Owned(_)).then_some(&*drawn)];
    for base in bases.into_iter().flatten() {
        let mut last = Cow::Borrowed(base);
        for percent in (0..depth.percent).rev() {
            let decoded = percent_encoding::percent_decode_str(&last).decode_utf8_lossy().into_owned();
            if decoded == last {
                break;
            }
            if decodings.iter().all(|(known, _)| *known != decoded) {
                decodings.push((decoded.clone(), DecodingDepth { percent, ..depth }));
            }
            last = Cow::Owned(decoded);
        }
    }
    decodings
}

/// The JSON value that a text is, with characters removed that are not drawn if it is invalid with them.
fn read(text: &str, depth: DecodingDepth) -> Option<Value> {
    if depth.json == 0 || text.len() > JSON_BYTES_MAX {
        return None;
    }
    let parse = |text: &str| serde_json::from_str(text).ok().map(|EveryValue(value)| value);
    parse(text).or_else(|| match text::drawn(text) {
        Cow::Borrowed(_) => None,
        Cow::Owned(drawn) => parse(&drawn),
    })
}

/// A JSON value in which a key that is repeated has the list of all its values: servers differ in which one they use.
struct EveryValue(Value);

impl<'de> Deserialize<'de> for EveryValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(EveryValueVisitor).map(Self)
    }
}

struct EveryValueVisitor;

impl<'de> Visitor<'de> for EveryValueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(EveryValue(item)) = seq.next_element()? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut fields: Map<String, Value> = Map::new();
        while let Some((name, EveryValue(value))) = map.next_entry::<String, _>()? {
            match fields.entry(name) {
                Entry::Vacant(field) => drop(field.insert(Value::Array(vec![value]))),
                Entry::Occupied(mut field) => {
                    field.get_mut().as_array_mut().into_iter().for_each(|values| values.push(value.clone()))
                }
            }
        }
        for values in fields.values_mut() {
            if let Value::Array(all) = values
                && all.len() == 1
                && let Some(only) = all.pop()
            {
                *values = only;
            }
        }
        Ok(Value::Object(fields))
    }
}

/// Whether a text is made of brackets, commas, colons, comments, texts in quotes, numbers, words for values, and names before
/// a colon only: so JSON5, Python's and JavaScript's values, and JSON lines are.
fn is_like_json(text: &str) -> bool {
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches(|one: char| {
            one.is_whitespace() || text::is_unseen(one) || "[]{},:".contains(one)
        });
        let length = match rest.chars().next() {
            None => return true,
            Some(quote @ ('"' | '\'')) => quoted_length(rest, quote),
            Some('/') => comment_length(rest),
            Some(_) => word_length(rest),
        };
        let Some(length) = length else { return false };
        rest = &rest[length..];
    }
}

/// How long the text in quotes is with which this begins; `None` if it does not end.
fn quoted_length(text: &str, quote: char) -> Option<usize> {
    let mut characters = text.char_indices().skip(1);
    while let Some((at, character)) = characters.next() {
        if character == quote {
            return Some(at + 1);
        }
        if character == '\\' {
            characters.next();
        }
    }
    None
}

fn comment_length(text: &str) -> Option<usize> {
    if text.starts_with("//") {
        return Some(text.find('\n').unwrap_or(text.len()));
    }
    Some(text.strip_prefix("/*")?.find("*/")? + 4)
}

/// How long the number, word for a value or name before a colon is with which this begins; `None` if it is another word.
fn word_length(text: &str) -> Option<usize> {
    let is_end = |one: char| one.is_whitespace() || "[]{},:\"'/".contains(one);
    let length = text.find(is_end).unwrap_or(text.len());
    let (word, behind) = text.split_at(length);
    let unsigned = word.trim_start_matches(['+', '-', '.']);
    let is_value = unsigned.starts_with(|one: char| one.is_ascii_digit())
        || JSON_WORDS.contains(&&*unsigned.to_ascii_lowercase());
    (is_value || behind.trim_start().starts_with(':')).then_some(length)
}
