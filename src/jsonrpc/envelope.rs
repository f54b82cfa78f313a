//! What a message is: its id and method, and its result and error as text.

use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::outline::Outline;
use crate::limits::Limits;
use crate::text;

/// The outer object of a message; the inner texts are valid JSON, and unread.
#[derive(Debug, Deserialize)]
pub struct Envelope<'a> {
    /// Absent in notifications; null counts as absent.
    #[serde(borrow, default)]
    pub id: Option<&'a RawValue>,
    /// Absent in answers.
    #[serde(default)]
    pub method: Option<String>,
    /// Of an answer.
    #[serde(borrow, default, deserialize_with = "present")]
    pub result: Option<&'a RawValue>,
    /// Of an answer.
    #[serde(borrow, default, deserialize_with = "present")]
    pub error: Option<&'a RawValue>,
}

/// The reason for which a line could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LineError {
    /// The line has more bytes than this.
    Overlong(usize),
    /// The line is not JSON.
    NotJson(String),
    /// The line is JSON but not a JSON-RPC message.
    Misshapen(String),
}

/// A line that is not a JSON-RPC message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MalformedLine {
    /// The id as JSON text, if the line has a readable one.
    pub(super) id: Option<String>,
    pub(super) why: LineError,
}

impl<'a> Envelope<'a> {
    /// Reads the outer object of a line. When it cannot be read, its id is looked for all the same, so that whoever
    /// waits for this message can be told.
    pub(super) fn read(line: &'a [u8]) -> Result<Self, MalformedLine> {
        let no_message = |why| {
            let mut outline = Outline::default();
            outline.push(line);
            MalformedLine { id: outline.id(), why }
        };
        let text =
            std::str::from_utf8(line).map_err(|error| no_message(LineError::NotJson(error.to_string())))?;
        // serde takes an array for a struct as well.
        if !text.starts_with('{') && serde_json::from_str::<IgnoredAny>(text).is_ok() {
            return Err(no_message(LineError::Misshapen("it is no object".into())));
        }
        serde_json::from_str(text).map_err(|error| {
            let why = if error.is_data() { LineError::Misshapen } else { LineError::NotJson };
            no_message(why(error.to_string()))
        })
    }
}

/// A message as a tree, unless that would be larger than any that is meant.
///
/// # Errors
/// The line is not a message of this type, or has too many values.
pub fn message<T: DeserializeOwned>(line: &[u8]) -> Result<T, String> {
    let values_max = Limits::default().json_values_max;
    // Each has a byte at least.
    if line.len() > values_max && text::json_values(line) > values_max {
        return Err(format!("it has more than {values_max} values and keys"));
    }
    serde_json::from_slice(line).map_err(|error| error.to_string())
}

/// Which request a message answers, as JSON text, as far as it can be made out, however broken the rest is; nothing when
/// it is a request or notification itself.
#[must_use]
pub fn answered_id(message: &[u8]) -> Option<String> {
    match Envelope::read(message) {
        Ok(envelope) if envelope.method.is_some() => None,
        Ok(envelope) => envelope.id.map(|id| id.get().to_owned()),
        Err(no_message) => no_message.id,
    }
}

/// A field that is there, null included.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_pass_as_text_that_serde_would_refuse_or_change() {
        let line =
            r#"{"jsonrpc":"2.0","id":7,"result":{"b":1e999,"a":"\ud800","n":12345678901234567890123}}"#;
        let envelope = Envelope::read(line.as_bytes()).unwrap();
        assert_eq!(envelope.id.unwrap().get(), "7");
        assert_eq!(envelope.result.unwrap().get(), r#"{"b":1e999,"a":"\ud800","n":12345678901234567890123}"#);
        let deep = format!(r#"{{"id":"x","result":{}{}}}"#, "[".repeat(5000), "]".repeat(5000));
        assert_eq!(Envelope::read(deep.as_bytes()).unwrap().result.unwrap().get().len(), 10_000);
        assert!(Envelope::read(br#"{"id":1,"result":null}"#).unwrap().result.is_some());
        assert!(Envelope::read(br#"{"id":null,"method":"x"}"#).unwrap().id.is_none());
    }

    #[test]
    fn a_message_has_no_more_values_than_any_that_is_meant() {
        let of = |count: usize| message::<serde_json::Value>(format!("[{}0]", "0,".repeat(count)).as_bytes());
        assert!(of(999_997).is_ok());
        assert_eq!(of(1_000_000).unwrap_err(), "it has more than 1000000 values and keys");
    }

    #[test]
    fn a_broken_line_names_whose_it_is() {
        let id = |line: &[u8]| Envelope::read(line).unwrap_err().id;
        assert_eq!(id(br#"{"id":7,"result":{"x":NaN}}"#).as_deref(), Some("7"));
        assert_eq!(id(br#"{"result":[Infinity],"id":"a"}"#).as_deref(), Some(r#""a""#));
        assert_eq!(id(b"{\"id\":3,\"result\":\"\xff\"}").as_deref(), Some("3"));
        assert_eq!(id(br#"{"id":3,"result":1,"result":2}"#).as_deref(), Some("3"));
        assert_eq!(id(br#"[{"id":3}]"#), None);
        assert_eq!(id(b"hello"), None);
    }
}
