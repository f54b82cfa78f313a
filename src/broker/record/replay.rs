//! Runs of a session once more: their calls are answered from what is kept of it, or compared with that.
//!
//! It runs nothing itself. What it answers reaches no server; where it cannot answer, the run is to be stopped.

use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;

use super::noted::{CHECK, Noted};
use super::replay_text::{difference, unseen};
use crate::broker::call::Answer;
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

/// The run that is made once more, if one is.
#[derive(Default)]
pub struct Replay(Mutex<Option<OfRun>>);

struct OfRun {
    way: Way,
    servers: Vec<RunServer>,
    calls: Vec<Place>,
    has_timed_out: bool,
    stopped: CancellationToken,
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
    /// The next run is this one once more. What is returned is cancelled when it has to be stopped.
    pub fn begin(&self, run: &RecordedRun, way: Way) -> CancellationToken {
        let servers = run.begun.servers.iter().map(|server| RunServer {
            name: server.name.clone(),
            alias: server.alias.clone(),
            description: String::new(),
            takes_files: server.takes_files,
        });
        let stopped = CancellationToken::new();
        *self.run() = Some(OfRun {
            way,
            servers: servers.collect(),
            calls: run.calls.iter().map(|call| Place { call: call.clone(), is_used: false }).collect(),
            has_timed_out: run.ended.as_ref().is_some_and(|ended| ended.outcome == "timed_out"),
            stopped: stopped.clone(),
            replayed: Replayed::default(),
        });
        stopped
    }

    /// That run is over: calls are made again.
    pub fn end(&self) -> Replayed {
        let Some(run) = self.run().take() else { return Replayed::default() };
        let mut replayed = run.replayed;
        let unused = run.calls.iter().filter(|place| !place.is_used && !is_check(&place.call));
        for place in unused {
            let name = text::inert_excerpt(&place.call.begun.name(), NAME_CHARS_MAX);
            add(&mut replayed.differences, format!("{name} was called, and now is not"));
        }
        replayed
    }

    pub(in crate::broker) fn is_on(&self) -> bool {
        self.run().is_some()
    }

    /// The servers that the code saw.
    pub(in crate::broker) fn servers(&self) -> Option<Vec<RunServer>> {
        self.run().as_ref().filter(|run| run.way == Way::Recorded).map(|run| run.servers.clone())
    }

    /// What is kept of this call; nothing where servers answer it.
    pub(in crate::broker) fn came_of(&self, noted: &Noted) -> Option<Given> {
        let mut run = self.run();
        let run = run.as_mut().filter(|run| run.way == Way::Recorded)?;
        if run.replayed.stop.is_some() {
            return Some(Given::Now(Err(over())));
        }
        let Some(at) = run.place(noted) else {
            // What it did not find is not kept.
            if noted.server.is_none() && noted.tool == CHECK {
                return RawValue::from_string("[]".into())
                    .ok()
                    .map(|none| Given::Now(Ok(Answer::Value(none))));
            }
            let recorded = run.calls.iter().map(|place| (&place.call, place.is_used));
            return Some(run_stop(&mut run.replayed, &run.stopped, unseen(noted, recorded)));
        };
        let place = &mut run.calls[at];
        place.is_used = true;
        let name = text::inert_excerpt(&place.call.begun.name(), NAME_CHARS_MAX);
        let came = match &place.call.came {
            Some((Came::Value(Kept::Whole(value)), _)) => Ok(Answer::Value(value.clone())),
            Some((Came::ToolError(Kept::Whole(value)), _)) => Ok(Answer::ToolError(value.clone())),
            Some((Came::Planned { server, tool }, _)) => {
                Ok(Answer::Planned { server: server.clone(), tool: tool.clone() })
            }
            Some((Came::Fault(fault), _)) if given_up(fault, run.has_timed_out) => {
                return Some(Given::WhenGivenUp(fault.clone()));
            }
            Some((Came::Fault(fault), _)) => Err(fault.clone()),
            Some((
                Came::Value(Kept::LeftOut { bytes, .. }) | Came::ToolError(Kept::LeftOut { bytes, .. }),
                _,
            )) => {
                let why = not_kept(&name, *bytes);
                return Some(run_stop(&mut run.replayed, &run.stopped, why));
            }
            None => {
                let why = format!(
                    "{name} was under way when the session ended, and is not made again: whether it took effect is \
                     unknown"
                );
                return Some(run_stop(&mut run.replayed, &run.stopped, why));
            }
        };
        Some(Given::Now(came))
    }

    /// What a server has answered now, beside what is kept.
    pub(in crate::broker) fn compare(&self, noted: &Noted, answer: &Result<Answer, ToolFault>) {
        let mut run = self.run();
        let Some(run) = run.as_mut().filter(|run| run.way == Way::Live) else { return };
        if noted.server.is_none() && noted.tool == CHECK {
            return;
        }
        let Some(at) = run.place(noted) else {
            let recorded = run.calls.iter().map(|place| (&place.call, place.is_used));
            let said = unseen(noted, recorded);
            return add(&mut run.replayed.differences, said);
        };
        run.calls[at].is_used = true;
        let name = text::inert_excerpt(&run.calls[at].call.begun.name(), NAME_CHARS_MAX);
        let (word, hash) = match answer {
            Ok(Answer::Value(value)) => ("answered".to_owned(), Some(value)),
            Ok(Answer::ToolError(value)) => ("tool_error".to_owned(), Some(value)),
            Ok(Answer::Planned { .. }) => ("planned".to_owned(), None),
            Err(fault) => (fault.code.word(), None),
        };
        let Some((came, _)) = &run.calls[at].call.came else { return };
        let is_same = match (came, hash) {
            (Came::Value(kept) | Came::ToolError(kept), Some(now)) => {
                kept.sha256() == Kept::of(now, 0).sha256()
            }
            _ => true,
        };
        if came.word() != word {
            let said = format!("{name} came to {}, and now to {word}", came.word());
            add(&mut run.replayed.differences, said);
        } else if !is_same {
            let said = difference(&name, came, hash.map(|value| value.get()));
            add(&mut run.replayed.differences, said);
        }
    }

    fn run(&self) -> MutexGuard<'_, Option<OfRun>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OfRun {
    /// The first call that is kept and like this one, and has answered none yet.
    fn place(&self, noted: &Noted) -> Option<usize> {
        let hash = digest::sha256(noted.arguments.get().as_bytes());
        let is_like = |call: &RecordedCall| {
            let begun = &call.begun;
            (&begun.server, &begun.tool) == (&noted.server, &noted.tool) && begun.arguments.sha256() == hash
        };
        self.calls.iter().position(|place| !place.is_used && is_like(&place.call))
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

fn run_stop(replayed: &mut Replayed, stopped: &CancellationToken, why: String) -> Given {
    replayed.stop = Some(why);
    stopped.cancel();
    Given::Now(Err(over()))
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
