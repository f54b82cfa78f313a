//! A started sandbox: container, handshake, and frames in both directions.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use super::files::{Files, PutBack};
use super::outgoing::{Outgoing, ResultLine, write};
use super::posture::{self, Asked, Weakness};
use super::runtime::{BOOTSTRAP, bundle};
use super::watchdog::{Watchdog, Watched};
use crate::engine::{
    About, Belongings, Container, ContainerOutput, Engine, EngineError, Folder, NotStarted, Owner, Places,
    SandboxSpec, TMPFS_MIB, find, lock_path,
};
use crate::guard::{Guardian, Mark};
use crate::limits::Limits;
use crate::protocol::{
    self, Decoder, Dropped, FromSandbox, FromSupervisor, Posture, PostureField, SandboxBounds, SandboxLimits,
    ToSupervisor, ToWorker, WorkerPosture,
};
use crate::run::{FaultCode, ToolFault};
use crate::workspace::Place;

/// How the operator wants sandboxes.
#[derive(Debug, Clone)]
pub struct SandboxSettings {
    /// Where engines may be.
    pub places: Places,
    /// Images by preference; the first that is there is used.
    pub images: Vec<String>,
    /// User id inside.
    pub uid: u32,
    /// Group id inside.
    pub gid: u32,
    /// Memory and swap together.
    pub memory_bytes: u64,
    /// Processes and threads.
    pub pids_max: u64,
    /// Thousandths of a CPU; nothing for no limit.
    pub cpu_millis: Option<u64>,
    /// Whether a run that had to be killed is rolled back.
    pub rollback: bool,
    /// In what a sandbox may be weaker than asked for.
    pub allow_weak: Vec<PostureField>,
    /// A setting of the sandbox that cannot be read: then there is no sandbox.
    pub unreadable: Option<String>,
    /// Folders of the machine that code may read or write.
    pub folders: Vec<Folder>,
    /// Idle time after which it is stopped; nothing for never.
    pub idle_stop: Option<Duration>,
    /// Where the lock that marks this bridge as alive is kept.
    pub lock_dir: PathBuf,
    /// The workspace whose files are kept.
    pub workspace: Place,
    /// Hears of everything that would outlive this bridge, before it is there.
    pub guardian: Guardian,
}

/// How the operator wants sandboxes now: asked before each one is started.
pub type Wanted = Arc<dyn Fn() -> SandboxSettings + Send + Sync>;

/// What is known of a started sandbox, for people.
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
    /// What the reader of the first reply must know: limits not enforced, a rootful engine.
    pub notices: Vec<String>,
    /// Stale containers that were removed before the start.
    pub reaped: usize,
    /// In what it is weaker than asked for, by the operator's leave; said in the first reply of every sandbox.
    pub allowed: Vec<String>,
    /// The limits that hotcell watches itself, since the engine does not enforce them.
    pub watched: Vec<PostureField>,
}

/// Makes sandboxes; keeps the engine and the owner's lock between them.
pub(super) struct Maker {
    wanted: Wanted,
    /// Of the last sandbox.
    settings: SandboxSettings,
    limits: Arc<Limits>,
    engine: Option<Engine>,
    owner: Option<Owner>,
    reaped: usize,
    /// What is put into each sandbox.
    files: Option<Files>,
    /// Sandboxes that were asked for.
    asked: u64,
    /// The one that the engine has not answered yet.
    creating: BTreeSet<u64>,
}

/// A running sandbox.
pub(super) struct Sandbox {
    container: Container,
    output: ContainerOutput,
    decoder: Decoder,
    control: mpsc::Sender<Vec<u8>>,
    data: mpsc::Sender<ResultLine>,
    /// Of what was sent for workers, as the supervisor tells it.
    taken: watch::Sender<u64>,
    writer: JoinHandle<()>,
    asked: Asked,
    allow_weak: Vec<PostureField>,
    /// Present where the engine enforces too little.
    pub(super) watchdog: Option<Watchdog>,
    pub(super) report: SandboxReport,
    /// The number of the worker that it started with.
    pub(super) worker: u64,
    /// The files that it began with.
    pub(super) files: PutBack,
    /// Idle time after which it is stopped.
    pub(super) idle_stop: Option<Duration>,
}

/// What the guardian is told when there is nothing for it to do, as JSON.
const NOTHING: &str = "null";
/// Frames for the supervisor, and runs, that may wait; they overtake results.
const CONTROL_QUEUED_MAX: usize = 32;
/// Lines for the worker that may wait: few, since each may be large.
const DATA_QUEUED_MAX: usize = 8;
/// The folder whose files are kept.
const WORKSPACE: &str = "/workspace";
/// How long a sandbox may take to end itself before it is killed.
const FAREWELL: Duration = Duration::from_millis(500);

impl Maker {
    pub(super) fn new(wanted: Wanted, limits: Arc<Limits>, files: Option<Files>) -> Self {
        let (settings, creating) = (wanted(), BTreeSet::new());
        Self { wanted, settings, limits, engine: None, owner: None, reaped: 0, files, asked: 0, creating }
    }

    /// Starts a sandbox and waits for its interpreter.
    pub(super) async fn make(&mut self) -> Result<Sandbox, ToolFault> {
        let before = std::mem::replace(&mut self.settings, (self.wanted)());
        // Where something may be left, the guardian must go on knowing the engine that it is left on.
        if before.places != self.settings.places && self.creating.is_empty() {
            self.engine = None;
        }
        if let Some(problem) = &self.settings.unreadable {
            return Err(Failure::Unreadable { problem: problem.clone() }.into_fault());
        }
        match self.attempt().await {
            // Seen about once in a thousand starts on Podman: the stream ends before the first frame.
            Err(Failure::Silent { stderr }) if stderr.is_empty() => self.attempt().await,
            other => other,
        }
        .map_err(Failure::into_fault)
    }

    /// What the engine of the last sandbox says of itself.
    pub(super) async fn about(&self) -> Result<About, ToolFault> {
        let engine = self.engine.as_ref().ok_or(Failure::NoEngineYet).map_err(Failure::into_fault)?;
        engine.about().await.map_err(|error| Failure::from(error).into_fault())
    }

    /// Ends the last sandbox's belongings in order, when every container is known to be gone; else the guardian and the
    /// next start are left with them.
    pub(super) async fn release(mut self) {
        // The engine first: it may be a process of ours, with its socket beside the lock.
        self.engine = None;
        if let Some(owner) = self.owner.take()
            && self.creating.is_empty()
        {
            owner.release();
            self.settings.guardian.tell(NOTHING.into()).await;
        }
    }

    async fn attempt(&mut self) -> Result<Sandbox, Failure> {
        let (engine, is_new) = self.engine().await?;
        // Both are questions to the engine, and neither waits for the other's answer.
        let (image, reaped) = tokio::join!(engine.image(&self.settings.images), async {
            if is_new { self.reap(&engine).await } else { 0 }
        });
        self.reaped += reaped;
        let image = image?;
        self.asked += 1;
        let spec = self.spec(&image)?;
        self.creating.insert(self.asked);
        self.tell().await;
        let started = engine.start(&spec).await;
        if !matches!(started, Err(NotStarted { may_exist: true, .. })) {
            self.creating.remove(&self.asked);
            self.tell().await;
        }
        let (container, streams) = started.map_err(|not_started| not_started.error)?;
        let (control, control_inbox) = mpsc::channel(CONTROL_QUEUED_MAX);
        let (data, data_inbox) = mpsc::channel(DATA_QUEUED_MAX);
        let (taken, taken_seen) = watch::channel(0);
        let outgoing = Outgoing {
            control: control_inbox,
            results: data_inbox,
            taken: taken_seen,
            unread_bytes_max: self.limits.unread_in_sandbox_bytes_max,
        };
        let writer = tokio::spawn(write(streams.input, bundle(), outgoing));
        let mut notices: Vec<String> =
            container.warnings.iter().map(|warning| format!("engine: {warning}")).collect();
        if self.folders() != self.settings.folders {
            notices.push(
                "no [[mount]] is there: the engine is on another machine, whose folders are others".into(),
            );
        }
        let mut sandbox = Sandbox {
            report: SandboxReport {
                address: engine.address.clone(),
                image,
                python: String::new(),
                posture: Posture::default(),
                notices,
                reaped: std::mem::take(&mut self.reaped),
                allowed: vec![],
                watched: vec![],
            },
            worker: 0,
            files: PutBack::default(),
            container,
            output: streams.output,
            decoder: Decoder::new(&self.limits),
            control,
            data,
            taken,
            writer,
            asked: self.asked(),
            allow_weak: self.settings.allow_weak.clone(),
            idle_stop: self.settings.idle_stop,
            watchdog: None,
        };
        let shaken = tokio::time::timeout(self.limits.sandbox_start, self.handshake(&mut sandbox)).await;
        let after = self.limits.sandbox_start;
        let ready = match shaken.unwrap_or(Err(Failure::Late { after })) {
            Ok(()) => self.put_files_back(&mut sandbox).await,
            failed => failed,
        };
        match ready {
            Ok(()) => Ok(sandbox),
            Err(failure) => {
                if sandbox.close().await.is_err() {
                    self.creating.insert(self.asked);
                }
                Err(failure)
            }
        }
    }

    /// The engine used before while it answers, else the first that does, which is new then.
    async fn engine(&mut self) -> Result<(Engine, bool), Failure> {
        if let Some(engine) = &self.engine {
            if engine.answers().await {
                return Ok((engine.clone(), false));
            }
            self.engine = None;
        }
        let sockets = match &self.owner {
            Some(owner) => owner.sockets(),
            None => self.claim().await?,
        };
        let engine = find(&self.settings.places, &sockets).await?;
        self.engine = Some(engine.clone());
        self.tell().await;
        Ok((engine, true))
    }

    /// Removes what dead bridges have left on the engine; how many containers.
    async fn reap(&self, engine: &Engine) -> usize {
        let Some(owner) = &self.owner else { return 0 };
        match tokio::time::timeout(self.limits.engine_request, owner.reap(engine)).await {
            Ok(Ok(reaped)) => return reaped,
            Ok(Err(error)) => tracing::warn!(%error, "stale containers could not be looked for"),
            Err(_) => tracing::warn!("looking for stale containers took too long"),
        }
        0
    }

    /// Makes this bridge an owner; returns the folder for its sockets.
    async fn claim(&mut self) -> Result<PathBuf, Failure> {
        let lock = lock_path(&self.settings.lock_dir, Mark::new().as_str());
        self.tell_of(lock.clone()).await;
        let owner = Owner::claim(lock)?;
        let sockets = owner.sockets();
        self.owner = Some(owner);
        Ok(sockets)
    }

    /// Tells the guardian what there is now.
    async fn tell(&self) {
        if let Some(owner) = &self.owner {
            self.tell_of(owner.lock().to_owned()).await;
        }
    }

    async fn tell_of(&self, lock: PathBuf) {
        let belongings = Belongings {
            lock,
            engine: self.engine.as_ref().map(|engine| engine.address.clone()),
            ssh: self.settings.places.ssh.clone(),
            creating: self.creating.clone(),
        };
        match serde_json::to_string(&belongings) {
            Ok(line) => self.settings.guardian.tell(line).await,
            Err(error) => tracing::warn!(%error, "the guardian cannot be told of a path"),
        }
    }

    fn spec(&self, image: &str) -> Result<SandboxSpec, Failure> {
        let settings = &self.settings;
        let labels = self.owner.as_ref().map(|owner| owner.labels(self.asked)).ok_or(Failure::NoOwner)?;
        Ok(SandboxSpec {
            image: image.to_owned(),
            command: ["python3", "-I", "-u", "-c", BOOTSTRAP].map(str::to_owned).to_vec(),
            user: format!("{}:{}", settings.uid, settings.gid),
            memory_bytes: settings.memory_bytes,
            pids_max: settings.pids_max,
            cpu_millis: settings.cpu_millis,
            open_files_max: self.limits.sandbox_open_files_max,
            folders: self.folders(),
            labels,
            request: self.limits.engine_request,
        })
    }

    async fn handshake(&self, sandbox: &mut Sandbox) -> Result<(), Failure> {
        let bounds = SandboxBounds {
            memory_bytes: self.settings.memory_bytes,
            pids_max: self.settings.pids_max,
            allow_unfiltered: self.settings.allow_weak.contains(&PostureField::Seccomp),
            frozen_copies: self.settings.rollback,
        };
        let limits = SandboxLimits::new(&self.limits, bounds);
        let version = protocol::VERSION;
        sandbox.send(&ToSupervisor::Hello { version, limits, workspace: WORKSPACE });
        let mut watched = Ok(());
        loop {
            let Some(frame) = sandbox.next().await else {
                return Err(Failure::Silent { stderr: sandbox.output.stderr() });
            };
            match frame {
                Ok(FromSandbox::Supervisor(FromSupervisor::Hello { version, python, posture })) => {
                    if version != protocol::VERSION {
                        return Err(Failure::Version { theirs: version });
                    }
                    sandbox.report.posture = *posture;
                    self.judge(sandbox)?;
                    watched = self.watch(sandbox).await;
                    sandbox.report.python = python;
                }
                Ok(FromSandbox::Supervisor(FromSupervisor::WorkerStarted { worker, posture, .. })) => {
                    sandbox.worker = worker;
                    // Never before the hello: its posture decides.
                    if sandbox.report.python.is_empty() {
                        return Err(Failure::NoHello);
                    }
                    let allowed = sandbox.judge_worker(&posture, false).map_err(Failure::weak)?;
                    sandbox.report.allowed.extend(allowed);
                    // Only now: one that ends meanwhile cannot be watched either, and says itself why it ends.
                    return watched;
                }
                Ok(FromSandbox::Supervisor(FromSupervisor::Fault { message, field })) => {
                    let field = field.and_then(|name| name.parse().ok());
                    return Err(match field {
                        Some(field) => {
                            Failure::Weak { fields: vec![field], said: vec![format!("{field}: {message}")] }
                        }
                        None => Failure::Fault { message },
                    });
                }
                Ok(other) => tracing::debug!(?other, "a frame before the handshake"),
                Err(dropped) => tracing::debug!(%dropped, "a line before the handshake"),
            }
        }
    }

    /// Puts the kept files into its workspace, before its first run.
    async fn put_files_back(&self, sandbox: &mut Sandbox) -> Result<(), Failure> {
        let Some(files) = &self.files else { return Ok(()) };
        let put = async {
            sandbox.files = files.put_back(sandbox.control.clone()).await?;
            // All are on their way, so that a run finds room in the queue.
            sandbox
                .control
                .reserve_many(CONTROL_QUEUED_MAX)
                .await
                .map_err(|_| "the sandbox has gone".to_owned())?;
            Ok(())
        };
        let after = self.limits.keep_files;
        let put = tokio::time::timeout(after, put).await.unwrap_or_else(|_| Err("it took too long".into()));
        put.map_err(|reason| Failure::Files { reason })
    }

    fn asked(&self) -> Asked {
        Asked {
            uid: self.settings.uid.into(),
            gid: self.settings.gid.into(),
            memory_bytes: self.settings.memory_bytes,
            pids_max: self.settings.pids_max,
            cpu_millis: self.settings.cpu_millis,
            open_files_max: self.limits.sandbox_open_files_max,
            tmpfs: &TMPFS_MIB,
            folders: self.folders(),
        }
    }

    /// Those that can be mounted: an engine elsewhere has other folders.
    fn folders(&self) -> Vec<Folder> {
        let is_here = self.engine.as_ref().is_none_or(Engine::is_here);
        if is_here { self.settings.folders.clone() } else { vec![] }
    }

    /// Refuses what is weaker than asked for.
    fn judge(&self, sandbox: &mut Sandbox) -> Result<(), Failure> {
        let weak = posture::weaknesses(&sandbox.report.posture, &sandbox.asked);
        sandbox.report.allowed = sandbox.allow(weak).map_err(Failure::weak)?;
        if !sandbox.report.posture.user_namespace {
            let notice = "the container engine is rootful; a rootless one would be safer";
            sandbox.report.notices.push(notice.into());
        }
        Ok(())
    }

    /// The second line where the engine does not enforce memory or processes; for CPU time there is none. Refuses what can
    /// neither be enforced nor watched.
    async fn watch(&self, sandbox: &mut Sandbox) -> Result<(), Failure> {
        let unenforced = posture::unenforced(&sandbox.report.posture, &sandbox.asked);
        if unenforced.is_empty() {
            return Ok(());
        }
        let of = |field, limit| unenforced.iter().any(|(own, _)| *own == field).then_some(limit);
        let watched = Watched {
            memory_bytes: of(PostureField::Memory, self.settings.memory_bytes),
            processes: of(PostureField::Pids, self.settings.pids_max),
        };
        let meter = if watched == Watched::default() { None } else { sandbox.container.meter().await };
        sandbox.watchdog = meter.map(|meter| Watchdog::start(meter, watched, Arc::clone(&self.limits)));
        let (mut fields, mut said) = (vec![], vec![]);
        for (field, limit) in unenforced {
            if sandbox.watchdog.is_some() && field != PostureField::Cpus {
                sandbox.report.watched.push(field);
                sandbox.report.notices.push(format!("{limit}: hotcell watches it and ends what exceeds it"));
            } else if self.settings.allow_weak.contains(&field) {
                sandbox.report.allowed.push(format!("{field}: {limit}"));
            } else {
                fields.push(field);
                said.push(format!("{field}: {limit}, nor can hotcell watch it"));
            }
        }
        if fields.is_empty() { Ok(()) } else { Err(Failure::Weak { fields, said }) }
    }
}

impl Sandbox {
    /// The next frame, or why a line was dropped; nothing when the sandbox is gone. Cancel-safe.
    pub(super) async fn next(&mut self) -> Option<Result<FromSandbox, Dropped>> {
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
        self.container.close().await
    }
}

/// Why there is no sandbox.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error("no sandbox is started with a setting that cannot be read: {problem}")]
    Unreadable { problem: String },
    #[error("no engine has been used yet")]
    NoEngineYet,
    #[error("the owner lock is missing")]
    NoOwner,
    #[error("the sandbox ended before it was ready{}", if stderr.is_empty() { String::new() } else { format!(": {stderr}") })]
    Silent { stderr: String },
    #[error("the sandbox was not ready within {} s", after.as_secs())]
    Late { after: Duration },
    #[error("the sandbox speaks protocol version {theirs}, this bridge {}", protocol::VERSION)]
    Version { theirs: u64 },
    #[error("the sandbox started an interpreter without a handshake")]
    NoHello,
    #[error("the sandbox could not start: {message}")]
    Fault { message: String },
    #[error("the files of the workspace could not be put into the sandbox: {reason}")]
    Files { reason: String },
    #[error("the sandbox is weaker than asked for and was refused: {}", said.join("; "))]
    Weak { fields: Vec<PostureField>, said: Vec<String> },
}

impl Failure {
    fn weak(weak: Vec<Weakness>) -> Self {
        let said = weak.iter().map(ToString::to_string).collect();
        Self::Weak { fields: weak.into_iter().map(|weakness| weakness.field).collect(), said }
    }

    fn into_fault(self) -> ToolFault {
        let hint = match &self {
            Self::Engine(error) => error.hint(),
            Self::Silent { .. } => {
                "the image must have python3 >= 3.11 in its PATH; `hotcell doctor` shows the image".into()
            }
            Self::Unreadable { .. } => "correct it, or leave it out for its default".into(),
            Self::Weak { fields, .. } => {
                let mut names: Vec<&str> = fields.iter().map(|field| field.name()).collect();
                names.dedup();
                format!(
                    "correct the engine's configuration, or use another engine; to run code in such a sandbox all \
                     the same, set MCP_BRIDGE_ALLOW_WEAK={}",
                    names.join(",")
                )
            }
            Self::Files { .. } => {
                "end the other hotcell, or choose another name in MCP_BRIDGE_WORKSPACE; its files are below `workspaces` in \
                 MCP_BRIDGE_STATE_DIR"
                    .into()
            }
            _ => "`hotcell doctor` checks the engine and the image".into(),
        };
        ToolFault::new(FaultCode::SandboxUnavailable, self.to_string()).hint(hint)
    }
}
