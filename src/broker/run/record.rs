//! What has happened in a run so far, for whoever reads its report.
//!
//! It is bounded, and loses no planned call.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::broker::failure_text::redact;
use crate::journal::RecordedSession;
use crate::names::ServerName;
use crate::policy::Called;
use crate::run::{NotMade, Planned, PlannedCall};
use crate::text;

/// Planned calls of one run that are listed; further ones are counted.
const LISTED_MAX: usize = 1000;
/// Longest arguments that are listed, in characters.
const ARGUMENTS_CHARS_MAX: usize = 2_000;
/// Notes of one run.
const NOTES_MAX: usize = 10;

/// What has happened in a run.
#[derive(Debug, Default)]
pub struct RunRecord {
    /// Calls that were listed instead of being made.
    pub planned: Planned,
    /// Resources and prompts that were asked for; lists of them count.
    pub readings: u64,
    /// Sentences for the reader of the report.
    pub notes: Vec<String>,
    /// The session that the code asks to resume, and the last run of it that counts.
    pub resumes: Option<(RecordedSession, u64)>,
    /// Servers that were waited for in vain.
    pub(in crate::broker) awaited: BTreeSet<ServerName>,
}

impl RunRecord {
    /// Adds a note, unless there are too many, or it is there already.
    pub(super) fn note(&mut self, note: String) {
        if self.notes.len() < NOTES_MAX && !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Lists a call.
    pub(super) fn plan(
        &mut self,
        called: &Called<'_>,
        (asks, why): (bool, NotMade),
        redacted: &dyn Fn(String) -> String,
    ) {
        if self.planned.calls.len() == LISTED_MAX {
            self.planned.further += 1;
            return;
        }
        let mut arguments = Value::Object(called.arguments.clone());
        redact(&mut arguments, redacted);
        self.planned.calls.push(PlannedCall {
            server: called.server.name.to_owned(),
            tool: called.tool.name.to_owned(),
            arguments: text::inert_excerpt(&arguments.to_string(), ARGUMENTS_CHARS_MAX),
            asks,
            why,
        });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

    use super::*;
    use crate::policy::{Implied, Names};

    #[test]
    fn what_is_listed_is_bounded_and_no_call_is_lost() {
        let (mut record, none) = (RunRecord::default(), Map::new());
        let plan = |record: &mut RunRecord, arguments: Value, asks: bool| {
            let called = Called {
                server: Names::only("s"),
                tool: Names::only("t"),
                annotations: &none,
                arguments: arguments.as_object().unwrap(),
                implied: &Implied::default(),
            };
            let redacted = |text: String| text.replace("hunter22", "${TOKEN}");
            record.plan(&called, (asks, NotMade::NotMarkedReadOnly), &redacted);
        };
        plan(&mut record, json!({"token": "hunter22"}), false);
        for _ in 0..LISTED_MAX + 2 {
            plan(&mut record, json!({"text": "x".repeat(5_000), "token": "hunter22"}), true);
        }
        let Planned { calls, further } = record.planned;
        assert_eq!((calls.len(), further), (LISTED_MAX, 3));
        assert_eq!(calls[0].arguments, r#"{"token":"${TOKEN}"}"#);
        assert!(calls[1].asks && calls[1].arguments.chars().count() <= ARGUMENTS_CHARS_MAX);
    }
}
