//! What a message is: its id and method, and its result and error as text.

use belljar_base::limits::Limits;
use belljar_base::text;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

use super::outline::Outline;
use super::repair::repaired;

const RESERVED_KEY: &str =
    "it has a key that begins with $serde_json::private::, which belljar does not pass on";

/// The outer object of a message; the inner texts are valid JSON, and unread.
#[derive(Debug, Deserialize)]
pub struct Envelope<'a> {
    /// The version of JSON-RPC, whatever it is.
    #[serde(borrow, default)]
    pub jsonrpc: Option<&'a RawValue>,
    /// Absent in notifications; null counts as absent.
    #[serde(borrow, default)]
    pub id: Option<&'a RawValue>,
    /// Absent in answers. A method that is no string is its JSON text.
    #[serde(default, deserialize_with = "word")]
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

impl LineError {
    /// The reason in words.
    #[must_use]
    pub fn reason(&self) -> &str {
        match self {
            Self::Overlong(_) => "it is too long",
            Self::NotJson(reason) | Self::Misshapen(reason) => reason,
        }
    }
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
        let text = std::str::from_utf8(line).map_err(|error| {
            no_message(LineError::NotJson(format!("it is no UTF-8 at byte {}", error.valid_up_to() + 1)))
        })?;
        // serde takes an array for a struct as well.
        if !text.starts_with('{') && serde_json::from_str::<IgnoredAny>(text).is_ok() {
            return Err(no_message(LineError::Misshapen("it is no object".into())));
        }
        if text::has_reserved_key(line) {
            return Err(no_message(LineError::Misshapen(RESERVED_KEY.into())));
        }
        serde_json::from_str(text).map_err(|error| {
            no_message(match error.is_data() {
                true => LineError::Misshapen("it has an id, method, result or error twice".into()),
                false if serde_json::from_str::<IgnoredAny>(&repaired(text)).is_ok() => LineError::NotJson(
                    "it has NaN, Infinity or a control character in a string, which JSON does not have"
                        .into(),
                ),
                false => LineError::NotJson(format!(
                    "it is no JSON at line {}, column {}",
                    error.line(),
                    error.column()
                )),
            })
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
    serde_json::from_slice(line)
        .map_err(|_| "its members are not those of a request, a notification or an answer".to_owned())
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

/// The answer with this id, if it has none that a request of ours can have, where it can be no other request's.
#[must_use]
pub fn answer_with_id(message: &[u8], id: &str) -> Option<Vec<u8>> {
    let Envelope { id: own, method: None, result, error, .. } = Envelope::read(message).ok()? else {
        return None;
    };
    // Without an id, an error of another form is a text of the web server.
    let error = error.filter(|error| own.is_some() || error.get().starts_with('{'));
    if own.is_some_and(|own| own.get().parse::<f64>().is_ok()) || (result.is_none() && error.is_none()) {
        return None;
    }
    let mut line = format!(r#"{{"jsonrpc":"2.0","id":{id}"#);
    for (name, value) in [("result", result), ("error", error)] {
        if let Some(value) = value {
            line.push_str(&format!(r#","{name}":{value}"#));
        }
    }
    line.push('}');
    Some(line.into_bytes())
}

/// Whether this is a message of the protocol, and not another text.
#[must_use]
pub fn is_message(message: &[u8]) -> bool {
    Envelope::read(message).is_ok_and(|Envelope { method, id, .. }| method.is_some() || id.is_some())
}

/// The error of an answer; nothing when it has none that can be read.
#[must_use]
pub fn answered_error(message: &[u8]) -> Option<Value> {
    let error = Envelope::read(message).ok()?.error?;
    serde_json::from_str(&repaired(error.get())).ok()
}

/// A method; null counts as none.
fn word<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let word = <&RawValue>::deserialize(deserializer)?.get();
    let text = || serde_json::from_str(&repaired(word)).unwrap_or_else(|_| word.to_owned());
    Ok((word != "null").then(text))
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
    fn only_an_answer_without_an_id_of_ours_gets_one() {
        let given =
            |line: &str| answer_with_id(line.as_bytes(), "7").map(|line| String::from_utf8(line).unwrap());
        for id in ["", r#""id":null,"#, r#""id":"x","#, r#""id":{},"#] {
            let line = format!(r#"{{{id}"result":{{"a": "\ud800"}}}}"#);
            assert_eq!(given(&line).unwrap(), r#"{"jsonrpc":"2.0","id":7,"result":{"a": "\ud800"}}"#);
        }
        assert_eq!(given(r#"{"error":{}}"#).unwrap(), r#"{"jsonrpc":"2.0","id":7,"error":{}}"#);
        for other in [
            r#"{"id":8,"result":1}"#,
            r#"{"method":"x","result":1}"#,
            r#"{"error":"x","why":"y"}"#,
            "{}",
            "x",
        ] {
            assert_eq!(given(other), None, "{other}");
        }
    }

    #[test]
    fn a_message_has_no_more_values_than_any_that_is_meant() {
        let of = |count: usize| message::<serde_json::Value>(format!("[{}0]", "0,".repeat(count)).as_bytes());
        assert!(of(999_997).is_ok());
        assert_eq!(of(1_000_000).unwrap_err(), "it has more than 1000000 values and keys");
    }

    #[test]
    fn a_message_has_no_key_that_would_be_read_as_another_value() {
        let line = br#"{"id":7,"result":{"tools":[{"$serde_json::private::RawValue":"[[[[1]]]]"}]}}"#;
        let refused = Envelope::read(line).unwrap_err();
        assert_eq!(
            (refused.id.as_deref(), refused.why),
            (Some("7"), LineError::Misshapen(RESERVED_KEY.into()))
        );
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
