//! A session as others hold it: runs are asked for here, and a task of its own works them off.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::{Mutex, Notify, OnceCell, mpsc};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::actor::Actor;
use super::checkpoints::Checkpoints;
use super::files::Files;
use super::request::{Ask, Asker, RunAsked};
use super::resumed::{Earlier, Losses, Resumed};
use super::run_queue::{Entry, RunQueue};
use super::sandbox::{Maker, SandboxReport, SandboxSettings, Wanted};
use super::turn::{Turn, note_refused};
use crate::broker::Broker;
use crate::engine::About;
use crate::limits::Limits;
use crate::run::{RunReport, ToolFault};

/// Between a defect that ended the session's work and its next beginning, so that one that comes back at once costs little.
const PAUSE_AFTER_DEFECT: Duration = Duration::from_millis(100);

/// A session. Ends with [`Session::close`].
pub struct Session {
    queue: mpsc::Sender<Entry<Ask>>,
    pub(super) broker: Arc<Broker>,
    /// What it begins with.
    resumed: Option<Resumed>,
    /// The one before it, once it is of use.
    pub(super) earlier: OnceCell<Option<Earlier>>,
    /// What the interpreter before the present one knew, if it was stopped or lost.
    pub(super) losses: Losses,
    prewarm: Arc<Notify>,
    closing: CancellationToken,
    files: Files,
    wanted: Wanted,
    pub(super) checkpoints: Arc<Checkpoints>,
    task: Mutex<Option<JoinHandle<()>>>,
}

impl Session {
    /// Starts the session's task, and no sandbox yet; its workspace is the one that is wanted now. Must be called inside a tokio runtime.
    #[must_use]
    pub fn start(wanted: Wanted, broker: Arc<Broker>, limits: Arc<Limits>, resumed: Option<Resumed>) -> Self {
        let (queue, mut requests) = RunQueue::new(limits.runs_queued_max);
        let closing = CancellationToken::new();
        let prewarm = Arc::new(Notify::new());
        let recorder = Arc::clone(&broker);
        let (asked_to_close, asked_to_prewarm) = (closing.clone(), Arc::clone(&prewarm));
        let SandboxSettings { workspace, outbox, .. } = wanted();
        let (files, keeper) = Files::start(workspace, outbox, &limits);
        let of_session = files.clone();
        let checkpoints = Arc::<Checkpoints>::default();
        let (of_handle, of_actors) = (Arc::clone(&wanted), Arc::clone(&checkpoints));
        let task = tokio::spawn(async move {
            let begin = || {
                let (broker, limits) = (Arc::clone(&broker), Arc::clone(&limits));
                of_actors.lost();
                Actor::new(Arc::clone(&wanted), files.clone(), broker, limits, Arc::clone(&of_actors))
            };
            let defects = Arc::clone(&broker);
            let mut actor = begin();
            // A defect costs the run, its variables and the sandbox, which ends when nobody holds its stdin; not the session.
            while AssertUnwindSafe(actor.live(&mut requests, &asked_to_close, &asked_to_prewarm))
                .catch_unwind()
                .await
                .is_err()
            {
                tracing::error!("the session broke; it begins anew");
                defects.jobs().lose_all("belljar broke inside");
                actor = begin();
                actor.note("belljar broke inside and began anew; earlier variables are gone");
                tokio::time::sleep(PAUSE_AFTER_DEFECT).await;
            }
            drop(requests);
            actor.end().await;
            files.close().await;
            if let Err(error) = keeper.await {
                tracing::warn!(%error, "what keeps the files of the workspace broke");
            }
        });
        let task = Mutex::new(Some(task));
        Self {
            queue,
            broker: recorder,
            resumed,
            earlier: OnceCell::new(),
            losses: Losses::default(),
            prewarm,
            closing,
            files: of_session,
            wanted: of_handle,
            checkpoints,
            task,
        }
    }

    /// How a sandbox would be now.
    pub(super) fn wanted_now(&self) -> SandboxSettings {
        (self.wanted)()
    }

    /// The files of the workspace.
    #[must_use]
    pub fn files(&self) -> &Files {
        &self.files
    }

    /// Starts the sandbox in the background, unless there is one.
    pub fn prewarm(&self) {
        self.prewarm.notify_one();
    }

    /// Runs code; waits behind the runs asked for before.
    ///
    /// # Errors
    /// `busy` when too many wait already, `cancelled` when it was cancelled while it waited, `internal` when the session
    /// has ended.
    pub async fn run(&self, asked: RunAsked) -> Result<RunReport, ToolFault> {
        let (asker, mut turn) = (Asker::of(&asked), self.turn());
        let said = match &self.resumed {
            None => None,
            Some(resumed) => {
                if !resumed.is_made() {
                    turn.begin(&asked).await?;
                }
                match resumed.done(self, &mut turn, &asker).await {
                    Ok(said) => said,
                    Err(fault) => return Ok(RunReport::not_started(fault)),
                }
            }
        };
        let (mut report, resumes) = self.run_from_checkpoints(&mut turn, asked).await?;
        report.notes.extend(said);
        let where_kept = self.files.hand_over(&report.saved).await;
        report.notes.extend(where_kept);
        self.tell_of_loss(&mut report).await;
        if let Some(from) = resumes {
            self.resume_asked(&mut turn, &mut report, from, &asker).await;
        }
        if self.resumed.is_none() {
            self.tell_of_earlier(&mut report).await;
        }
        Ok(report)
    }

    /// A request, which lines up when it is first to run something.
    pub(super) fn turn(&self) -> Turn {
        Turn::new(self.queue.clone(), Arc::clone(&self.broker), self.closing.clone())
    }

    /// Writes down a request that does not become a run.
    pub async fn refused(&self, fault: &ToolFault, code_bytes: u64) {
        note_refused(&self.broker, fault, code_bytes).await;
    }

    /// Ends the session: its run, its calls, its container.
    pub async fn close(&self) {
        self.closing.cancel();
        if let Some(task) = self.task.lock().await.take()
            && let Err(error) = task.await
        {
            tracing::warn!(%error, "the session's task broke");
        }
    }

    /// Starts a sandbox, reports on it, and closes it: for `doctor`.
    ///
    /// # Errors
    /// Why there is none.
    pub async fn probe(wanted: Wanted, limits: Arc<Limits>) -> Result<(About, SandboxReport), ToolFault> {
        let mut maker = Maker::new(wanted, limits, None);
        let made = maker.make().await;
        let probed = async {
            let sandbox = made?;
            let report = sandbox.report.clone();
            let closed = sandbox.close().await;
            Ok(((maker.about().await?, report), closed.is_ok()))
        };
        let probed = probed.await;
        if !matches!(probed, Ok((_, false))) {
            maker.release().await;
        }
        probed.map(|(probed, _)| probed)
    }
}
