//! The times that the machine keeps: the timeout of a run, which stands still while a person is asked, and how long the
//! sandbox has for each of its answers.

use belljar_protocol::ToSupervisor;
use tokio::time::Instant;

use super::{Effect, Machine};
use crate::session::phase::{Cause, Phase, Run};

impl Machine {
    /// When `tick` is due.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        if self.waits_since.is_some() && matches!(self.phase, Phase::Running { .. }) {
            return None;
        }
        self.phase.deadline(self.idle_until.filter(|_| !self.has_jobs))
    }

    /// Handles the beginning or the end of a wait of the current run for the human.
    pub(crate) fn waits(&mut self, waits: bool, now: Instant) -> Vec<Effect> {
        if let (Some(since), Phase::Running { until, .. }) = (self.waits_since, &mut self.phase)
            && !waits
        {
            *until += now.saturating_duration_since(since);
        }
        self.waits_since = if waits { self.waits_since.or(Some(now)) } else { None };
        vec![]
    }

    /// Acts on [`Self::deadline`], if it has come.
    pub(crate) fn tick(&mut self, now: Instant) -> Vec<Effect> {
        if self.deadline().is_none_or(|deadline| deadline > now) {
            return vec![];
        }
        match std::mem::replace(&mut self.phase, Phase::Absent) {
            // Threads and processes that runs left behind may have written files since the last run.
            Phase::Idle => self.keep(None, now),
            Phase::StoringFiles { report, .. } => {
                self.not_kept("the sandbox did not tell of them in time", report)
            }
            Phase::Running { run, .. } => self.interrupt(run, Cause::TimedOut, now),
            Phase::Interrupting { run, cause, .. } => {
                self.phase = Phase::Replacing { run, cause, until: now + self.limits.replace };
                vec![self.replace(true)]
            }
            Phase::Replacing { run, cause, .. } => {
                let outcome = self.ended_by(cause);
                let mut effects = self.lose(run, outcome);
                effects.insert(0, Effect::CloseSandbox);
                effects
            }
            Phase::Recovering { run, outcome, .. } => {
                let mut effects = self.lose(run, outcome);
                effects.insert(0, Effect::CloseSandbox);
                effects
            }
            Phase::Resetting { run, .. } => {
                // The supervisor does not answer: a new container is the fresh interpreter.
                self.phase = Phase::Starting { run: Some(run) };
                vec![Effect::CloseSandbox, Effect::StartSandbox]
            }
            Phase::RollingBack { rollback, .. } => {
                let why = "the sandbox did not answer in time";
                vec![Effect::CloseSandbox, self.lost_on_the_way(*rollback, why)]
            }
            Phase::AwaitingWorker { .. } => vec![Effect::CloseSandbox],
            phase @ Phase::Snapshot { .. } => {
                self.forget();
                let answer = Self::no_snapshot(&phase, "the sandbox did not answer in time");
                [Effect::CloseSandbox].into_iter().chain(answer).collect()
            }
            other @ (Phase::Absent | Phase::Starting { .. }) => {
                self.phase = other;
                vec![]
            }
        }
    }

    pub(super) fn interrupt(&mut self, run: Box<Run>, cause: Cause, now: Instant) -> Vec<Effect> {
        self.phase = Phase::Interrupting { run, cause, until: now + self.limits.grace };
        vec![Effect::Send(ToSupervisor::Interrupt), Effect::EndCalls]
    }
}
