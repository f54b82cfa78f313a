//! The form of a call in the journal and in a replay.
//!
//! It writes nothing.

use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

/// The helper that checks calls. It is recorded only if it finds a fault.
pub(crate) const CHECK: &str = "check_calls";

/// Helpers whose answers are belljar's own texts about tools, servers and skills. A replay makes them again if the
/// journal has only their hash.
const MADE_AGAIN: [&str; 11] = [
    "capability_summary",
    "describe_server",
    "discovered_servers",
    "list_loaded_server_metadata",
    "list_servers",
    "list_skills",
    "list_tools",
    "query_tool_docs",
    "search_tool_docs",
    "show_skill",
    "skill_history",
];
/// Helpers that have an effect in the bridge, or tell its state. Their answers are short and belljar's own, and the
/// journal has them at every level of detail, since a replay cannot make them again.
const KEPT: [&str; 10] = [
    CHECK,
    "cancel_job",
    "drop_handle",
    "job",
    "jobs",
    "remove_skill",
    "resume_session",
    "save_tool",
    "spawn_job",
    "wait_job",
];

/// Whether a replay makes the answer to this call again.
#[must_use]
pub fn is_made_again(server: Option<&str>, tool: &str) -> bool {
    server.is_none() && MADE_AGAIN.contains(&tool)
}

/// Whether the journal has the answer to this call at every level of detail.
pub(crate) fn is_kept(server: Option<&str>, tool: &str) -> bool {
    server.is_none() && KEPT.contains(&tool)
}

/// A call in the form of the journal and of a replay.
pub(crate) struct JournalForm {
    /// The server's name as the code wrote it; `None` for a helper.
    pub(crate) server: Option<String>,
    pub(crate) tool: String,
    /// The arguments, with sorted keys and without secrets.
    pub(crate) arguments: Box<RawValue>,
}

#[cfg(test)]
impl JournalForm {
    /// A call, for tests.
    pub(crate) fn of(server: Option<&str>, tool: &str, arguments: &str) -> Self {
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
pub(crate) fn sorted(json: &RawValue) -> Box<RawValue> {
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
