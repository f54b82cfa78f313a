//! What a session says and does of earlier sessions, and of its own earlier interpreters that were stopped or lost: that their
//! variables are gone, what brings them back, and, when code asks, their runs once more.
//!
//! Which sessions there are is the journal's knowledge, and how runs are made once more that of `replay`.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use belljar_base::run::{FaultCode, FreshReason, PythonError, RunOutcome, RunReport, StateNote, ToolFault};
use belljar_base::text;

use super::client::Reruns;
use super::own_runs::Requester;
use super::replay::{lacks_result, why_not};
use super::resumed::{EarlierSession, InterpreterLoss, ResumedSession};
use crate::journal::{RecordedRun, RecordedSession, Sessions};
use crate::session::{Checkpoints, Turn};

/// Longest name in a sentence, in characters.
const NAME_CHARS_MAX: usize = 64;
/// Checkpoints that a sentence names.
const NAMED_MAX: usize = 3;

/// Tells how the earlier one is resumed.
const RESUME: &str = "runtime.resume(\"last\") makes the last session's variables again";

impl Reruns {
    /// Where a name is missing that the last session knew, says that this is another session.
    pub(super) async fn tell_of_earlier(&self, report: &mut RunReport) {
        let RunOutcome::Raised(error) = &report.outcome else { return };
        if !matches!(report.state, StateNote::Kept | StateNote::Fresh(FreshReason::First)) {
            return;
        }
        let Some(name) = missing_name(error) else { return };
        let earlier = self.earlier.get_or_init(|| self.read_earlier()).await;
        if let Some(earlier) = earlier.as_ref().filter(|earlier| earlier.words.contains(name)) {
            report.state = StateNote::Fresh(FreshReason::NewSession);
            let of_files = match self.session().wanted_now().workspace.name {
                Some(_) => "its files in /workspace, runtime.state and saved functions are here",
                None => {
                    "its saved functions are here (print(runtime.skills)), its files and runtime.state are not"
                }
            };
            report.notes.push(match &earlier.way {
                Ok(None) => format!("{RESUME}; {of_files}"),
                Ok(Some(lacking)) => format!("{RESUME}, but not those of {lacking}; {of_files}"),
                Err(why) => format!("its variables cannot be made again ({why}); {of_files}"),
            });
        }
    }

    async fn read_earlier(&self) -> Option<EarlierSession> {
        let (sessions, own) = self.broker.journal().among()?;
        let read = tokio::task::spawn_blocking(move || {
            let id = sessions.earlier_than(&own, Sessions::LAST).ok()?;
            sessions.read(&id).ok()
        });
        let last = read.await.ok()??;
        let words = last.runs.iter().flat_map(|run| words(&run.begun.code)).map(str::to_owned).collect();
        let way = match last.damage {
            None => what_is_lacking(&last.runs.iter().collect::<Vec<_>>()),
            Some(_) => Err("its journal is damaged or full".to_owned()),
        };
        Some(EarlierSession { words, way })
    }

    /// Makes this session's own runs again, after its interpreter was lost. Returns a sentence about it; `None`: nothing was
    /// run, since the journal cannot give the variables back. The reply to the next run says why. The inner fault says that
    /// the variables are gone.
    ///
    /// # Errors
    /// There is no sandbox, or the request was cancelled: the next run tries again.
    pub(super) async fn resume_itself(
        &self,
        turn: &mut Turn,
        requester: &Requester,
    ) -> Result<Result<Option<String>, ToolFault>, ToolFault> {
        let broker = Arc::clone(&self.broker);
        let recorded = tokio::task::spawn_blocking(move || broker.journal().recorded().ok()).await;
        let Some(recorded) = recorded.ok().flatten() else { return Ok(Ok(None)) };
        let Some(until) = recorded.last_run_with_variables() else { return Ok(Ok(None)) };
        let runs = recorded.leading_to(until).unwrap_or_default();
        if what_is_lacking(&runs).is_err() || self.mounted_writable().is_some() {
            return Ok(Ok(None));
        }
        self.is_half_resumed.store(true, Ordering::Relaxed);
        let made = ResumedSession::of_itself((recorded, until)).make(self, turn, requester).await?;
        self.is_half_resumed.store(false, Ordering::Relaxed);
        let said = match made {
            Ok(said) => said,
            Err(fault) => return Ok(Err(fault)),
        };
        self.has_resumed.store(true, Ordering::Relaxed);
        let broker = Arc::clone(&self.broker);
        let recorded = tokio::task::spawn_blocking(move || broker.journal().recorded().ok()).await;
        let sandbox = recorded.ok().flatten().and_then(|mut recorded| recorded.sandboxes.pop());
        let place =
            sandbox.map(|sandbox| format!("; the engine is {} now", text::inert_line(&sandbox.engine)));
        Ok(Ok(Some(format!("the sandbox was lost; {said}{}", place.unwrap_or_default()))))
    }

    /// Makes the runs again of the session that the code has asked for, now that its own run has ended.
    pub(super) async fn resume_asked(
        &self,
        turn: &mut Turn,
        report: &mut RunReport,
        (of, until): (RecordedSession, u64),
        requester: &Requester,
    ) {
        if !matches!(report.outcome, RunOutcome::Finished | RunOutcome::Exited { exit_code: 0 }) {
            return;
        }
        let id = Sessions::short(&of.begun.id);
        let settings = self.session().wanted_now();
        let zone = of.time_zone().filter(|zone| *zone != settings.time_zone);
        let runs: Vec<&RecordedRun> = of.runs.iter().filter(|run| run.begun.run <= until).collect();
        let cannot = what_is_lacking(&runs).err();
        let cannot = cannot.or_else(|| self.mounted_writable());
        let is_own = self.broker.journal().among().is_some_and(|(_, own)| own == of.begun.id);
        let made = match cannot {
            Some(why) => Err(ToolFault::new(
                FaultCode::SandboxUnavailable,
                format!("session {id} cannot be resumed: {why}"),
            )
            .hint("variables are as before")),
            None => {
                let resumed = match is_own {
                    true => ResumedSession::of_itself((of, until)),
                    false => ResumedSession::within((of, until), settings.workspace.name.is_some()),
                };
                self.is_half_resumed.store(is_own, Ordering::Relaxed);
                let made = resumed.make(self, turn, requester).await;
                self.is_half_resumed.store(is_own && made.is_err(), Ordering::Relaxed);
                made.and_then(|made| made)
            }
        };
        match made {
            Ok(said) => {
                self.last_loss.forget();
                self.has_resumed.store(true, Ordering::Relaxed);
                report.state = StateNote::Kept;
                let now = &settings.time_zone;
                let zone =
                    zone.map(|zone| format!("; its clock had the time zone {zone}, and here it has {now}"));
                report.notes.push(said + &text::inert_line(&zone.unwrap_or_default()));
            }
            Err(fault) => {
                report.outcome = RunOutcome::Raised(PythonError {
                    class: "mcp.runtime.MCPError".into(),
                    message: fault.message,
                    traceback: String::new(),
                    traceback_chars: 0,
                    line: None,
                    hint: fault.hint,
                });
            }
        }
    }
}

/// The name that code has used and that there is not.
fn missing_name(error: &PythonError) -> Option<&str> {
    let said = error.message.strip_prefix("name '").filter(|_| error.class == "NameError")?;
    said.split_once("' is not defined").map(|(name, _)| name)
}

fn words(code: &str) -> impl Iterator<Item = &str> {
    code.split(|character: char| !character.is_alphanumeric() && character != '_')
        .filter(|word| !word.is_empty())
}

impl Reruns {
    /// Says what brings the variables back after a loss, and does not let a name of the lost interpreter pass for a typo.
    pub(super) async fn tell_of_loss(&self, report: &mut RunReport) {
        let is_new = match report.state {
            StateNote::Fresh(reason @ (FreshReason::IdleStop | FreshReason::Lost)) => {
                let loss = self.read_loss(reason).await;
                *self.last_loss.last() = Some(loss);
                true
            }
            StateNote::Fresh(FreshReason::First | FreshReason::Reset) => {
                self.last_loss.forget();
                return;
            }
            _ => false,
        };
        let Some(loss) = self.last_loss.last().clone() else { return };
        if let RunOutcome::Raised(error) = &mut report.outcome
            && let Some(name) = missing_name(error)
            && loss.words.as_ref().is_none_or(|words| words.contains(name))
        {
            let name = text::inert_excerpt(name, NAME_CHARS_MAX);
            // It would name what the new interpreter has, and mean another thing.
            error.hint.clear();
            if !is_new {
                let was = if loss.words.is_some() { "was" } else { "may have been" };
                let why = match loss.reason {
                    FreshReason::IdleStop => "stopped for being idle",
                    _ => "lost",
                };
                report.notes.push(format!(
                    "'{name}' {was} a variable of an earlier interpreter, which was {why}; {}",
                    loss.remedy
                ));
                return;
            }
        }
        if is_new {
            report.notes.push(loss.remedy);
        }
    }

    async fn read_loss(&self, reason: FreshReason) -> InterpreterLoss {
        let (broker, checkpoints) = (Arc::clone(&self.broker), Arc::clone(self.checkpoints()));
        let mounted = self.mounted_writable();
        let read = tokio::task::spawn_blocking(move || {
            let recorded = broker.journal().recorded()?;
            let until = recorded.last_run_before_loss().ok_or("no run before has left any")?;
            let runs = recorded.leading_to(until).unwrap_or_default();
            let words: HashSet<String> =
                runs.iter().flat_map(|run| words(&run.begun.code)).map(str::to_owned).collect();
            let way = match mounted {
                Some(why) => Err(why),
                None => what_is_lacking(&runs),
            };
            Ok::<_, String>((words, way, remade(&recorded, &checkpoints)))
        });
        let (words, way, checkpoints) = match read.await {
            Ok(Ok((words, way, checkpoints))) => (Some(Arc::new(words)), way, checkpoints),
            Ok(Err(why)) => (None, Err(why), vec![]),
            Err(_) => (None, Err("its journal cannot be read".into()), vec![]),
        };
        InterpreterLoss { reason, words, remedy: remedy(way, &checkpoints) }
    }
}

/// Whether the runs that lead to the end of this one can be made again.
fn can_be_made(recorded: &RecordedSession, until: u64) -> Result<(), String> {
    let runs = recorded.leading_to(until).unwrap_or_default();
    match runs.iter().find_map(|run| Some((run.begun.run, why_not(run)?))) {
        Some((run, why)) => Err(format!("run {run}: {why}")),
        None => Ok(()),
    }
}

/// The checkpoints that can be made again.
fn remade(recorded: &RecordedSession, checkpoints: &Checkpoints) -> Vec<String> {
    let of_run = checkpoints.runs().into_iter();
    of_run.filter(|(_, run)| can_be_made(recorded, run.0).is_ok()).map(|(name, _)| name).collect()
}

/// The first of these runs that is left out when they are made again, since a result is not kept.
///
/// # Errors
/// Why none of them can be made again.
fn what_is_lacking(runs: &[&RecordedRun]) -> Result<Option<String>, String> {
    let said = |run: &RecordedRun, why: String| format!("run {}: {why}", run.begun.run);
    let lacking = |run: &RecordedRun| lacks_result(run).map(|why| said(run, why));
    let runs = || runs.iter().copied();
    let is_unknown = |run: &&RecordedRun| lacks_result(run).is_none();
    if let Some(why) = runs().filter(is_unknown).find_map(|run| Some(said(run, why_not(run)?))) {
        return Err(why);
    }
    let first = runs().find_map(lacking);
    match first {
        Some(why) if !runs().any(|run| lacks_result(run).is_none()) => Err(why),
        first => Ok(first),
    }
}

/// In a sentence: what brings the variables back, or why nothing does.
fn remedy(way: Result<Option<String>, String>, checkpoints: &[String]) -> String {
    const STAYS: &str = "files in /workspace and runtime.state are still there";
    match way {
        Ok(None) => format!("runtime.resume(\"last\") makes the variables again from the journal; {STAYS}"),
        Ok(Some(lacking)) => format!(
            "runtime.resume(\"last\") makes the variables again from the journal, but not those of {lacking}; {STAYS}"
        ),
        Err(why) if checkpoints.is_empty() => {
            format!("the variables cannot be made again from the journal ({why}); {STAYS}")
        }
        Err(why) => {
            let named = checkpoints.iter().take(NAMED_MAX);
            let named = named.map(|name| format!("'{}'", text::inert_excerpt(name, NAME_CHARS_MAX)));
            let named = named.collect::<Vec<_>>().join(", ");
            format!(
                "runtime.restore(name) makes a checkpoint again ({named}), but not what came later ({why}); {STAYS}"
            )
        }
    }
}
