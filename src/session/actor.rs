//! The task that owns the session: it feeds the machine with events and carries out its effects.

use std::sync::Arc;

use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use super::answered::{outcome, result_line, whole};
use super::asked::{Ask, RunAsked};
use super::calls::{self, Counted};
use super::files::Files;
use super::in_flight::InFlight;
use super::machine::{Effect, Machine};
use super::outgoing::ResultLine;
use super::queue::Taker;
use super::sandbox::{Maker, Sandbox, Wanted};
use super::watchdog::Watchdog;
use crate::broker::{Broker, Call, Human, Making, Waits};
use crate::engine::EngineError;
use crate::limits::Limits;
use crate::names::{CallId, RunId};
use crate::protocol::{CallFrame, FromSandbox, FromSupervisor, ToSupervisor, ToWorker};
use crate::run::{CallOutcome, FaultCode, OutputPiece, Progress, RunReport, ServerScope, ToolFault};
use crate::text;

/// Code that is a defect, in tests of what becomes of one.
#[cfg(test)]
pub(crate) const BREAKS: &str = "a defect of hotcell's";

/// The run that the machine has taken.
struct Current {
    id: RunId,
    scope: ServerScope,
    cancel: CancellationToken,
    progress: mpsc::Sender<Progress>,
    output: Option<mpsc::Sender<OutputPiece>>,
    human: Human,
    reply: oneshot::Sender<(RunId, RunReport)>,
    /// Ends all calls of this run.
    calls: CancellationToken,
    calls_made: usize,
    calls_answered: usize,
    began: Instant,
}

/// Longest name of a call in a progress message, in characters.
const PROGRESS_CHARS_MAX: usize = 200;

/// Longest piece of output that is passed on as it comes, in characters.
const PASSED_ON_CHARS_MAX: usize = 4_000;

struct CallEnded {
    run: RunId,
    /// The tool, of a call that is counted.
    tool: Option<String>,
    call: CallId,
    counted: Counted,
    outcome: CallOutcome,
}

pub(super) struct Actor {
    machine: Machine,
    broker: Arc<Broker>,
    limits: Arc<Limits>,
    /// Away while it is starting a sandbox.
    maker: Option<Maker>,
    starting: Option<JoinHandle<(Maker, Result<Sandbox, ToolFault>)>>,
    sandbox: Option<Sandbox>,
    /// Of that sandbox, where the engine enforces too little.
    watchdog: Option<Watchdog>,
    closings: JoinSet<Result<(), EngineError>>,
    /// Whether a container may be left: then what marks this bridge as its owner stays.
    container_stays: bool,
    calls: JoinSet<CallEnded>,
    in_flight: InFlight,
    /// Calls of the run that ended last which were never sent.
    never_sent: Vec<Counted>,
    current: Option<Current>,
    /// Whether it waits for the human.
    waiting: Option<watch::Receiver<Waits>>,
    notices_given: bool,
    files: Files,
    /// What the sandbox has told last of its files is being kept.
    keeping: Option<Keeping>,
    pings: u64,
}

/// The end of what a sandbox has told of its files.
struct Keeping {
    kept: oneshot::Receiver<Option<String>>,
    left_out: Vec<String>,
    left_out_total: u64,
}

impl Current {
    fn tell_call(&self, tool: String) {
        let (answered, made) = (self.calls_answered, self.calls_made);
        tell(&self.progress, Progress::Call { tool, answered, made });
    }
}

impl Actor {
    /// For a session that begins; starts no sandbox.
    pub(super) fn new(wanted: Wanted, files: Files, broker: Arc<Broker>, limits: Arc<Limits>) -> Self {
        Self {
            machine: Machine::new(Arc::clone(&limits)),
            broker,
            maker: Some(Maker::new(wanted, Arc::clone(&limits), Some(files.clone()))),
            limits,
            starting: None,
            sandbox: None,
            watchdog: None,
            closings: JoinSet::new(),
            container_stays: false,
            calls: JoinSet::new(),
            in_flight: InFlight::default(),
            never_sent: Vec::new(),
            current: None,
            waiting: None,
            notices_given: false,
            files,
            keeping: None,
            pings: 0,
        }
    }

    /// Tells this with the next report.
    pub(super) fn note(&mut self, said: &str) {
        self.machine.note(said.to_owned());
    }

    /// Until the session is to be closed.
    pub(super) async fn live(&mut self, asks: &Taker<Ask>, closing: &CancellationToken, prewarm: &Notify) {
        let mut heartbeat = tokio::time::interval(self.limits.heartbeat_pause);
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let takes_runs = self.machine.takes_runs() && self.current.is_none();
            let deadline = self.machine.deadline();
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
                (asked, reply) = asks.next(), if takes_runs => self.asked(asked, reply),
                failed = answered(self.keeping.as_mut()) => self.kept(failed),
                frame = next_frame(self.sandbox.as_mut()) => self.frame(frame).await,
            };
            self.carry_out(effects);
        }
    }

    fn asked(&mut self, asked: RunAsked, reply: oneshot::Sender<(RunId, RunReport)>) -> Vec<Effect> {
        let RunAsked { request, cancel, progress, output, questions, abilities, client } = asked;
        #[cfg(test)]
        assert_ne!(request.code, BREAKS, "the defect that a test asks for");
        if let Some(said) = self.broker.begin_run(abilities) {
            self.machine.note(said);
        }
        let scope = request.servers.clone();
        let servers = self.broker.server_names(&scope);
        let began = Instant::now();
        let (id, effects) = self.machine.ask(request.clone(), servers, began);
        // Before anything of it is sent.
        self.broker.journal_run(id, &request, &client);
        let calls = CancellationToken::new();
        let (calls_made, calls_answered) = (0, 0);
        let human = Human::new(questions, abilities);
        self.waiting = Some(human.waits());
        self.current = Some(Current {
            id,
            scope,
            cancel,
            progress,
            output,
            human,
            reply,
            calls,
            calls_made,
            calls_answered,
            began,
        });
        effects
    }

    fn cancel_current(&mut self) -> Vec<Effect> {
        let Some(current) = &mut self.current else { return vec![] };
        // Heard once: from here on the machine ends the run.
        current.cancel = CancellationToken::new();
        let id = current.id;
        self.machine.cancel(id, Instant::now())
    }

    fn started(
        &mut self,
        started: Result<(Maker, Result<Sandbox, ToolFault>), tokio::task::JoinError>,
    ) -> Vec<Effect> {
        self.starting = None;
        match started {
            Ok((maker, Ok(mut sandbox))) => {
                self.maker = Some(maker);
                let mut notices = if std::mem::replace(&mut self.notices_given, true) {
                    vec![]
                } else {
                    sandbox.report.notices.clone()
                };
                if !sandbox.report.allowed.is_empty() {
                    let allowed = sandbox.report.allowed.join("; ");
                    notices
                        .push(format!("weaker than asked for, allowed by MCP_BRIDGE_ALLOW_WEAK: {allowed}"));
                }
                notices.extend(sandbox.files.said());
                let (worker, report) = (sandbox.worker, &sandbox.report);
                self.broker.journal_sandbox(&report.address, &report.image, &report.python);
                self.watchdog = sandbox.watchdog.take();
                self.machine.stop_idle_after(sandbox.idle_stop);
                self.sandbox = Some(sandbox);
                self.machine.sandbox_up(worker, notices, Instant::now())
            }
            Ok((maker, Err(fault))) => {
                self.maker = Some(maker);
                self.machine.sandbox_failed(fault)
            }
            Err(error) => {
                tracing::error!(%error, "starting a sandbox broke");
                self.machine.sandbox_failed(ToolFault::new(FaultCode::Internal, "starting the sandbox broke"))
            }
        }
    }

    async fn frame(&mut self, frame: Option<Result<FromSandbox, crate::protocol::Dropped>>) -> Vec<Effect> {
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
                self.keeping = Some(Keeping { kept, left_out, left_out_total });
                vec![]
            }
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
                let stderr = self.sandbox.as_ref().map(Sandbox::stderr).unwrap_or_default();
                let reason = if stderr.is_empty() { "it was stopped or removed".into() } else { stderr };
                tracing::warn!(reason, "the sandbox went away");
                self.machine.stream_ended(&reason)
            }
        }
    }

    /// Why the worker that has just started may not run anything.
    fn weak_worker(&self, frame: &FromSandbox) -> Option<String> {
        let FromSandbox::Supervisor(FromSupervisor::WorkerStarted { posture, restored, .. }) = frame else {
            return None;
        };
        let weak = self.sandbox.as_ref()?.judge_worker(posture, restored.is_some()).err()?;
        let said: Vec<String> = weak.iter().map(ToString::to_string).collect();
        Some(format!("its next interpreter is weaker than asked for: {}", said.join("; ")))
    }

    fn kept(&mut self, failed: Option<String>) -> Vec<Effect> {
        let Some(Keeping { left_out, left_out_total, .. }) = self.keeping.take() else { return vec![] };
        self.machine.kept(failed.as_deref(), &left_out, left_out_total, Instant::now())
    }

    fn call_ended(&mut self, ended: Result<CallEnded, tokio::task::JoinError>) -> Vec<Effect> {
        match ended {
            Ok(CallEnded { run, tool, call, counted, outcome }) => {
                if let Some(current) = self.current.as_mut().filter(|current| current.id == run) {
                    self.in_flight.remove(call);
                    if let Some(tool) = tool {
                        current.calls_answered += 1;
                        current.tell_call(tool);
                    }
                }
                self.machine.call_ended(run, counted, outcome);
            }
            Err(error) => tracing::error!(%error, "a call's task broke"),
        }
        vec![]
    }

    /// Output, to who wants to see it as it comes.
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

    fn carry_out(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::StartSandbox => self.start_sandbox(),
                Effect::Send(frame) => {
                    if let Some(sandbox) = &self.sandbox {
                        sandbox.send(&frame);
                    }
                }
                Effect::SendRun { run, worker, code } => self.send_run(run, worker, code),
                Effect::StartCall { call, counted, deadline } => self.start_call(call, counted, deadline),
                Effect::Refuse { call, fault } => self.refuse(call, fault),
                Effect::CancelCall(call) => {
                    let never_sent = self.in_flight.cancel(call);
                    self.count_never_sent(never_sent);
                }
                Effect::EndCalls => {
                    let never_sent = self.in_flight.cancel_all();
                    self.count_never_sent(never_sent);
                    if let Some(current) = &self.current {
                        current.calls.cancel();
                    }
                }
                Effect::CloseSandbox => {
                    self.watchdog = None;
                    if let Some(sandbox) = self.sandbox.take() {
                        self.closings.spawn(sandbox.close());
                    }
                }
                Effect::Finish(mut report) => {
                    if let Some(watchdog) = &self.watchdog {
                        watchdog.set_running(false);
                    }
                    self.broker.tell_effects(&mut report.calls);
                    for place in self.never_sent.drain(..) {
                        calls::end(&mut report.calls, place, CallOutcome::Refused);
                    }
                    report.calls.planned = self.broker.take_planned();
                    report.calls.readings = self.broker.take_readings();
                    report.notes.extend(self.broker.run_notes());
                    let Some(current) = self.current.take() else { continue };
                    self.broker.journal_end(current.id, &mut report, current.began.elapsed());
                    if current.reply.send((current.id, *report)).is_err() {
                        tracing::debug!("nobody waits for the run's report any more");
                    }
                }
            }
        }
    }

    fn start_sandbox(&mut self) {
        let Some(mut maker) = self.maker.take() else { return };
        self.starting = Some(tokio::spawn(async move {
            let made = maker.make().await;
            (maker, made)
        }));
    }

    fn send_run(&mut self, run: RunId, worker: u64, code: String) {
        let (Some(sandbox), Some(current)) = (&self.sandbox, &self.current) else { return };
        let servers = self.broker.run_servers(&current.scope);
        sandbox.send_run(&ToWorker::Run { run, worker, code, servers });
        if let Some(watchdog) = &self.watchdog {
            watchdog.set_running(true);
        }
        tell(&current.progress, Progress::Started);
    }

    fn start_call(&mut self, frame: CallFrame, counted: Counted, deadline: Instant) {
        let (Some(sandbox), Some(current)) = (&self.sandbox, &mut self.current) else { return };
        let call = frame.call;
        if self.in_flight.len() >= self.limits.calls_in_flight_max || self.in_flight.contains(call) {
            let fault =
                ToolFault::new(FaultCode::Busy, "too many calls are under way, or two with one number");
            self.machine.call_ended(current.id, counted, CallOutcome::Refused);
            return self.refuse(call, fault);
        }
        let tool = frame.server.as_ref().map(|server| {
            let tool = format!("{server}.{}", frame.tool);
            text::bounded(&text::inert_line(&tool), PROGRESS_CHARS_MAX).into_owned()
        });
        if let Some(tool) = &tool {
            current.calls_made += 1;
            current.tell_call(tool.clone());
        }
        let cancel = current.calls.child_token();
        let sending = self.in_flight.insert(call, cancel.clone(), counted);
        let data = sandbox.data();
        let broker = Arc::clone(&self.broker);
        let line_bytes_max = self.limits.frame_to_sandbox_bytes_max;
        let scope = current.scope.clone();
        let human = current.human.clone();
        let progress = current.progress.clone();
        let run = current.id;
        self.calls.spawn(async move {
            let counted_tool = tool;
            let CallFrame { server, tool, arguments, dry_run, placeholders, .. } = frame;
            let making = Making::of(dry_run, placeholders);
            let (scope, human, progress, sending) = (&scope, &human, &progress, &sending);
            let call_of_broker =
                Call { run, scope, server, tool, arguments, making, deadline, human, progress, sending };
            let answer = whole(broker.answer(call_of_broker, &cancel)).await;
            let outcome = outcome(&answer);
            let line = result_line(call, answer, line_bytes_max);
            // Nobody waits for the result of a call that was cancelled, or whose run has ended.
            tokio::select! {
                biased;
                () = cancel.cancelled() => {}
                sent = data.send(ResultLine { line, cancel: cancel.clone() }) => if sent.is_err() {
                    tracing::debug!("the sandbox went before the call's result");
                },
            }
            let counted = if sending.end() { counted } else { Counted::Nowhere };
            CallEnded { run, tool: counted_tool, call, counted, outcome }
        });
    }

    /// Calls that were given up before their servers had been told of them.
    fn count_never_sent(&mut self, places: impl IntoIterator<Item = Counted>) {
        let Some(run) = self.current.as_ref().map(|current| current.id) else { return };
        for place in places {
            // After the end of the run its report is what counts them.
            if !self.machine.call_ended(run, place, CallOutcome::Refused) {
                self.never_sent.push(place);
            }
        }
    }

    /// Answers a call with a fault, unless the queue is full: a sandbox that keeps to its window of calls does not fill
    /// it, and for one that does not nothing is kept.
    fn refuse(&self, call: CallId, fault: ToolFault) {
        let Some(sandbox) = &self.sandbox else { return };
        let line = result_line(call, Err(fault), self.limits.frame_to_sandbox_bytes_max);
        let cancel = CancellationToken::new();
        if sandbox.data().try_send(ResultLine { line, cancel }).is_err() {
            tracing::debug!("a refusal was left out");
        }
    }

    /// Ends what is under way, and the container.
    pub(super) async fn end(mut self) {
        let effects = self.machine.close();
        self.carry_out(effects);
        if let Some(current) = self.current.take() {
            current.calls.cancel();
        }
        if let Some(sandbox) = self.sandbox.take() {
            self.closings.spawn(sandbox.close());
        }
        self.calls.shutdown().await;
        if let Some(starting) = self.starting.take()
            && let Ok((maker, made)) = starting.await
        {
            self.maker = Some(maker);
            if let Ok(sandbox) = made {
                self.closings.spawn(sandbox.close());
            }
        }
        while let Some(closed) = self.closings.join_next().await {
            self.closed(closed);
        }
        if let Some(maker) = self.maker.take()
            && !self.container_stays
        {
            maker.release().await;
        }
    }

    fn closed(&mut self, closed: Result<Result<(), EngineError>, tokio::task::JoinError>) {
        if let Err(error) = &closed {
            tracing::warn!(%error, "closing a sandbox broke");
        }
        self.container_stays |= !matches!(closed, Ok(Ok(())));
    }
}

fn tell(progress: &mpsc::Sender<Progress>, event: Progress) {
    if progress.try_send(event).is_err() {
        tracing::trace!("progress that nobody has read yet is left out");
    }
}

async fn cancelled(current: Option<&Current>) {
    match current {
        Some(current) => current.cancel.cancelled().await,
        None => std::future::pending().await,
    }
}

/// Whether the run waits for the human, each time that this changes.
async fn waiting(waiting: Option<&mut watch::Receiver<Waits>>) -> bool {
    if let Some(waiting) = waiting
        && waiting.changed().await.is_ok()
    {
        return waiting.borrow_and_update().is_waiting();
    }
    // There is no run, or it has ended.
    std::future::pending().await
}

/// What could not be kept, once the files are.
async fn answered(keeping: Option<&mut Keeping>) -> Option<String> {
    match keeping {
        Some(Keeping { kept, .. }) => {
            (&mut *kept).await.unwrap_or_else(|_| Some("what keeps them has broken".into()))
        }
        None => std::future::pending().await,
    }
}

async fn exceeded(watchdog: Option<&mut Watchdog>) -> String {
    match watchdog {
        Some(watchdog) => watchdog.exceeded().await,
        None => std::future::pending().await,
    }
}

async fn sleep_until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

async fn joined<T>(task: Option<&mut JoinHandle<T>>) -> Result<T, tokio::task::JoinError> {
    match task {
        Some(task) => task.await,
        None => std::future::pending().await,
    }
}

async fn next_frame(sandbox: Option<&mut Sandbox>) -> Option<Result<FromSandbox, crate::protocol::Dropped>> {
    match sandbox {
        Some(sandbox) => sandbox.next().await,
        None => std::future::pending().await,
    }
}
