//! How the machine returns to a checkpoint, which replaces the worker: at the end of a run, or before one.

use belljar_base::run::{FaultCode, FreshReason, PythonError, RunOutcome, RunReport, StateNote, ToolFault};
use belljar_protocol::{CallFrame, ToSupervisor};
use serde::Deserialize;
use tokio::time::Instant;

use super::{Effect, Machine};
use crate::session::phase::{AfterRollback, CheckpointRollback, Phase, Run};

impl Machine {
    /// The effects that answer a call about checkpoints; `None`: the call is another one.
    pub(super) fn asked_of_checkpoints(&mut self, call: &CallFrame) -> Option<Vec<Effect>> {
        #[derive(Deserialize)]
        struct CheckpointName {
            name: String,
        }
        if call.server.is_some() {
            return None;
        }
        let name = || {
            serde_json::from_str::<CheckpointName>(call.arguments.get()).map(|named| named.name).map_err(
                |_| {
                    ToolFault::new(
                        FaultCode::InvalidArguments,
                        "the name of a checkpoint is missing or no string",
                    )
                },
            )
        };
        let null = || serde_json::value::RawValue::NULL.to_owned();
        let mut effects = vec![];
        let answer = match call.tool.as_str() {
            "list_checkpoints" => Ok(self.checkpoints.listed()),
            "find_checkpoint" => name().and_then(|name| self.checkpoints.find(&name)).map(|_| null()),
            "forget_checkpoint" => name().and_then(|name| {
                self.checkpoints.forget(&name)?;
                effects.push(Effect::Send(ToSupervisor::Forget { name }));
                Ok(null())
            }),
            _ => return None,
        };
        effects.push(match answer {
            Ok(value) => Effect::Answer { call: call.call, value },
            Err(fault) => Effect::Refuse { call: call.call, fault },
        });
        Some(effects)
    }

    /// Handles a checkpoint that the sandbox has made.
    pub(super) fn checkpoint_made(&mut self, name: &str, line: Option<u64>, bytes: u64) {
        if let Some(run) = self.phase.current() {
            let run = run.id;
            self.checkpoints.made(name, run, line, bytes);
        }
    }

    /// Handles a checkpoint that the sandbox no longer has.
    pub(super) fn checkpoint_gone(&mut self, name: &str, now: Instant) -> Vec<Effect> {
        self.checkpoints.gone(name);
        match std::mem::replace(&mut self.phase, Phase::Absent) {
            // If the worker is gone already, the checkpoint failed to start, and another worker comes.
            Phase::RollingBack { rollback, .. } if rollback.name == name && !rollback.is_worker_gone => {
                let state = match &rollback.then {
                    AfterRollback::Report(report, _) => report.state,
                    AfterRollback::Begin(_) => self.fresh.map_or(StateNote::Kept, StateNote::Fresh),
                };
                self.not_gone_back(*rollback, state, now)
            }
            other => {
                self.phase = other;
                vec![]
            }
        }
    }

    pub(super) fn go_back(&mut self, name: String, then: AfterRollback, now: Instant) -> Vec<Effect> {
        self.replace_by(CheckpointRollback { name, then, is_worker_gone: false, is_second: false }, now)
    }

    fn replace_by(&mut self, rollback: CheckpointRollback, now: Instant) -> Vec<Effect> {
        let checkpoint = Some(rollback.name.clone());
        let replace = ToSupervisor::Replace { worker: self.worker, restore: true, checkpoint };
        // The time is doubled: the checkpoint is started, and copies itself before it answers.
        let until = now + self.limits.replace * 2;
        let is_over = matches!(rollback.then, AfterRollback::Report(..));
        self.phase = Phase::RollingBack { rollback: Box::new(rollback), until };
        let mut effects = vec![Effect::Send(replace)];
        if is_over {
            effects.insert(0, Effect::EndCalls);
        }
        effects
    }

    /// Notes that the worker to be replaced has ended.
    pub(super) fn left(&mut self, mut rollback: Box<CheckpointRollback>, until: Instant) {
        rollback.is_worker_gone = true;
        self.phase = Phase::RollingBack { rollback, until };
    }

    /// Handles the worker that replaces the old one. `checkpoint` names the checkpoint that became this worker, if one
    /// did.
    pub(super) fn arrived(
        &mut self,
        mut rollback: CheckpointRollback,
        checkpoint: Option<&str>,
        state: StateNote,
        now: Instant,
    ) -> Vec<Effect> {
        if checkpoint != Some(&rollback.name) {
            if self.checkpoints.sleeps(&rollback.name) && !rollback.is_second {
                rollback.is_second = true;
                rollback.is_worker_gone = false;
                return self.replace_by(rollback, now);
            }
            self.fresh = (state == StateNote::Lost).then_some(FreshReason::Lost);
            let is_over = matches!(rollback.then, AfterRollback::Report(..));
            // The frozen copy was made after the run that asked for the checkpoint, so no variables of that run are
            // lost.
            let state = if is_over && state == StateNote::RolledBack { StateNote::Kept } else { state };
            return self.not_gone_back(rollback, state, now);
        }
        self.last_done = 0;
        self.fresh = None;
        let said =
            self.checkpoints.find(&rollback.name).map(|one| one.said(&rollback.name)).unwrap_or_default();
        match rollback.then {
            AfterRollback::Report(mut report, is_kept) => {
                report.state = StateNote::Restored;
                report.notes.push(said);
                self.report_at_last(report, is_kept, now)
            }
            AfterRollback::Begin(mut run) => {
                run.notes.push(&said);
                self.begin(run, now)
            }
        }
    }

    /// Ends a rollback whose sandbox is lost, with all its variables.
    pub(super) fn lost_on_the_way(&mut self, rollback: CheckpointRollback, why: &str) -> Effect {
        self.forget();
        match rollback.then {
            AfterRollback::Report(mut report, _) => {
                report.state = StateNote::Lost;
                report.notes.push(format!("the checkpoint was not gone back to: {why}"));
                Effect::Finish(report)
            }
            AfterRollback::Begin(run) => {
                let fault =
                    ToolFault::new(FaultCode::SandboxUnavailable, why.to_owned()).hint("run it again");
                let report = self.report(*run, RunOutcome::NotStarted(fault), StateNote::Lost);
                Effect::Finish(Box::new(report))
            }
        }
    }

    /// Refuses a run whose checkpoint the sandbox does not have.
    pub(super) fn without_checkpoint(&mut self, run: Run, name: &str) -> Effect {
        let fault = match self.checkpoints.find(name) {
            Ok(_) => gone(name),
            Err(fault) => fault,
        };
        let state = self.fresh.map_or(StateNote::Kept, StateNote::Fresh);
        Effect::Finish(Box::new(self.report(run, RunOutcome::NotStarted(fault), state)))
    }

    fn not_gone_back(&mut self, rollback: CheckpointRollback, state: StateNote, now: Instant) -> Vec<Effect> {
        let fault = gone(&rollback.name);
        match rollback.then {
            AfterRollback::Report(mut report, is_kept) => {
                report.state = state;
                report.outcome = RunOutcome::Raised(checkpoint_error(&fault));
                self.report_at_last(report, is_kept, now)
            }
            AfterRollback::Begin(run) => {
                self.idle(now);
                vec![Effect::Finish(Box::new(self.report(*run, RunOutcome::NotStarted(fault), state)))]
            }
        }
    }

    fn report_at_last(&mut self, report: Box<RunReport>, is_kept: bool, now: Instant) -> Vec<Effect> {
        self.idle(now);
        if is_kept {
            return self.keep(Some(report), now);
        }
        vec![Effect::Finish(report)]
    }
}

/// The error that code would have got for the fault.
#[must_use]
pub fn checkpoint_error(fault: &ToolFault) -> PythonError {
    PythonError {
        class: "CheckpointError".into(),
        message: fault.message.clone(),
        traceback: String::new(),
        traceback_chars: 0,
        line: None,
        hint: fault.hint.clone(),
    }
}

fn gone(name: &str) -> ToolFault {
    let shown = belljar_base::text::inert_excerpt(name, 64);
    ToolFault::new(
        FaultCode::SandboxUnavailable,
        format!("checkpoint '{shown}' is gone: its process has ended, for lack of memory or by the code"),
    )
    .hint("asked for once more, it is made again from the session's journal")
}

#[cfg(test)]
#[path = "checkpoints_tests.rs"]
mod tests;
