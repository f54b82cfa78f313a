//! The record of one call: its state, its lines in the audit log and the journal, and its place in the run's counts.
//!
//! The task that answers the call and the task that may give it up share the record, so that both agree on the order of
//! events.

use std::sync::Arc;

use belljar_base::names::ServerName;
use belljar_base::run::{CallState, FaultCode, Progress, ToolFault};
use belljar_base::text;
use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;
use tokio::time::Instant;

use super::context::RunContext;
use super::record::CallCounter;
use crate::audit::CallEvent;
use crate::broker::answer::Answer;
use crate::broker::record::journal_form::JournalForm;

/// Longest name that code may put into a line of the log, or a message on progress, in characters.
const NAME_CHARS_MAX: usize = 200;

/// One call of a tool or a helper.
pub struct CallRecord {
    /// The run or the job that makes it.
    pub run: Arc<RunContext>,
    /// The counter of the call; `None`: calls of helpers and of jobs are not counted.
    counter: Option<CallCounter>,
    /// Its name as the code writes it, harmless to show.
    pub(crate) name: String,
    pub(crate) began: Instant,
    entry: Mutex<Entry>,
}

/// The facts about a call that are known so far.
pub(crate) struct Entry {
    state: CallState,
    /// The server's name: as the code writes it, until it is resolved.
    pub(crate) server: String,
    pub(crate) tool: String,
    /// The reason why the call was made, or was not.
    pub(crate) decision: String,
    /// The call in the form of the journal, until its answer is recorded.
    pub(crate) form: Option<JournalForm>,
    /// Its number in the journal.
    pub(crate) number: Option<u64>,
}

impl CallRecord {
    /// Begins the record of a call; without a server it is a call of a helper.
    #[must_use]
    pub fn begin(run: &Arc<RunContext>, server: Option<&str>, tool: &str) -> Arc<Self> {
        let counted =
            server.filter(|_| run.job_number().is_none()).and_then(|name| ServerName::new(name).ok());
        let counter = counted.and_then(|server| run.with_record(|record| record.begin_call(server, tool)));
        Arc::new(Self { counter, ..Self::uncounted(run, server.unwrap_or_default(), tool) })
    }

    /// The record of a call that is not counted as a call of a tool.
    pub(crate) fn uncounted(run: &Arc<RunContext>, server: &str, tool: &str) -> Self {
        let shown = |name: &str| text::inert_excerpt(name, NAME_CHARS_MAX);
        let entry = Entry {
            state: CallState::Begun,
            server: shown(server),
            tool: shown(tool),
            decision: String::new(),
            form: None,
            number: None,
        };
        Self {
            run: Arc::clone(run),
            counter: None,
            name: shown(&format!("{server}.{tool}")),
            began: Instant::now(),
            entry: Mutex::new(entry),
        }
    }

    /// Reports to the client that the call is in progress.
    pub fn start(&self) {
        self.tell((1, 0));
    }

    /// Sets the server and the tool that the call is resolved to.
    pub(crate) fn resolved(&self, server: &ServerName, tool: &str, only_reads: bool) {
        let mut entry = self.entry();
        (entry.server, entry.tool) = (server.as_str().to_owned(), tool.to_owned());
        if let Some(counter) = self.counter {
            self.run.with_record(|record| record.resolved(counter, only_reads));
        }
    }

    pub(crate) fn decided(&self, decision: impl Into<String>) {
        self.entry().decision = decision.into();
    }

    /// Marks the call as sent. Returns false if it was given up, and must not be sent.
    pub(crate) fn send(&self) -> bool {
        self.advance(|state| (state == CallState::Begun).then_some(CallState::Sent))
    }

    /// Whether the call may have reached the server.
    pub(crate) fn was_sent(&self) -> bool {
        self.entry().state == CallState::Sent
    }

    /// Marks the call as answered, whatever becomes of its result.
    pub(crate) fn answered(&self) {
        self.advance(|state| (state == CallState::Sent).then_some(CallState::Answered));
    }

    /// Gives the call up: if it was not sent, it never will be.
    pub fn give_up(&self) {
        self.advance(|state| (state == CallState::Begun).then_some(CallState::Refused));
    }

    /// Marks the call as answered with something that code does not get.
    pub(crate) fn withhold(&self, reason: &str) {
        self.advance(|_| Some(CallState::Answered));
        let decision = &mut self.entry().decision;
        *decision = format!("{decision}; answer withheld: {reason}");
    }

    /// Ends the call with its answer.
    pub fn end(&self, answer: &Result<Answer, ToolFault>) {
        self.advance(|state| match (state, answer) {
            (CallState::Begun | CallState::Sent, Ok(Answer::Value(_))) => Some(CallState::Answered),
            (CallState::Begun | CallState::Sent, Ok(Answer::ToolError(_))) => Some(CallState::Failed),
            (CallState::Begun | CallState::Sent, Ok(Answer::Planned { .. })) => Some(CallState::Planned),
            (CallState::Begun, Err(_)) => Some(CallState::Refused),
            (CallState::Sent, Err(fault)) => Some(fault.code.end_of_call()),
            _ => None,
        });
        self.tell((0, 1));
    }

    /// The audit log's line for the call.
    pub(crate) fn event(
        &self,
        (server, tool): (String, String),
        arguments: (Value, u64),
        answer: &Result<Answer, ToolFault>,
    ) -> CallEvent {
        let (outcome, bytes_in) = match answer {
            Ok(answer) => answer.told(),
            Err(fault) => (fault.code.word(), 0),
        };
        let decision = match answer {
            Err(fault) if fault.code == FaultCode::Denied => fault.message.clone(),
            _ => self.entry().decision.clone(),
        };
        CallEvent {
            run: self.run.id.0,
            job: self.run.job_number(),
            server,
            tool,
            arguments: arguments.0,
            bytes_out: arguments.1,
            bytes_in: bytes_in as u64,
            outcome,
            decision,
            ms: self.ms(),
            times: 1,
        }
    }

    /// The names of its server and its tool, resolved where they could be.
    pub(crate) fn names(&self) -> (String, String) {
        let entry = self.entry();
        (entry.server.clone(), entry.tool.clone())
    }

    /// How long it has taken so far, in milliseconds.
    pub(crate) fn ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    pub(crate) fn entry(&self) -> MutexGuard<'_, Entry> {
        self.entry.lock()
    }

    /// Moves the call to the next state, if `next` allows it. Returns whether it did.
    fn advance(&self, next: impl FnOnce(CallState) -> Option<CallState>) -> bool {
        let mut entry = self.entry();
        let Some(to) = next(entry.state) else { return false };
        let from = std::mem::replace(&mut entry.state, to);
        if let Some(counter) = self.counter {
            self.run.with_record(|record| record.move_call(counter, from, to));
        }
        true
    }

    fn tell(&self, (begun, ended): (usize, usize)) {
        if self.counter.is_none() {
            return;
        }
        let counted = self.run.with_record(|record| {
            record.progress = (record.progress.0 + begun, record.progress.1 + ended);
            record.progress
        });
        if let Some((made, answered)) = counted {
            self.run.tell(Progress::Call { tool: self.name.clone(), answered, made });
        }
    }
}

#[cfg(test)]
mod tests {
    use belljar_base::run::{CallCounts, ClientAbilities, ServerScope, ToolEffect};
    use serde_json::value::RawValue;
    use tokio::sync::mpsc;

    use super::*;
    use crate::broker::human::Human;

    fn run() -> Arc<RunContext> {
        RunContext::of(1, &Human::new(mpsc::channel(1).0, ClientAbilities::default()))
    }

    fn value() -> Result<Answer, ToolFault> {
        Ok(Answer::Value(RawValue::NULL.to_owned()))
    }

    fn fault(code: FaultCode) -> Result<Answer, ToolFault> {
        Err(ToolFault::new(code, "no"))
    }

    fn counts(run: &RunContext) -> CallCounts {
        run.end().calls.of_tools[0].counts
    }

    #[test]
    fn a_call_is_either_sent_or_given_up() {
        let run = run();
        let [given_up, sent, refused] = [(); 3].map(|()| CallRecord::begin(&run, Some("s"), "t"));
        given_up.give_up();
        assert!(!given_up.send());
        given_up.end(&value());
        assert!(sent.send() && !sent.send());
        sent.give_up();
        refused.end(&fault(FaultCode::Denied));
        assert!(!refused.send());
        assert_eq!(counts(&run), CallCounts { refused: 2, unknown: 1, ..CallCounts::default() });
    }

    /// Every code, each once. A new one does not compile until it has a place here.
    fn codes() -> impl Iterator<Item = FaultCode> {
        use FaultCode as C;
        std::iter::successors(Some(C::ServerUnavailable), |code| match code {
            C::ServerUnavailable => Some(C::UnknownTool),
            C::UnknownTool => Some(C::ServerNotStarted),
            C::ServerNotStarted => Some(C::NotMade),
            C::NotMade => Some(C::ServerFailed),
            C::ServerFailed => Some(C::ToolError),
            C::ToolError => Some(C::Deadline),
            C::Deadline => Some(C::Cancelled),
            C::Cancelled => Some(C::TooLarge),
            C::TooLarge => Some(C::InvalidArguments),
            C::InvalidArguments => Some(C::Denied),
            C::Denied => Some(C::ModelUnavailable),
            C::ModelUnavailable => Some(C::ModelFailed),
            C::ModelFailed => Some(C::NotRunning),
            C::NotRunning => Some(C::Busy),
            C::Busy => Some(C::SandboxUnavailable),
            C::SandboxUnavailable => Some(C::Internal),
            C::Internal => None,
        })
    }

    #[test]
    fn what_was_not_sent_took_no_effect_and_what_was_sent_ends_as_its_code_says() {
        assert_eq!(codes().count(), 17);
        for code in codes() {
            let run = run();
            let [waiting, sent] = [(); 2].map(|()| CallRecord::begin(&run, Some("s"), "t"));
            assert!(sent.send());
            for record in [waiting, sent] {
                record.end(&fault(code));
                // What has ended has ended.
                record.end(&value());
            }
            let (failed, unknown) = match code {
                FaultCode::ToolError => (1, 0),
                FaultCode::ServerFailed
                | FaultCode::Deadline
                | FaultCode::Cancelled
                | FaultCode::ModelFailed
                | FaultCode::Internal => (0, 1),
                _ => (0, 0),
            };
            let expected = CallCounts { answered: 0, failed, unknown, refused: 2 - failed - unknown };
            assert_eq!(counts(&run), expected, "{code:?}");
        }
    }

    #[test]
    fn the_effect_is_that_of_the_tool_that_was_resolved() {
        let run = run();
        let server = ServerName::new("s").unwrap();
        // A server may change its marks between two calls: the earlier call may have written.
        let calls = [("reads", true), ("writes", false), ("unmarked", true), ("marked", false)];
        let later = [("reads", true), ("writes", false), ("unmarked", false), ("marked", true)];
        for (tool, only_reads) in calls.into_iter().chain(later) {
            let record = CallRecord::begin(&run, Some("s"), tool);
            record.resolved(&server, tool, only_reads);
            assert!(record.send());
        }
        let effects: Vec<ToolEffect> = run.end().calls.of_tools.iter().map(|tool| tool.effect).collect();
        assert_eq!(effects[0], ToolEffect::Reads);
        assert_eq!(effects[1..], [ToolEffect::MayWrite; 3]);
    }

    #[test]
    fn helpers_and_jobs_are_counted_nowhere_and_names_are_bounded() {
        let run = run();
        let job = Arc::new(run.job(1, ServerScope::All));
        let long = "x".repeat(1 << 20);
        let calls = [
            CallRecord::begin(&run, None, "t"),
            CallRecord::begin(&job, Some("s"), "t"),
            CallRecord::begin(&run, Some("s"), &long),
        ];
        for call in &calls {
            call.start();
            call.end(&value());
        }
        let record = run.end();
        assert_eq!((record.progress, record.calls.of_tools.len(), job.end().progress), ((1, 1), 1, (0, 0)));
        assert!(record.calls.of_tools[0].tool.len() <= 203 && calls[2].name.len() <= 203);
    }
}
