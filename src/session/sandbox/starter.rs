//! Starts sandboxes with the current settings: engine, container, handshake, restored files.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use belljar_base::limits::Limits;
use belljar_base::resolved_path::ResolvedPath;
use belljar_base::run::ToolFault;
use belljar_confine::PrivatePlaces;
use belljar_engine::{
    CleanupList, CpuQuota, Engine, EngineInfo, EngineLocations, Folder, Kernel, Network, Owner, SandboxSpec,
    StartFailure, User, find, leave_out, lock_path, tmpfs_mib,
};
use belljar_guard::{Guardian, Mark};
use belljar_protocol::{
    BOOTSTRAP, BundleCode, Decoder, ExtraSystemCall, FileIdentity, FromSandbox, FromSupervisor, Posture,
    PostureField, REMOTE_BOOTSTRAP, SandboxBounds, SandboxLimits, ToSupervisor, WorkerPosture,
    runtime_bundle,
};
use nix::fcntl::OFlag;
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, watch};

use super::super::files::Files;
use super::code_cache::{AwaitedCode, CodeCache};
use super::failure::Failure;
use super::special_files::{self, Bounds, UnsafeFolder};
use super::usage_watchdog::{Watchdog, WatchedLimits};
use super::writer::{OutgoingFrames, write};
use super::{RequestedPosture, RestoredFiles, Sandbox, SandboxReport, posture};
use crate::workspace::WorkspaceLocation;

/// What the guardian of a session removes when the bridge has gone.
#[derive(Debug, Serialize, Deserialize)]
pub struct GuardedResources {
    /// The containers, and the files of their owner.
    pub cleanup_list: CleanupList,
    /// The folder of all workspaces. Those of sessions that have ended are removed.
    pub workspaces: PathBuf,
}

/// The settings of the operator for sandboxes.
#[derive(Debug, Clone)]
pub struct SandboxSettings {
    /// The places where engines may be.
    pub locations: EngineLocations,
    /// The OCI runtime; `None`: the engine's default.
    pub oci_runtime: Option<String>,
    /// Images in the order of preference; the first one that exists is used.
    pub images: Vec<String>,
    /// The time zone of the sandbox's clock.
    pub time_zone: String,
    /// Packages that are imported while the sandbox is idle.
    pub preload: Vec<String>,
    /// The user in the sandbox; `None`: a user that no other sandbox has.
    pub user: Option<User>,
    /// The limit on memory and swap together, in bytes.
    pub memory_bytes: u64,
    /// The largest number of processes and threads.
    pub pids_max: u64,
    /// The limit on CPU time.
    pub cpu: CpuLimit,
    /// Whether a run that had to be killed is rolled back.
    pub rollback: bool,
    /// The largest number of checkpoints.
    pub checkpoints: u64,
    /// The properties in which a sandbox may be weaker than requested.
    pub allow_weak: Vec<PostureField>,
    /// System calls that code can make besides those that the filter allows.
    pub extra_system_calls: Vec<ExtraSystemCall>,
    /// Whether refused system calls are counted.
    pub trace_denied: bool,
    /// The problem with a setting of the sandbox that cannot be read. While there is one, no sandbox is started.
    pub unreadable: Option<String>,
    /// Why it cannot be recorded what code can change; nothing is started then.
    pub unrecorded: Option<String>,
    /// Folders of the machine that code may read or write.
    pub folders: Vec<Folder>,
    /// The places of the user that are never mounted.
    pub private: PrivatePlaces,
    /// The idle time after which the sandbox is stopped; `None`: never.
    pub idle_stop: Option<Duration>,
    /// The folder of the lock that marks this bridge as alive.
    pub lock_dir: PathBuf,
    /// The folder that records which notices were given; `None`: each session gives them again.
    pub notices_dir: Option<PathBuf>,
    /// The folder of the runtime's compiled code; `None`: each sandbox compiles it.
    pub code_dir: Option<PathBuf>,
    /// The workspace whose files are stored.
    pub workspace: WorkspaceLocation,
    /// The place for files that a session hands over, if its workspace is deleted when it ends.
    pub outbox: WorkspaceLocation,
    /// Gets the name of everything that could outlive this bridge, before that is created.
    pub guardian: Guardian,
}

/// The limit on the CPU time of a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CpuLimit {
    /// All processors of the engine's machine but one, and at least one. An engine that cannot enforce it is accepted.
    AllButOne,
    /// Thousandths of a CPU. An engine that cannot enforce it is refused.
    Millis(u64),
    /// The lower of this number of thousandths and [`Self::AllButOne`].
    AtMost(u64),
}

/// Returns the current settings for sandboxes. It is called before each sandbox is started.
pub type SettingsSource = Arc<dyn Fn() -> SandboxSettings + Send + Sync>;

/// Starts sandboxes. Between two of them, it holds the engine and the lock that marks this bridge as their owner.
pub(crate) struct SandboxStarter {
    settings_source: SettingsSource,
    /// The settings of the last sandbox.
    settings: SandboxSettings,
    limits: Arc<Limits>,
    engine: Option<Arc<dyn Engine>>,
    /// The addresses of the engines on which something could outlive this bridge.
    used: BTreeSet<String>,
    /// Sentences about engines that were left out when this one was chosen.
    left_out: Vec<String>,
    owner: Option<Owner>,
    reaped: usize,
    /// The files that are restored into each sandbox.
    files: Option<Files>,
    /// The number of sandboxes that were requested.
    asked: u64,
    /// The sandboxes whose creation the engine has not answered yet.
    creating: BTreeSet<u64>,
}

/// The message to the guardian, as JSON, that there is nothing to remove.
const NOTHING: &str = "null";
/// The largest number of queued frames for the supervisor and of queued runs, which overtake results.
const CONTROL_QUEUED_MAX: usize = 32;
/// The largest number of queued lines for the worker, and for jobs: few, since each may be large.
const DATA_QUEUED_MAX: usize = 8;
/// The folder in the sandbox whose files are stored.
const WORKSPACE: &str = "/workspace";
/// The number of sandboxes that may share a user: the kernel counts the processes of a user, not those of a sandbox.
const SANDBOXES_OF_SHARED_USER: u64 = 4;

impl SandboxStarter {
    pub(crate) fn new(settings_source: SettingsSource, limits: Arc<Limits>, files: Option<Files>) -> Self {
        let (settings, creating) = (settings_source(), BTreeSet::new());
        Self {
            settings_source,
            settings,
            limits,
            engine: None,
            used: BTreeSet::new(),
            left_out: vec![],
            owner: None,
            reaped: 0,
            files,
            asked: 0,
            creating,
        }
    }

    /// Starts a sandbox and waits for its interpreter.
    pub(crate) async fn start(&mut self) -> Result<Sandbox, ToolFault> {
        let before = std::mem::replace(&mut self.settings, (self.settings_source)());
        if before.locations != self.settings.locations {
            self.release_engine().await;
        }
        if let Some(problem) = &self.settings.unreadable {
            return Err(Failure::Unreadable { problem: problem.clone() }.into_fault());
        }
        if let Some(problem) = &self.settings.unrecorded {
            return Err(Failure::Unrecorded { problem: problem.clone() }.into_fault());
        }
        let mut others = self.settings.locations.fleet().len().saturating_sub(1);
        loop {
            let failure = match self.attempt().await {
                // On Podman, about one start in a thousand ends before the first frame.
                Err(Failure::Silent { stderr }) if stderr.is_empty() => self.attempt().await,
                other => other,
            };
            let failure = match failure {
                Ok(sandbox) => return Ok(sandbox),
                Err(failure) => failure,
            };
            // Another engine may start it.
            let Some(engine) = self.engine.take_if(|_| others > 0) else { return Err(failure.into_fault()) };
            leave_out(engine.address(), &failure.into_fault().message);
            others -= 1;
        }
    }

    /// The facts that the engine of the last sandbox reports about itself.
    pub(crate) async fn about(&self) -> Result<EngineInfo, ToolFault> {
        let engine = self.engine.as_ref().ok_or(Failure::NoEngineYet).map_err(Failure::into_fault)?;
        engine.about().await.map_err(|error| Failure::from(error).into_fault())
    }

    /// Releases the lock and the engine, if every container is known to be gone. Otherwise the guardian and the next
    /// start remove what is left.
    pub(crate) async fn release(mut self) {
        // The engine ends first: it may be a child process, with its socket beside the lock.
        self.release_engine().await;
        if let Some(owner) = self.owner.take()
            && self.creating.is_empty()
        {
            owner.release();
            self.settings.guardian.tell(NOTHING.into()).await;
        }
    }

    /// Lets the engine go, with what stands for this bridge there.
    async fn release_engine(&mut self) {
        if let Some(engine) = self.engine.take() {
            engine.release().await;
        }
    }

    async fn attempt(&mut self) -> Result<Sandbox, Failure> {
        let (engine, is_new) = self.engine().await?;
        let (checked, said_of_folders) = self.folders(engine.as_ref()).await;
        // The folders stay open until the posture was compared, so that no other folder gets their inode numbers.
        let (folders, _opened): (Vec<Folder>, Vec<File>) = checked.into_iter().unzip();
        self.asked += 1;
        let cpu = self.cpu_quota(engine.as_ref()).await;
        let spec = SandboxSpec { cpu, ..self.spec(engine.as_ref(), folders.clone())? };
        self.creating.insert(self.asked);
        self.tell().await;
        // Containers of dead bridges do not affect this one, so both happen at once.
        let (started, reaped) = tokio::join!(engine.start(&spec), async {
            if is_new { self.reap(engine.as_ref()).await } else { 0 }
        });
        self.reaped += reaped;
        if !matches!(started, Err(StartFailure { may_exist: true, .. })) {
            self.creating.remove(&self.asked);
            self.tell().await;
        }
        let started = started.map_err(|not_started| not_started.error)?;
        let user = started.user;
        let has_own_user = spec.user.is_none() && started.shared_user.is_none();
        let (control, control_inbox) = mpsc::channel(CONTROL_QUEUED_MAX);
        let (data, data_inbox) = mpsc::channel(DATA_QUEUED_MAX);
        let (data_of_jobs, data_of_jobs_inbox) = mpsc::channel(DATA_QUEUED_MAX);
        let (taken, taken_seen) = watch::channel(0);
        let outgoing = OutgoingFrames {
            control: control_inbox,
            results: data_inbox,
            results_of_jobs: data_of_jobs_inbox,
            taken: taken_seen,
            unread_bytes_max: self.limits.unread_in_sandbox_bytes_max,
        };
        let cache = self.settings.code_dir.clone().map(CodeCache::new).zip(started.python_id);
        let stored = cache.as_ref().and_then(|(cache, python)| cache.load(python));
        let code = match (&cache, &stored) {
            (None, _) => BundleCode::None,
            (Some(_), None) => BundleCode::Wanted,
            (Some(_), Some(stored)) => BundleCode::Stored(stored),
        };
        let awaited = AwaitedCode::new(cache.filter(|_| stored.is_none()));
        let writer = tokio::spawn(write(started.streams.input, runtime_bundle(code), outgoing));
        let mut notices: Vec<String> =
            started.warnings.iter().map(|warning| format!("engine: {warning}")).collect();
        notices.extend(said_of_folders);
        notices.extend(started.shared_user);
        let mut sandbox = Sandbox {
            report: SandboxReport {
                address: engine.address().to_owned(),
                image: started.image,
                python: String::new(),
                posture: Posture::default(),
                worker: WorkerPosture::default(),
                notices,
                left_out: std::mem::take(&mut self.left_out),
                reaped: std::mem::take(&mut self.reaped),
                kernel: Kernel::of_runtime(self.settings.oci_runtime.as_deref()),
                allowed: vec![],
                extra_system_calls: self.settings.extra_system_calls.clone(),
                watched: vec![],
            },
            asked: self.asked(engine.as_ref(), user, folders, started.cpu),
            worker: 0,
            files: RestoredFiles::default(),
            instance: started.instance,
            output: started.streams.output,
            decoder: Decoder::new(&self.limits),
            control,
            data,
            data_of_jobs,
            taken,
            writer,
            has_own_user,
            allow_weak: self.settings.allow_weak.clone(),
            idle_stop: self.settings.idle_stop,
            notices_dir: self.settings.notices_dir.clone(),
            watchdog: None,
        };
        let shaken =
            tokio::time::timeout(self.limits.sandbox_start, self.handshake(&mut sandbox, awaited)).await;
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

    /// The CPU limit to request from the engine; `None` if its processors cannot be counted.
    async fn cpu_quota(&self, engine: &dyn Engine) -> Option<CpuQuota> {
        let (configured, is_maximum) = match self.settings.cpu {
            CpuLimit::Millis(millis) => return Some(CpuQuota { millis, optional: false }),
            CpuLimit::AtMost(millis) => (millis, true),
            CpuLimit::AllButOne => (u64::MAX, false),
        };
        let count = engine.processors(self.limits.engine_request).await;
        match count.map(|count| 1000 * count.saturating_sub(1).max(1)) {
            Some(millis) if millis < configured => Some(CpuQuota { millis, optional: true }),
            _ => is_maximum.then_some(CpuQuota { millis: configured, optional: false }),
        }
    }

    /// The engine that was used before, if it still answers, else the first one that does. The flag says that it is
    /// new.
    async fn engine(&mut self) -> Result<(Arc<dyn Engine>, bool), Failure> {
        if let Some(engine) = &self.engine {
            if engine.answers().await {
                return Ok((Arc::clone(engine), false));
            }
            leave_out(engine.address(), "it does not answer any more");
            self.engine = None;
        }
        let sockets = match &self.owner {
            Some(owner) => owner.sockets(),
            None => self.claim().await?,
        };
        let found = find(&self.settings.locations, &self.settings.images, &sockets).await?;
        let engine = found.0;
        self.left_out = found.1;
        self.engine = Some(Arc::clone(&engine));
        if engine.outlives_bridge() {
            self.used.insert(engine.address().to_owned());
        }
        self.tell().await;
        Ok((engine, true))
    }

    /// Removes the containers of dead bridges, and returns their number.
    async fn reap(&self, engine: &dyn Engine) -> usize {
        let Some(owner) = &self.owner else { return 0 };
        match tokio::time::timeout(self.limits.engine_request, engine.reap(owner)).await {
            Ok(Ok(reaped)) => return reaped,
            Ok(Err(error)) => tracing::warn!(%error, "stale containers could not be looked for"),
            Err(_) => tracing::warn!("looking for stale containers took too long"),
        }
        0
    }

    /// Takes the lock that marks this bridge as an owner, and returns the folder for its sockets.
    async fn claim(&mut self) -> Result<PathBuf, Failure> {
        let lock = lock_path(&self.settings.lock_dir, Mark::new().as_str());
        self.tell_of(lock.clone()).await;
        let owner = Owner::claim(lock)?;
        let sockets = owner.sockets();
        self.owner = Some(owner);
        Ok(sockets)
    }

    /// Tells the guardian what it would have to remove now.
    async fn tell(&self) {
        if let Some(owner) = &self.owner {
            self.tell_of(owner.lock().to_owned()).await;
        }
    }

    async fn tell_of(&self, lock: PathBuf) {
        let cleanup_list = CleanupList {
            lock,
            engines: self.used.clone(),
            ssh: self.settings.locations.ssh.clone(),
            certificates: self.settings.locations.certificates.clone(),
            creating: self.creating.clone(),
        };
        let resources = GuardedResources { cleanup_list, workspaces: self.settings.workspace.root.clone() };
        match serde_json::to_string(&resources) {
            Ok(line) => self.settings.guardian.tell(line).await,
            Err(error) => tracing::warn!(%error, "the guardian cannot be told about a path"),
        }
    }

    fn spec(&self, engine: &dyn Engine, folders: Vec<Folder>) -> Result<SandboxSpec, Failure> {
        let settings = &self.settings;
        let bootstrap = if engine.is_here() { BOOTSTRAP } else { REMOTE_BOOTSTRAP };
        let labels = self.owner.as_ref().map(|owner| owner.labels(self.asked)).ok_or(Failure::NoOwner)?;
        Ok(SandboxSpec {
            oci_runtime: settings.oci_runtime.clone(),
            images: settings.images.clone(),
            variables: [("TZ", settings.time_zone.clone()), ("BELLJAR_PRELOAD", settings.preload.join(","))]
                .into_iter()
                .filter(|(_, value)| !value.is_empty())
                .map(|(name, value)| (name.to_owned(), value))
                .collect(),
            command: ["python3", "-I", "-u", "-c", bootstrap].map(str::to_owned).to_vec(),
            user: settings.user.or_else(|| has_writable(&folders).then_some(User::SHARED)),
            memory_bytes: settings.memory_bytes,
            pids_max: settings.pids_max,
            cpu: None,
            open_files_max: self.limits.sandbox_open_files_max,
            folders,
            labels,
            request: self.limits.engine_request,
            reconnection: self.limits.reconnection,
        })
    }

    /// Completes the handshake. `awaited`: the compiled code that the sandbox was asked for.
    async fn handshake(&self, sandbox: &mut Sandbox, mut awaited: AwaitedCode) -> Result<(), Failure> {
        let is_here = self.engine.as_ref().is_none_or(|engine| engine.is_here());
        let bounds = SandboxBounds {
            memory_bytes: self.settings.memory_bytes,
            user_processes_max: match sandbox.has_own_user {
                true => self.settings.pids_max,
                false => self.settings.pids_max.saturating_mul(SANDBOXES_OF_SHARED_USER),
            },
            own_kernel: sandbox.asked.kernel != Kernel::Shared,
            own_user: sandbox.asked.guarantees.own_users && sandbox.has_own_user,
            executable_places: !sandbox.asked.guarantees.shut_places,
            network_denied: sandbox.asked.guarantees.network == Network::Denied,
            heartbeat: if is_here {
                self.limits.heartbeat
            } else {
                self.limits.reconnection + 3 * self.limits.heartbeat
            },
            allow_unfiltered: self.settings.allow_weak.contains(&PostureField::Seccomp),
            trace_denied: self.settings.trace_denied,
            frozen_copies: self.settings.rollback,
            checkpoints: self.settings.checkpoints,
        };
        let limits = SandboxLimits::new(&self.limits, bounds);
        let version = belljar_protocol::VERSION;
        let extra_system_calls = self.settings.extra_system_calls.as_slice().into();
        let writable = sandbox.asked.writable();
        sandbox.send(&ToSupervisor::Hello {
            version,
            limits,
            workspace: WORKSPACE,
            writable,
            extra_system_calls,
        });
        let mut watched = Ok(());
        loop {
            let Some(frame) = sandbox.next().await else {
                return Err(Failure::Silent { stderr: sandbox.output.stderr() });
            };
            if let Ok(FromSandbox::Supervisor(frame)) = &frame {
                awaited.hear(frame);
            }
            match frame {
                Ok(FromSandbox::Supervisor(FromSupervisor::Hello { version, python, posture })) => {
                    if version != belljar_protocol::VERSION {
                        return Err(Failure::Version { theirs: version });
                    }
                    sandbox.report.posture = *posture;
                    self.see_from_outside(sandbox).await;
                    self.judge(sandbox)?;
                    watched = self.watch(sandbox).await;
                    sandbox.report.python = python;
                }
                Ok(FromSandbox::Supervisor(FromSupervisor::Code(_))) => {}
                Ok(FromSandbox::Supervisor(FromSupervisor::WorkerStarted { worker, posture, .. })) => {
                    sandbox.worker = worker;
                    // A worker must not come before the hello, whose posture decides.
                    if sandbox.report.python.is_empty() {
                        return Err(Failure::NoHello);
                    }
                    let allowed = sandbox.judge_worker(&posture, false).map_err(Failure::weak)?;
                    sandbox.report.allowed.extend(allowed);
                    sandbox.report.worker = *posture;
                    // The result of the watch counts only now: a sandbox that ends meanwhile cannot be watched either,
                    // and reports the real reason itself.
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

    /// Restores the stored files into the workspace of the sandbox, before its first run.
    async fn put_files_back(&self, sandbox: &mut Sandbox) -> Result<(), Failure> {
        let Some(files) = &self.files else { return Ok(()) };
        let put = async {
            sandbox.files = files.put_back(sandbox.control.clone()).await?;
            // Waits until all were sent, so that there is space for a run in the queue.
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

    fn asked(
        &self,
        engine: &dyn Engine,
        user: User,
        folders: Vec<Folder>,
        cpu: Option<CpuQuota>,
    ) -> RequestedPosture {
        let kernel = Kernel::of_runtime(self.settings.oci_runtime.as_deref());
        RequestedPosture {
            kernel,
            machines_kernel: if engine.is_here() { Kernel::of_machine() } else { None },
            uid: user.uid.into(),
            gid: user.gid.into(),
            memory_bytes: self.settings.memory_bytes,
            pids_max: self.settings.pids_max,
            cpu,
            open_files_max: self.limits.sandbox_open_files_max,
            tmpfs: tmpfs_mib(self.settings.memory_bytes),
            guarantees: engine.guarantees(),
            folders,
        }
    }

    /// The folders that can be mounted now, each opened, and notices about the others.
    async fn folders(&self, engine: &dyn Engine) -> (Vec<(Folder, File)>, Vec<String>) {
        let configured = &self.settings.folders;
        if !engine.is_here() {
            let said = "no [[mount]] is there: the engine is on another machine, whose folders are others";
            return (vec![], (!configured.is_empty()).then(|| said.to_owned()).into_iter().collect());
        }
        let (mut folders, mut others, mut private) = (vec![], vec![], vec![]);
        for folder in configured {
            match checked(folder) {
                Ok(checked) => folders.push(checked),
                Err(_) => others.push(folder.guest.clone()),
            }
        }
        // Keys may have come into a folder since it was configured.
        folders.retain(|(folder, _)| {
            let is_kept =
                self.settings.private.kept_from_code(Path::new(&folder.host), folder.writable).is_some();
            private.extend(is_kept.then(|| folder.guest.clone()));
            !is_kept
        });
        let said = |names: &[String], why: &str| format!("not mounted, since {why}: {}", names.join(", "));
        let gone =
            (!others.is_empty()).then(|| said(&others, "the host's folder is gone or is another one now"));
        let private = (!private.is_empty())
            .then(|| said(&private, "the host's folder has keys, logins or files of belljar by now"));
        let (mut notices, mut safe): (Vec<String>, _) = (gone.into_iter().chain(private).collect(), vec![]);
        let is_allowed = self.settings.allow_weak.contains(&PostureField::Mounts);
        for (folder, opened) in folders {
            let found = self.search(&folder, &opened).await.err();
            if let Some(reason) = &found {
                let verdict =
                    if is_allowed { "mounted, as MCP_BRIDGE_ALLOW_WEAK allows" } else { "not mounted" };
                notices.push(format!("{} is {verdict}: {reason}", folder.guest));
            }
            if found.is_none() || is_allowed {
                safe.push((folder, opened));
            }
        }
        (safe, notices)
    }

    /// Searches the folder for files that lead out of the sandbox. The error names the problem and a hint.
    async fn search(&self, folder: &Folder, opened: &File) -> Result<(), String> {
        let (host, guest) = (PathBuf::from(&folder.host), folder.guest.clone());
        let opened = opened.try_clone().map_err(|error| format!("it cannot be searched: {error}"))?;
        let bounds =
            Bounds { entries_max: self.limits.mount_entries_max, time_max: self.limits.mount_search };
        let search = move || {
            // On Linux this is the opened folder, whatever is at its path by now.
            let open = PathBuf::from(format!("/proc/self/fd/{}", opened.as_raw_fd()));
            let root = if open.exists() { open } else { host };
            special_files::search(&root, bounds).map_err(|found| found.explain(&guest))
        };
        // A file system that does not answer would block the start.
        match tokio::time::timeout(2 * self.limits.mount_search, tokio::task::spawn_blocking(search)).await {
            Ok(Ok(searched)) => searched,
            Ok(Err(error)) => Err(format!("the search for named pipes and sockets failed: {error}")),
            Err(_) => Err(UnsafeFolder::TooSlow { time_max: bounds.time_max }.explain(&folder.guest)),
        }
    }

    /// Adds the limits of a sandbox with a kernel of its own, read from the host, if that kernel does not show them.
    async fn see_from_outside(&self, sandbox: &mut Sandbox) {
        let posture = &mut sandbox.report.posture;
        let is_shown = posture.memory_max_bytes.is_some() && posture.pids_max.is_some();
        if sandbox.asked.kernel == Kernel::Shared || is_shown {
            return;
        }
        let outer = sandbox.instance.outer_limits().await;
        posture.memory_max_bytes = posture.memory_max_bytes.or(outer.memory_bytes);
        posture.pids_max = posture.pids_max.or(outer.pids);
        posture.cpu_max_millis = posture.cpu_max_millis.or(outer.cpu_millis);
    }

    /// Refuses a sandbox that is weaker than requested in a property that the user has not allowed.
    fn judge(&self, sandbox: &mut Sandbox) -> Result<(), Failure> {
        let weak = posture::weaknesses(&sandbox.report.posture, &sandbox.asked);
        sandbox.report.allowed = sandbox.allow(weak).map_err(Failure::weak)?;
        Ok(())
    }

    /// Starts the watchdog if the engine does not enforce memory or processes; CPU time cannot be watched. Refuses a
    /// limit that can be neither enforced nor watched, except the default CPU limit.
    async fn watch(&self, sandbox: &mut Sandbox) -> Result<(), Failure> {
        let unenforced = posture::unenforced(&sandbox.report.posture, &sandbox.asked);
        if unenforced.is_empty() {
            return Ok(());
        }
        let of = |field, limit| unenforced.iter().any(|(own, _)| *own == field).then_some(limit);
        let watched = WatchedLimits {
            memory_bytes: of(PostureField::Memory, self.settings.memory_bytes),
            processes: of(PostureField::Pids, self.settings.pids_max),
        };
        let meter = if watched == WatchedLimits::default() { None } else { sandbox.instance.meter().await };
        // Without a thread, limits that can be neither enforced nor watched are refused below.
        sandbox.watchdog =
            meter.and_then(|meter| Watchdog::start(meter, watched, Arc::clone(&self.limits)).ok());
        let (mut fields, mut said) = (vec![], vec![]);
        for (field, limit) in unenforced {
            let is_default = field == PostureField::Cpus && sandbox.asked.cpu.is_some_and(|cpu| cpu.optional);
            if is_default {
                // The user did not set this limit. `belljar doctor` says that it is not enforced.
                continue;
            }
            if sandbox.watchdog.is_some() && field != PostureField::Cpus {
                sandbox.report.watched.push(field);
                sandbox.report.notices.push(format!("{limit}: belljar watches it and ends what exceeds it"));
            } else if self.settings.allow_weak.contains(&field) {
                sandbox.report.allowed.push(format!("{field}: {limit}"));
            } else {
                fields.push(field);
                said.push(format!("{field}: {limit}, nor can belljar watch it"));
            }
        }
        if fields.is_empty() { Ok(()) } else { Err(Failure::Weak { fields, said }) }
    }
}

/// Opens a folder to be mounted, and records its identity. If a link has replaced a part of the path since it was
/// configured, the engine would mount something else.
fn checked(folder: &Folder) -> io::Result<(Folder, File)> {
    let host = Path::new(&folder.host);
    if host.canonicalize()? != host {
        return Err(io::Error::other("the path has a link"));
    }
    if ResolvedPath::of(host).chosen_by_others(nix::unistd::geteuid().as_raw()).is_some() {
        return Err(io::Error::other("another user can choose what is there"));
    }
    #[cfg(target_os = "linux")]
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW;
    #[cfg(not(target_os = "linux"))]
    let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW;
    let opened = OpenOptions::new().read(true).custom_flags(flags.bits()).open(host)?;
    // Systems without this folder have no confined servers, so none can replace a part of the path meanwhile.
    let place = fs::read_link(format!("/proc/self/fd/{}", opened.as_raw_fd()));
    if place.is_ok_and(|place| place != host) {
        return Err(io::Error::other("the path was replaced"));
    }
    let found = opened.metadata()?;
    let identity = Some(FileIdentity(found.dev(), found.ino()));
    Ok((Folder { identity, ..folder.clone() }, opened))
}

/// Whether code can write to any of these folders. Their files must belong to the same user in every sandbox.
fn has_writable(folders: &[Folder]) -> bool {
    folders.iter().any(|folder| folder.writable)
}

#[cfg(test)]
#[path = "starter_tests.rs"]
mod tests;
