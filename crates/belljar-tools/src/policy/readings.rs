//! The possible readings of a text for a server that decodes percent-encodings or parses JSON in texts.
//!
//! It compares nothing. It is unknown what a particular server does.

use std::borrow::Cow;
use std::fmt;

use belljar_base::text;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::map::Entry;
use serde_json::{Map, Value};

/// The longest text that is parsed as JSON, in bytes.
const JSON_BYTES_MAX: usize = 64 * 1024;
/// The characters that the JSON in a text begins with.
const JSON_STARTS: [char; 3] = ['{', '[', '"'];
/// Words for values in JSON, and in texts that lenient parsers accept as JSON.
const JSON_WORDS: [&str; 9] = ["true", "false", "null", "none", "nil", "undefined", "nan", "inf", "infinity"];

/// The number of nested encodings that are still decoded, of each kind. It bounds the number of readings of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecodingDepth {
    json: usize,
    percent: usize,
}

impl DecodingDepth {
    /// The depth for a text that is in no other text.
    pub const OUTERMOST: Self = Self { json: 3, percent: 3 };
}

/// The values that a server may read from a text that contains JSON.
#[derive(Debug, Default)]
pub struct NestedReadings {
    /// The possible values. The value of a repeated key is the list of all its values.
    pub readings: Vec<(Value, DecodingDepth)>,
    /// Whether a reading begins like JSON, but is too long, too deep or invalid here. Some server may read it all the
    /// same.
    unreadable: Option<UnreadableText>,
}

/// A text that begins like JSON and cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum UnreadableText {
    /// The text is probably no JSON.
    Text,
    /// The text consists only of parts that a lenient parser accepts as JSON.
    LikeJson,
}

impl NestedReadings {
    /// Whether a server may read the text as a value that is not among the readings.
    pub(super) fn may_be_any_value(&self) -> bool {
        self.unreadable == Some(UnreadableText::LikeJson)
    }

    /// Whether a server may find a value in the text that is not among the readings.
    pub(super) fn may_hold_anything(&self) -> bool {
        self.may_be_any_value() || (self.unreadable.is_some() && self.readings.is_empty())
    }
}

/// The values that a server may parse from this text, percent-encoded or not.
#[must_use]
pub fn inner(text: &str, depth: DecodingDepth) -> NestedReadings {
    let mut inner = NestedReadings::default();
    let decodings = decodings(text, depth);
    for (text, depth) in
        std::iter::once((text, depth)).chain(decodings.iter().map(|(text, at)| (&**text, *at)))
    {
        let text = trimmed(text);
        if !text.starts_with(JSON_STARTS) {
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

/// Whether [`inner`] may find JSON in the text, which can take long.
#[must_use]
pub fn may_hold_json(text: &str) -> bool {
    let is_read = |text: &str| text.len() <= JSON_BYTES_MAX && text.starts_with(JSON_STARTS);
    text.contains('%') || is_read(trimmed(text))
}

fn trimmed(text: &str) -> &str {
    text.trim_matches(|one: char| one.is_whitespace() || text::is_unseen(one))
}

/// Whether a server may treat a value like an absent one.
#[must_use]
pub fn may_be_nothing(value: &Value, depth: DecodingDepth) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => {
            let is_nothing = |text: &str| text::says_nothing(text) || text.trim() == "null";
            let is_quoted = |text: &str| trimmed(text).starts_with('"');
            let decodings = decodings(text, depth);
            is_nothing(text)
                || decodings.iter().any(|(text, _)| is_nothing(text))
                // Objects and lists are something.
                || ((is_quoted(text) || decodings.iter().any(|(text, _)| is_quoted(text)))
                    && inner(text, depth).readings.iter().any(|(value, depth)| may_be_nothing(value, *depth)))
        }
        _ => false,
    }
}

/// The results of percent-decoding a text once and repeatedly, each with the depth that is left. Some servers remove
/// invisible characters before they decode, so such characters may split an encoding.
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

/// Parses a text as JSON. If it is invalid, it is parsed again without invisible characters.
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

/// A JSON value in which a repeated key has the list of all its values, since servers differ in which one they use.
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
        let number = match fields.get(text::NUMBER_KEY) {
            Some(Value::String(digits)) if fields.len() == 1 => digits.parse().ok().map(Value::Number),
            _ => None,
        };
        Ok(number.unwrap_or(Value::Object(fields)))
    }
}

/// Whether a text consists only of brackets, commas, colons, comments, quoted texts, numbers, words for values, and
/// names before a colon. That is so for JSON5, literals of Python and JavaScript, and JSON lines.
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

/// The length of the quoted text at the beginning, in bytes; `None`: its end is missing.
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

/// The length of the number, the word for a value or the name before a colon at the beginning, in bytes; `None`: it is
/// another word.
fn word_length(text: &str) -> Option<usize> {
    let is_end = |one: char| one.is_whitespace() || "[]{},:\"'/".contains(one);
    let length = text.find(is_end).unwrap_or(text.len());
    let (word, behind) = text.split_at(length);
    let unsigned = word.trim_start_matches(['+', '-', '.']);
    let is_value = unsigned.starts_with(|one: char| one.is_ascii_digit())
        || JSON_WORDS.contains(&&*unsigned.to_ascii_lowercase());
    (is_value || behind.trim_start().starts_with(':')).then_some(length)
}
