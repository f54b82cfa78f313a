//! One locked container: its configuration, start, attachment and removal.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use belljar_confine::files_of_place_max;
use bollard::Docker;
use bollard::models::{
    ContainerCreateBody, ContainerInspectResponse, HostConfig, HostConfigLogConfig, MountType,
    MountVolumeOptions, MountVolumeOptionsDriverConfig, ResourcesUlimits,
};
use bollard::query_parameters::{
    AttachContainerOptionsBuilder, CreateContainerOptions, InspectContainerOptions,
    RemoveContainerOptionsBuilder, StartContainerOptions,
};
use futures_util::future::BoxFuture;

use super::super::error::{EngineError, is_not_found};
use super::super::fate::Fate;
use super::super::interface::{Instance, Output, StartFailure, StartedSandbox, Streams};
use super::super::kernel::OuterLimits;
use super::super::spec::{CpuQuota, ENVIRONMENT, FIRSTS_PROCESSES_MAX, Folder, SandboxSpec, User, tmpfs_mib};
use super::super::stream::resumable;
use super::super::usage::UsageMeter;
use super::super::users::Reservation;
use super::fate::fate;
use super::find::{ContainerEngine, EngineKind};
use super::remote::{RemoteContainer, chunks};

/// A container, which must be closed with [`Container::close`].
#[derive(Debug)]
pub(super) struct Container {
    docker: Docker,
    id: String,
    /// Set if the container is on another machine.
    remote: Option<Arc<RemoteContainer>>,
    request: Duration,
    reconnection: Duration,
    command: Vec<String>,
    /// The requested limit of CPU time.
    cpu: Option<CpuQuota>,
    /// Whether the specification named the user.
    is_users_choice: bool,
    /// The user of its processes.
    user: User,
    /// Keeps the user's number from other sandboxes.
    reservation: Option<Reservation>,
    /// The image that it was made of.
    image: String,
    python_id: Option<String>,
    /// The engine's warnings about requests that it does not fulfil.
    warnings: Vec<String>,
}

/// The reason why a sandbox has no user of its own.
const SHARED_USER: &str = "the engine maps too few users for one of each sandbox: sandboxes share user 65534, and the \
                           kernel's limits of it";

impl ContainerEngine {
    /// Creates, attaches to, and starts a container. An optional CPU limit that the engine refuses is left out.
    ///
    /// # Errors
    /// [`EngineError::ImageMissing`], or the failure of one of the three steps. A created container is removed again.
    pub(super) async fn started(&self, spec: &SandboxSpec) -> Result<(Container, Streams), StartFailure> {
        if let Some(name) = &spec.oci_runtime {
            self.check_runtime(name).await.map_err(|error| StartFailure { may_exist: false, error })?;
        }
        let refuses_limit = self.refuses_cpu_limit.load(Ordering::Relaxed);
        let cpu = spec.cpu.filter(|cpu| !(cpu.optional && refuses_limit));
        match self.start_with(spec, cpu).await {
            // The kernel lacks the cgroup controller for CPU time, or the user's service manager has not delegated it
            // to the engine.
            Err(StartFailure { error: EngineError::Refused { action, message }, may_exist: false })
                if cpu.is_some_and(|cpu| cpu.optional) && message.to_ascii_lowercase().contains("cpu") =>
            {
                tracing::info!(message, "the engine refuses the default CPU limit");
                let started = self.start_with(spec, None).await.map_err(|second| StartFailure {
                    error: EngineError::Refused { action, message },
                    may_exist: second.may_exist,
                })?;
                self.refuses_cpu_limit.store(true, Ordering::Relaxed);
                Ok(started)
            }
            other => other,
        }
    }

    async fn start_with(
        &self,
        spec: &SandboxSpec,
        cpu: Option<CpuQuota>,
    ) -> Result<(Container, Streams), StartFailure> {
        let body = create_body(spec, cpu, self);
        if let Some(user) = spec.user {
            return self.start_as(user, cpu, spec, &body).await;
        }
        for candidate in self.users.candidates() {
            match self.start_as(candidate.user, cpu, spec, &body).await {
                Err(StartFailure { error, may_exist: false }) if is_user_unmapped(&error) => {}
                Err(error) => return Err(error),
                Ok((mut container, streams)) => {
                    self.users.accept(candidate.place);
                    container.reservation = candidate.reservation;
                    return Ok((container, streams));
                }
            }
        }
        self.users.share();
        self.start_as(User::SHARED, cpu, spec, &body).await
    }

    async fn start_as(
        &self,
        user: User,
        cpu: Option<CpuQuota>,
        spec: &SandboxSpec,
        body: &ContainerCreateBody,
    ) -> Result<(Container, Streams), StartFailure> {
        let mut container = self.create(user, cpu, spec, body).await.map_err(|error| {
            let is_none = matches!(error, EngineError::Refused { .. } | EngineError::ImageMissing { .. });
            StartFailure { may_exist: !is_none, error }
        })?;
        // Both happen at once, since the image's id takes Podman some milliseconds.
        let (started, image_id) = tokio::join!(container.attach_and_start(), container.image_id());
        match started {
            Ok(streams) => {
                // The engine's place is part of the id, since images of different engines may have the same id.
                container.python_id = image_id.map(|id| format!("{} {id}", self.place()));
                Ok((container, streams))
            }
            // The first failure is reported, and a second one is only logged.
            Err(error) => Err(StartFailure { may_exist: Box::new(container).close().await.is_err(), error }),
        }
    }

    /// Creates a container from the first image that exists.
    async fn create(
        &self,
        user: User,
        cpu: Option<CpuQuota>,
        spec: &SandboxSpec,
        body: &ContainerCreateBody,
    ) -> Result<Container, EngineError> {
        let action = "create the container";
        for image in &spec.images {
            let (image_name, user_name) = (Some(image.clone()), Some(user.to_string()));
            let body = ContainerCreateBody { image: image_name, user: user_name, ..body.clone() };
            let request = self.docker.create_container(None::<CreateContainerOptions>, body);
            let late = |_| EngineError::Timeout { action, after: spec.request };
            match tokio::time::timeout(spec.request, request).await.map_err(late)? {
                Ok(created) => {
                    return Ok(Container {
                        docker: self.docker.clone(),
                        remote: RemoteContainer::new(self, &created.id),
                        id: created.id,
                        request: spec.request,
                        reconnection: spec.reconnection,
                        command: spec.command.clone(),
                        cpu,
                        is_users_choice: spec.user.is_some(),
                        user,
                        reservation: None,
                        image: image.clone(),
                        python_id: None,
                        warnings: created.warnings,
                    });
                }
                Err(error) if is_not_found(&error) => {
                    // The error "not found" may be about something else than the image.
                    let about = tokio::time::timeout(spec.request, self.inspect_image(image)).await;
                    if about.map_err(late)??.is_some() {
                        return Err(EngineError::request(action, &error));
                    }
                }
                Err(error) => return Err(EngineError::request(action, &error)),
            }
        }
        Err(EngineError::ImageMissing { names: spec.images.clone() })
    }
}

impl Container {
    pub(super) fn into_started(self, streams: Streams) -> StartedSandbox {
        StartedSandbox {
            streams,
            image: self.image.clone(),
            shared_user: (!self.is_users_choice && self.user == User::SHARED).then(|| SHARED_USER.into()),
            python_id: self.python_id.clone(),
            user: self.user,
            cpu: self.cpu,
            warnings: self.warnings.clone(),
            instance: Box::new(self),
        }
    }

    /// The number of its first process, on the engine's machine.
    async fn pid(&self) -> Option<u32> {
        u32::try_from(self.described().await?.state?.pid?).ok()
    }

    /// The id of the image that it was made from, even if the name belongs to another image now.
    async fn image_id(&self) -> Option<String> {
        self.described().await?.image
    }

    /// The engine's description of the container.
    async fn described(&self) -> Option<ContainerInspectResponse> {
        let request = self.docker.inspect_container(&self.id, None::<InspectContainerOptions>);
        bounded(self.request, "describe the container", request)
            .await
            .inspect_err(|error| tracing::debug!(%error, "the container's process and image are not known"))
            .ok()
    }

    async fn attach_and_start(&self) -> Result<Streams, EngineError> {
        if let Some(remote) = &self.remote {
            self.start().await?;
            return Ok(resumable(Arc::clone(remote) as _, self.reconnection));
        }
        // The client attaches before the start: without a log driver, earlier output is lost.
        let options = AttachContainerOptionsBuilder::default()
            .stdin(true)
            .stdout(true)
            .stderr(true)
            .stream(true)
            .build();
        let attached = bounded(
            self.request,
            "attach to the container",
            self.docker.attach_container(&self.id, Some(options)),
        )
        .await?;
        self.start().await?;
        Ok(Streams { input: attached.input, output: Output::new(chunks(attached.output)) })
    }

    async fn start(&self) -> Result<(), EngineError> {
        let request = self.docker.start_container(&self.id, None::<StartContainerOptions>);
        bounded(self.request, "start the container", request).await
    }

    /// The engine, as it was reached last.
    fn docker(&self) -> Docker {
        self.remote.as_ref().map_or_else(|| self.docker.clone(), |remote| remote.docker())
    }
}

impl Instance for Container {
    fn meter(&self) -> BoxFuture<'_, Option<UsageMeter>> {
        Box::pin(async { UsageMeter::new(self.pid().await?, &self.command) })
    }

    fn outer_limits(&self) -> BoxFuture<'_, OuterLimits> {
        Box::pin(async { self.pid().await.map(|pid| OuterLimits::of(pid, &self.id)).unwrap_or_default() })
    }

    fn fate(&mut self) -> BoxFuture<'_, Fate> {
        Box::pin(async { fate(&self.docker(), &self.id).await })
    }

    fn close(self: Box<Self>) -> BoxFuture<'static, Result<(), EngineError>> {
        Box::pin(async move {
            let removed =
                bounded(self.request, "remove the container", remove(&self.docker(), &self.id)).await;
            if let Err(error) = &removed {
                tracing::warn!(%error, container = self.id, "a container stays; the guardian removes it");
            }
            drop(self.reservation);
            removed
        })
    }
}

/// Whether the OCI runtime has refused a user that is not mapped to a number outside. Only the runtime detects that, at
/// the start or, on Podman, at the attachment. runc names an unmapped user, crun the system call `setresuid`.
fn is_user_unmapped(error: &EngineError) -> bool {
    let EngineError::Refused { message, .. } = error else { return false };
    let message = message.to_lowercase();
    message.contains("uid") || message.contains("unmapped")
}

/// Kills and removes a container. It is no error if the container is gone, or is being removed because it has ended.
pub(super) async fn remove(docker: &Docker, id: &str) -> Result<(), bollard::errors::Error> {
    let options = RemoveContainerOptionsBuilder::default().force(true).v(true).build();
    match docker.remove_container(id, Some(options)).await {
        Err(bollard::errors::Error::DockerResponseServerError { status_code: 404 | 409, .. }) => Ok(()),
        other => other,
    }
}

async fn bounded<T>(
    after: Duration,
    action: &'static str,
    request: impl Future<Output = Result<T, bollard::errors::Error>>,
) -> Result<T, EngineError> {
    tokio::time::timeout(after, request)
        .await
        .map_err(|_| EngineError::Timeout { action, after })?
        .map_err(|error| EngineError::request(action, &error))
}

/// Mount options of a folder, beside read-only.
const SHUT: &str = "noexec,nosuid,nodev";

fn access(folder: &Folder) -> &'static str {
    if folder.writable { "rw" } else { "ro" }
}

/// The folder as a bind in Podman's syntax.
fn bind(folder: &Folder) -> String {
    format!("{}:{}:{},{SHUT},rprivate", folder.host, folder.guest, access(folder))
}

/// The folder for Docker, whose binds have no `noexec`: an unnamed volume, which is removed with its container. The
/// volume is a mount of the host. Unless that is private, later mounts of the host appear in it, and end with it.
fn volume(folder: &Folder) -> bollard::models::Mount {
    let options = [
        ("type", "none".to_owned()),
        ("o", format!("bind,{},{SHUT},private", access(folder))),
        ("device", folder.host.clone()),
    ];
    let driver = MountVolumeOptionsDriverConfig {
        name: Some("local".into()),
        options: Some(options.map(|(name, value)| (name.to_owned(), value)).into()),
    };
    bollard::models::Mount {
        target: Some(folder.guest.clone()),
        typ: Some(MountType::VOLUME),
        volume_options: Some(MountVolumeOptions {
            no_copy: Some(true),
            driver_config: Some(driver),
            ..MountVolumeOptions::default()
        }),
        ..bollard::models::Mount::default()
    }
}

fn create_body(spec: &SandboxSpec, cpu: Option<CpuQuota>, engine: &ContainerEngine) -> ContainerCreateBody {
    let signed = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    let ulimit = |name: &str, value: u64| ResourcesUlimits {
        name: Some(name.into()),
        soft: Some(signed(value)),
        hard: Some(signed(value)),
    };
    let tmpfs = tmpfs_mib(spec.memory_bytes).into_iter().map(|(path, mib)| {
        // Podman knows no option for the number of files.
        let files = match engine.kind {
            EngineKind::Docker => format!("nr_inodes={},", files_of_place_max(mib)),
            EngineKind::Podman => String::new(),
        };
        (path.to_owned(), format!("rw,noexec,nosuid,nodev,size={mib}m,{files}mode=1777"))
    });
    let mut host = HostConfig {
        runtime: spec.oci_runtime.clone(),
        network_mode: Some("none".into()),
        readonly_rootfs: Some(true),
        cap_drop: Some(vec!["ALL".into()]),
        security_opt: Some(vec!["no-new-privileges".into()]),
        privileged: Some(false),
        ipc_mode: Some("private".into()),
        dns: Some(vec!["127.0.0.1".into()]),
        memory: Some(signed(spec.memory_bytes)),
        memory_swap: Some(signed(spec.memory_bytes)),
        pids_limit: Some(signed(spec.pids_max)),
        nano_cpus: cpu.map(|cpu| signed(cpu.millis.saturating_mul(1_000_000))),
        oom_score_adj: Some(500),
        ulimits: Some(vec![
            ulimit("nofile", spec.open_files_of_first()),
            ulimit("nproc", FIRSTS_PROCESSES_MAX),
            ulimit("core", 0),
        ]),
        tmpfs: Some(tmpfs.collect()),
        // With a log driver, the engine would write every frame to disk.
        log_config: Some(HostConfigLogConfig { typ: Some("none".into()), config: None }),
        auto_remove: Some(true),
        ..HostConfig::default()
    };
    engine.mask(&mut host);
    let is_mounting = !spec.folders.is_empty();
    let is_attached = engine.reach.is_none();
    match engine.kind {
        EngineKind::Podman => {
            host.binds = is_mounting.then(|| spec.folders.iter().map(bind).collect());
        }
        EngineKind::Docker => {
            host.mounts = is_mounting.then(|| spec.folders.iter().map(volume).collect());
        }
    }
    ContainerCreateBody {
        // The command is the entrypoint, so that the image's own entrypoint is not executed.
        entrypoint: Some(spec.command.clone()),
        env: Some({
            let own = spec.variables.iter().map(|(name, value)| (name.as_str(), value.as_str()));
            ENVIRONMENT.into_iter().chain(own).map(|(name, value)| format!("{name}={value}")).collect()
        }),
        // Docker creates a missing working directory itself, as root and with another mode than the tmpfs. So
        // /workspace is not named here, and the supervisor changes to it.
        working_dir: Some("/tmp".into()),
        hostname: Some("sandbox".into()),
        attach_stdin: Some(is_attached),
        attach_stdout: Some(is_attached),
        attach_stderr: Some(is_attached),
        open_stdin: Some(is_attached),
        stdin_once: Some(is_attached),
        tty: Some(false),
        labels: Some(spec.labels.clone()),
        stop_timeout: Some(1),
        host_config: Some(host),
        ..ContainerCreateBody::default()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::path::Path;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::super::super::spec::Choice;
    use super::super::find::{EngineLocations, find};
    use super::*;

    const PING: (&str, &str) = ("/_ping", "200 OK");

    /// An engine with an answer for each request whose first line contains a text: a status and a body. Other requests
    /// get no answer.
    async fn engine(answers: &'static [(&str, &str)]) -> ContainerEngine {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let choice = Choice::At(vec![format!("tcp://{}", listener.local_addr().unwrap())]);
        tokio::spawn(async move {
            let mut open = Vec::new();
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut head = vec![0; 8192];
                let read = stream.read(&mut head).await.unwrap();
                let head = String::from_utf8_lossy(&head[..read]).into_owned();
                let line = head.lines().next().unwrap_or_default();
                let answer = answers.iter().find(|(text, _)| line.contains(text)).map(|(_, answer)| *answer);
                let Some(answer) = answer else {
                    open.push(stream);
                    continue;
                };
                let (status, body) = answer.split_once('\n').unwrap_or((answer, "{}"));
                let fields = match status.starts_with("101 ") {
                    true => "Connection: Upgrade\r\nUpgrade: tcp\r\n\r\n".into(),
                    false => format!("Content-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len()),
                };
                stream.write_all(format!("HTTP/1.1 {status}\r\n{fields}").as_bytes()).await.unwrap();
                if status.starts_with("101 ") {
                    open.push(stream);
                }
            }
        });
        let locations = EngineLocations { choice, ..EngineLocations::default() };
        find(&locations, Path::new("/nowhere")).await.unwrap()
    }

    fn spec(request: Duration) -> SandboxSpec {
        SandboxSpec {
            images: vec!["x".into()],
            variables: vec![("TZ".into(), "UTC".into())],
            command: vec![],
            oci_runtime: None,
            user: Some(User { uid: 1, gid: 1 }),
            memory_bytes: 1 << 30,
            pids_max: 8,
            cpu: None,
            open_files_max: 8,
            folders: vec![],
            labels: HashMap::new(),
            request,
            reconnection: Duration::ZERO,
        }
    }

    #[tokio::test]
    async fn an_engine_that_does_not_say_whether_it_has_an_image_is_waited_for_as_for_any_request() {
        let request = Duration::from_millis(200);
        let engine = engine(&[PING, ("POST ", "404 Not Found")]).await;
        let Err(StartFailure { error, .. }) = engine.started(&spec(request)).await else {
            panic!("it has started")
        };
        assert!(matches!(error, EngineError::Timeout { after, .. } if after == request), "{error}");
    }

    /// The image's name was given to another image meanwhile.
    #[tokio::test]
    async fn a_container_is_of_the_image_that_it_was_made_of_on_its_engine() {
        let engine = engine(&[
            PING,
            ("/containers/create", "201 Created\n{\"Id\":\"c\",\"Warnings\":[]}"),
            ("/containers/c/attach", "101 UPGRADED"),
            ("/containers/c/start", "204 No Content\n"),
            ("/containers/c/json", "200 OK\n{\"Id\":\"c\",\"Image\":\"sha256:of-the-container\"}"),
            ("/images/", "200 OK\n{\"Id\":\"sha256:of-the-name\"}"),
        ])
        .await;
        let (container, _) = engine.started(&spec(Duration::from_secs(60))).await.unwrap();
        assert_eq!(container.python_id, Some(format!("{} sha256:of-the-container", engine.address)));
    }

    #[tokio::test]
    async fn the_fate_of_a_container_is_what_its_engine_says_of_its_end() {
        const DIED: &str = r#"{"Action":"die","Actor":{"Attributes":{"exitCode":"137"}}}"#;
        let of = async |events: Option<&str>, inspected: &'static str| {
            let mut answers = vec![PING, ("/containers/c/json", inspected)];
            let events = events.map(|events| &*format!("200 OK\n{events}").leak());
            answers.extend(events.map(|events| ("/events?", events)));
            let engine = engine(answers.leak()).await;
            fate(&engine.docker, "c").await
        };
        let gone = "404 Not Found\n{\"message\":\"no such container\"}";
        let (oom, kill) = (r#"{"Action":"oom"}"#, r#"{"Action":"kill"}"#);
        assert_eq!(of(Some(&format!("{oom}\n{DIED}")), gone).await, Fate::OutOfMemory);
        assert_eq!(of(Some(&format!("{kill}\n{DIED}")), gone).await, Fate::Removed);
        // The lack of memory has ended an interpreter before.
        assert_eq!(of(Some(&format!("{oom}\n{kill}\n{DIED}")), gone).await, Fate::Removed);
        assert_eq!(of(Some(DIED), gone).await, Fate::Ended(137));
        let exited = DIED.replace("137", "3");
        assert_eq!(of(Some(&format!("{kill}\n{exited}")), gone).await, Fate::Ended(3));
        // Some engines have no events, and some do not answer.
        assert_eq!(of(Some(""), gone).await, Fate::Gone);
        assert_eq!(of(None, gone).await, Fate::Gone);
        let state = |state| &*format!("200 OK\n{{\"State\":{state}}}").leak();
        assert_eq!(of(Some(""), state(r#"{"Running":true}"#)).await, Fate::Disconnected);
        assert_eq!(of(Some(""), state(r#"{"Running":false,"ExitCode":1}"#)).await, Fate::Ended(1));
        assert_eq!(of(None, "500 Internal Server Error\n{}").await, Fate::NoAnswer);
    }
}
