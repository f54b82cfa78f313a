//! The form of a call in the journal and in a replay.
//!
//! It writes nothing.

use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

/// The helper that checks calls. It is recorded only if it finds a fault.
pub(in crate::broker) const CHECK: &str = "check_calls";

/// A call in the form of the journal and of a replay.
pub(in crate::broker) struct JournalForm {
    /// The server's name as the code wrote it; `None` for a helper.
    pub(in crate::broker) server: Option<String>,
    pub(in crate::broker) tool: String,
    /// The arguments, with sorted keys and without secrets.
    pub(in crate::broker) arguments: Box<RawValue>,
}

#[cfg(test)]
impl JournalForm {
    /// A call, for tests.
    pub(in crate::broker) fn of(server: Option<&str>, tool: &str, arguments: &str) -> Self {
        Self {
            server: server.map(str::to_owned),
            tool: tool.to_owned(),
            arguments: sorted(
                &RawValue::from_string(arguments.to_owned()).unwrap_or_else(|_| RawValue::NULL.to_owned()),
            ),
        }
    }
}

/// The JSON with sorted keys, so that equal values have equal texts. Invalid JSON stays as it is.
pub(in crate::broker) fn sorted(json: &RawValue) -> Box<RawValue> {
    let sorted = serde_json::from_str::<Value>(json.get()).and_then(|mut value| {
        value.sort_all_objects();
        to_raw_value(&value)
    });
    sorted.unwrap_or_else(|_| json.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(json: &str) -> Box<RawValue> {
        RawValue::from_string(json.to_owned()).unwrap()
    }

    #[test]
    fn the_order_of_keys_makes_no_other_call() {
        let [one, other] = [r#"{"b": {"y": 1, "x": [2.0]}, "a": 1}"#, r#"{"a":1,"b":{"x":[2.0],"y":1}}"#];
        assert_eq!(sorted(&raw(one)).get(), sorted(&raw(other)).get());
        assert_ne!(sorted(&raw(one)).get(), sorted(&raw(&one.replace("2.0", "2"))).get());
    }
}
