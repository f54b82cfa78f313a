//! Runs the runs of an earlier session again and compares them with its journal; a resumed session begins with all of
//! them.
//!
//! The broker decides who answers their calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use belljar_base::names::{RunId, ServerName};
use belljar_base::run::{
    FaultCode, FreshReason, Progress, Reset, RunOutcome, RunRequest, ServerScope, StateNote, ToolFault,
};
use belljar_base::text;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::client::Reruns;
use super::own_runs::{Requester, restore_snapshot, take_snapshot};
use super::resumed::ResumedSession;
use super::run_diff::differences;
use crate::broker::{AnswerSource, Origin, Replay, is_made_again, not_kept};
use crate::journal::{
    CallOutcome, Damage, RecordedCall, RecordedJson, RecordedRun, RecordedSession, Sessions,
};
use crate::session::{RunSubmission, Turn};

/// How long a run that is stopped may take to end.
const PATIENCE: Duration = Duration::from_secs(10);
/// Longest sentence about a run, in characters.
const SAID_CHARS_MAX: usize = 400;
/// Runs that came otherwise of which the first reply tells.
const REMARKS_MAX: usize = 5;
/// How often runs are begun anew because the sandbox was lost meanwhile.
const TRIES_MAX: usize = 3;

/// The options for runs that run again.
pub struct RerunOptions<'a> {
    /// The source of the answers to their calls.
    pub answer_source: AnswerSource,
    /// The client that requests the rerun, by its own name, for the journal.
    pub client: &'a str,
    /// Cancels the run that is in progress.
    pub cancel: &'a CancellationToken,
    /// Receives the place of each run that begins, if a client waits for it. If the channel is full, progress is dropped.
    pub progress: Option<&'a mpsc::Sender<Progress>>,
    /// Whether the journal records the runs apart from those of the session.
    pub is_aside: bool,
    /// Whether changes of files in /workspace are stored.
    pub keep_files: bool,
}

/// The result of a run that ran again, compared with its journal.
#[derive(Debug, PartialEq, Eq)]
pub enum RunComparison {
    /// Both runs are the same.
    Same,
    /// The runs differ in these points.
    Differs(Vec<String>),
    /// The run was left out for this reason. Later runs can be run.
    LeftOut(String),
    /// The run was not run to its end for this reason. Later runs cannot be run.
    Stopped(String),
    /// The sandbox was lost before or in this run, and it was not in the run of the journal.
    Lost,
    /// There is no sandbox for the run.
    NotStarted(ToolFault),
}

impl ResumedSession {
    /// Makes the runs, unless that was done. Returns what the first reply says about them.
    ///
    /// # Errors
    /// A call has no answer in the journal, or there is no sandbox.
    pub(super) async fn make_once(
        &self,
        reruns: &Reruns,
        turn: &mut Turn,
        requester: &Requester,
    ) -> Result<Option<String>, ToolFault> {
        if let Some(made) = self.made.get() {
            return made.clone().map(|()| None);
        }
        let made = self.make(reruns, turn, requester).await?;
        // Whoever has the turn is the only one who sets it.
        self.made.get_or_init(|| made.as_ref().map(drop).map_err(Clone::clone));
        made.map(Some)
    }

    /// The outer fault passes: the next run tries again.
    pub(super) async fn make(
        &self,
        reruns: &Reruns,
        turn: &mut Turn,
        requester: &Requester,
    ) -> Result<Result<String, ToolFault>, ToolFault> {
        let (of, until) = match &self.from {
            Ok((of, until)) => (of, *until),
            Err(fault) => return Ok(Err(fault.clone())),
        };
        let id = Sessions::short(&of.begun.id);
        if let Err((why, before)) = is_whole(of, until) {
            return Ok(Err(self.cannot_go_on(&id, &why, before)));
        }
        for _ in 0..TRIES_MAX {
            if self.has_files
                && let Err(why) = take_snapshot(turn).await?
            {
                let why = format!("the files of the workspace cannot be put aside meanwhile: {why}");
                return Ok(Err(self.cannot_go_on(&id, &why, 0)));
            }
            let made = self.make_runs(reruns, turn, requester, (of, until)).await;
            if self.has_files {
                // In a new sandbox, they are as they were.
                restore_snapshot(turn, vec![]).await?;
            }
            match made? {
                Some(made) if !turn.is_lost().await? => {
                    if made.is_ok() {
                        reruns.broker.journal_resumed(self.is_own.then_some(until));
                    }
                    return Ok(made);
                }
                _ => tracing::info!("the sandbox was lost while runs were made once more"),
            }
        }
        let why = format!("the sandbox was lost {TRIES_MAX} times while its runs were made once more");
        Ok(Err(self.cannot_go_on(&id, &why, 0)))
    }

    /// `None`: the sandbox was lost meanwhile.
    async fn make_runs(
        &self,
        reruns: &Reruns,
        turn: &mut Turn,
        requester: &Requester,
        (of, until): (&RecordedSession, u64),
    ) -> Result<Option<Result<String, ToolFault>>, ToolFault> {
        let id = Sessions::short(&of.begun.id);
        let options = RerunOptions {
            answer_source: AnswerSource::Recorded,
            client: &requester.client,
            cancel: &requester.cancel,
            progress: Some(&requester.progress),
            // The journal has the runs of the session itself already.
            is_aside: self.is_own,
            // Files that are there already are put back afterwards: what is stored of them is right all the time.
            keep_files: !self.has_files,
        };
        of.calls().for_each(|call| reruns.broker.note_recorded(call));
        let runs = match self.is_own {
            true => of.leading_to(until).unwrap_or_default(),
            false => of.runs.iter().filter(|run| run.begun.run <= until).collect(),
        };
        let RerunSummary { count, remarks, stop } =
            reruns.make_runs(turn, &runs, (&options, &self.is_begun)).await;
        match stop {
            None => {}
            Some(Stop::Lost) => return Ok(None),
            Some(Stop::Cancelled) => {
                let why = format!("it was cancelled while the runs of {id} were made once more");
                return Err(
                    ToolFault::new(FaultCode::Cancelled, why).hint("the next run begins with them anew")
                );
            }
            Some(Stop::NotStarted(fault)) => return Err(fault),
            Some(Stop::At(number, why)) => {
                let fault = self.cannot_go_on(&id, &format!("run {number}: {why}"), number - 1);
                return Ok(Some(Err(fault)));
            }
        }
        if self.is_own && count == 0 {
            let why = "none of its runs can be made once more";
            return Ok(Some(Err(self.cannot_go_on(&id, why, 0))));
        }
        if self.is_own {
            let runs = if count == 1 { "1 run was".to_owned() } else { format!("{count} runs were") };
            return Ok(Some(Ok(format!(
                "variables are as after run {until} of this session: {runs} made once more, with calls answered from its \
                 journal{remarks}; files in /workspace are as they were last"
            ))));
        }
        let files = if self.has_files { "; the files of the workspace are as they were last" } else { "" };
        let runs = if count == 1 { "1 run of it was".to_owned() } else { format!("{count} runs of it were") };
        Ok(Some(Ok(format!(
            "this session goes on from {id}: {runs} made once more, with calls answered from its journal{remarks}{files}"
        ))))
    }

    /// `before`: the last run from which it could be resumed.
    fn cannot_go_on(&self, id: &str, why: &str, before: u64) -> ToolFault {
        let why = format!("session {id} cannot be resumed: {why}");
        let afresh = "without MCP_BRIDGE_RESUME a session begins afresh";
        ToolFault::new(FaultCode::SandboxUnavailable, why).hint(match (self.is_of_code, before) {
            (true, 0) => String::new(),
            (true, _) => format!("runtime.resume(\"{id}:{before}\") goes on after run {before}"),
            (false, 0) => format!("the user decides: {afresh}"),
            (false, _) => format!("the user decides: {id}:{before} goes on after run {before}, and {afresh}"),
        })
    }
}

/// Whether the journal has all runs up to this one, and it: why not, and the last run that it has all of.
fn is_whole(of: &RecordedSession, until: u64) -> Result<(), (String, u64)> {
    let number = |run: &RecordedRun| run.begun.run;
    let last = of.runs.iter().rfind(|run| run.ended.is_some()).map_or(0, number);
    if until != u64::MAX && !of.runs.iter().any(|run| number(run) == until) {
        return Err((format!("it has no run {until}"), last));
    }
    let damage = match of.damage {
        None | Some(Damage::Torn) => return Ok(()),
        _ if until <= last => return Ok(()),
        Some(Damage::Full) => format!("its journal had no more room after run {last}"),
        Some(Damage::Line(line)) => {
            format!("line {line} of its journal cannot be read, nor what comes behind it")
        }
    };
    Err((damage, last))
}

/// The result of running several runs again.
#[derive(Default)]
pub(super) struct RerunSummary {
    pub(super) count: usize,
    /// Remarks on the runs that differed or were left out, each behind a semicolon.
    pub(super) remarks: String,
    /// The reason for which the last runs were not run.
    pub(super) stop: Option<Stop>,
}

/// The reason for which a rerun ends before the last run.
pub(super) enum Stop {
    Cancelled,
    /// The sandbox was lost with the variables of the runs so far.
    Lost,
    /// At this run, and why.
    At(u64, String),
    NotStarted(ToolFault),
}

impl Reruns {
    /// Makes a run of an earlier session once more. `is_first` in this one: it has a new interpreter in any case.
    pub async fn rerun(
        &self,
        run: &RecordedRun,
        is_first: bool,
        options: &RerunOptions<'_>,
    ) -> RunComparison {
        self.rerun_in(&mut self.session().turn(), run, is_first, options).await
    }

    /// Makes runs once more, until one cannot be. The flag: whether the interpreter is in use, so that a run that was the
    /// first of its own needs another one.
    pub(super) async fn make_runs(
        &self,
        turn: &mut Turn,
        runs: &[&RecordedRun],
        (options, is_begun): (&RerunOptions<'_>, &AtomicBool),
    ) -> RerunSummary {
        let mut summary = RerunSummary::default();
        let mut reported = 0;
        // Whether a run that began in a new interpreter was left out, so that the next one begins in it.
        let mut is_fresh_due = false;
        for (place, run) in runs.iter().enumerate() {
            let number = run.begun.run;
            if let Some(progress) = options.progress {
                // The next run follows soon.
                let _ = progress.try_send(Progress::Repeats { run: place + 1, all: runs.len() });
            }
            // The other runs are repeated: a later run may need nothing of this one.
            let comparison = match lacks_result(run) {
                Some(why) => {
                    is_fresh_due |= run.is_fresh;
                    RunComparison::LeftOut(why)
                }
                None => {
                    let is_fresh = run.is_fresh || std::mem::take(&mut is_fresh_due);
                    let run = RecordedRun { is_fresh, ..(*run).clone() };
                    let is_first = !is_begun.swap(true, Ordering::AcqRel);
                    self.rerun_in(turn, &run, is_first, options).await
                }
            };
            let said = match comparison {
                _ if options.cancel.is_cancelled() => {
                    summary.stop = Some(Stop::Cancelled);
                    break;
                }
                RunComparison::Lost => {
                    summary.stop = Some(Stop::Lost);
                    break;
                }
                RunComparison::Stopped(why) => {
                    summary.stop = Some(Stop::At(number, why));
                    break;
                }
                RunComparison::NotStarted(fault) => {
                    summary.stop = Some(Stop::NotStarted(fault));
                    break;
                }
                RunComparison::LeftOut(why) => format!("was left out: {why}"),
                RunComparison::Same => {
                    summary.count += 1;
                    continue;
                }
                RunComparison::Differs(_) => {
                    summary.count += 1;
                    "came otherwise than before".to_owned()
                }
            };
            if reported < REMARKS_MAX {
                summary.remarks += &text::bounded(&format!("; run {number} {said}"), SAID_CHARS_MAX);
                reported += 1;
            }
        }
        summary
    }

    pub(super) async fn rerun_in(
        &self,
        turn: &mut Turn,
        run: &RecordedRun,
        is_first: bool,
        options: &RerunOptions<'_>,
    ) -> RunComparison {
        let Some(ended) = &run.ended else { return not_ended(run) };
        match ended.outcome.as_str() {
            "cancelled" => return RunComparison::LeftOut("it was cancelled, and when is not known".into()),
            "not_started" => return RunComparison::LeftOut("it had no sandbox".into()),
            _ => {}
        }
        let replay = Replay::of(run, options.answer_source);
        let (cancel, began) = (options.cancel.child_token(), Instant::now());
        let running = turn.run(asked(run, is_first, options, (Arc::clone(&replay), cancel.clone())));
        tokio::pin!(running);
        let reported = tokio::select! {
            reported = &mut running => Some(reported),
            () = replay.stopped() => {
                cancel.cancel();
                tokio::time::timeout(PATIENCE, running).await.ok()
            }
        };
        // One that goes on has no answers to its calls until the session ends: they must reach no server.
        let Some(reported) = reported else {
            return RunComparison::Stopped("it did not end when it was stopped".into());
        };
        let replayed = replay.end();
        if let Some(why) = replayed.stop {
            return RunComparison::Stopped(why);
        }
        let report = match reported {
            Ok(ended) => ended.report,
            Err(fault) => return RunComparison::Stopped(fault.to_string()),
        };
        if let RunOutcome::NotStarted(fault) = report.outcome {
            return RunComparison::NotStarted(fault);
        }
        let is_lost = |state| match state {
            StateNote::Lost => ended.state != StateNote::Lost,
            StateNote::Fresh(FreshReason::Lost | FreshReason::IdleStop) => !run.is_fresh,
            _ => false,
        };
        if is_lost(report.state) {
            return RunComparison::Lost;
        }
        let now = self.broker.ended(RunId(0), &report, began.elapsed());
        let mut differences = differences(ended, &now);
        differences.extend(replayed.differences);
        if differences.is_empty() { RunComparison::Same } else { RunComparison::Differs(differences) }
    }
}

fn asked(
    run: &RecordedRun,
    is_first: bool,
    options: &RerunOptions<'_>,
    (replay, cancel): (Arc<Replay>, CancellationToken),
) -> RunSubmission {
    let names = run.begun.servers.iter().filter_map(|server| ServerName::new(&server.name).ok());
    let timeout = Duration::from_millis(run.begun.timeout_ms);
    let request = RunRequest {
        code: run.begun.code.clone(),
        servers: ServerScope::Only(names.collect()),
        timeout,
        timeout_max: timeout,
        reset: match &run.begun.checkpoint {
            Some(name) => Reset::Checkpoint(name.clone()),
            None if run.is_fresh && !is_first => Reset::Fresh,
            None => Reset::No,
        },
        dry_run: run.begun.dry_run,
        keep_files: options.keep_files,
    };
    let origin = Origin::Replay { replay, is_aside: options.is_aside };
    RunSubmission::unattended(request, cancel, options.client, origin)
}

/// Why it cannot be made once more, as far as that is known before; nothing where it can, or need not.
pub(super) fn why_not(run: &RecordedRun) -> Option<String> {
    if run.ended.is_none() {
        return match not_ended(run) {
            RunComparison::Stopped(why) => Some(why),
            _ => None,
        };
    }
    lacks_result(run)
}

/// The first call of the run whose result the journal does not have, in a sentence.
pub(super) fn lacks_result(run: &RecordedRun) -> Option<String> {
    run.calls.iter().find_map(|call| match &call.came {
        _ if is_made_again(call.begun.server.as_deref(), &call.begun.tool) => None,
        Some((
            CallOutcome::Value(RecordedJson::LeftOut { bytes, .. })
            | CallOutcome::ToolError(RecordedJson::LeftOut { bytes, .. }),
            _,
        )) => Some(not_kept(&text::inert_excerpt(&call.begun.name(), SAID_CHARS_MAX), *bytes)),
        _ => None,
    })
}

/// A run that nobody was told the end of: what it has called may be half of what it would have.
fn not_ended(run: &RecordedRun) -> RunComparison {
    let calls: Vec<&RecordedCall> = run.calls.iter().filter(|call| call.came.is_none()).collect();
    if calls.is_empty() {
        return RunComparison::LeftOut("the session ended before it did".into());
    }
    RunComparison::Stopped(format!(
        "the session ended before it did, with calls that had no answer, and may have been made:{}",
        calls.iter().map(|call| format!("\n  {}", call.shown())).collect::<String>()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SESSION: &str = r#"{"session":{"version":1,"id":"ab","time":"t","client":"c","belljar":"0.1.0","protocol":1,"keep":"full"}}"#;

    /// Of two runs that have ended, and these lines behind them.
    fn recorded(lines: &[&str]) -> RecordedSession {
        let ended = |run: u64| {
            let begun = format!(
                r#"{{"run":{{"run":{run},"time":"t","code":"1","servers":[],"timeout_ms":1,"dry_run":false}}}}"#
            );
            let end = format!(
                r#"{{"end":{{"run":{run},"time":"t","outcome":"finished","output":[],"said_bytes":0,"said_sha256":"","images":0,"state":"kept","ms":1}}}}"#
            );
            format!("{begun}\n{end}")
        };
        let behind = lines.iter().map(|line| (*line).to_owned());
        let lines = [SESSION.to_owned(), ended(1), ended(2)].into_iter().chain(behind);
        RecordedSession::of(lines.map(|line| line + "\n").collect::<String>().as_bytes()).unwrap()
    }

    #[test]
    fn only_runs_that_the_journal_has_as_a_whole_are_resumed() {
        assert_eq!(is_whole(&recorded(&[]), u64::MAX), Ok(()));
        for (lines, why) in [
            (&[r#"{"full":{}}"#][..], "its journal had no more room after run 2"),
            (&["no line"], "line 6 of its journal cannot be read, nor what comes behind it"),
        ] {
            let of = recorded(lines);
            assert_eq!(is_whole(&of, u64::MAX), Err((why.to_owned(), 2)));
            assert_eq!(is_whole(&of, 2), Ok(()));
        }
        for missing in [0, 3] {
            assert_eq!(is_whole(&recorded(&[]), missing), Err((format!("it has no run {missing}"), 2)));
        }
        let user = ResumedSession::new(Ok((recorded(&[]), 2)), false);
        let hint = "the user decides: without MCP_BRIDGE_RESUME a session begins afresh";
        assert_eq!(user.cannot_go_on("ab", "why", 0).hint, hint);
        let code = ResumedSession::within((recorded(&[]), 2), false);
        assert_eq!(code.cannot_go_on("ab", "why", 1).hint, "runtime.resume(\"ab:1\") goes on after run 1");
    }
}
