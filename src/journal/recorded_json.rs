//! A JSON value in a journal: the whole value, or its size and hash.

use belljar_base::digest;
use belljar_base::text;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

/// A JSON value in the journal, or its size and hash if it was too large to record.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecordedJson {
    /// The value, on one line.
    Whole(Box<RawValue>),
    /// The value was too large, or is not to be recorded.
    LeftOut {
        /// Its size.
        bytes: u64,
        /// Its hash, as hexadecimal digits.
        sha256: String,
    },
}

impl RecordedJson {
    /// Keeps it if it has at most so many bytes.
    #[must_use]
    pub fn of(json: &RawValue, bytes_max: usize) -> Self {
        let line = text::json_on_one_line(json.get());
        if line.len() <= bytes_max
            && let Ok(whole) = RawValue::from_string(line.clone().into_owned())
        {
            return Self::Whole(whole);
        }
        Self::LeftOut { bytes: line.len() as u64, sha256: digest::sha256(line.as_bytes()) }
    }

    /// Its hash, kept or not.
    #[must_use]
    pub fn sha256(&self) -> String {
        match self {
            Self::Whole(json) => digest::sha256(json.get().as_bytes()),
            Self::LeftOut { sha256, .. } => sha256.clone(),
        }
    }

    /// Its size.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Whole(json) => json.get().len() as u64,
            Self::LeftOut { bytes, .. } => *bytes,
        }
    }

    /// Its value, where it is kept and can be read.
    #[must_use]
    pub fn value(&self) -> Option<Value> {
        match self {
            Self::Whole(json) => serde_json::from_str(json.get()).ok(),
            Self::LeftOut { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(json: &str) -> Box<RawValue> {
        RawValue::from_string(json.to_owned()).unwrap()
    }

    #[test]
    fn what_is_too_large_is_its_size_and_hash() {
        let json = raw(r#"{"a":  1.0}"#);
        let (whole, left_out) = (RecordedJson::of(&json, 11), RecordedJson::of(&json, 10));
        assert_eq!(serde_json::to_string(&whole).unwrap(), r#"{"whole":{"a":  1.0}}"#);
        assert!(matches!(&left_out, RecordedJson::LeftOut { bytes: 11, .. }), "{left_out:?}");
        assert_eq!((whole.sha256(), whole.bytes()), (left_out.sha256(), 11));
        assert_eq!((whole.value().unwrap()["a"].to_string(), left_out.value()), ("1.0".into(), None));
    }

    #[test]
    fn it_is_one_line_whatever_was_written() {
        let kept = RecordedJson::of(&raw("[\n 1,\r\n \"a\\n\"]"), 100);
        assert_eq!(serde_json::to_string(&kept).unwrap(), "{\"whole\":[  1,   \"a\\n\"]}");
    }
}
