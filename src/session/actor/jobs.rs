//! Runs and ends jobs. Their calls are answered beside those of the current run, with the servers and budgets of the
//! run that started them.

use std::sync::Arc;

use belljar_base::run::{PythonError, ServerScope};
use belljar_protocol::{DoneOutcome, FromJob, JobDone, ToSupervisor};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::super::ending::bounded;
use super::super::machine::Effect;
use super::Actor;
use super::argument_room::ArgumentRoom;
use super::call_lane::{CallLane, LaneBounds};
use crate::jobs::Status;

/// The process of a job, with its calls and its deadline.
pub(super) struct JobProcess {
    pub(super) lane: CallLane,
    /// The bytes that may be sent to the job before it has taken earlier ones.
    unread: Arc<Semaphore>,
    taken: u64,
    /// The deadline of the job. After an interrupt, it is the time at which the job is killed.
    until: Instant,
}

impl Actor {
    /// Registers a job that a worker has started. Its number was reserved in the current run.
    pub(super) fn job_started(&mut self, job: u64) -> Vec<Effect> {
        let current = self.current.as_ref();
        let begun = current.and_then(|current| self.broker.jobs().begin(job, current.lane.context.id.0));
        let (Some(current), Some((summary, time))) = (current, begun) else {
            tracing::warn!(job, "a job that nobody has asked for is ended");
            self.send_end(job, true);
            return vec![];
        };
        self.broker.journal_job(&summary);
        // The servers are fixed by name, so that the job cannot reach servers that are configured later.
        let servers = ServerScope::Only(self.broker.server_names(&current.lane.context.servers));
        let arguments_max = self.limits.arguments_in_flight_per_job_bytes_max;
        let unread = Arc::new(Semaphore::new(self.limits.unread_in_job_bytes_max));
        let bounds = LaneBounds {
            calls_max: self.limits.calls_in_flight_per_job_max,
            arguments: ArgumentRoom::new(arguments_max, &self.limits),
            line_bytes_max: self.limits.frame_to_job_bytes_max,
            unread: Some(Arc::clone(&unread)),
        };
        let lane = CallLane::new(Arc::new(current.lane.context.job(job, servers)), bounds);
        let process = JobProcess { lane, unread, taken: 0, until: Instant::now() + time };
        self.jobs.insert(job, process);
        self.machine.has_jobs(true, Instant::now());
        vec![]
    }

    pub(super) fn frame_of_job(&mut self, job: u64, frame: FromJob) -> Vec<Effect> {
        match frame {
            FromJob::Call(call) => {
                if let Some(until) = self.jobs.get(&job).map(|process| process.until) {
                    self.start_call(Some(job), call, until);
                }
            }
            FromJob::Cancel { call } => {
                if let Some(process) = self.jobs.get_mut(&job) {
                    process.lane.cancel(call);
                }
            }
            FromJob::Done(done) if self.jobs.contains_key(&job) => {
                let JobDone { outcome, result } = *done;
                let jobs = self.broker.jobs();
                match outcome {
                    DoneOutcome::Finished => jobs.finish(job, result),
                    DoneOutcome::Raised { error } => {
                        jobs.fail(job, Some(bounded(error.clone())), &said(&error))
                    }
                    DoneOutcome::Exited { exit_code } => {
                        jobs.fail(job, None, &format!("exit status {exit_code}"))
                    }
                    DoneOutcome::Interrupted { error } => {
                        jobs.fail(job, error.map(bounded), "KeyboardInterrupt")
                    }
                }
                // The process of the job waits to be killed, with its child processes.
                self.send_end(job, true);
                self.job_is_over(job);
            }
            FromJob::Done(_) => {}
        }
        vec![]
    }

    /// Ends a job whose process has ended by itself or by a signal.
    pub(super) fn job_ended(
        &mut self,
        job: u64,
        (exit_code, signal): (Option<i64>, Option<i64>),
        oom: bool,
    ) -> Vec<Effect> {
        let why = match (signal, exit_code) {
            (Some(_), _) if oom => "out of memory".to_owned(),
            (Some(signal), _) => format!("its process was ended by signal {signal}"),
            (None, code) => format!("its process ended by itself, exit status {}", code.unwrap_or(-1)),
        };
        self.broker.jobs().fail(job, None, &why);
        self.job_is_over(job);
        vec![]
    }

    pub(super) fn job_has_taken(&mut self, job: u64, bytes: u64) {
        if let Some(process) = self.jobs.get_mut(&job) {
            let more = bytes.saturating_sub(process.taken);
            process.taken += more;
            let held = self.limits.unread_in_job_bytes_max.saturating_sub(process.unread.available_permits());
            process.unread.add_permits(usize::try_from(more).unwrap_or(held).min(held));
        }
    }

    pub(super) fn jobs_deadline(&self) -> Option<Instant> {
        self.jobs.values().map(|process| process.until).min()
    }

    pub(super) fn tick_jobs(&mut self) -> Vec<Effect> {
        let now = Instant::now();
        let due: Vec<u64> =
            self.jobs.iter().filter(|(_, process)| process.until <= now).map(|(job, _)| *job).collect();
        for job in due {
            self.broker.jobs().ends(job, Status::TimedOut, "");
            self.end_job(job);
        }
        vec![]
    }

    pub(super) fn cancel_jobs(&mut self, numbers: &[u64]) -> Vec<Effect> {
        for job in numbers {
            self.broker.jobs().ends(*job, Status::Cancelled, "");
            if self.jobs.get(job).is_some_and(|process| !process.lane.is_ending) {
                self.end_job(*job);
            }
        }
        vec![]
    }

    /// Kills all jobs at once, without waiting for them.
    pub(super) fn end_jobs(&mut self, why: &str) {
        for job in self.jobs.keys().copied().collect::<Vec<_>>() {
            self.send_end(job, true);
            self.broker.jobs().ends(job, Status::Cancelled, why);
            self.broker.jobs().fail(job, None, "");
            self.job_is_over(job);
        }
    }

    /// Ends all jobs because their sandbox is gone, or is about to be.
    pub(super) fn lose_jobs(&mut self, why: &str) {
        for job in self.jobs.keys().copied().collect::<Vec<_>>() {
            self.broker.jobs().lose(job, why);
            self.job_is_over(job);
        }
    }

    /// Interrupts a job, or kills it if it was interrupted before.
    fn end_job(&mut self, job: u64) {
        let (grace, replace) = (self.limits.grace, self.limits.replace);
        let Some(process) = self.jobs.get_mut(&job) else { return };
        let kills = std::mem::replace(&mut process.lane.is_ending, true);
        process.until = Instant::now() + if kills { replace } else { grace };
        process.lane.context.cancel.cancel();
        self.send_end(job, kills);
    }

    fn send_end(&self, job: u64, kill: bool) {
        if let Some(sandbox) = &self.sandbox {
            sandbox.send(&ToSupervisor::EndJob { job, kill });
        }
    }

    fn job_is_over(&mut self, job: u64) {
        let Some(mut process) = self.jobs.remove(&job) else { return };
        process.lane.cancel_all();
        self.broker.jobs().add_notes(job, self.broker.finish(&process.lane.context).notes);
        if let Ok(summary) = self.broker.jobs().summary(job) {
            self.broker.journal_job_end(&summary);
        }
        self.machine.has_jobs(!self.jobs.is_empty(), Instant::now());
        if self.current.is_none()
            && self.jobs.is_empty()
            && let Some(watchdog) = &self.watchdog
        {
            watchdog.set_running(false);
        }
    }
}

/// The class and the message of an error, on one line.
fn said(error: &PythonError) -> String {
    format!("{}: {}", error.class, error.message)
}
