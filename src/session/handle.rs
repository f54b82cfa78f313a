//! A session as its callers hold it. They submit runs here, and a task of its own executes them.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use belljar_base::limits::Limits;
use belljar_base::run::ToolFault;
use belljar_engine::EngineInfo;
use futures_util::FutureExt;
use tokio::sync::{Mutex, Notify, mpsc};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::actor::Actor;
use super::checkpoints::Checkpoints;
use super::files::Files;
use super::request::SessionRequest;
use super::run_queue::{Entry, RunQueue};
use super::sandbox::{SandboxReport, SandboxSettings, SandboxStarter, SettingsSource};
use super::turn::{Turn, note_refused};
use crate::broker::Broker;

/// The pause before the session's task continues after a defect, so that a defect that returns at once costs little.
const PAUSE_AFTER_DEFECT: Duration = Duration::from_millis(100);

/// A session. Ends with [`Session::close`].
pub struct Session {
    queue: mpsc::Sender<Entry<SessionRequest>>,
    broker: Arc<Broker>,
    prewarm: Arc<Notify>,
    closing: CancellationToken,
    files: Files,
    settings_source: SettingsSource,
    checkpoints: Arc<Checkpoints>,
    task: Mutex<Option<JoinHandle<()>>>,
}

impl Session {
    /// Starts the session's task, and no sandbox yet. The workspace is that of the present settings. Must be called
    /// inside a tokio runtime.
    #[must_use]
    pub fn start(settings_source: SettingsSource, broker: Arc<Broker>, limits: Arc<Limits>) -> Self {
        let (queue, mut requests) = RunQueue::new(limits.runs_queued_max);
        let SandboxSettings { workspace, outbox, .. } = settings_source();
        let (files, keeper) = Files::start(workspace, outbox, &limits);
        let (closing, prewarm) = (CancellationToken::new(), Arc::new(Notify::new()));
        let mut session = Self {
            queue,
            broker: Arc::clone(&broker),
            prewarm: Arc::clone(&prewarm),
            closing: closing.clone(),
            files: files.clone(),
            settings_source: Arc::clone(&settings_source),
            checkpoints: Arc::default(),
            task: Mutex::default(),
        };
        let checkpoints = Arc::clone(&session.checkpoints);
        let task = tokio::spawn(async move {
            let begin = || {
                let (broker, limits) = (Arc::clone(&broker), Arc::clone(&limits));
                checkpoints.lost();
                Actor::new(
                    Arc::clone(&settings_source),
                    files.clone(),
                    broker,
                    limits,
                    Arc::clone(&checkpoints),
                )
            };
            let mut actor = begin();
            // A defect costs the run, its variables and the sandbox, but not the session. The sandbox ends when its
            // stdin is closed, with the old actor.
            while AssertUnwindSafe(actor.live(&mut requests, &closing, &prewarm))
                .catch_unwind()
                .await
                .is_err()
            {
                tracing::error!("the session broke; it begins anew");
                broker.jobs().lose_all("belljar broke inside");
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
        session.task = Mutex::new(Some(task));
        session
    }

    /// The settings that a sandbox would have now.
    #[must_use]
    pub fn wanted_now(&self) -> SandboxSettings {
        (self.settings_source)()
    }

    /// The checkpoints of the session.
    #[must_use]
    pub fn checkpoints(&self) -> &Arc<Checkpoints> {
        &self.checkpoints
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

    /// The turn of a new request. The request joins the queue with its first run.
    #[must_use]
    pub fn turn(&self) -> Turn {
        Turn::new(self.queue.clone(), Arc::clone(&self.broker), self.closing.clone())
    }

    /// Writes a refused request to the audit log.
    pub async fn refused(&self, fault: &ToolFault, code_bytes: u64) {
        note_refused(&self.broker, fault, code_bytes).await;
    }

    /// Ends the session with its run, its calls and its container.
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
    /// The reason why no sandbox can be started.
    pub async fn probe(
        settings_source: SettingsSource,
        limits: Arc<Limits>,
    ) -> Result<(EngineInfo, SandboxReport), ToolFault> {
        let mut starter = SandboxStarter::new(settings_source, limits, None);
        let made = starter.start().await;
        let probed = async {
            let sandbox = made?;
            let report = sandbox.report.clone();
            let closed = sandbox.close().await;
            Ok(((starter.about().await?, report), closed.is_ok()))
        };
        let probed = probed.await;
        if !matches!(probed, Ok((_, false))) {
            starter.release().await;
        }
        probed.map(|(probed, _)| probed)
    }
}
