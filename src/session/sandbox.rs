//! A started sandbox: container, handshake, and frames in both directions.

pub(super) mod bundle;
mod failure;
pub(super) mod posture;
mod special_files;
mod starter;
pub(super) mod usage_watchdog;
pub(super) mod writer;

use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use self::posture::{RequestedPosture, Weakness};
pub(super) use self::starter::SandboxStarter;
pub use self::starter::{CpuLimit, SandboxSettings, SettingsSource};
use self::usage_watchdog::Watchdog;
use self::writer::ResultLine;
use super::files::RestoredFiles;
use crate::engine::{EngineError, Instance, Kernel, Output};
use crate::own_file;
use crate::protocol::{
    Decoder, DroppedLine, ExtraSystemCall, FromSandbox, FromSupervisor, Posture, PostureField, ToSupervisor,
    ToWorker, WorkerPosture,
};

/// The facts about a started sandbox, for people.
#[derive(Debug, Clone)]
pub struct SandboxReport {
    /// Where the engine listens.
    pub address: String,
    /// The image.
    pub image: String,
    /// The interpreter's version.
    pub python: String,
    /// What the supervisor sees.
    pub posture: Posture,
    /// What it sees of the first worker.
    pub worker: WorkerPosture,
    /// What the reader of a session's first reply must know, such as limits that the engine does not enforce.
    pub notices: Vec<String>,
    /// Stale containers that were removed before the start.
    pub reaped: usize,
    /// Whose kernel it has.
    pub kernel: Kernel,
    /// In what it is weaker than asked for, by the operator's leave; said in the first reply of every sandbox.
    pub allowed: Vec<String>,
    /// System calls that the user has added; said in the first reply of every sandbox.
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
    /// Of what was sent for workers, as the supervisor tells it.
    taken: watch::Sender<u64>,
    writer: JoinHandle<()>,
    asked: RequestedPosture,
    /// Whether no other sandbox has its user.
    has_own_user: bool,
    allow_weak: Vec<PostureField>,
    /// Present where the engine enforces too little.
    pub(super) watchdog: Option<Watchdog>,
    pub(super) report: SandboxReport,
    /// The number of the worker that it started with.
    pub(super) worker: u64,
    /// The files that it began with.
    pub(super) files: RestoredFiles,
    /// Idle time after which it is stopped.
    pub(super) idle_stop: Option<Duration>,
    /// Where it is recorded that a notice was given.
    notices_dir: Option<PathBuf>,
}

/// How long a sandbox may take to end itself before it is killed.
const FAREWELL: Duration = Duration::from_millis(500);
/// The file that records that [`ROOTFUL`] was said.
const ROOTFUL_SAID: &str = "rootful-engine-notice";
/// The notice about an engine that runs as root.
const ROOTFUL: &str = "the container engine is rootful; a rootless one would be safer";

impl SandboxReport {
    /// The notice about an engine that runs as root, if it does.
    #[must_use]
    pub fn rootful(&self) -> Option<&'static str> {
        (!self.posture.user_namespace).then_some(ROOTFUL)
    }
}

impl Sandbox {
    /// The notice about a rootful engine, the first time that a reply of this user's machine gives it.
    pub(super) fn first_rootful(&self) -> Option<&'static str> {
        let notice = self.report.rootful()?;
        let dir = self.notices_dir.as_deref();
        let recorded = dir.map(|dir| own_file::create(dir, ROOTFUL_SAID, self.report.address.as_bytes()));
        // What cannot be recorded is rather said again than never.
        let was_said = matches!(recorded, Some(Err(error)) if error.kind() == ErrorKind::AlreadyExists);
        (!was_said).then_some(notice)
    }

    /// The next frame, or why a line was dropped; nothing when the sandbox is gone. Cancel-safe.
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

    /// What a worker is weaker in by the operator's leave; an error names what is not allowed.
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

    /// Queues a run, ahead of all results: those of earlier runs may still be under way.
    pub(super) fn send_run(&self, run: &ToWorker) {
        self.send_first(run.to_line());
    }

    fn send_first(&self, line: Vec<u8>) {
        if self.control.try_send(line).is_err() {
            // The stream's end or the deadline of what was asked for says so to everybody.
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

    /// The last words on the container's stderr.
    pub(super) fn stderr(&self) -> String {
        self.output.stderr()
    }

    /// Ends the sandbox: it is asked to, then killed and removed.
    ///
    /// # Errors
    /// When its container stays; the log has said so.
    pub(super) async fn close(mut self) -> Result<(), EngineError> {
        self.send(&ToSupervisor::Shutdown);
        let farewell = async { while self.output.next().await.is_some() {} };
        if tokio::time::timeout(FAREWELL, farewell).await.is_err() {
            tracing::debug!("the sandbox did not end itself");
        }
        self.writer.abort();
        // The streams go before the container: an engine waits for whoever is attached and does not read.
        drop(self.output);
        self.instance.close().await
    }
}
