//! The task that owns the session: it feeds the machine with events and carries out its effects.

pub(super) mod argument_room;
pub(super) mod busy_poll;
mod call_lane;
mod call_result;
mod effects;
mod events;
mod jobs;

use std::collections::BTreeMap;
use std::sync::Arc;

use belljar_base::limits::Limits;
use belljar_base::run::{FaultCode, OutputPiece, ToolFault};
use belljar_base::text;
use belljar_engine::EngineError;
use belljar_protocol::{FromSandbox, FromSupervisor, ToSupervisor};
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use self::argument_room::ArgumentRoom;
use self::busy_poll::{BusyPoll, WaitKind};
use self::call_lane::{CallEnded, CallLane, LaneBounds};
use self::events::{answered, cancelled, exceeded, joined, next_frame, sleep_until, to_cancel, waiting};
use self::jobs::JobProcess;
use super::checkpoints::Checkpoints;
use super::files::Files;
use super::machine::{Effect, Machine};
use super::request::{FinishedRun, RunSubmission, SessionRequest, SnapshotEnd};
use super::run_queue::RunQueue;
use super::sandbox::usage_watchdog::Watchdog;
use super::sandbox::{Sandbox, SandboxStarter, SettingsSource};
use crate::broker::{Broker, ExecutionMode, Human, HumanWaits, RunSpec};

/// Code that makes the actor panic, for tests of the recovery.
#[cfg(test)]
pub(crate) const BREAKS: &str = "a defect of belljar's";

/// The run that the machine has taken.
struct Current {
    lane: CallLane,
    /// The client's cancellation.
    cancel: CancellationToken,
    output: Option<mpsc::Sender<OutputPiece>>,
    reply: oneshot::Sender<FinishedRun>,
}

/// Longest piece of live output that is passed on, in characters.
const PASSED_ON_CHARS_MAX: usize = 4_000;

pub(super) struct Actor {
    machine: Machine,
    broker: Arc<Broker>,
    limits: Arc<Limits>,
    /// Starts sandboxes; `None` while it is starting one.
    starter: Option<SandboxStarter>,
    starting: Option<JoinHandle<(SandboxStarter, Result<Sandbox, ToolFault>)>>,
    sandbox: Option<Sandbox>,
    /// Watches that sandbox, if its engine does not enforce every limit.
    watchdog: Option<Watchdog>,
    closings: JoinSet<Result<(), EngineError>>,
    /// Whether a container may be left over. If so, this bridge keeps the lock that marks it as the container's owner.
    container_stays: bool,
    calls: JoinSet<CallEnded>,
    /// Answers to calls that were not dispatched, until there is space in the queue to the sandbox.
    answers: JoinSet<()>,
    /// Bounds the arguments of calls, for all runs together: calls of an earlier run may still be ending.
    arguments: ArgumentRoom,
    current: Option<Current>,
    /// The waits of the current run for the human.
    waiting: Option<watch::Receiver<HumanWaits>>,
    /// The address of the engine whose notices a reply has given.
    notices_given: Option<String>,
    /// Whether a reply has given the notice about a rootful engine, or need not give it.
    rootful_given: bool,
    files: Files,
    /// Receives the end of a snapshot that was requested.
    snapshot: Option<oneshot::Sender<SnapshotEnd>>,
    /// The reported files that the workspace is storing.
    pending_files: Option<PendingFiles>,
    checkpoints: Arc<Checkpoints>,
    /// The jobs that have a process, by number.
    jobs: BTreeMap<u64, JobProcess>,
    pings: u64,
}

/// The files that the sandbox reported last, while the workspace stores them.
struct PendingFiles {
    kept: oneshot::Receiver<Option<String>>,
    left_out: Vec<String>,
    left_out_total: u64,
}

impl Actor {
    /// The actor of a new session; it starts no sandbox.
    pub(super) fn new(
        settings_source: SettingsSource,
        files: Files,
        broker: Arc<Broker>,
        limits: Arc<Limits>,
        checkpoints: Arc<Checkpoints>,
    ) -> Self {
        Self {
            arguments: ArgumentRoom::new(limits.arguments_in_flight_bytes_max, &limits),
            machine: Machine::new(Arc::clone(&limits), Arc::clone(&checkpoints)),
            checkpoints,
            broker,
            starter: Some(SandboxStarter::new(settings_source, Arc::clone(&limits), Some(files.clone()))),
            limits,
            starting: None,
            sandbox: None,
            watchdog: None,
            closings: JoinSet::new(),
            container_stays: false,
            calls: JoinSet::new(),
            answers: JoinSet::new(),
            current: None,
            waiting: None,
            notices_given: None,
            rootful_given: false,
            files,
            snapshot: None,
            pending_files: None,
            jobs: BTreeMap::new(),
            pings: 0,
        }
    }

    /// Adds a note to the next report.
    pub(super) fn note(&mut self, said: &str) {
        self.machine.note(said.to_owned());
    }

    /// Works until the session is to be closed.
    pub(super) async fn live(
        &mut self,
        queue: &mut RunQueue<SessionRequest>,
        closing: &CancellationToken,
        prewarm: &Notify,
    ) {
        let mut heartbeat = tokio::time::interval(self.limits.heartbeat_pause);
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut poll = BusyPoll::start();
        loop {
            let is_free = self.machine.takes_runs() && self.current.is_none();
            let (deadline, jobs_deadline) = (self.machine.deadline(), self.jobs_deadline());
            // Frames come last, so that a flood of them cannot hold up deadlines, cancellations or new runs.
            let effects = tokio::select! {
                biased;
                () = closing.cancelled() => break,
                () = cancelled(self.current.as_ref()) => self.cancel_current(),
                () = prewarm.notified() => self.machine.prewarm(),
                is_waiting = waiting(self.waiting.as_mut()) => self.machine.waits(is_waiting, Instant::now()),
                () = sleep_until(deadline) => self.machine.tick(Instant::now()),
                _ = heartbeat.tick() => { self.beat(); vec![] }
                Some(ended) = self.calls.join_next() => self.call_ended(ended),
                Some(closed) = self.closings.join_next() => { self.closed(closed); vec![] }
                exceeded = exceeded(self.watchdog.as_mut()) => self.machine.over_limit(exceeded, Instant::now()),
                started = joined(self.starting.as_mut()) => self.started(started),
                numbers = to_cancel(&self.broker) => self.cancel_jobs(&numbers),
                () = sleep_until(jobs_deadline) => self.tick_jobs(),
                ask = queue.next(is_free) => match ask {
                    SessionRequest::Run(submission, reply) => self.begin_run(submission, reply),
                    SessionRequest::Snapshot(snapshot, reply) => {
                        self.snapshot = Some(reply);
                        self.machine.ask_snapshot(snapshot, Instant::now())
                    }
                    SessionRequest::IsLost(reply) => {
                        // Nobody waits if the request was cancelled.
                        let _ = reply.send(self.machine.is_lost());
                        vec![]
                    }
                },
                failed = answered(self.pending_files.as_mut()) => self.kept(failed),
                frame = next_frame(self.sandbox.as_mut()) => self.frame(frame).await,
            };
            self.carry_out(effects);
            poll.waits_for(if self.current.is_some() { WaitKind::Answer } else { WaitKind::Run });
        }
    }

    fn begin_run(&mut self, submission: RunSubmission, reply: oneshot::Sender<FinishedRun>) -> Vec<Effect> {
        let RunSubmission { request, cancel, progress, output, questions, abilities, client, origin } =
            submission;
        // Nobody wants the run any more; dropping `reply` tells the caller that.
        if cancel.is_cancelled() {
            return vec![];
        }
        #[cfg(test)]
        assert_ne!(request.code, BREAKS, "the defect that a test asks for");
        let (context, said) = self.broker.begin(RunSpec {
            id: self.machine.next_run(),
            origin,
            servers: request.servers.clone(),
            mode: if request.dry_run { ExecutionMode::DryRun } else { ExecutionMode::Execute },
            human: Human::new(questions, abilities),
            progress,
        });
        if let Some(said) = said {
            self.machine.note(said);
        }
        let servers = self.broker.server_names(&context.servers);
        // The run is written to the journal before anything of it is sent.
        self.broker.journal_run(&context, &request, &client);
        let effects = self.machine.ask(request, servers, context.began);
        self.waiting = Some(context.human.waits());
        let bounds = LaneBounds {
            calls_max: self.limits.calls_in_flight_max,
            arguments: self.arguments.clone(),
            line_bytes_max: self.limits.frame_to_sandbox_bytes_max,
            unread: None,
        };
        self.current = Some(Current { lane: CallLane::new(context, bounds), cancel, output, reply });
        effects
    }

    fn cancel_current(&mut self) -> Vec<Effect> {
        let Some(current) = &mut self.current else { return vec![] };
        // The cancellation is noticed only once: from here on the machine ends the run.
        current.cancel = CancellationToken::new();
        let id = current.lane.context.id;
        self.machine.cancel(id, Instant::now())
    }

    fn started(
        &mut self,
        started: Result<(SandboxStarter, Result<Sandbox, ToolFault>), tokio::task::JoinError>,
    ) -> Vec<Effect> {
        self.starting = None;
        match started {
            Ok((starter, Ok(mut sandbox))) => {
                self.starter = Some(starter);
                let address = &sandbox.report.address;
                let mut notices = match self.notices_given.replace(address.clone()) {
                    Some(before) if before == *address => vec![],
                    _ => sandbox.report.notices.clone(),
                };
                if !sandbox.report.allowed.is_empty() {
                    let allowed = sandbox.report.allowed.join("; ");
                    notices
                        .push(format!("weaker than asked for, allowed by MCP_BRIDGE_ALLOW_WEAK: {allowed}"));
                }
                if !sandbox.report.extra_system_calls.is_empty() {
                    let calls: Vec<String> =
                        sandbox.report.extra_system_calls.iter().map(ToString::to_string).collect();
                    notices.push(format!(
                        "system calls allowed by sandbox.extra_syscalls: {}",
                        calls.join(", ")
                    ));
                }
                notices.append(&mut sandbox.report.left_out);
                notices.extend(sandbox.files.said());
                let (worker, report) = (sandbox.worker, &sandbox.report);
                self.broker.journal_sandbox(&report.address, &report.image, &report.python);
                self.watchdog = sandbox.watchdog.take();
                self.machine.stop_idle_after(sandbox.idle_stop);
                self.sandbox = Some(sandbox);
                self.machine.sandbox_up(worker, notices, Instant::now())
            }
            Ok((starter, Err(fault))) => {
                self.starter = Some(starter);
                self.machine.sandbox_failed(fault)
            }
            Err(error) => {
                tracing::error!(%error, "starting a sandbox broke");
                self.machine.sandbox_failed(ToolFault::new(FaultCode::Internal, "starting the sandbox broke"))
            }
        }
    }

    async fn frame(
        &mut self,
        frame: Option<Result<FromSandbox, belljar_protocol::DroppedLine>>,
    ) -> Vec<Effect> {
        match frame {
            Some(Ok(FromSandbox::Supervisor(FromSupervisor::File(piece)))) if self.machine.keeps(None) => {
                self.files.piece(piece).await;
                vec![]
            }
            Some(Ok(FromSandbox::Supervisor(FromSupervisor::FileGone { path })))
                if self.machine.keeps(None) =>
            {
                self.files.gone(path).await;
                vec![]
            }
            Some(Ok(FromSandbox::Supervisor(FromSupervisor::Kept { seq, left_out, left_out_total })))
                if self.machine.keeps(Some(seq)) =>
            {
                let kept = self.files.kept().await;
                self.pending_files = Some(PendingFiles { kept, left_out, left_out_total });
                vec![]
            }
            Some(Ok(FromSandbox::Job(job, frame))) => self.frame_of_job(job, frame),
            Some(Ok(FromSandbox::Supervisor(FromSupervisor::JobStarted { job }))) => self.job_started(job),
            Some(Ok(FromSandbox::Supervisor(FromSupervisor::JobOutput { job, text, base64 }))) => {
                self.broker.jobs().write(job, &FromSupervisor::output_bytes(text, base64));
                vec![]
            }
            Some(Ok(FromSandbox::Supervisor(FromSupervisor::JobTaken { job, bytes }))) => {
                self.job_has_taken(job, bytes);
                vec![]
            }
            Some(Ok(FromSandbox::Supervisor(FromSupervisor::JobEnded {
                job,
                exit_code,
                signal,
                oom,
                ..
            }))) => self.job_ended(job, (exit_code, signal), oom),
            Some(Ok(frame)) => match self.weak_worker(&frame) {
                Some(reason) => self.machine.stream_ended(&reason),
                None => {
                    self.pass_on(&frame);
                    self.machine.frame(frame, Instant::now())
                }
            },
            Some(Err(dropped)) => {
                self.machine.dropped(&dropped);
                vec![]
            }
            None => {
                // The session waits for the answer, which takes two seconds at most: it can do nothing without a sandbox.
                let reason = match &mut self.sandbox {
                    Some(sandbox) => sandbox.why_gone().await,
                    None => String::new(),
                };
                tracing::warn!(reason, "the sandbox went away");
                self.machine.stream_ended(&reason)
            }
        }
    }

    /// The reason why the worker that has just started must not run code; `None`: it may.
    fn weak_worker(&self, frame: &FromSandbox) -> Option<String> {
        let FromSandbox::Supervisor(FromSupervisor::WorkerStarted { posture, restored, checkpoint, .. }) =
            frame
        else {
            return None;
        };
        let is_copy = restored.is_some() || checkpoint.is_some();
        let weak = self.sandbox.as_ref()?.judge_worker(posture, is_copy).err()?;
        let said: Vec<String> = weak.iter().map(ToString::to_string).collect();
        Some(format!("its next interpreter is weaker than asked for: {}", said.join("; ")))
    }

    fn kept(&mut self, failed: Option<String>) -> Vec<Effect> {
        let Some(PendingFiles { left_out, left_out_total, .. }) = self.pending_files.take() else {
            return vec![];
        };
        self.machine.kept(failed.as_deref(), &left_out, left_out_total, Instant::now())
    }

    /// Passes live output on to the client, if it wants that.
    fn pass_on(&self, frame: &FromSandbox) {
        if let FromSandbox::Supervisor(FromSupervisor::Output { stream, text: Some(text), .. }) = frame
            && let Some(output) = self.current.as_ref().and_then(|current| current.output.as_ref())
        {
            let text = text::bounded(text, PASSED_ON_CHARS_MAX).into_owned();
            if output.try_send(OutputPiece { stream: *stream, text }).is_err() {
                tracing::trace!("output that nobody has read yet is left out of what is passed on");
            }
        }
    }

    fn beat(&mut self) {
        if let Some(sandbox) = &self.sandbox {
            self.pings += 1;
            sandbox.send(&ToSupervisor::Ping { seq: self.pings });
        }
    }

    /// Ends all work in progress, and the container.
    pub(super) async fn end(mut self) {
        let effects = self.machine.close();
        self.carry_out(effects);
        self.lose_jobs("belljar is ending");
        if let Some(current) = self.current.take() {
            current.lane.context.cancel.cancel();
        }
        if let Some(sandbox) = self.sandbox.take() {
            self.closings.spawn(sandbox.close());
        }
        self.calls.shutdown().await;
        self.answers.shutdown().await;
        if let Some(starting) = self.starting.take()
            && let Ok((starter, made)) = starting.await
        {
            self.starter = Some(starter);
            if let Ok(sandbox) = made {
                self.closings.spawn(sandbox.close());
            }
        }
        while let Some(closed) = self.closings.join_next().await {
            self.closed(closed);
        }
        if let Some(starter) = self.starter.take()
            && !self.container_stays
        {
            starter.release().await;
        }
    }

    fn closed(&mut self, closed: Result<Result<(), EngineError>, tokio::task::JoinError>) {
        if let Err(error) = &closed {
            tracing::warn!(%error, "closing a sandbox broke");
        }
        self.container_stays |= !matches!(closed, Ok(Ok(())));
    }
}
