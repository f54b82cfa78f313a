//! Runs of a session once more: their calls are answered from what is kept of it, or compared with that.
//!
//! It runs nothing itself. What it answers reaches no server; where it cannot answer, the run is to be stopped.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;

use super::journal_form::{CHECK, JournalForm};
use super::replay_text::{difference, unseen};
use crate::broker::answer::Answer;
use crate::digest;
use crate::journal::{Came, Kept, RecordedCall, RecordedRun};
use crate::protocol::RunServer;
use crate::run::{FaultCode, ToolFault};
use crate::text;

/// Differences of one run that are told.
const DIFFERENCES_MAX: usize = 20;
/// Longest name of a call, in characters.
const NAME_CHARS_MAX: usize = 200;

/// Who answers the calls of a run that is made once more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// What is kept.
    Recorded,
    /// The servers, as they are now.
    Live,
}

/// A run that is made once more.
pub struct Replay {
    way: Way,
    servers: Vec<RunServer>,
    has_timed_out: bool,
    stopped: CancellationToken,
    calls: Mutex<Places>,
}

struct Places {
    places: Vec<Place>,
    replayed: Replayed,
}

struct Place {
    call: RecordedCall,
    is_used: bool,
}

/// How the calls of a run that was made once more compare with those that are kept.
#[derive(Debug, Default)]
pub struct Replayed {
    /// Why it had to be stopped: a call that cannot be answered.
    pub stop: Option<String>,
    /// What was otherwise.
    pub differences: Vec<String>,
}

/// What the code is given for a call.
pub(in crate::broker) enum Given {
    Now(Result<Answer, ToolFault>),
    /// Once nobody waits for it any more: so it was given up before.
    WhenGivenUp(ToolFault),
}

impl Replay {
    /// A repetition of this run.
    #[must_use]
    pub fn of(run: &RecordedRun, way: Way) -> Arc<Self> {
        let servers = run.begun.servers.iter().map(|server| RunServer {
            name: server.name.clone(),
            alias: server.alias.clone(),
            description: String::new(),
            takes_files: server.takes_files,
        });
        let place = |call: &RecordedCall| Place { call: call.clone(), is_used: false };
        let places = run.calls.iter().map(place).collect();
        Arc::new(Self {
            way,
            servers: servers.collect(),
            has_timed_out: run.ended.as_ref().is_some_and(|ended| ended.outcome == "timed_out"),
            stopped: CancellationToken::new(),
            calls: Mutex::new(Places { places, replayed: Replayed::default() }),
        })
    }

    /// Until it has to be stopped.
    pub async fn stopped(&self) {
        self.stopped.cancelled().await;
    }

    /// How its calls compare, once it has ended.
    #[must_use]
    pub fn end(&self) -> Replayed {
        let mut calls = self.calls();
        let mut replayed = std::mem::take(&mut calls.replayed);
        let unused = calls.places.iter().filter(|place| !place.is_used && !is_check(&place.call));
        for place in unused {
            let name = text::inert_excerpt(&place.call.begun.name(), NAME_CHARS_MAX);
            add(&mut replayed.differences, format!("{name} was called, and now is not"));
        }
        replayed
    }

    /// The servers that the code saw.
    pub(in crate::broker) fn servers(&self) -> Option<Vec<RunServer>> {
        (self.way == Way::Recorded).then(|| self.servers.clone())
    }

    /// What is kept of this call; nothing where servers answer it.
    pub(in crate::broker) fn came_of(&self, form: &JournalForm) -> Option<Given> {
        if self.way != Way::Recorded {
            return None;
        }
        if self.stopped.is_cancelled() {
            return Some(Given::Now(Err(over())));
        }
        let mut calls = self.calls();
        let calls = &mut *calls;
        let Some(at) = calls.place(form) else {
            // What it did not find is not kept.
            if form.server.is_none() && form.tool == CHECK {
                return RawValue::from_string("[]".into())
                    .ok()
                    .map(|none| Given::Now(Ok(Answer::Value(none))));
            }
            let why = unseen(form, calls.places.iter().map(|place| (&place.call, place.is_used)));
            return Some(self.stop(&mut calls.replayed, why));
        };
        let place = &mut calls.places[at];
        place.is_used = true;
        let name = text::inert_excerpt(&place.call.begun.name(), NAME_CHARS_MAX);
        let came = match &place.call.came {
            Some((Came::Value(Kept::Whole(value)), _)) => Ok(Answer::Value(value.clone())),
            Some((Came::ToolError(Kept::Whole(value)), _)) => Ok(Answer::ToolError(value.clone())),
            Some((Came::Planned { server, tool }, _)) => {
                Ok(Answer::Planned { server: server.clone(), tool: tool.clone() })
            }
            Some((Came::Fault(fault), _)) if given_up(fault, self.has_timed_out) => {
                return Some(Given::WhenGivenUp(fault.clone()));
            }
            Some((Came::Fault(fault), _)) => Err(fault.clone()),
            Some((
                Came::Value(Kept::LeftOut { bytes, .. }) | Came::ToolError(Kept::LeftOut { bytes, .. }),
                _,
            )) => {
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
        Some(Given::Now(came))
    }

    /// What a server has answered now, beside what is kept.
    pub(in crate::broker) fn compare(&self, form: &JournalForm, answer: &Result<Answer, ToolFault>) {
        if self.way != Way::Live || (form.server.is_none() && form.tool == CHECK) {
            return;
        }
        let mut calls = self.calls();
        let calls = &mut *calls;
        let Some(at) = calls.place(form) else {
            let said = unseen(form, calls.places.iter().map(|place| (&place.call, place.is_used)));
            return add(&mut calls.replayed.differences, said);
        };
        calls.places[at].is_used = true;
        let name = text::inert_excerpt(&calls.places[at].call.begun.name(), NAME_CHARS_MAX);
        let (word, hash) = match answer {
            Ok(Answer::Value(value)) => ("answered".to_owned(), Some(value)),
            Ok(Answer::ToolError(value)) => ("tool_error".to_owned(), Some(value)),
            Ok(Answer::Planned { .. }) => ("planned".to_owned(), None),
            Err(fault) => (fault.code.word(), None),
        };
        let Some((came, _)) = &calls.places[at].call.came else { return };
        let is_same = match (came, hash) {
            (Came::Value(kept) | Came::ToolError(kept), Some(now)) => {
                kept.sha256() == Kept::of(now, 0).sha256()
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

    /// The run has come to a call that cannot be answered.
    fn stop(&self, replayed: &mut Replayed, why: String) -> Given {
        replayed.stop = Some(why);
        self.stopped.cancel();
        Given::Now(Err(over()))
    }

    fn calls(&self) -> MutexGuard<'_, Places> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Places {
    /// The first call that is kept and like this one, and has answered none yet.
    fn place(&self, form: &JournalForm) -> Option<usize> {
        let hash = digest::sha256(form.arguments.get().as_bytes());
        let is_like = |call: &RecordedCall| {
            let begun = &call.begun;
            (&begun.server, &begun.tool) == (&form.server, &form.tool) && begun.arguments.sha256() == hash
        };
        self.places.iter().position(|place| !place.is_used && is_like(&place.call))
    }
}

/// Why a call has no answer, that was given one.
#[must_use]
pub fn not_kept(name: &str, bytes: u64) -> String {
    format!(
        "{name} was answered with {bytes} bytes, which are not kept: results are with MCP_BRIDGE_JOURNAL=full, up to 1 MiB \
         each"
    )
}

/// The answer that a replay gives.
pub(in crate::broker) async fn replayed(
    given: Given,
    cancel: &CancellationToken,
) -> Result<Answer, ToolFault> {
    match given {
        Given::Now(answer) => answer,
        Given::WhenGivenUp(fault) => {
            cancel.cancelled().await;
            Err(fault)
        }
    }
}

/// Whether the code has not waited for it to the end.
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
