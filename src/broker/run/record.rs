//! The record of a run so far, for the reader of its report.
//!
//! It is bounded, and counts every call.

use std::collections::{BTreeSet, HashMap};

use belljar_base::names::ServerName;
use belljar_base::run::{CallCounts, CallState, Calls, DryRunReason, PlannedCall, ToolCalls, ToolEffect};
use belljar_base::text;
use belljar_tools::policy::PolicyCall;
use serde_json::Value;

use crate::broker::failure_text::redact;
use crate::journal::RecordedSession;

/// The largest number of tools of one run that are counted separately; calls of further ones are counted together.
const TOOLS_MAX: usize = 1000;
/// Longest name of a tool, in characters.
const TOOL_CHARS_MAX: usize = 200;
/// The largest number of planned calls of one run that are listed; further ones are counted.
const LISTED_MAX: usize = 1000;
/// Longest arguments that are listed, in characters.
const ARGUMENTS_CHARS_MAX: usize = 2_000;
/// The largest number of notes of one run, and of remarks on the code among them. Code chooses how many of these there are, and must not
/// crowd out what the policy, the pins and the log say.
const NOTES_MAX: usize = 50;
const REMARKS_MAX: usize = 10;
/// The largest number of jobs that say the same.
const ALIKE_MAX: usize = 5;
/// The notes after the last ones.
const LEFT_OUT: &str = "further notes of this run are left out";
const REMARKS_LEFT_OUT: &str = "further remarks on the code of this run are left out";

/// The record of what has happened in a run.
#[derive(Debug, Default)]
pub struct RunRecord {
    /// The counts of its calls.
    pub calls: Calls,
    /// Sentences for the reader of the report.
    pub notes: Vec<String>,
    /// The session that the code asks to resume, and the last run of it to replay.
    pub resumes: Option<(RecordedSession, u64)>,
    /// The servers that did not start in time.
    pub(crate) awaited: BTreeSet<ServerName>,
    /// The number of tool calls that have begun, and of those that have ended.
    pub(super) progress: (usize, usize),
    /// The number of remarks on the code among the notes.
    remarks: usize,
    /// The tools that were called although a rule warns of them, by its reason. There are as many reasons as the user has
    /// written rules.
    warnings: Vec<(String, Vec<String>)>,
    places: HashMap<(ServerName, String), usize>,
    /// The tools that were not marked as read-only at one of their calls, by index.
    unmarked: BTreeSet<usize>,
}

/// The counter that a call belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallCounter {
    /// The counter of a tool, by index.
    Tool(usize),
    /// The counter of all further tools.
    Others,
}

impl RunRecord {
    /// Adds a note, unless it is a duplicate. After the largest number, one note says that others are left out.
    pub(super) fn note(&mut self, note: String) {
        // Several jobs may say the same, each with its number before it.
        let said = note.split_once(": ").filter(|(job, _)| job.starts_with("job ")).map(|(_, said)| said);
        let is_repeated = said
            .is_some_and(|said| self.notes.iter().filter(|note| note.ends_with(said)).count() >= ALIKE_MAX);
        if self.notes.len() <= NOTES_MAX && !is_repeated && !self.notes.contains(&note) {
            self.notes.push(if self.notes.len() < NOTES_MAX { note } else { LEFT_OUT.to_owned() });
        }
    }

    /// Adds a note about the code. After a few, one note says that others are left out.
    pub(super) fn remark(&mut self, remark: String) {
        if self.remarks <= REMARKS_MAX && !self.notes.contains(&remark) {
            self.remarks += 1;
            self.note(if self.remarks <= REMARKS_MAX { remark } else { REMARKS_LEFT_OUT.to_owned() });
        }
    }

    /// Adds a tool to the warning with this reason.
    pub(super) fn warn(&mut self, tool: String, because: &str) {
        let known = self.warnings.iter().position(|(reason, _)| reason == because);
        let at = known.unwrap_or_else(|| {
            self.warnings.push((because.to_owned(), vec![]));
            self.warnings.len() - 1
        });
        let tools = &mut self.warnings[at].1;
        if tools.len() < TOOLS_MAX && !tools.contains(&tool) {
            tools.push(tool);
        }
    }

    /// Adds one note for each warning.
    pub(super) fn add_warnings(&mut self) {
        let notes = std::mem::take(&mut self.warnings).into_iter().map(|(because, tools)| match &tools[..] {
            [one] => format!("{one} was called: {because}"),
            [one, other] => format!("{one} and {other} were called: {because}"),
            [one, other, others @ ..] => {
                let many = if tools.len() == TOOLS_MAX { "at least " } else { "" };
                let plural = if others.len() == 1 { "" } else { "s" };
                format!("{one}, {other} and {many}{} other{plural} were called: {because}", others.len())
            }
            [] => because,
        });
        self.notes.splice(0..0, notes);
    }

    /// Counts a call of a tool that begins.
    pub(super) fn begin_call(&mut self, server: ServerName, tool: &str) -> CallCounter {
        let key = (server, text::bounded(tool, TOOL_CHARS_MAX).into_owned());
        let next = self.calls.of_tools.len();
        let counter = match self.places.get(&key) {
            Some(counter) => CallCounter::Tool(*counter),
            None if next < TOOLS_MAX => {
                let (server, tool) = key.clone();
                let (effect, counts) = (ToolEffect::MayWrite, CallCounts::default());
                self.calls.of_tools.push(ToolCalls { server, tool, effect, counts });
                self.places.insert(key, next);
                CallCounter::Tool(next)
            }
            None => CallCounter::Others,
        };
        self.count(counter, CallState::Begun, 1);
        counter
    }

    /// Moves a call from one state's count to another's.
    pub(super) fn move_call(&mut self, counter: CallCounter, from: CallState, to: CallState) {
        self.count(counter, from, -1);
        self.count(counter, to, 1);
    }

    /// Notes whether the server marks the tool as read-only at this call. The tool counts as read-only if it was marked
    /// so at every call, since a server may change its marks between two calls.
    pub(super) fn resolved(&mut self, counter: CallCounter, only_reads: bool) {
        let CallCounter::Tool(at) = counter else { return };
        if !only_reads {
            self.unmarked.insert(at);
        }
        if let Some(tool) = self.calls.of_tools.get_mut(at) {
            tool.effect = if self.unmarked.contains(&at) { ToolEffect::MayWrite } else { ToolEffect::Reads };
        }
    }

    fn count(&mut self, counter: CallCounter, state: CallState, more: i64) {
        let counts = match counter {
            CallCounter::Tool(at) => self.calls.of_tools.get_mut(at).map(|tool| &mut tool.counts),
            CallCounter::Others => Some(&mut self.calls.others),
        };
        if let Some(counts) = counts {
            let count = counts.of(state);
            *count = count.saturating_add_signed(more);
        }
    }

    /// Lists a planned call of the run, or of one of its jobs.
    pub(super) fn plan(
        &mut self,
        called: &PolicyCall<'_>,
        job: Option<u64>,
        (asks, why): (bool, DryRunReason),
        redacted: &dyn Fn(String) -> String,
    ) {
        let planned = &mut self.calls.planned;
        if planned.calls.len() == LISTED_MAX {
            planned.further += 1;
            return;
        }
        let mut arguments = Value::Object((*called.arguments.given).clone());
        redact(&mut arguments, redacted);
        planned.calls.push(PlannedCall {
            server: called.server.name.to_owned(),
            tool: called.tool.name.to_owned(),
            arguments: text::inert_excerpt(&arguments.to_string(), ARGUMENTS_CHARS_MAX),
            job,
            asks,
            why,
        });
    }
}

#[cfg(test)]
mod tests {
    use belljar_base::run::PlannedCalls;
    use belljar_tools::policy::Names;
    use serde_json::{Map, json};

    use super::*;

    #[test]
    fn what_is_listed_is_bounded_and_no_call_is_lost() {
        let (mut record, none) = (RunRecord::default(), Map::new());
        let plan = |record: &mut RunRecord, arguments: Value, asks: bool| {
            let called = PolicyCall {
                server: Names::only("s"),
                tool: Names::only("t"),
                annotations: &none,
                arguments: &arguments.as_object().unwrap().clone().into(),
            };
            let redacted = |text: String| text.replace("hunter22", "${TOKEN}");
            record.plan(&called, None, (asks, DryRunReason::NotMarkedReadOnly), &redacted);
        };
        plan(&mut record, json!({"token": "hunter22"}), false);
        for _ in 0..LISTED_MAX + 2 {
            plan(&mut record, json!({"text": "x".repeat(5_000), "token": "hunter22"}), true);
        }
        let PlannedCalls { calls, further } = record.calls.planned;
        assert_eq!((calls.len(), further), (LISTED_MAX, 3));
        assert_eq!(calls[0].arguments, r#"{"token":"${TOKEN}"}"#);
        assert!(calls[1].asks && calls[1].arguments.chars().count() <= ARGUMENTS_CHARS_MAX);
    }

    fn name() -> ServerName {
        ServerName::new("s").unwrap()
    }

    #[test]
    fn calls_are_counted_by_tool_and_outcome_in_the_order_of_the_first() {
        let mut record = RunRecord::default();
        let places = ["b", "a", "b", "b"].map(|tool| record.begin_call(name(), tool));
        let ends = [CallState::Answered, CallState::Failed, CallState::Refused];
        for (counter, end) in places.into_iter().zip(ends) {
            record.move_call(counter, CallState::Begun, end);
        }
        let seen: Vec<_> =
            record.calls.of_tools.iter().map(|tool| (tool.tool.as_str(), tool.counts)).collect();
        let b = CallCounts { answered: 1, refused: 1, unknown: 1, ..CallCounts::default() };
        let a = CallCounts { failed: 1, ..CallCounts::default() };
        assert_eq!(seen, [("b", b), ("a", a)]);
        assert_eq!(record.calls.others, CallCounts::default());
    }

    #[test]
    fn beyond_the_bound_no_call_is_lost() {
        let mut record = RunRecord::default();
        for number in 0..TOOLS_MAX + 5 {
            let counter = record.begin_call(name(), &number.to_string());
            record.move_call(counter, CallState::Begun, CallState::Answered);
        }
        record.begin_call(name(), "0");
        let calls = record.calls;
        assert_eq!((calls.of_tools.len(), calls.others.answered), (TOOLS_MAX, 5));
        assert_eq!(calls.of_tools[0].counts.total(), 2);
    }
}
