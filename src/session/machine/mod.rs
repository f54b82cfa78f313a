//! The session's state machine. It takes events and returns effects, does no input or output, and reads no clock.
//!
//! `Absent -> Starting -> Idle -> Running -> Interrupting -> Replacing -> Idle | Absent`. Every run that it takes is
//! finished exactly once, whatever the sandbox says or does not say.

mod checkpoints;
mod deadlines;
mod frames;
mod keeping;
mod reports;
mod snapshot;

use std::sync::Arc;
use std::time::Duration;

use belljar_base::limits::Limits;
use belljar_base::names::{CallId, RunId, ServerName};
use belljar_base::run::{
    FreshReason, Reset, RunOutcome, RunReport, RunRequest, SandboxLoss, StateNote, ToolFault,
};
use belljar_protocol::{CallFrame, DroppedLine, ToSupervisor};
use serde_json::value::RawValue;
use tokio::time::Instant;

pub use self::checkpoints::checkpoint_error;
use self::keeping::FileSync;
use super::checkpoints::Checkpoints;
use super::ending::Notes;
use super::output::OutputBuffer;
use super::phase::{AfterRollback, Cause, CheckpointRollback, Phase, Run};
use super::request::{Snapshot, SnapshotEnd};

/// An effect that the actor must carry out.
#[derive(Debug)]
pub(super) enum Effect {
    /// Start a sandbox; answer with `sandbox_up` or `sandbox_failed`.
    StartSandbox,
    /// Send a frame to the supervisor.
    Send(ToSupervisor),
    /// Send the run's code to the worker.
    SendRun { run: RunId, worker: u64, code: String },
    /// Start a task that answers a call and sends the answer.
    StartCall { call: CallFrame, deadline: Instant },
    /// Answer a call with a fault.
    Refuse { call: CallId, fault: ToolFault },
    /// Answer a call with a value.
    Answer { call: CallId, value: Box<RawValue> },
    /// Cancel a call that the code has given up.
    CancelCall(CallId),
    /// Cancel all calls in progress.
    EndCalls,
    /// End all jobs at once.
    EndJobs { why: String },
    /// Close the sandbox.
    CloseSandbox,
    /// Give the report of a run that has ended.
    Finish(Box<RunReport>),
    /// Give the result of a requested snapshot.
    SnapshotDone(SnapshotEnd),
}

/// The state machine of a session.
#[derive(Debug)]
pub(super) struct Machine {
    phase: Phase,
    limits: Arc<Limits>,
    idle_stop: Option<Duration>,
    idle_until: Option<Instant>,
    next_run: u64,
    /// The reason why the present or next namespace is empty; `None` after a run has used it.
    fresh: Option<FreshReason>,
    /// Notes for the next report.
    notes: Notes,
    stray_bytes: u64,
    /// The notes from the last frame about refused system calls, while they are traced.
    denied: Vec<String>,
    /// The worker that reads frames now.
    worker: u64,
    /// The last run that ended in the present namespace; 0: none has.
    last_done: u64,
    /// The time since which the current run waits for the human. This wait does not count toward the timeout of the
    /// run.
    waits_since: Option<Instant>,
    /// The limit that was last exceeded, and by how much.
    exceeded: String,
    files: FileSync,
    /// A requested snapshot that waits for the sandbox.
    snapshot: Option<Snapshot>,
    checkpoints: Arc<Checkpoints>,
    /// Whether jobs are running. The sandbox is not idle then.
    has_jobs: bool,
}

const GONE_BACK: &str = "variables are as after an earlier run; what later runs changed is gone";

impl Machine {
    pub(super) fn new(limits: Arc<Limits>, checkpoints: Arc<Checkpoints>) -> Self {
        Self {
            phase: Phase::Absent,
            limits,
            idle_stop: None,
            idle_until: None,
            next_run: 1,
            fresh: Some(FreshReason::First),
            notes: Notes::default(),
            stray_bytes: 0,
            denied: vec![],
            worker: 0,
            last_done: 0,
            waits_since: None,
            exceeded: String::new(),
            files: FileSync::default(),
            snapshot: None,
            checkpoints,
            has_jobs: false,
        }
    }

    /// The number of the next run.
    pub(super) fn next_run(&self) -> RunId {
        RunId(self.next_run)
    }

    /// Sets whether jobs are running.
    pub(super) fn has_jobs(&mut self, has_jobs: bool, now: Instant) {
        if std::mem::replace(&mut self.has_jobs, has_jobs) && !has_jobs {
            self.idle_until = self.idle_stop.map(|after| now + after);
        }
    }

    /// Sets the idle time after which the next sandbox is stopped; `None`: never.
    pub(super) fn stop_idle_after(&mut self, idle_stop: Option<Duration>) {
        self.idle_stop = idle_stop;
    }

    /// Whether [`Self::ask`] may be called now.
    pub(super) fn takes_runs(&self) -> bool {
        self.snapshot.is_none()
            && matches!(self.phase, Phase::Absent | Phase::Idle | Phase::Starting { run: None })
    }

    /// Whether the interpreter with the variables of earlier runs was lost, and no run has begun in another one.
    pub(super) fn is_lost(&self) -> bool {
        self.fresh == Some(FreshReason::Lost)
    }

    /// Starts the sandbox before anything is asked of it.
    pub(super) fn prewarm(&mut self) -> Vec<Effect> {
        if !matches!(self.phase, Phase::Absent) {
            return vec![];
        }
        self.phase = Phase::Starting { run: None };
        vec![Effect::StartSandbox]
    }

    /// Takes the run with the number [`Self::next_run`]. May be called only while [`Self::takes_runs`].
    pub(super) fn ask(&mut self, request: RunRequest, servers: Vec<ServerName>, now: Instant) -> Vec<Effect> {
        let id = RunId(self.next_run);
        self.next_run += 1;
        let output = OutputBuffer::new(&self.limits);
        let run = Box::new(Run { id, request, servers, output, fresh: None, notes: Notes::default() });
        // A reset ends everything that was before, including jobs.
        let ends_jobs = (run.request.reset == Reset::Fresh && self.has_jobs)
            .then(|| Effect::EndJobs { why: "a run asked for a reset".into() });
        if let Reset::Checkpoint(name) = run.request.reset.clone() {
            let is_there = matches!(self.phase, Phase::Idle) && self.checkpoints.sleeps(&name);
            return match is_there {
                true => self.go_back(name, AfterRollback::Begin(run), now),
                false => vec![self.without_checkpoint(*run, &name)],
            };
        }
        let effects = match std::mem::replace(&mut self.phase, Phase::Absent) {
            Phase::Idle if run.request.reset == Reset::Fresh && self.fresh.is_none() => {
                self.fresh = Some(FreshReason::Reset);
                self.phase = Phase::Resetting { run, until: now + self.limits.replace };
                vec![self.replace(false)]
            }
            Phase::Idle => self.begin(run, now),
            Phase::Starting { .. } => {
                self.phase = Phase::Starting { run: Some(run) };
                vec![]
            }
            _ => {
                self.phase = Phase::Starting { run: Some(run) };
                vec![Effect::StartSandbox]
            }
        };
        ends_jobs.into_iter().chain(effects).collect()
    }

    /// Handles a sandbox that has completed the handshake and whose worker is ready.
    pub(super) fn sandbox_up(&mut self, worker: u64, notices: Vec<String>, now: Instant) -> Vec<Effect> {
        self.worker = worker;
        self.last_done = 0;
        self.notes.extend(notices);
        match std::mem::replace(&mut self.phase, Phase::Absent) {
            Phase::Starting { run: Some(run) } => self.begin(run, now),
            _ => {
                self.idle(now);
                self.send_snapshot(now)
            }
        }
    }

    /// Handles a sandbox that could not be started.
    pub(super) fn sandbox_failed(&mut self, fault: ToolFault) -> Vec<Effect> {
        match std::mem::replace(&mut self.phase, Phase::Absent) {
            Phase::Starting { run: Some(run) } => {
                vec![Effect::Finish(Box::new(self.report(
                    *run,
                    RunOutcome::NotStarted(fault),
                    StateNote::Lost,
                )))]
            }
            _ => self.snapshot.take().map(|_| Effect::SnapshotDone(Err(fault))).into_iter().collect(),
        }
    }

    /// Cancels a run that its client no longer wants.
    pub(super) fn cancel(&mut self, id: RunId, now: Instant) -> Vec<Effect> {
        match std::mem::replace(&mut self.phase, Phase::Absent) {
            Phase::Running { run, .. } if run.id == id => self.interrupt(run, Cause::Cancelled, now),
            Phase::Starting { run: Some(run) } if run.id == id => {
                self.phase = Phase::Starting { run: None };
                vec![self.finish_unstarted(*run)]
            }
            Phase::Resetting { run, until } if run.id == id => {
                self.phase = Phase::AwaitingWorker { until };
                vec![self.finish_unstarted(*run)]
            }
            Phase::RollingBack { rollback, until } => match *rollback {
                CheckpointRollback { then: AfterRollback::Begin(run), .. } if run.id == id => {
                    self.phase = Phase::AwaitingWorker { until };
                    vec![self.finish_unstarted(*run)]
                }
                rollback => {
                    self.phase = Phase::RollingBack { rollback: Box::new(rollback), until };
                    vec![]
                }
            },
            other => {
                self.phase = other;
                vec![]
            }
        }
    }

    /// Handles the loss of the container or of its connection.
    pub(super) fn stream_ended(&mut self, reason: &str) -> Vec<Effect> {
        let loss = || RunOutcome::SandboxLost(SandboxLoss::Container { reason: reason.to_owned() });
        let mut effects = vec![Effect::EndCalls, Effect::CloseSandbox];
        match std::mem::replace(&mut self.phase, Phase::Absent) {
            Phase::Running { run, .. } => effects.extend(self.lose(run, loss())),
            Phase::Interrupting { run, cause, .. } | Phase::Replacing { run, cause, .. } => {
                let outcome = self.ended_by(cause);
                effects.extend(self.lose(run, outcome));
            }
            Phase::Recovering { run, outcome, .. } => effects.extend(self.lose(run, outcome)),
            Phase::Resetting { run, .. } => {
                self.phase = Phase::Starting { run: Some(run) };
                effects.push(Effect::StartSandbox);
            }
            Phase::Starting { run } => self.phase = Phase::Starting { run },
            Phase::RollingBack { rollback, .. } => {
                effects.push(self.lost_on_the_way(*rollback, "the sandbox went away"));
            }
            Phase::StoringFiles { report, .. } => {
                effects = self.not_kept("the sandbox ended", report);
                effects.insert(0, Effect::EndCalls);
            }
            phase @ (Phase::Idle | Phase::Snapshot { .. } | Phase::AwaitingWorker { .. } | Phase::Absent) => {
                self.forget();
                effects.extend(Self::no_snapshot(&phase, "the sandbox went away"));
            }
        }
        effects
    }

    /// Ends the session. The current run gets a report with its output and calls so far.
    pub(super) fn close(&mut self) -> Vec<Effect> {
        match std::mem::replace(&mut self.phase, Phase::Absent) {
            Phase::Running { run, .. } => {
                let reason = "belljar is ending".to_owned();
                self.lose(run, RunOutcome::SandboxLost(SandboxLoss::Container { reason }))
            }
            Phase::Interrupting { run, cause, .. } | Phase::Replacing { run, cause, .. } => {
                let outcome = self.ended_by(cause);
                self.lose(run, outcome)
            }
            Phase::Recovering { run, outcome, .. } => self.lose(run, outcome),
            Phase::StoringFiles { report: Some(report), .. } => vec![Effect::Finish(report)],
            Phase::RollingBack { rollback, .. } => vec![self.lost_on_the_way(*rollback, "belljar is ending")],
            // The caller of a run that never began gets its answer when the reply is dropped.
            Phase::Starting { .. }
            | Phase::Resetting { .. }
            | Phase::Idle
            | Phase::Snapshot { .. }
            | Phase::AwaitingWorker { .. }
            | Phase::StoringFiles { report: None, .. }
            | Phase::Absent => vec![],
        }
    }

    /// Ends the interpreter, because the sandbox exceeds a limit that its engine does not enforce.
    pub(super) fn over_limit(&mut self, exceeded: String, now: Instant) -> Vec<Effect> {
        let (until, why) = (now + self.limits.replace, exceeded.clone());
        let mut effects = match std::mem::replace(&mut self.phase, Phase::Absent) {
            Phase::Running { run, .. } | Phase::Interrupting { run, .. } => {
                self.exceeded = exceeded;
                self.phase = Phase::Replacing { run, cause: Cause::OverLimit, until };
                vec![self.replace(true), Effect::EndCalls]
            }
            phase @ (Phase::Idle | Phase::Snapshot { .. }) => {
                self.note(format!("the interpreter was ended between runs: {exceeded}"));
                self.forget();
                self.phase = Phase::AwaitingWorker { until };
                // It is not restored from the frozen copy, which is just as large.
                let effects = [self.replace(false), Effect::EndCalls];
                effects.into_iter().chain(Self::no_snapshot(&phase, &exceeded)).collect()
            }
            Phase::StoringFiles { report, is_worker_gone, until } => {
                self.note(format!("the interpreter was ended after the run: {exceeded}"));
                self.forget();
                self.phase = Phase::StoringFiles { report, is_worker_gone, until };
                vec![self.replace(false), Effect::EndCalls]
            }
            // Everything in the sandbox is being ended already, or does not exist yet.
            other => {
                self.phase = other;
                return vec![];
            }
        };
        // Jobs are ended too, since one of them may have caused the excess.
        if self.has_jobs {
            effects.insert(0, Effect::EndJobs { why });
        }
        effects
    }

    /// Notes that a line from the sandbox was dropped.
    pub(super) fn dropped(&mut self, dropped: &DroppedLine) {
        self.note(format!("the sandbox sent {dropped}; it was dropped"));
    }

    fn begin(&mut self, mut run: Box<Run>, now: Instant) -> Vec<Effect> {
        run.fresh = self.fresh.take();
        if run.request.reset == Reset::Fresh && run.fresh.is_some_and(|reason| reason != FreshReason::First) {
            run.fresh = Some(FreshReason::Reset);
        }
        let code = std::mem::take(&mut run.request.code);
        let effect = Effect::SendRun { run: run.id, worker: self.worker, code };
        let until = now + run.request.timeout;
        self.waits_since = None;
        self.phase = Phase::Running { run, until };
        vec![effect]
    }

    fn replace(&self, restore: bool) -> Effect {
        Effect::Send(ToSupervisor::Replace { worker: self.worker, restore, checkpoint: None })
    }

    fn idle(&mut self, now: Instant) {
        self.phase = Phase::Idle;
        self.idle_until = self.idle_stop.map(|after| now + after);
    }

    /// Marks the variables as lost, unless there were none.
    fn forget(&mut self) {
        self.fresh = Some(self.fresh.unwrap_or(FreshReason::Lost));
    }
}

#[cfg(test)]
#[path = "machine_tests.rs"]
mod tests;
