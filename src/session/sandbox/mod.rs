//! A started sandbox: container, handshake, and frames in both directions.

pub(super) mod code_cache;
mod failure;
pub(super) mod posture;
mod special_files;
mod starter;
pub(super) mod usage_watchdog;
pub(super) mod writer;

use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::Duration;

use belljar_base::own_file;
use belljar_engine::{EngineError, Instance, Kernel, Output};
use belljar_protocol::{
    Decoder, DroppedLine, ExtraSystemCall, FromSandbox, FromSupervisor, Posture, PostureField, ToSupervisor,
    ToWorker, WorkerPosture,
};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use self::posture::{RequestedPosture, Weakness};
pub(super) use self::starter::SandboxStarter;
pub use self::starter::{CpuLimit, GuardedResources, SandboxSettings, SettingsSource};
use self::usage_watchdog::Watchdog;
use self::writer::ResultLine;
use super::files::RestoredFiles;

/// The facts about a started sandbox, for people.
#[derive(Debug, Clone)]
pub struct SandboxReport {
    /// The address of the engine.
    pub address: String,
    /// The name of the image.
    pub image: String,
    /// The interpreter's version.
    pub python: String,
    /// The posture that the supervisor reports.
    pub posture: Posture,
    /// The posture of the first worker that the supervisor reports.
    pub worker: WorkerPosture,
    /// Notices for the reader of a session's first reply, such as limits that the engine does not enforce.
    pub notices: Vec<String>,
    /// Sentences about engines that were left out when this one was chosen, for the next reply.
    pub left_out: Vec<String>,
    /// Stale containers that were removed before the start.
    pub reaped: usize,
    /// The kernel that the sandbox runs on.
    pub kernel: Kernel,
    /// The properties in which the sandbox is weaker than requested, with the user's permission. The first reply of
    /// every sandbox names them.
    pub allowed: Vec<String>,
    /// The system calls that the user has added. The first reply of every sandbox names them.
    pub extra_system_calls: Vec<ExtraSystemCall>,
    /// The limits that belljar watches itself, since the engine does not enforce them.
    pub watched: Vec<PostureField>,
}

/// A running sandbox.
pub(super) struct Sandbox {
    instance: Box<dyn Instance>,
    output: Output,
    decoder: Decoder,
    control: mpsc::Sender<Vec<u8>>,
    data: mpsc::Sender<ResultLine>,
    data_of_jobs: mpsc::Sender<ResultLine>,
    /// The number of bytes that workers have taken, as the supervisor reports it.
    taken: watch::Sender<u64>,
    writer: JoinHandle<()>,
    asked: RequestedPosture,
    /// Whether no other sandbox has the same user.
    has_own_user: bool,
    allow_weak: Vec<PostureField>,
    /// Watches the sandbox, if its engine does not enforce every limit.
    pub(super) watchdog: Option<Watchdog>,
    pub(super) report: SandboxReport,
    /// The number of its first worker.
    pub(super) worker: u64,
    /// The files that were restored into it.
    pub(super) files: RestoredFiles,
    /// The idle time after which it is stopped; `None`: never.
    pub(super) idle_stop: Option<Duration>,
    /// The folder that records which notices were given.
    notices_dir: Option<PathBuf>,
}

/// How long a sandbox may take to end itself before it is killed.
const FAREWELL: Duration = Duration::from_millis(500);
/// The name of the file that records that [`ROOTFUL`] was given.
const ROOTFUL_SAID: &str = "rootful-engine-notice";
/// The notice about an engine that runs as root.
const ROOTFUL: &str = "the container engine is rootful; a rootless one would be safer";
/// The same about a cluster, which drops the request where its nodes cannot fulfil it.
const NO_USER_NAMESPACE: &str =
    "the Pod has no user namespace, which hostUsers: false requests; with one it would be safer";

impl SandboxReport {
    /// The notice about an engine that runs as root, if it does.
    #[must_use]
    pub fn rootful(&self) -> Option<&'static str> {
        let notice = if self.address.starts_with("kubernetes:") { NO_USER_NAMESPACE } else { ROOTFUL };
        (!self.posture.user_namespace).then_some(notice)
    }
}

impl Sandbox {
    /// The notice about a rootful engine, unless it is recorded that a reply has given it before.
    pub(super) fn first_rootful(&self) -> Option<&'static str> {
        let notice = self.report.rootful()?;
        let dir = self.notices_dir.as_deref();
        let recorded = dir.map(|dir| own_file::create(dir, ROOTFUL_SAID, self.report.address.as_bytes()));
        // If it cannot be recorded, it is given again.
        let was_said = matches!(recorded, Some(Err(error)) if error.kind() == ErrorKind::AlreadyExists);
        (!was_said).then_some(notice)
    }

    /// The next frame, or the reason why a line was dropped; `None`: the sandbox is gone. Cancel-safe.
    pub(super) async fn next(&mut self) -> Option<Result<FromSandbox, DroppedLine>> {
        loop {
            match self.decoder.next_frame() {
                Some(Ok(FromSandbox::Supervisor(FromSupervisor::Taken { bytes }))) => {
                    self.taken.send_replace(bytes);
                    continue;
                }
                Some(frame) => return Some(frame),
                None => {}
            }
            let bytes = self.output.next().await?;
            self.decoder.push(&bytes);
        }
    }

    /// The properties in which a worker is weaker than requested, with the user's permission. The error has those that
    /// are not allowed.
    pub(super) fn judge_worker(
        &self,
        worker: &WorkerPosture,
        restored: bool,
    ) -> Result<Vec<String>, Vec<Weakness>> {
        self.allow(posture::worker_weaknesses(worker, &self.report.posture, &self.asked, restored))
    }

    fn allow(&self, weak: Vec<Weakness>) -> Result<Vec<String>, Vec<Weakness>> {
        let (allowed, refused): (Vec<_>, Vec<_>) =
            weak.into_iter().partition(|weakness| self.allow_weak.contains(&weakness.field));
        if refused.is_empty() { Ok(allowed.iter().map(ToString::to_string).collect()) } else { Err(refused) }
    }

    /// Queues a frame for the supervisor, ahead of all results.
    pub(super) fn send(&self, frame: &ToSupervisor) {
        self.send_first(frame.to_line());
    }

    /// Queues a run, ahead of all results: those of earlier runs may still be queued.
    pub(super) fn send_run(&self, run: &ToWorker) {
        self.send_first(run.to_line());
    }

    fn send_first(&self, line: Vec<u8>) {
        if self.control.try_send(line).is_err() {
            // Callers learn of it from the end of the stream, or from the deadline of their request.
            tracing::warn!("a frame that goes first could not be queued");
        }
    }

    /// The queue of lines for the worker.
    pub(super) fn data(&self) -> mpsc::Sender<ResultLine> {
        self.data.clone()
    }

    /// The queue of lines for jobs.
    pub(super) fn data_of_jobs(&self) -> mpsc::Sender<ResultLine> {
        self.data_of_jobs.clone()
    }

    /// Why its output has ended: the end of its stderr, or what became of it.
    pub(super) async fn why_gone(&mut self) -> String {
        let stderr = self.output.stderr();
        if stderr.is_empty() { self.instance.fate().await.to_string() } else { stderr }
    }

    /// Asks the sandbox to end, then kills and removes it.
    ///
    /// # Errors
    /// The container could not be removed, which was logged.
    pub(super) async fn close(mut self) -> Result<(), EngineError> {
        self.send(&ToSupervisor::Shutdown);
        let farewell = async { while self.output.next().await.is_some() {} };
        if tokio::time::timeout(FAREWELL, farewell).await.is_err() {
            tracing::debug!("the sandbox did not end itself");
        }
        self.writer.abort();
        // The streams are closed before the container: an engine waits for attached clients that do not read.
        drop(self.output);
        self.instance.close().await
    }
}
