//! The reports of the machine, and the sentences in them.

use belljar_base::run::{Calls, FreshReason, RunOutcome, RunReport, SandboxLoss, StateNote};

use super::{Effect, GONE_BACK, Machine};
use crate::session::phase::{Cause, Run};

impl Machine {
    /// Finishes a run whose sandbox is gone.
    pub(super) fn lose(&mut self, run: Box<Run>, outcome: RunOutcome) -> Vec<Effect> {
        self.fresh = Some(FreshReason::Lost);
        let mut report = self.report(*run, outcome, StateNote::Lost);
        report.notes.push("what the run has changed in /workspace is not kept".into());
        vec![Effect::EndCalls, Effect::Finish(Box::new(report))]
    }

    pub(super) fn finish_unstarted(&mut self, run: Run) -> Effect {
        let state = self.fresh.map_or(StateNote::Kept, StateNote::Fresh);
        Effect::Finish(Box::new(self.report(run, RunOutcome::Interrupted, state)))
    }

    pub(super) fn ended_by(&self, cause: Cause) -> RunOutcome {
        match cause {
            // `report` replaces these times by those of the run.
            Cause::TimedOut => RunOutcome::TimedOut { after: self.limits.grace, at_most: self.limits.grace },
            Cause::Cancelled => RunOutcome::Interrupted,
            Cause::OverLimit => {
                RunOutcome::SandboxLost(SandboxLoss::OverLimit { exceeded: self.exceeded.clone() })
            }
        }
    }

    pub(super) fn report(&mut self, run: Run, outcome: RunOutcome, state: StateNote) -> RunReport {
        let began = run.fresh.filter(|reason| *reason != FreshReason::First).map(began);
        let mut notes = Vec::new();
        if outcome == RunOutcome::Interrupted {
            // Nobody reads the report of a cancelled run, so its sentence about lost variables goes into the next
            // report.
            if state != StateNote::Lost
                && let Some(began) = began
            {
                self.note(format!("a run that was cancelled {began}"));
            }
            if state == StateNote::RolledBackFurther {
                self.note(GONE_BACK.into());
            }
        } else {
            // Nobody reads the report of a run that the bridge makes for itself, which stores no files.
            if run.request.keep_files || run.request.dry_run {
                notes = std::mem::take(&mut self.notes).into_vec();
            }
            notes.extend(run.notes.into_vec());
            notes.append(&mut self.denied);
            let stray = std::mem::take(&mut self.stray_bytes);
            if stray > 0 {
                notes.push(format!(
                    "{stray} bytes written between the runs, by threads or processes left behind, are not shown"
                ));
            }
            // A `Fresh` state says already that the interpreter is fresh.
            if !matches!(state, StateNote::Fresh(_))
                && let Some(began) = began
            {
                notes.push(format!("the run {began}"));
            }
        }
        let outcome = match outcome {
            RunOutcome::TimedOut { .. } => {
                RunOutcome::TimedOut { after: run.request.timeout, at_most: run.request.timeout_max }
            }
            other => other,
        };
        RunReport {
            outcome,
            output: run.output.finish(),
            value: None,
            bound: vec![],
            images: vec![],
            saved: vec![],
            state,
            notes,
            sandbox_notes: vec![],
            servers: run.servers,
            calls: Calls::default(),
            goes_back_to: None,
        }
    }

    /// Adds a sentence to the report of the current run, or to the next report.
    pub(crate) fn note(&mut self, note: String) {
        let notes = match self.phase.current() {
            Some(run) => &mut run.notes,
            None => &mut self.notes,
        };
        notes.push(&note);
    }
}

/// The end of a sentence about a run that began without variables.
fn began(reason: FreshReason) -> String {
    let why = match reason {
        FreshReason::First => "it was the first",
        FreshReason::Reset => "it asked for a reset",
        FreshReason::IdleStop => "the sandbox had been stopped for being idle",
        FreshReason::Lost => "the previous one was lost",
        FreshReason::NewSession => "the session was new",
    };
    format!("began in a fresh interpreter: {why}; earlier variables are gone")
}

pub(super) fn describe(outcome: &RunOutcome) -> String {
    match outcome {
        RunOutcome::SandboxLost(SandboxLoss::Exited { exit_code }) => format!("exit status {exit_code}"),
        RunOutcome::SandboxLost(SandboxLoss::Killed { signal, .. }) => format!("signal {signal}"),
        _ => "reason unknown".into(),
    }
}
