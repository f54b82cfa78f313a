//! Checkpoints that went with their sandbox, made again: the runs that led there are run once more, as the journal has them.
//!
//! It decides nothing about checkpoints that still sleep: the machine goes back to those.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use belljar_base::run::{FaultCode, ToolFault};
use belljar_base::text;

use super::client::Reruns;
use super::own_runs::{Requester, begin_at, make_checkpoint, restore_snapshot, take_snapshot};
use super::replay::{RerunOptions, RerunSummary, Stop, why_not};
use crate::broker::AnswerSource;
use crate::jobs::Status;
use crate::journal::RecordedCall;
use crate::session::{CheckpointPositions, Turn};

/// Longest name in a sentence, in characters.
const NAME_CHARS_MAX: usize = 64;
/// Under this name is kept what there was, for as long as another checkpoint is being made again.
const BEFORE: &str = "(before going back)";

impl Reruns {
    /// To one that was lost; what is to be said of it.
    pub(super) async fn go_back(
        &self,
        turn: &mut Turn,
        name: &str,
        requester: &Requester,
    ) -> Result<Vec<String>, ToolFault> {
        let mut said = self.make_again(turn, name, requester).await?;
        let gone_back = begin_at(turn, name, requester).await?;
        said.extend(gone_back.notes);
        Ok(said)
    }

    /// What is to be said of it; nothing where somebody has made it again meanwhile.
    pub(super) async fn make_again(
        &self,
        turn: &mut Turn,
        name: &str,
        requester: &Requester,
    ) -> Result<Vec<String>, ToolFault> {
        let known = self.checkpoints().find(name)?;
        if known.sleeps {
            return Ok(vec![]);
        }
        let shown = text::inert_excerpt(name, NAME_CHARS_MAX);
        let cannot = |why: &str| {
            let why =
                format!("checkpoint '{shown}' was lost with its sandbox, and cannot be made again: {why}");
            ToolFault::new(FaultCode::SandboxUnavailable, why)
        };
        if let Some(why) = self.mounted_writable() {
            return Err(cannot(&why));
        }
        let broker = Arc::clone(&self.broker);
        let recorded = tokio::task::spawn_blocking(move || broker.journal().recorded()).await;
        let recorded = recorded.map_err(|_| cannot("its journal cannot be read"))?.map_err(|why| {
            cannot(&why)
                .hint("the user has it kept with MCP_BRIDGE_JOURNAL=full; runtime.checkpoint makes new ones")
        })?;
        let runs = recorded.leading_to(known.run.0).ok_or_else(|| cannot("its run is not in the journal"))?;
        if let Some(why) = runs.iter().find_map(|run| Some((run.begun.run, why_not(run)?))) {
            return Err(cannot(&format!("run {}: {}", why.0, why.1)));
        }
        let ends_jobs = runs.iter().any(|run| run.is_fresh);
        if ends_jobs && self.broker.jobs().all().iter().any(|job| job.status == Status::Running) {
            return Err(cannot("the jobs that run would end by that")
                .hint("wait for them (await runtime.job(1)) or cancel them first: print(runtime.jobs())"));
        }
        let cancelled = || {
            let mut fault = cannot("it was cancelled meanwhile").hint("variables are as before");
            fault.code = FaultCode::Cancelled;
            fault
        };
        if requester.cancel.is_cancelled() {
            return Err(cancelled());
        }
        let mut said = self.keep_what_there_is(turn, requester).await?.map_err(|why| {
            cannot(&format!("the variables that there are now cannot be kept meanwhile: {why}")).hint(
                "run with reset: true to let all of them go, or runtime.forget_checkpoint(name) to make room",
            )
        })?;
        let positions = self.checkpoints().positions();
        let options = RerunOptions {
            answer_source: AnswerSource::Recorded,
            client: &requester.client,
            cancel: &requester.cancel,
            progress: Some(&requester.progress),
            is_aside: true,
            // Until they are as they were: what is stored of them is right all the time.
            keep_files: false,
        };
        let RerunSummary { count, remarks, stop } =
            self.make_runs(turn, &runs, (&options, &AtomicBool::new(true))).await;
        let made = match stop {
            None if self.checkpoints().sleeps(name) => Ok(()),
            None => Err("its run did not make it this time".to_owned()),
            Some(Stop::Cancelled) => Err("it was cancelled meanwhile".to_owned()),
            Some(Stop::Lost) => Err("the sandbox was lost meanwhile".to_owned()),
            Some(Stop::At(number, why)) => Err(format!("run {number}: {why}")),
            Some(Stop::NotStarted(fault)) => Err(fault.message),
        };
        let calls = runs.iter().flat_map(|run| &run.calls).filter(|call| is_of_server(call)).count();
        match made {
            Ok(()) => {
                self.forget_what_came_again(turn, positions, Some(name)).await?;
                said.push(format!(
                    "checkpoint '{shown}' was lost with its sandbox, and made again from the journal: {}, {}{remarks}",
                    counted(count, "run"),
                    counted(calls, "recorded call")
                ));
                Ok(said)
            }
            Err(why) => {
                let went_on = begin_at(turn, BEFORE, requester).await.is_ok();
                let state = if went_on { "variables are as before" } else { "earlier variables are gone" };
                self.forget_what_came_again(turn, positions, None).await?;
                if requester.cancel.is_cancelled() {
                    return Err(cancelled().hint(state));
                }
                Err(cannot(&format!("{why}{remarks}")).hint(state))
            }
        }
    }

    /// To go back to if nothing comes of the other one. What was said, perhaps of a new sandbox; the inner error: why it cannot
    /// be kept.
    async fn keep_what_there_is(
        &self,
        turn: &mut Turn,
        requester: &Requester,
    ) -> Result<Result<Vec<String>, String>, ToolFault> {
        if self.checkpoints().find(BEFORE).is_ok() {
            return Ok(Err(format!("a checkpoint of the code's own has the name '{BEFORE}'")));
        }
        if let Err(why) = take_snapshot(turn).await? {
            return Ok(Err(why));
        }
        make_checkpoint(turn, BEFORE, requester).await
    }

    /// Other checkpoints are where they were, and of what was kept meanwhile nothing stays.
    async fn forget_what_came_again(
        &self,
        turn: &Turn,
        mut positions: CheckpointPositions,
        made_again: Option<&str>,
    ) -> Result<(), ToolFault> {
        positions.forget(BEFORE);
        let forget = self.checkpoints().made_since(&positions, made_again.unwrap_or_default());
        let restored = restore_snapshot(turn, forget).await;
        self.checkpoints().put_back(positions, made_again);
        restored
    }
}

fn is_of_server(call: &RecordedCall) -> bool {
    call.begun.server.is_some()
}

fn counted(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}
