//! How the machine handles a frame of the sandbox, in which nothing is trusted.

use std::collections::BTreeMap;

use belljar_base::run::{FaultCode, FreshReason, PythonError, RunOutcome, SandboxLoss, StateNote, ToolFault};
use belljar_base::text;
use belljar_protocol::{
    CallFrame, DeniedCall, DoneFrame, FromSandbox, FromSupervisor, FromWorker, system_call_name,
};
use tokio::time::Instant;

use super::reports::describe;
use super::{AfterRollback, Effect, GONE_BACK, Machine};
use crate::session::ending::RunEnding;
use crate::session::phase::{Cause, Phase};

/// Longest name of a process in a report, in characters: the kernel stores no more.
const PROCESS_CHARS_MAX: usize = 16;

/// A sentence for each process with refused system calls, and one with the number of calls that are not listed.
fn denied_notes(machine: &str, calls: &[DeniedCall], further: u64) -> Vec<String> {
    let mut by_process: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for DeniedCall { number, process, count } in calls {
        let name =
            system_call_name(machine, *number).map_or_else(|| format!("number {number}"), str::to_owned);
        by_process.entry(process).or_default().push(format!("{name} ({count})"));
    }
    let mut notes: Vec<String> = by_process
        .into_iter()
        .map(|(process, calls)| {
            let process = text::inert_excerpt(process, PROCESS_CHARS_MAX);
            format!("refused system calls of {process}: {}", calls.join(", "))
        })
        .collect();
    if notes.is_empty() {
        notes.push("no system call was refused".into());
    }
    if further > 0 {
        notes.push(format!("{further} further system calls were refused"));
    }
    notes
}

impl Machine {
    /// Handles a frame from the sandbox.
    pub(crate) fn frame(&mut self, frame: FromSandbox, now: Instant) -> Vec<Effect> {
        match frame {
            FromSandbox::Supervisor(FromSupervisor::Output { stream, text, base64 }) => {
                let bytes = FromSupervisor::output_bytes(text, base64);
                match self.phase.current() {
                    Some(run) => run.output.push(stream, &bytes),
                    None => self.stray_bytes += bytes.len() as u64,
                }
                vec![]
            }
            FromSandbox::Supervisor(FromSupervisor::WorkerExited { exit_code, signal, oom, .. }) => {
                self.worker_exited(exit_code, signal, oom, now)
            }
            FromSandbox::Supervisor(FromSupervisor::WorkerStarted {
                worker, restored, checkpoint, ..
            }) => self.worker_started(worker, restored, checkpoint.as_deref(), now),
            FromSandbox::Supervisor(FromSupervisor::Checkpoint { name, line, bytes }) => {
                self.checkpoint_made(&name, line, bytes);
                vec![]
            }
            FromSandbox::Supervisor(FromSupervisor::CheckpointGone { name }) => {
                self.checkpoint_gone(&name, now)
            }
            FromSandbox::Supervisor(FromSupervisor::SnapshotDone { failed }) => {
                self.snapshot_done(failed, now)
            }
            FromSandbox::Supervisor(FromSupervisor::Fault { message, .. }) => {
                self.note(message);
                vec![]
            }
            FromSandbox::Supervisor(FromSupervisor::Denied { machine, calls, further }) => {
                self.denied = denied_notes(&machine, &calls, further);
                vec![]
            }
            FromSandbox::Supervisor(
                FromSupervisor::Pong { .. }
                | FromSupervisor::Hello { .. }
                | FromSupervisor::Code(_)
                | FromSupervisor::Taken { .. },
            ) => vec![],
            FromSandbox::Supervisor(
                FromSupervisor::File(_) | FromSupervisor::FileGone { .. } | FromSupervisor::Kept { .. },
            ) => {
                self.note("the sandbox reported files without being asked; the report was ignored".into());
                vec![]
            }
            // The actor handles these frames.
            FromSandbox::Job(..)
            | FromSandbox::Supervisor(
                FromSupervisor::JobStarted { .. }
                | FromSupervisor::JobOutput { .. }
                | FromSupervisor::JobTaken { .. }
                | FromSupervisor::JobEnded { .. },
            ) => vec![],
            FromSandbox::Worker(FromWorker::Call(call)) => self.call(call),
            FromSandbox::Worker(FromWorker::Cancel { call, .. }) => vec![Effect::CancelCall(call)],
            FromSandbox::Worker(FromWorker::Done(done)) => self.done(*done, now),
        }
    }

    fn call(&mut self, call: CallFrame) -> Vec<Effect> {
        let Phase::Running { run, until } = &mut self.phase else {
            let fault =
                ToolFault::new(FaultCode::NotRunning, "no run is under way, so no tool can be called");
            return vec![Effect::Refuse { call: call.call, fault }];
        };
        if call.run != run.id {
            let message = "the run that this call belongs to has ended";
            let fault = ToolFault::new(FaultCode::NotRunning, message)
                .hint("await or join what calls tools before the code ends");
            return vec![Effect::Refuse { call: call.call, fault }];
        }
        let deadline = *until;
        self.asked_of_checkpoints(&call).unwrap_or_else(|| vec![Effect::StartCall { deadline, call }])
    }

    fn done(&mut self, done: DoneFrame, now: Instant) -> Vec<Effect> {
        if self.phase.current().is_none_or(|run| run.id != done.run) {
            self.note("the sandbox reported the end of a run that was not under way; it was ignored".into());
            return vec![];
        }
        let (run, cause) = match std::mem::replace(&mut self.phase, Phase::Absent) {
            Phase::Running { run, .. } => (run, None),
            Phase::Interrupting { run, cause, .. } => (run, Some(cause)),
            // The run's worker is being killed, so its report cannot count.
            other => {
                self.phase = other;
                return vec![];
            }
        };
        self.idle(now);
        self.last_done = run.id.0;
        let is_kept = self.is_kept_now(&run, done.files_changed);
        // A run that was interrupted meanwhile does not go back to a checkpoint.
        let goes_back_to = done.restore.clone().filter(|_| cause.is_none());
        let RunEnding { outcome, value, bound, images, saved, mut notes, sandbox_notes } =
            RunEnding::of(done, &self.limits);
        if let (Some(Cause::TimedOut), RunOutcome::Raised(PythonError { line: Some(line), .. })) =
            (cause, &outcome)
        {
            notes.push(&format!("it was interrupted at line {line} of the code"));
        }
        let outcome = match (cause, outcome) {
            (Some(cause), _) => self.ended_by(cause),
            (None, RunOutcome::Exited { .. }) if goes_back_to.is_some() => RunOutcome::Finished,
            (None, outcome) => outcome,
        };
        let state = run.fresh.map_or(StateNote::Kept, StateNote::Fresh);
        let mut report = self.report(*run, outcome, state);
        report.notes.extend(notes.into_vec());
        report.sandbox_notes = sandbox_notes.into_vec();
        (report.value, report.bound, report.images) = (value, bound, images);
        report.saved = saved;
        let mut report = Box::new(report);
        if let Some(name) = goes_back_to {
            if self.checkpoints.sleeps(&name) {
                return self.go_back(name, AfterRollback::Report(report, is_kept), now);
            }
            report.goes_back_to = Some(name);
        }
        if !is_kept {
            return vec![Effect::EndCalls, Effect::Finish(report)];
        }
        let mut effects = self.keep(Some(report), now);
        effects.insert(0, Effect::EndCalls);
        effects
    }

    fn worker_exited(
        &mut self,
        exit_code: Option<i64>,
        signal: Option<i64>,
        oom: bool,
        now: Instant,
    ) -> Vec<Effect> {
        let until = now + self.limits.replace;
        let loss = RunOutcome::SandboxLost(match (signal, exit_code) {
            (Some(signal), _) => SandboxLoss::Killed { signal, out_of_memory: oom },
            (None, exit_code) => SandboxLoss::Exited { exit_code: exit_code.unwrap_or(-1) },
        });
        match std::mem::replace(&mut self.phase, Phase::Absent) {
            Phase::Running { run, .. } => {
                self.phase = Phase::Recovering { run, outcome: loss, until };
                vec![Effect::EndCalls]
            }
            Phase::Interrupting { run, cause, .. } | Phase::Replacing { run, cause, .. } => {
                let outcome = self.ended_by(cause);
                self.phase = Phase::Recovering { run, outcome, until };
                vec![Effect::EndCalls]
            }
            phase @ (Phase::Idle | Phase::Snapshot { .. }) => {
                self.note(format!("the interpreter ended between runs ({})", describe(&loss)));
                self.forget();
                self.phase = Phase::AwaitingWorker { until };
                Self::no_snapshot(&phase, "the interpreter ended").into_iter().collect()
            }
            Phase::RollingBack { rollback, until } => {
                self.left(rollback, until);
                vec![]
            }
            Phase::StoringFiles { report, until, .. } => {
                self.note(format!("the interpreter ended after the run ({})", describe(&loss)));
                self.forget();
                self.phase = Phase::StoringFiles { report, is_worker_gone: true, until };
                vec![]
            }
            other => {
                self.phase = other;
                vec![]
            }
        }
    }

    fn worker_started(
        &mut self,
        worker: u64,
        restored: Option<u64>,
        checkpoint: Option<&str>,
        now: Instant,
    ) -> Vec<Effect> {
        self.worker = worker;
        let state = match restored {
            None if checkpoint.is_some() => StateNote::Restored,
            None => StateNote::Lost,
            Some(run) if run < self.last_done => StateNote::RolledBackFurther,
            Some(_) => StateNote::RolledBack,
        };
        if restored.is_none() {
            self.last_done = 0;
        }
        let is_used = restored.is_some() || checkpoint.is_some();
        match std::mem::replace(&mut self.phase, Phase::Absent) {
            // The worker died by itself before the request to replace it arrived.
            Phase::Resetting { run, until } if is_used => {
                self.phase = Phase::Resetting { run, until };
                vec![self.replace(false)]
            }
            Phase::Resetting { run, .. } => self.begin(run, now),
            Phase::Recovering { run, outcome, .. } => {
                self.idle(now);
                self.fresh = (state == StateNote::Lost).then_some(FreshReason::Lost);
                // It was killed after it had come to its end and had been copied.
                let state = if restored == Some(run.id.0) { StateNote::Kept } else { state };
                let is_kept = self.is_kept_now(&run, true);
                let report = self.report(*run, outcome, state);
                if !is_kept {
                    return vec![Effect::Finish(Box::new(report))];
                }
                self.keep(Some(Box::new(report)), now)
            }
            Phase::RollingBack { rollback, .. } => self.arrived(*rollback, checkpoint, state, now),
            Phase::AwaitingWorker { .. } => {
                self.idle(now);
                self.note_restored(is_used, state);
                vec![]
            }
            Phase::StoringFiles { report, until, .. } => {
                self.note_restored(is_used, state);
                self.phase = Phase::StoringFiles { report, is_worker_gone: false, until };
                vec![]
            }
            other => {
                self.phase = other;
                vec![]
            }
        }
    }

    /// Notes that a worker has come between runs, and which variables it has.
    fn note_restored(&mut self, is_used: bool, state: StateNote) {
        if is_used {
            self.fresh = None;
            self.note(match state {
                StateNote::Restored => "variables are as at the checkpoint that was asked for".into(),
                StateNote::RolledBack => "variables are as the last run left them".into(),
                _ => GONE_BACK.into(),
            });
        }
    }
}
