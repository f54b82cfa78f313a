//! Replays of runs: their calls are answered from the journal, or compared with it.
//!
//! It runs nothing itself. A call that is answered from the journal reaches no server. If the journal has no answer,
//! the run has to be stopped.

use std::sync::Arc;

use belljar_base::digest;
use belljar_base::run::{FaultCode, ToolFault};
use belljar_base::text;
use belljar_protocol::RunServer;
use parking_lot::Mutex;
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;

use super::journal_form::{CHECK, JournalForm, is_made_again};
use super::replay_text::{difference, unseen};
use crate::broker::answer::Answer;
use crate::journal::{CallOutcome, RecordedCall, RecordedJson, RecordedRun};

/// The largest number of differences that are reported for one run.
const DIFFERENCES_MAX: usize = 20;
/// Longest name of a call, in characters.
const NAME_CHARS_MAX: usize = 200;

/// The source of the answers to the calls of a replayed run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerSource {
    /// The journal has the answers.
    Recorded,
    /// The servers answer, as they are now.
    Live,
}

/// A run that is run again, with the calls that its journal has.
pub struct Replay {
    answer_source: AnswerSource,
    servers: Vec<RunServer>,
    has_timed_out: bool,
    stopped: CancellationToken,
    calls: Mutex<ReplayedCalls>,
}

/// The recorded calls of the run, and the report on the replay so far.
struct ReplayedCalls {
    recorded: Vec<ReplayedCall>,
    replayed: ReplayReport,
}

/// A recorded call, and how often the replay has still to make it.
struct ReplayedCall {
    call: RecordedCall,
    times_left: u64,
}

/// The differences between the calls of a replayed run and the recorded calls.
#[derive(Debug, Default)]
pub struct ReplayReport {
    /// The reason why the run had to be stopped: a call that cannot be answered.
    pub stop: Option<String>,
    /// The differences between the calls of both runs.
    pub differences: Vec<String>,
}

/// The answer that code gets for a replayed call.
pub(crate) enum ReplayAnswer {
    /// The answer is given at once.
    Now(Result<Answer, ToolFault>),
    /// The fault is given when code gives the call up, as it did in the recorded run.
    WhenGivenUp(ToolFault),
}

impl Replay {
    /// A replay of this run.
    #[must_use]
    pub fn of(run: &RecordedRun, answer_source: AnswerSource) -> Arc<Self> {
        let servers = run.begun.servers.iter().map(|server| RunServer {
            name: server.name.clone(),
            alias: server.alias.clone(),
            description: String::new(),
            takes_files: server.takes_files,
        });
        let place = |call: &RecordedCall| ReplayedCall { call: call.clone(), times_left: call.times };
        let recorded = run.calls.iter().map(place).collect();
        Arc::new(Self {
            answer_source,
            servers: servers.collect(),
            has_timed_out: run.ended.as_ref().is_some_and(|ended| ended.outcome == "timed_out"),
            stopped: CancellationToken::new(),
            calls: Mutex::new(ReplayedCalls { recorded, replayed: ReplayReport::default() }),
        })
    }

    /// Returns when the run has to be stopped.
    pub async fn stopped(&self) {
        self.stopped.cancelled().await;
    }

    /// The report on the replay, after the run has ended.
    #[must_use]
    pub fn end(&self) -> ReplayReport {
        let mut calls = self.calls.lock();
        let mut replayed = std::mem::take(&mut calls.replayed);
        let unused = calls.recorded.iter().filter(|place| place.times_left > 0 && !is_check(&place.call));
        for place in unused {
            let name = text::inert_excerpt(&place.call.begun.name(), NAME_CHARS_MAX);
            add(&mut replayed.differences, format!("{name} was called, and now is not"));
        }
        replayed
    }

    /// The servers of the recorded run; `None`: servers answer live.
    pub(crate) fn servers(&self) -> Option<Vec<RunServer>> {
        (self.answer_source == AnswerSource::Recorded).then(|| self.servers.clone())
    }

    /// The recorded answer to this call; `None`: it is answered live.
    pub(crate) fn came_of(&self, form: &JournalForm) -> Option<ReplayAnswer> {
        if self.answer_source != AnswerSource::Recorded {
            return None;
        }
        if self.stopped.is_cancelled() {
            return Some(ReplayAnswer::Now(Err(over())));
        }
        let mut calls = self.calls.lock();
        let calls = &mut *calls;
        let Some(at) = calls.place(form) else {
            // A check without faults was not recorded.
            if form.server.is_none() && form.tool == CHECK {
                return RawValue::from_string("[]".into())
                    .ok()
                    .map(|none| ReplayAnswer::Now(Ok(Answer::Value(none))));
            }
            let why = unseen(form, calls.recorded.iter().map(|place| (&place.call, place.times_left == 0)));
            return Some(self.stop(&mut calls.replayed, why));
        };
        let place = &mut calls.recorded[at];
        place.times_left -= 1;
        let name = text::inert_excerpt(&place.call.begun.name(), NAME_CHARS_MAX);
        let came = match &place.call.came {
            Some((CallOutcome::Value(RecordedJson::Whole(value)), _)) => Ok(Answer::Value(value.clone())),
            Some((CallOutcome::ToolError(RecordedJson::Whole(value)), _)) => {
                Ok(Answer::ToolError(value.clone()))
            }
            Some((CallOutcome::Planned { server, tool }, _)) => {
                Ok(Answer::Planned { server: server.clone(), tool: tool.clone() })
            }
            Some((CallOutcome::Fault(fault), _)) if given_up(fault, self.has_timed_out) => {
                return Some(ReplayAnswer::WhenGivenUp(fault.clone()));
            }
            Some((CallOutcome::Fault(fault), _)) => Err(fault.clone()),
            Some((
                CallOutcome::Value(RecordedJson::LeftOut { bytes, .. })
                | CallOutcome::ToolError(RecordedJson::LeftOut { bytes, .. }),
                _,
            )) => {
                if is_made_again(form.server.as_deref(), &form.tool) {
                    return None;
                }
                let why = not_kept(&name, *bytes);
                return Some(self.stop(&mut calls.replayed, why));
            }
            None => {
                let why = format!(
                    "{name} was under way when the session ended, and is not made again: whether it took effect is \
                     unknown"
                );
                return Some(self.stop(&mut calls.replayed, why));
            }
        };
        Some(ReplayAnswer::Now(came))
    }

    /// Compares a server's live answer with the recorded one.
    pub(crate) fn compare(&self, form: &JournalForm, answer: &Result<Answer, ToolFault>) {
        if self.answer_source != AnswerSource::Live || (form.server.is_none() && form.tool == CHECK) {
            return;
        }
        let mut calls = self.calls.lock();
        let calls = &mut *calls;
        let Some(at) = calls.place(form) else {
            let said = unseen(form, calls.recorded.iter().map(|place| (&place.call, place.times_left == 0)));
            return add(&mut calls.replayed.differences, said);
        };
        calls.recorded[at].times_left -= 1;
        let name = text::inert_excerpt(&calls.recorded[at].call.begun.name(), NAME_CHARS_MAX);
        let (word, hash) = match answer {
            Ok(Answer::Value(value)) => ("answered".to_owned(), Some(value)),
            Ok(Answer::ToolError(value)) => ("tool_error".to_owned(), Some(value)),
            Ok(Answer::Planned { .. }) => ("planned".to_owned(), None),
            Err(fault) => (fault.code.word(), None),
        };
        let Some((came, _)) = &calls.recorded[at].call.came else { return };
        let is_same = match (came, hash) {
            (CallOutcome::Value(kept) | CallOutcome::ToolError(kept), Some(now)) => {
                kept.sha256() == RecordedJson::of(now, 0).sha256()
            }
            _ => true,
        };
        if came.word() != word {
            let said = format!("{name} came to {}, and now to {word}", came.word());
            add(&mut calls.replayed.differences, said);
        } else if !is_same {
            let said = difference(&name, came, hash.map(|value| value.get()));
            add(&mut calls.replayed.differences, said);
        }
    }

    /// Stops the run at a call that cannot be answered.
    fn stop(&self, replayed: &mut ReplayReport, why: String) -> ReplayAnswer {
        replayed.stop = Some(why);
        self.stopped.cancel();
        ReplayAnswer::Now(Err(over()))
    }
}

impl ReplayedCalls {
    /// The first recorded call that is equal to this one and was not used yet.
    fn place(&self, form: &JournalForm) -> Option<usize> {
        let hash = digest::sha256(form.arguments.get().as_bytes());
        let is_like = |call: &RecordedCall| {
            let begun = &call.begun;
            (&begun.server, &begun.tool) == (&form.server, &form.tool) && begun.arguments.sha256() == hash
        };
        self.recorded.iter().position(|place| place.times_left > 0 && is_like(&place.call))
    }
}

/// The message for a recorded call whose answer was not recorded.
#[must_use]
pub fn not_kept(name: &str, bytes: u64) -> String {
    format!(
        "{name} was answered with {bytes} bytes, which are not kept: results are with MCP_BRIDGE_JOURNAL=full, up to 1 MiB \
         each"
    )
}

/// Gives code the answer of a replay: at once, or when code gives the call up.
pub(crate) async fn replayed(given: ReplayAnswer, cancel: &CancellationToken) -> Result<Answer, ToolFault> {
    match given {
        ReplayAnswer::Now(answer) => answer,
        ReplayAnswer::WhenGivenUp(fault) => {
            cancel.cancelled().await;
            Err(fault)
        }
    }
}

/// Whether code gave up the recorded call before it was answered.
fn given_up(fault: &ToolFault, has_timed_out: bool) -> bool {
    fault.code == FaultCode::Cancelled || (has_timed_out && fault.code == FaultCode::Deadline)
}

fn over() -> ToolFault {
    ToolFault::new(FaultCode::Cancelled, "the replay ends here: this call has no answer in it")
}

fn is_check(call: &RecordedCall) -> bool {
    call.begun.server.is_none() && call.begun.tool == CHECK
}

fn add(differences: &mut Vec<String>, difference: String) {
    if differences.len() < DIFFERENCES_MAX {
        differences.push(difference);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::{CallBegun, RunBegun};

    #[test]
    fn a_call_that_was_refused_several_times_is_refused_as_often() {
        let form = JournalForm::of(Some("s"), "t", "{}");
        let call = |came: Result<&str, &str>, times: u64| {
            let (server, tool) = (form.server.clone(), form.tool.clone());
            let arguments = RecordedJson::of(&form.arguments, 0);
            let came = match came {
                Ok(json) => {
                    CallOutcome::Value(RecordedJson::of(&RawValue::from_string(json.into()).unwrap(), 100))
                }
                Err(message) => CallOutcome::Fault(ToolFault::new(FaultCode::Denied, message)),
            };
            let begun = CallBegun { run: 1, job: None, call: 1, server, tool, arguments, came: None };
            RecordedCall { begun, came: Some((came, 0)), times }
        };
        let begun = RunBegun {
            run: 1,
            time: String::new(),
            code: String::new(),
            servers: vec![],
            timeout_ms: 1,
            dry_run: false,
            checkpoint: None,
            aside: false,
        };
        let calls = vec![call(Err("no"), 2), call(Ok("{}"), 1)];
        let run = RecordedRun { begun, is_fresh: true, left_behind: None, calls, ended: None };
        let replay = Replay::of(&run, AnswerSource::Recorded);
        let came = || match replay.came_of(&form).unwrap() {
            ReplayAnswer::Now(Ok(_)) => "answered".to_owned(),
            ReplayAnswer::Now(Err(fault)) | ReplayAnswer::WhenGivenUp(fault) => fault.message,
        };
        assert_eq!([came(), came(), came()], ["no", "no", "answered"]);
        assert_eq!(came(), over().message);
        let stop = replay.end().stop.unwrap();
        assert!(stop.starts_with("s.t is called more often than it was (3)"), "{stop}");
    }
}
