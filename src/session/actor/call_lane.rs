//! The calls of a run or of a job: each is accepted within bounds, answered by a task of its own, and can be given up.
//!
//! It does not decide whether a call is allowed. `broker` does.

use std::collections::HashMap;
use std::sync::Arc;

use belljar_base::names::{CallId, RunId};
use belljar_base::run::{FaultCode, ToolFault};
use belljar_protocol::CallFrame;
use tokio::sync::Semaphore;
use tokio::task::JoinError;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::super::machine::Effect;
use super::Actor;
use super::argument_room::{ArgumentRoom, HeldArguments};
use super::call_result::{answer_within, result_line};
use crate::broker::{Answer, Call, CallHandles, CallRecord, RunContext, SendRule};
use crate::session::sandbox::writer::{ResultLine, queue};

/// The calls of a run or of a job.
pub(super) struct CallLane {
    pub(super) context: Arc<RunContext>,
    in_flight: HashMap<CallId, (CancellationToken, Arc<CallRecord>)>,
    pub(super) bounds: LaneBounds,
    /// Whether the job is being ended, so that it may make no more calls.
    pub(super) is_ending: bool,
}

/// The bounds on the calls in progress of one run or job.
pub(super) struct LaneBounds {
    pub(super) calls_max: usize,
    pub(super) arguments: ArgumentRoom,
    pub(super) line_bytes_max: usize,
    /// The bytes that may be sent to a job before it has taken earlier ones; `None` for a run.
    pub(super) unread: Option<Arc<Semaphore>>,
}

/// Identifies a call that has ended.
pub(super) struct CallEnded {
    run: RunId,
    job: Option<u64>,
    call: CallId,
}

impl CallLane {
    pub(super) fn new(context: Arc<RunContext>, bounds: LaneBounds) -> Self {
        Self { context, in_flight: HashMap::new(), bounds, is_ending: false }
    }

    /// Cancels a call that the code has given up.
    pub(super) fn cancel(&mut self, call: CallId) {
        if let Some((cancel, record)) = self.in_flight.remove(&call) {
            cancel.cancel();
            record.give_up();
        }
    }

    /// Cancels all calls, including those that come later.
    pub(super) fn cancel_all(&mut self) {
        self.context.cancel.cancel();
        for (_, (_, record)) in self.in_flight.drain() {
            record.give_up();
        }
    }

    /// Checks the bounds for one more call, and takes memory for its arguments.
    fn hold(&self, frame: &CallFrame) -> Result<Option<HeldArguments>, ToolFault> {
        let is_full = self.in_flight.len() >= self.bounds.calls_max;
        let busy = |why: &str| Err(ToolFault::new(FaultCode::Busy, why));
        match self.context.job_number() {
            Some(_) if self.is_ending || is_full || self.in_flight.contains_key(&frame.call) => {
                busy("the job is being ended, or has too many calls under way")
            }
            None if is_full || self.in_flight.contains_key(&frame.call) => {
                busy("too many calls are under way, or two with one number")
            }
            _ => self.bounds.arguments.hold(frame),
        }
    }
}

impl Actor {
    /// Starts the task that answers a call and queues the answer.
    pub(super) fn start_call(&mut self, job: Option<u64>, frame: CallFrame, deadline: Instant) {
        let lane = match job {
            None => self.current.as_mut().map(|current| &mut current.lane),
            Some(job) => self.jobs.get_mut(&job).map(|of_job| &mut of_job.lane),
        };
        let (Some(sandbox), Some(lane)) = (&self.sandbox, lane) else { return };
        let (call, held) = (frame.call, lane.hold(&frame));
        let record = CallRecord::begin(&lane.context, frame.server.as_deref(), &frame.tool);
        let held = match held {
            Ok(held) => held,
            Err(fault) => {
                record.give_up();
                return self.answer(job, call, Err(fault));
            }
        };
        record.start();
        if let Some(job) = job.filter(|_| frame.server.is_some()) {
            self.broker.jobs().count_call(job);
        }
        let cancel = lane.context.cancel.child_token();
        lane.in_flight.insert(call, (cancel.clone(), Arc::clone(&record)));
        let lines = if job.is_some() { sandbox.data_of_jobs() } else { sandbox.data() };
        let (line_bytes_max, unread) = (lane.bounds.line_bytes_max, lane.bounds.unread.clone());
        let broker = Arc::clone(&self.broker);
        self.calls.spawn(async move {
            let CallFrame { server, tool, arguments, dry_run, placeholders, handle, handles, .. } = frame;
            let called = server.clone().filter(|_| !handle).map(|server| (server, tool.clone()));
            let send_rule = SendRule::of(record.run.mode, dry_run, placeholders);
            let handles = CallHandles { arguments: handles, result: handle };
            let call_of_broker =
                Call { record: &record, server, tool, arguments, send_rule, handles, deadline };
            let answer = answer_within(held, &broker, call_of_broker, &cancel).await;
            record.end(&answer);
            let wraps = called.is_some_and(|(server, tool)| broker.wraps_result(&server, &tool));
            let line = result_line((job, call, wraps), answer, line_bytes_max);
            // The result is dropped if the call was cancelled or its run has ended.
            queue(line, cancel, unread, lines).await;
            CallEnded { run: record.run.id, job, call }
        });
    }

    pub(super) fn call_ended(&mut self, ended: Result<CallEnded, JoinError>) -> Vec<Effect> {
        match ended {
            Ok(CallEnded { run, job: None, call }) => {
                if let Some(current) = self.current.as_mut().filter(|current| current.lane.context.id == run)
                {
                    current.lane.in_flight.remove(&call);
                }
            }
            Ok(CallEnded { job: Some(job), call, .. }) => {
                if let Some(of_job) = self.jobs.get_mut(&job) {
                    of_job.lane.in_flight.remove(&call);
                }
            }
            Err(error) => tracing::error!(%error, "a call's task broke"),
        }
        vec![]
    }

    /// Answers a call at once. The answer is dropped if too much is queued, which happens only to code that exceeds its
    /// number of calls. A run may have as many of these answers queued as it may have calls in progress. An answer to a
    /// job is dropped unless there is space for it now.
    pub(super) fn answer(&mut self, job: Option<u64>, call: CallId, answer: Result<Answer, ToolFault>) {
        let Some(sandbox) = &self.sandbox else { return };
        // The token is a new one, so that this answer is not cancelled with the calls of a job that is being ended.
        let cancel = CancellationToken::new();
        if let Some(job) = job {
            let Some(of_job) = self.jobs.get(&job) else { return };
            let LaneBounds { line_bytes_max, unread, .. } = &of_job.lane.bounds;
            let line = result_line((Some(job), call, false), answer, *line_bytes_max);
            let bytes = u32::try_from(line.len()).unwrap_or(u32::MAX);
            let room = unread.clone().and_then(|unread| unread.try_acquire_many_owned(bytes).ok());
            if room.is_some() {
                drop(sandbox.data_of_jobs().try_send(ResultLine { line, cancel, room }));
            }
            return;
        }
        while self.answers.try_join_next().is_some() {}
        if self.answers.len() >= self.limits.calls_in_flight_max {
            tracing::debug!("an answer was left out");
            return;
        }
        let line = result_line((None, call, false), answer, self.limits.frame_to_sandbox_bytes_max);
        self.answers.spawn(queue(line, cancel, None, sandbox.data()));
    }
}
