//! Connects the modules as configured, and shuts them down in order.

use std::sync::Arc;

use belljar_base::limits::Limits;
use belljar_base::names::{SessionId, WorkspaceName};
use belljar_base::run::{FaultCode, ToolFault};
use belljar_engine::recipe::OWN_IMAGE;
use belljar_engine::{EngineLocations, Folder, tmpfs_mib};
use belljar_guard::{Guardian, Mark};
use belljar_tools::catalog::StatedLimits;
use belljar_upstream::Upstream;
use tokio::sync::watch;

use crate::audit::{AuditLog, Metrics};
use crate::broker::{ActiveConfig, Broker, SessionSetup, Shared};
use crate::config::{
    Audit, Config, ConfigFiles, Environment, MountedFolder, ResumeFrom, Rollback, this_program,
};
use crate::journal::{Journal, RecordedSession, Sessions, SessionsError};
use crate::rerun::{Reruns, ResumedSession};
use crate::session::{CpuLimit, SandboxSettings, Session, SettingsSource};
use crate::workspace::WorkspaceLocation;

/// The fallback image if belljar's own does not exist. Any image with Python works, but this one has no pandas.
pub(super) const PLAIN_IMAGE: &str = "docker.io/library/python:3.14-slim";

/// What the sessions share that have one configuration.
pub(super) struct Process {
    shared: Arc<Shared>,
    upstream: Arc<Upstream>,
    mark: Mark,
    /// Held until the end. Otherwise the guardian would clean up while the servers are being ended in order.
    guardian: Guardian,
    told: watch::Receiver<Arc<Config>>,
    limits: Arc<Limits>,
}

/// The connected modules of a session, which the MCP server and the commands use.
pub(super) struct Modules {
    pub(super) session: Arc<Session>,
    pub(super) reruns: Arc<Reruns>,
    pub(super) broker: Arc<Broker>,
    process: Arc<Process>,
    id: SessionId,
}

impl Process {
    /// Builds the shared part, whose runs and calls are counted there. It starts no server. Must be called inside a tokio
    /// runtime.
    pub(super) fn build(config: &Config, files: ConfigFiles, metrics: Option<Arc<Metrics>>) -> Self {
        let limits = Arc::new(config.limits.clone());
        let mark = Mark::new();
        let told = files.told();
        let (active_config, upstream) = servers(config, files, &mark);
        let log = match (config.audit, &config.own_state_dir) {
            (Audit::Off, _) => AuditLog::start(None, &limits),
            (_, Some(dir)) => AuditLog::start(Some(dir.clone()), &limits),
            (_, None) => AuditLog::nowhere("no home folder is known"),
        };
        let log = log.of_owner(config.owner.name()).counted(metrics);
        let shared = Shared::new(
            active_config,
            Arc::clone(&upstream),
            config,
            log,
            SessionId::new(mark.as_str()),
            Arc::clone(&limits),
        );
        let guardian = Guardian::new(this_program(), mark.clone(), mark.as_str());
        Self { shared: Arc::new(shared), upstream, mark, guardian, told, limits }
    }

    /// Starts a session with this ID. It starts no engine. Must be called inside a tokio runtime.
    pub(super) fn session(self: &Arc<Self>, config: &Config, id: &Mark) -> Modules {
        self.session_from(config, id, resumed(config, &self.limits), false)
    }

    /// Starts a session with this ID that goes on from a session with this journal if that is possible.
    pub(super) fn session_after(self: &Arc<Self>, config: &Config, id: &Mark, journal: &str) -> Modules {
        let from = ResumeFrom { session: journal.to_owned(), until: None };
        let resumed = resumed(&Config { resume: Some(from), ..config.clone() }, &self.limits);
        self.session_from(config, id, resumed, true)
    }

    fn session_from(
        self: &Arc<Self>,
        config: &Config,
        id: &Mark,
        resumed: Option<Result<(RecordedSession, u64), ToolFault>>,
        is_optional: bool,
    ) -> Modules {
        let limits = Arc::clone(&self.limits);
        // Runs of an earlier session give the same texts only in its time zone.
        let time_zone = match &resumed {
            Some(Ok((of, _))) => of.time_zone(),
            _ => None,
        };
        let time_zone = time_zone.unwrap_or_else(|| config.time_zone.clone());
        let (zone, told) = (time_zone.clone(), self.told.clone());
        let session_id = SessionId::new(id.as_str());
        let setup = SessionSetup {
            session: session_id.clone(),
            journal: Journal::new(config.journal, config.owner.journals(), id.as_str(), &limits),
            // Its file is followed with the configuration of all.
            policy: self.told.borrow().policy.clone(),
            stated_limits: Box::new(move || StatedLimits {
                time_zone: zone.clone(),
                ..stated_limits(&told.borrow())
            }),
        };
        let broker = Arc::new(Broker::new(Arc::clone(&self.shared), setup));
        // `trace_denied` is an option of the command line, so a configuration that is read again does not have it.
        let trace_denied = config.trace_denied;
        let (told, mark, id) = (self.told.clone(), self.mark.clone(), id.clone());
        let guardian = self.guardian.of_session(id.as_str());
        let settings_source = Arc::new(move || SandboxSettings {
            trace_denied,
            time_zone: time_zone.clone(),
            ..sandbox_settings(&told.borrow(), (&mark, &id), guardian.clone())
        });
        if let Some(Ok((of, _))) = &resumed {
            broker.journal().continues(&of.begun.id);
        }
        let resumed = resumed.map(|from| {
            let resumed = ResumedSession::new(from, config.workspace.is_some());
            if is_optional { resumed.or_afresh() } else { resumed }
        });
        let session = Arc::new(Session::start(settings_source, Arc::clone(&broker), limits));
        let reruns = Arc::new(Reruns::new(Arc::clone(&session), Arc::clone(&broker), resumed));
        Modules { session, reruns, broker, process: Arc::clone(self), id: session_id }
    }
}

impl Process {
    /// Ends the servers and what belongs to all sessions.
    pub(super) async fn close(&self) {
        tokio::join!(self.upstream.close(), self.shared.close());
    }

    /// From now on, a session with this environment uses the servers, too.
    pub(super) fn share_with(&self, environment: &Environment) {
        self.shared.share_with(environment);
    }

    /// The configuration in effect.
    pub(super) fn told(&self) -> watch::Receiver<Arc<Config>> {
        self.told.clone()
    }
}

/// Ends the private servers of a session when it is dropped.
struct PrivateServers<'m>(&'m Modules);

impl Drop for PrivateServers<'_> {
    fn drop(&mut self) {
        self.0.process.upstream.end_session(&self.0.id);
    }
}

impl Modules {
    /// Builds the modules of the only session of this process. It starts no engine and no server. Must be called inside a
    /// tokio runtime.
    pub(super) fn build(config: &Config, files: ConfigFiles) -> Self {
        let process = Arc::new(Process::build(config, files, None));
        process.session(config, &process.mark)
    }

    /// Ends the session. Its servers go on for others.
    pub(super) async fn close_session(&self) {
        // Also when there is no time to wait for the end of the sandbox.
        let _servers = PrivateServers(self);
        self.session.close().await;
    }

    /// Ends the session and the servers in parallel, within their time limit.
    pub(super) async fn close(&self, config: &Config) {
        let closing = async { tokio::join!(self.session.close(), self.process.close()) };
        if tokio::time::timeout(config.limits.shutdown, closing).await.is_err() {
            tracing::warn!("not everything had ended in time; the guardian removes what is left");
        }
    }
}

/// The configured servers, not yet started. Must be called inside a tokio runtime.
pub(super) fn servers(config: &Config, files: ConfigFiles, mark: &Mark) -> (ActiveConfig, Arc<Upstream>) {
    let active_config = ActiveConfig::new(files, mark.clone(), this_program(), config.owner.logins());
    let upstream = Arc::new(Upstream::new(active_config.specs(), &Arc::new(config.limits.clone())));
    upstream.offer_roots(&config.roots);
    (active_config, upstream)
}

/// The session to resume, and the last run to replay, or the reason why the session cannot be resumed; `None`: no
/// session is to be resumed, or the last session is to be resumed and none is recorded.
fn resumed(config: &Config, limits: &Limits) -> Option<Result<(RecordedSession, u64), ToolFault>> {
    let ResumeFrom { session: asked, until } = config.resume.as_ref()?;
    if let Some(mount) = config.mounts.iter().find(|mount| mount.writable) {
        let said = format!(
            "{} is mounted writable, and the runs of an earlier session would write there again",
            mount.guest
        );
        let fault = ToolFault::new(FaultCode::SandboxUnavailable, said);
        return Some(Err(fault
            .hint("the user takes `writable` out of that [[mount]], or begins without MCP_BRIDGE_RESUME")));
    }
    let sessions = Sessions::new(config.owner.journals()?, limits);
    let found = || {
        let id = sessions.find(asked)?;
        if sessions.is_open(&id)? {
            return Err(SessionsError::InUse { id: Sessions::short(&id) });
        }
        Ok((sessions.read(&id)?, until.unwrap_or(u64::MAX)))
    };
    match found() {
        Err(SessionsError::Unknown { .. }) if asked == Sessions::LAST => None,
        found => Some(found.map_err(|error| {
            ToolFault::new(FaultCode::SandboxUnavailable, format!("cannot resume the session: {error}"))
                .hint("the user sets MCP_BRIDGE_RESUME; `belljar session ls` lists sessions")
        })),
    }
}

/// The settings for the sandbox of a command without a session. Must be called inside a tokio runtime.
pub(super) fn settings_once(config: &Config) -> SettingsSource {
    let mark = Mark::new();
    let guardian = Guardian::new(this_program(), mark.clone(), mark.as_str());
    let settings = sandbox_settings(config, (&mark, &mark), guardian);
    Arc::new(move || settings.clone())
}

/// The settings for the sandboxes of a session with this ID. Processes that are started to reach an engine carry `mark`.
fn sandbox_settings(config: &Config, (mark, id): (&Mark, &Mark), guardian: Guardian) -> SandboxSettings {
    SandboxSettings {
        locations: locations(config, Some(mark.clone())),
        rollback: config.rollback == Rollback::On,
        checkpoints: config.checkpoints.into(),
        unreadable: config.sandbox_problem.as_ref().map(ToString::to_string),
        unrecorded: config.unrecorded.as_ref().map(ToString::to_string),
        oci_runtime: config.engine.oci_runtime.clone(),
        images: images(config),
        time_zone: config.time_zone.clone(),
        preload: config.preload.clone(),
        user: config.container_user,
        memory_bytes: config.memory_bytes,
        pids_max: config.pids.into(),
        cpu: match config.cpu_millis.map(u64::from) {
            None => CpuLimit::AllButOne,
            Some(millis) if config.cpu_is_capped => CpuLimit::AtMost(millis),
            Some(millis) => CpuLimit::Millis(millis),
        },
        allow_weak: config.allow_weak.clone(),
        extra_system_calls: config.extra_syscalls.clone(),
        trace_denied: config.trace_denied,
        workspace: WorkspaceLocation { root: config.owner.workspaces(), name: config.workspace.clone() },
        outbox: WorkspaceLocation { root: config.owner.outbox(), name: WorkspaceName::new(id.as_str()).ok() },
        folders: config.mounts.iter().map(folder).collect(),
        private: config.private.clone(),
        idle_stop: config.idle_stop,
        lock_dir: config.lock_dir.clone(),
        notices_dir: config.own_state_dir.clone(),
        code_dir: config.cache_dir.as_ref().map(|dir| dir.join("runtime")),
        guardian,
    }
}

/// The limits of this configuration that the manual states.
fn stated_limits(config: &Config) -> StatedLimits {
    let sizes = tmpfs_mib(config.memory_bytes);
    let mib = |path: &str| sizes.iter().find(|(known, _)| *known == path).map_or(0, |(_, mib)| *mib);
    StatedLimits {
        memory_bytes: config.memory_bytes,
        workspace_mib: mib("/workspace"),
        tmp_mib: mib("/tmp"),
        result_bytes: config.limits.server_line_bytes_max as u64,
        reply_chars: config.limits.reply_chars_max,
        time_zone: config.time_zone.clone(),
        jobs: config.limits.jobs_max,
        timeout: config.timeout,
        timeout_max: config.timeout_max,
        idle_stop: config.idle_stop,
    }
}

/// The images for sandboxes, in the order of preference.
pub(super) fn images(config: &Config) -> Vec<String> {
    match &config.image {
        Some(image) => vec![image.clone()],
        None => vec![OWN_IMAGE.into(), PLAIN_IMAGE.into()],
    }
}

fn folder(mount: &MountedFolder) -> Folder {
    // The path was checked to be UTF-8.
    let host = mount.host.to_string_lossy().into_owned();
    Folder { host, guest: mount.guest.clone(), writable: mount.writable, identity: None }
}

/// The places of engines. Processes that are started to reach an engine carry `mark`, by which the guardian finds them.
pub(super) fn locations(config: &Config, mark: Option<Mark>) -> EngineLocations {
    EngineLocations { mark, ..config.engine.clone() }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use belljar_base::run::{Reset, RunOutcome, RunReport, RunRequest, ServerScope, ToolFault};
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::broker::Origin;
    use crate::config::Environment;
    use crate::session::{BREAKS, RunSubmission};

    #[test]
    fn a_plain_image_with_python_serves_where_there_is_none_of_belljars_and_no_other_is_named() {
        let named = |image: Option<&str>| {
            images(&Config::load(&Environment {
                variables: image.map(|image| ("MCP_BRIDGE_IMAGE".into(), image.into())).into_iter().collect(),
                home: None,
                uid: nix::unistd::geteuid().as_raw(),
                cwd: None,
                executable: None,
                owner: None,
            }))
        };
        assert_eq!(named(None), ["localhost/belljar-sandbox:latest", "docker.io/library/python:3.14-slim"]);
        assert_eq!(named(Some("mine:1")), ["mine:1"]);
    }

    /// The configuration of a home, with an engine that nobody runs.
    fn without_engine(home: &std::path::Path) -> (Config, ConfigFiles) {
        ConfigFiles::load(Environment {
            variables: BTreeMap::from([("MCP_BRIDGE_RUNTIME".into(), "unix:///nobody/listens".into())]),
            home: Some(home.into()),
            uid: nix::unistd::geteuid().as_raw(),
            cwd: None,
            executable: None,
            owner: None,
        })
    }

    #[tokio::test]
    async fn a_defect_costs_its_run_and_is_said_and_the_session_goes_on() {
        let home = tempfile::tempdir().unwrap();
        let (config, files) = without_engine(home.path());
        let modules = Modules::build(&config, files);
        let fault = run(&modules, BREAKS).await.unwrap_err();
        assert_eq!(fault.message, "belljar broke inside; what this run has done is unknown");
        for notes in [&["belljar broke inside and began anew; earlier variables are gone"][..], &[]] {
            let report = run(&modules, "1").await.unwrap();
            assert!(matches!(&report.outcome, RunOutcome::NotStarted(_)), "{report:?}");
            assert_eq!(report.notes, notes);
        }
        modules.close(&config).await;
        assert_eq!(run(&modules, "1").await.unwrap_err().message, "the session has ended");
    }

    #[tokio::test]
    async fn sessions_of_one_process_share_its_servers_and_each_reports_and_records_for_itself() {
        let home = tempfile::tempdir().unwrap();
        let settings = home.path().join(".config/belljar/config.toml");
        std::fs::create_dir_all(settings.parent().unwrap()).unwrap();
        std::fs::create_dir(home.path().join("MCPs")).unwrap();
        let (config, files) = without_engine(home.path());
        let process = Arc::new(Process::build(&config, files, None));
        let sessions = [Mark::new(), Mark::new()].map(|id| (process.session(&config, &id), id));
        let entry = r#"{"mcpServers": {"late": {"command": "cat"}}}"#;
        for number in 1..=2 {
            for (modules, _) in &sessions {
                let report = run(modules, "1").await.unwrap();
                assert!(matches!(&report.outcome, RunOutcome::NotStarted(_)), "{report:?}");
                let said = report.notes.iter().filter(|note| note.contains("late")).count();
                assert_eq!(said, usize::from(number == 2), "each session says it once: {:?}", report.notes);
            }
            std::fs::write(home.path().join("MCPs/a.json"), entry).unwrap();
            let found = sessions.each_ref().map(|(modules, _)| modules.broker.configured());
            assert_eq!(found[0], found[1]);
        }
        for (modules, _) in &sessions {
            assert_eq!(run(modules, "1").await.unwrap().notes, [""; 0]);
        }
        for (modules, _) in &sessions {
            modules.session.close().await;
        }
        process.shared.close().await;
        let dir = config.own_state_dir.unwrap();
        let lines = crate::audit::entries(&dir, &crate::audit::Filter::default()).unwrap();
        for (_, id) in &sessions {
            let of_it = lines.iter().filter(|entry| entry.session == id.as_str());
            let runs: Vec<u64> = of_it
                .map(|entry| match &entry.event {
                    crate::audit::Event::Run(run) => run.run,
                    crate::audit::Event::Call(_) => 0,
                })
                .collect();
            assert_eq!(runs, [1, 2, 3], "each session counts its own runs");
        }
        let journals = std::fs::read_dir(config.owner.journals().unwrap())
            .unwrap()
            .map(|entry| entry.unwrap().file_name());
        let journals: Vec<String> = journals.map(|name| name.into_string().unwrap()).collect();
        for (_, id) in &sessions {
            assert!(journals.iter().any(|name| name.contains(id.as_str())), "{journals:?}");
        }
    }

    async fn run(modules: &Modules, code: &str) -> Result<RunReport, ToolFault> {
        let (code, timeout) = (code.to_owned(), Duration::from_secs(1));
        let request = RunRequest {
            code,
            servers: ServerScope::All,
            timeout,
            timeout_max: timeout,
            reset: Reset::No,
            dry_run: false,
            keep_files: true,
        };
        let asked = RunSubmission::unattended(request, CancellationToken::new(), "", Origin::Client);
        modules.reruns.run(asked).await
    }
}
