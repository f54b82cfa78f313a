//! The turn of one request: the client's end of the queue, and the audit log's line for each of its runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use belljar_base::run::{FaultCode, Progress, Reset, RunOutcome, ToolFault};
use belljar_base::text;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::request::{FinishedRun, RunSubmission, SessionRequest, Snapshot, SnapshotEnd};
use super::run_queue::Entry;
use crate::audit::{Event, RunEvent};
use crate::broker::Broker;

/// Longest reason in the log, in characters.
const WHY_CHARS_MAX: usize = 300;
/// The shortest wait that a reply mentions.
const WAIT_SAID: Duration = Duration::from_secs(1);

/// The turn of a request, from its first run until it is dropped. No other request runs in between.
pub struct Turn {
    queue: mpsc::Sender<Entry<SessionRequest>>,
    runs: mpsc::Sender<SessionRequest>,
    /// The other end of `runs`, until the request joins the queue.
    waits: Option<mpsc::Receiver<SessionRequest>>,
    /// How long the request has waited for the runs before it.
    waited: Duration,
    broker: Arc<Broker>,
    closing: CancellationToken,
}

impl Turn {
    pub(super) fn new(
        queue: mpsc::Sender<Entry<SessionRequest>>,
        broker: Arc<Broker>,
        closing: CancellationToken,
    ) -> Self {
        let (runs, waits) = mpsc::channel(1);
        Self { queue, runs, waits: Some(waits), waited: Duration::ZERO, broker, closing }
    }

    /// Waits for the turn, at the first call only.
    ///
    /// # Errors
    /// `busy`: too many requests wait already; `cancelled`: the request was cancelled while it waited; `internal`: the
    /// session has ended.
    pub async fn begin(&mut self, submission: &RunSubmission) -> Result<(), ToolFault> {
        let begun = self.line_up(&Waiting::of(submission)).await;
        self.noted(begun, submission.request.code.len()).await
    }

    /// Runs code.
    ///
    /// # Errors
    /// As [`Self::begin`].
    pub async fn run(&mut self, submission: RunSubmission) -> Result<FinishedRun, ToolFault> {
        let (began, code_bytes) = (Instant::now(), submission.request.code.len());
        let ended = self.ended(submission).await;
        let ended = self.noted(ended, code_bytes).await?;
        let FinishedRun { run, report, .. } = &ended;
        let why = match &report.outcome {
            RunOutcome::NotStarted(fault) => why(fault),
            _ => String::new(),
        };
        let called = report.calls.of_tools.iter().map(|tool| tool.counts.total()).sum::<u64>();
        let event = RunEvent {
            run: run.0,
            outcome: report.outcome.word().to_owned(),
            calls: called + report.calls.others.total(),
            readings: report.calls.readings,
            why,
            code_bytes: code_bytes as u64,
            ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
        };
        self.broker.record(Event::Run(event)).await;
        Ok(ended)
    }

    /// Takes or restores a snapshot of the workspace, in this turn.
    ///
    /// # Errors
    /// The outer error: there is no sandbox for it. The inner error: the reason why it failed.
    pub async fn snapshot(&self, snapshot: Snapshot) -> SnapshotEnd {
        let (reply, ended) = oneshot::channel();
        self.runs.send(SessionRequest::Snapshot(snapshot, reply)).await.map_err(|_| closed())?;
        ended.await.unwrap_or_else(|_| Err(closed()))
    }

    /// Whether the interpreter with the variables of earlier runs was lost, in this turn.
    ///
    /// # Errors
    /// `internal`: the session has ended.
    pub async fn is_lost(&self) -> Result<bool, ToolFault> {
        let (reply, answered) = oneshot::channel();
        self.runs.send(SessionRequest::IsLost(reply)).await.map_err(|_| closed())?;
        answered.await.map_err(|_| closed())
    }

    async fn ended(&mut self, submission: RunSubmission) -> Result<FinishedRun, ToolFault> {
        let (reply, ended) = oneshot::channel();
        let waiting = Waiting::of(&submission);
        // The run is queued before the turn comes, so that the session need not wait for it then.
        self.runs.send(SessionRequest::Run(submission, reply)).await.map_err(|_| closed())?;
        self.line_up(&waiting).await?;
        let mut finished = ended.await.map_err(|_| {
            if waiting.cancel.is_cancelled() {
                before_it_started()
            } else if self.closing.is_cancelled() {
                closed()
            } else {
                ToolFault::new(FaultCode::Internal, "belljar broke inside; what this run has done is unknown")
                    .hint("the next run starts afresh; look before a call is made again that writes")
            }
        })?;
        let report = &mut finished.report;
        if report.outcome == RunOutcome::Interrupted && waiting.is_ended_by_later.load(Ordering::Relaxed) {
            report
                .notes
                .push("a later run with reset has ended this one, and starts with fresh variables".into());
        }
        Ok(finished)
    }

    /// A sentence about the wait for the runs before this request; `None`: there was no long one.
    #[must_use]
    pub fn waited(&self) -> Option<String> {
        let seconds = self.waited.as_secs();
        (self.waited >= WAIT_SAID).then(|| {
            format!("this run waited {seconds} s for the run before it; a run with reset ends that one instead of waiting")
        })
    }

    async fn line_up(&mut self, waiting: &Waiting) -> Result<(), ToolFault> {
        let Some(runs) = self.waits.take() else { return Ok(()) };
        let (asked, cancel) = (Instant::now(), waiting.cancel.clone());
        let ((begins, begun), (waits, has_to_wait)) = (oneshot::channel(), oneshot::channel());
        let ends_earlier = waiting.ends_earlier;
        let is_ended_by_later = Arc::clone(&waiting.is_ended_by_later);
        let (begins, waits) = (Some(begins), Some(waits));
        let entry = Entry { begins, waits, cancel, ends_earlier, is_ended_by_later, runs };
        let begun = async {
            self.queue.send(entry).await.map_err(|_| closed())?;
            if has_to_wait.await.is_ok() && waiting.progress.try_send(Progress::AwaitsTurn).is_err() {
                tracing::trace!("progress that nobody has read yet is left out");
            }
            begun.await.unwrap_or_else(|_| Err(closed()))
        };
        let begun = tokio::select! {
            biased;
            begun = begun => begun,
            () = waiting.cancel.cancelled() => Err(before_it_started()),
        };
        self.waited = asked.elapsed();
        begun
    }

    async fn noted<T>(&self, done: Result<T, ToolFault>, code_bytes: usize) -> Result<T, ToolFault> {
        if let Err(fault) = &done {
            note_refused(&self.broker, fault, code_bytes as u64).await;
        }
        done
    }
}

/// What a request needs while it waits for its turn.
struct Waiting {
    cancel: CancellationToken,
    progress: mpsc::Sender<Progress>,
    ends_earlier: bool,
    is_ended_by_later: Arc<AtomicBool>,
}

impl Waiting {
    fn of(submission: &RunSubmission) -> Self {
        let RunSubmission { request, cancel, progress, .. } = submission;
        let ends_earlier = request.reset == Reset::Fresh;
        let is_ended_by_later = Arc::default();
        Self { cancel: cancel.clone(), progress: progress.clone(), ends_earlier, is_ended_by_later }
    }
}

/// Writes a refused request to the audit log.
pub(super) async fn note_refused(broker: &Broker, fault: &ToolFault, code_bytes: u64) {
    let (outcome, why) = (fault.code.word(), why(fault));
    let event = RunEvent { run: 0, outcome, calls: 0, readings: 0, why, code_bytes, ms: 0 };
    broker.record(Event::Run(event)).await;
}

fn why(fault: &ToolFault) -> String {
    text::inert_excerpt(&fault.message, WHY_CHARS_MAX)
}

fn before_it_started() -> ToolFault {
    ToolFault::new(FaultCode::Cancelled, "the run was cancelled before it started")
}

fn closed() -> ToolFault {
    ToolFault::new(FaultCode::Internal, "the session has ended")
}
