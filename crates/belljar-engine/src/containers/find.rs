//! Finds an engine that answers, rootless ones first.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use belljar_base::system::{DesktopSocket, System};
use belljar_guard::Mark;
use bollard::{API_DEFAULT_VERSION, Docker};
use tokio::sync::OnceCell;

use super::super::error::{EngineError, with_causes};
use super::super::interface::EngineInfo;
use super::super::kernel::online_processors;
use super::super::kubernetes::KubernetesSettings;
use super::super::spec::Choice;
use super::super::users::UserRanges;
use super::private_socket::{PrivateSocket, SshAddress, Tunnel};
use super::runtime;

/// The places where engines may listen, as the environment names them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EngineLocations {
    /// The choice of the operator.
    pub choice: Choice,
    /// The OCI runtime for an engine that is started here; `None`: its default.
    pub oci_runtime: Option<String>,
    /// `CONTAINER_HOST`.
    pub container_host: Option<String>,
    /// `DOCKER_HOST`.
    pub docker_host: Option<String>,
    /// `XDG_RUNTIME_DIR`, or `/run/user/UID` where that exists.
    pub runtime_dir: Option<PathBuf>,
    /// Whether this process runs as root, so that an engine of its own would be rootful.
    pub root: bool,
    /// The `podman` program, if there is one.
    pub podman: Option<PathBuf>,
    /// The `ssh` program, if there is one.
    pub ssh: Option<PathBuf>,
    /// The folder of `ca.pem`, `cert.pem` and `key.pem`, with which engines at `tcp://` are reached by TLS; `None`: they
    /// are reached without encryption.
    pub certificates: Option<PathBuf>,
    /// The cluster, and what its Pods get.
    pub kubernetes: KubernetesSettings,
    /// Where engines of desktop programs may listen, but for places that code or a confined server can change.
    pub desktops: Vec<DesktopSocket>,
    /// The folder of the virtual environments for sandboxes without a container engine.
    pub environments: Option<PathBuf>,
    /// The mark of the processes that are started to reach an engine.
    pub mark: Option<Mark>,
}

/// The kind of an engine that has answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineKind {
    /// Podman, by its Docker-compatible API.
    Podman,
    /// Docker.
    Docker,
}

/// An engine that answered.
#[derive(Debug, Clone)]
pub struct ContainerEngine {
    pub(super) docker: Docker,
    /// The address at which it listens.
    pub address: String,
    /// Whether it is Podman or Docker.
    pub(super) kind: EngineKind,
    /// The number of processors of the containers' machine, after it was counted.
    processors: Arc<OnceCell<u64>>,
    /// Set once the engine has refused a default CPU limit, so that later containers are created without one.
    pub(super) refuses_cpu_limit: Arc<AtomicBool>,
    /// The engine's description of itself, after it was requested.
    said: Arc<OnceCell<EngineInfo>>,
    /// The users that its sandboxes may have.
    pub(super) users: Arc<UserRanges>,
    /// The service that the bridge has started for itself. Dropping it ends the service.
    service: Option<Arc<PrivateSocket>>,
    /// How it was reached, if it is on another machine.
    pub(super) reach: Option<Arc<Reach>>,
}

/// How an engine on another machine was reached, so that it can be reached again after the way to it has broken.
#[derive(Debug)]
pub(super) struct Reach {
    pub(super) locations: EngineLocations,
    /// The folder for the sockets of tunnels.
    pub(super) sockets: PathBuf,
}

enum Candidate {
    At { address: String, only: Option<EngineKind> },
    OwnPodman,
}

/// The longest time for an answer from one place: an engine that hangs must not hide a working one after it.
const ANSWER: Duration = Duration::from_secs(5);

/// The first engine that answers. `sockets` is the folder for sockets of the bridge's own, which is created when it is
/// needed.
///
/// # Errors
/// [`EngineError::NoEngine`] lists every place with the reason why it was not used.
pub(crate) async fn find(
    locations: &EngineLocations,
    sockets: &Path,
) -> Result<ContainerEngine, EngineError> {
    let mut tried = Vec::new();
    for candidate in candidates(locations) {
        let found = match candidate {
            Candidate::At { address, only } => connect_to(&address, only, locations, sockets).await,
            Candidate::OwnPodman => own_podman(locations, sockets).await,
        };
        match found {
            Ok(engine) => return Ok(engine),
            Err(reason) => tried.push(reason),
        }
    }
    let is_named = !named(locations).is_empty();
    Err(EngineError::NoEngine { tried, choice: locations.choice.clone(), is_named })
}

impl EngineLocations {
    /// The addresses of several engines, of which each new session gets one; empty: there is only one engine.
    #[must_use]
    pub fn fleet(&self) -> &[String] {
        match &self.choice {
            Choice::At(addresses) if addresses.len() > 1 => addresses,
            _ => &[],
        }
    }

    /// The locations of each of several engines, or these.
    #[must_use]
    pub fn each(&self) -> Vec<Self> {
        match self.fleet() {
            [] => vec![self.clone()],
            addresses => addresses
                .iter()
                .map(|address| Self { choice: Choice::At(vec![address.clone()]), ..self.clone() })
                .collect(),
        }
    }

    /// Whether the operator has named no engine, no OCI runtime, and no place.
    pub(crate) fn takes_any(&self) -> bool {
        self.choice == Choice::Auto && self.oci_runtime.is_none() && named(self).is_empty()
    }
}

/// The engines that variables name. DOCKER_HOST often names Podman's socket.
fn named(locations: &EngineLocations) -> Vec<Candidate> {
    let at = |address: &Option<String>, only| address.clone().map(|address| Candidate::At { address, only });
    let container_host = at(&locations.container_host, None);
    let docker_host = |only| at(&locations.docker_host, only);
    let list = match &locations.choice {
        Choice::At(addresses) => {
            return addresses
                .iter()
                .map(|address| Candidate::At { address: address.clone(), only: None })
                .collect();
        }
        Choice::Auto => [container_host, docker_host(None)],
        Choice::Podman => [container_host, docker_host(Some(EngineKind::Podman))],
        Choice::Docker => [docker_host(Some(EngineKind::Docker)), None],
        Choice::Process | Choice::Kubernetes => [None, None],
    };
    list.into_iter().flatten().collect()
}

fn candidates(locations: &EngineLocations) -> Vec<Candidate> {
    // If the user names an engine, no other one is tried: code for another machine must not run on this one.
    let list = named(locations);
    if !list.is_empty() || matches!(locations.choice, Choice::Process | Choice::Kubernetes) {
        return list;
    }
    let socket = |path: PathBuf, only| {
        path.exists().then(|| Candidate::At { address: format!("unix://{}", path.display()), only })
    };
    let in_runtime_dir = |name: &str| locations.runtime_dir.as_ref().map(|dir| dir.join(name));

    let podman = locations.choice != Choice::Docker;
    let docker = locations.choice != Choice::Podman;
    // Podman may listen at Docker's paths.
    let only_docker = (locations.choice == Choice::Docker).then_some(EngineKind::Docker);
    let mut list = Vec::new();
    if podman {
        list.extend(in_runtime_dir("podman/podman.sock").and_then(|path| socket(path, None)));
    }
    if docker {
        list.extend(in_runtime_dir("docker.sock").and_then(|path| socket(path, only_docker)));
    }
    if podman && !locations.root {
        list.extend(locations.podman.is_some().then_some(Candidate::OwnPodman));
    }
    if podman {
        list.extend(socket("/run/podman/podman.sock".into(), None));
    }
    if podman && locations.root {
        list.extend(locations.podman.is_some().then_some(Candidate::OwnPodman));
    }
    if docker {
        list.extend(socket("/var/run/docker.sock".into(), only_docker));
    }
    // Desktop engines come last: they run in a virtual machine.
    list.extend(locations.desktops.iter().filter_map(|desktop| match desktop.is_podman {
        true => socket(desktop.path.clone(), None).filter(|_| podman),
        false => socket(desktop.path.clone(), only_docker).filter(|_| docker),
    }));
    list
}

async fn own_podman(locations: &EngineLocations, sockets: &Path) -> Result<ContainerEngine, String> {
    let program = locations.podman.as_ref().ok_or("podman is not installed")?;
    let service =
        PrivateSocket::podman(program, locations.oci_runtime.as_deref(), sockets).await.map_err(|error| {
            let of = locations.oci_runtime.as_ref().map(|name| format!(" with the OCI runtime {name}"));
            format!("podman service{}: {error}", of.unwrap_or_default())
        })?;
    let address = service.address();
    connect(&address, Some(Arc::new(service)), locations).await
}

/// An engine behind ssh. Its socket is forwarded to a private socket on this machine. If the address names no socket,
/// the remote `docker` command passes the requests on to its engine.
async fn connect_by_ssh(
    address: &str,
    locations: &EngineLocations,
    sockets: &Path,
) -> Result<ContainerEngine, String> {
    let remote = SshAddress::parse(address)?;
    let Some(socket) = remote.socket.clone() else { return connect(address, None, locations).await };
    let program = locations.ssh.as_ref().ok_or_else(|| format!("{address}: ssh is not installed"))?;
    let tunnel = Tunnel { program, remote: &remote, socket: &socket, mark: locations.mark.as_ref() };
    let tunnel = PrivateSocket::ssh(&tunnel, sockets).await.map_err(|error| format!("{address}: {error}"))?;
    let forwarded = tunnel.address();
    let mut engine = connect(&forwarded, Some(Arc::new(tunnel)), locations)
        .await
        .map_err(|error| format!("{address}: {error}"))?;
    engine.address = address.to_owned();
    Ok(engine)
}

pub(super) async fn connect_to(
    address: &str,
    wanted: Option<EngineKind>,
    locations: &EngineLocations,
    sockets: &Path,
) -> Result<ContainerEngine, String> {
    let engine = if address.starts_with("ssh://") {
        connect_by_ssh(address, locations, sockets).await?
    } else {
        connect(address, None, locations).await?
    };
    let mut engine = engine;
    if !engine.is_of_this_machine() {
        let reach = Reach { locations: locations.clone(), sockets: sockets.to_owned() };
        engine.reach = Some(Arc::new(reach));
    }
    let Some(wanted) = wanted else { return Ok(engine) };
    if engine.kind == wanted {
        return Ok(engine);
    }
    Err(format!("{address}: answers as {}, which was not asked for", engine.kind))
}

async fn connect(
    address: &str,
    service: Option<Arc<PrivateSocket>>,
    locations: &EngineLocations,
) -> Result<ContainerEngine, String> {
    let seconds = 120;
    // No version is negotiated: bollard 0.21 sends requests without one, and the engine uses its newest version. The
    // negotiation would take half a second on Podman, which starts its runtime to report its version.
    let docker = if address.starts_with("unix://") {
        Docker::connect_with_unix(address, seconds, API_DEFAULT_VERSION)
    } else if let (true, Some(folder)) = (address.starts_with("tcp://"), &locations.certificates) {
        let [key, own, authority] = ["key.pem", "cert.pem", "ca.pem"].map(|file| folder.join(file));
        if let Some(missing) = [&key, &own, &authority].into_iter().find(|path| !path.is_file()) {
            return Err(format!("{address}: {} of sandbox.certificates is missing", missing.display()));
        }
        Docker::connect_with_ssl(address, &key, &own, &authority, seconds, API_DEFAULT_VERSION)
    } else if address.starts_with("tcp://") || address.starts_with("http://") {
        Docker::connect_with_http(address, seconds, API_DEFAULT_VERSION)
    } else if address.starts_with("ssh://") {
        Docker::connect_with_ssh(address, seconds, API_DEFAULT_VERSION, None)
    } else {
        return Err(format!(
            "{address}: no address of the form unix://PATH, tcp://HOST:PORT or ssh://USER@HOST"
        ));
    }
    .map_err(|error| format!("{address}: {error}"))?;
    let kind = tokio::time::timeout(ANSWER, kind(&docker))
        .await
        .map_err(|_| format!("{address}: did not answer within {} s", ANSWER.as_secs()))?
        .map_err(|error| format!("{address}: {}", with_causes(&error)))?;
    let users = Arc::new(UserRanges::at(address).await);
    Ok(ContainerEngine {
        docker,
        address: address.to_owned(),
        kind,
        processors: Arc::default(),
        refuses_cpu_limit: Arc::default(),
        said: Arc::default(),
        users,
        service,
        reach: None,
    })
}

/// Pings the engine under a path that only Podman has, then under one that both have. A request for the version would
/// take Podman half a second.
async fn kind(docker: &Docker) -> Result<EngineKind, bollard::errors::Error> {
    let podman = docker.clone().with_request_modifier(|mut request| {
        if let Ok(uri) = request.uri().to_string().replace("/_ping", "/libpod/_ping").parse() {
            *request.uri_mut() = uri;
        }
        request
    });
    match podman.ping().await {
        Ok(_) => Ok(EngineKind::Podman),
        Err(bollard::errors::Error::DockerResponseServerError { .. }) => {
            docker.ping().await.map(|_| EngineKind::Docker)
        }
        Err(error) => Err(error),
    }
}

impl ContainerEngine {
    pub(super) async fn pings(&self) -> bool {
        matches!(tokio::time::timeout(ANSWER, self.docker.ping()).await, Ok(Ok(_)))
    }

    pub(super) fn is_of_this_machine(&self) -> bool {
        self.address.starts_with("unix://")
    }

    /// An identifier of the engine that is the same in later sessions. A private service has a new socket each time, so
    /// its address is not used.
    pub(super) fn place(&self) -> &str {
        match &self.service {
            Some(_) if self.is_of_this_machine() => "podman of this machine",
            _ => &self.address,
        }
    }

    /// The engine's description of itself; it takes half a second on Podman.
    pub(super) async fn ask_about(&self) -> Result<EngineInfo, EngineError> {
        let action = "tell its version";
        let version = tokio::time::timeout(ANSWER, self.docker.version())
            .await
            .map_err(|_| EngineError::Timeout { action, after: ANSWER })?
            .map_err(|error| EngineError::request(action, &error))?;
        let components = version.components.unwrap_or_default();
        let podman = components.iter().any(|component| component.name.contains("Podman"));
        Ok(EngineInfo {
            name: format!(
                "{} {}",
                if podman { EngineKind::Podman } else { EngineKind::Docker },
                version.version.as_deref().unwrap_or("of unknown version")
            ),
            is_containers: true,
            runtime: runtime::among(&components),
        })
    }

    /// Checks that the engine will use the OCI runtime of this name for a container that requests it.
    ///
    /// # Errors
    /// [`EngineError::RuntimeIgnored`]. Docker refuses an unknown runtime itself, later.
    pub(super) async fn check_runtime(&self, wanted: &str) -> Result<(), EngineError> {
        let about = self.said.get_or_try_init(async || self.ask_about().await).await?;
        let has = about.runtime.as_ref().map(|runtime| runtime.name.clone());
        // Podman's Docker-compatible API ignores the runtime in the request.
        match self.kind {
            EngineKind::Podman if has.as_deref() != Some(wanted) => {
                Err(EngineError::RuntimeIgnored { wanted: wanted.to_owned(), has })
            }
            EngineKind::Podman | EngineKind::Docker => Ok(()),
        }
    }

    /// The number of processors, counted once. For an engine on this machine, the machine is asked: Podman needs up to
    /// a second.
    pub(super) async fn count_processors(&self, after: Duration) -> Result<u64, EngineError> {
        let count = self.processors.get_or_try_init(async || match self.shares_kernel() {
            true => Ok(online_processors()),
            false => self.ask_processors(after).await,
        });
        count.await.copied()
    }

    async fn ask_processors(&self, after: Duration) -> Result<u64, EngineError> {
        let action = "count its processors";
        let info = tokio::time::timeout(after, self.docker.info())
            .await
            .map_err(|_| EngineError::Timeout { action, after })?
            .map_err(|error| EngineError::request(action, &error))?;
        Ok(info.ncpu.and_then(|count| u64::try_from(count).ok()).unwrap_or(1).max(1))
    }

    /// The name of the kind, for people.
    pub(crate) fn kind_name(&self) -> &'static str {
        match self.kind {
            EngineKind::Podman => "Podman",
            EngineKind::Docker => "Docker",
        }
    }

    /// Whether its containers run on this machine's kernel, according to its address.
    fn shares_kernel(&self) -> bool {
        System::HERE.shares_kernel(&self.address)
    }
}

impl std::fmt::Display for EngineKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Podman => "podman",
            Self::Docker => "docker",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The places in their order. The system's places are included only if they exist on this machine.
    fn order(locations: &EngineLocations) -> Vec<String> {
        let name = |candidate| match candidate {
            Candidate::At { address, .. } => address,
            Candidate::OwnPodman => "own podman".to_owned(),
        };
        candidates(locations).into_iter().map(name).collect()
    }

    fn sockets_in(folder: &Path, sockets: [&str; 2]) -> [String; 2] {
        sockets.map(|socket| {
            let path = folder.join(socket);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, "").unwrap();
            format!("unix://{}", path.display())
        })
    }

    #[test]
    fn what_is_named_is_taken_and_nothing_else_or_rootless_engines_and_then_the_systems() {
        let (runtime, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let [podman, docker] = sockets_in(runtime.path(), ["podman/podman.sock", "docker.sock"]);
        let desktops = [".local/share/containers/podman/machine/podman.sock", ".docker/run/docker.sock"];
        let [machine, desktop] = sockets_in(home.path(), desktops);
        let locations = |choice: Choice, root: bool| EngineLocations {
            choice,
            runtime_dir: Some(runtime.path().into()),
            root,
            podman: Some("/usr/bin/podman".into()),
            desktops: System::Linux.desktop_sockets(Some(home.path()), None),
            ..EngineLocations::default()
        };
        let (podmans, dockers) = ("/run/podman/podman.sock", "/var/run/docker.sock");
        let here = |all: &[&str]| -> Vec<String> {
            let is_here = |place: &&&str| ![podmans, dockers].contains(*place) || Path::new(place).exists();
            let address = |place: &&str| {
                if place.starts_with('/') { format!("unix://{place}") } else { (*place).to_owned() }
            };
            all.iter().filter(is_here).map(address).collect()
        };
        let own = "own podman";
        assert_eq!(
            order(&locations(Choice::Auto, false)),
            here(&[&podman, &docker, own, podmans, dockers, &machine, &desktop])
        );
        // No private service is tried for root: it would be rootful like the system's, which is tried before.
        assert_eq!(
            order(&locations(Choice::Auto, true)),
            here(&[&podman, &docker, podmans, own, dockers, &machine, &desktop])
        );
        assert_eq!(order(&locations(Choice::Podman, false)), here(&[&podman, own, podmans, &machine]));
        assert_eq!(order(&locations(Choice::Docker, false)), here(&[&docker, dockers, &desktop]));
        assert_eq!(order(&locations(Choice::At(vec!["unix:///x".into()]), false)), ["unix:///x"]);
        let both = |choice: Choice| EngineLocations {
            container_host: Some("ssh://me@host".into()),
            docker_host: Some("tcp://host:1".into()),
            ..locations(choice, false)
        };
        for choice in [Choice::Auto, Choice::Podman] {
            assert_eq!(order(&both(choice)), ["ssh://me@host", "tcp://host:1"]);
        }
        assert_eq!(order(&both(Choice::Docker)), ["tcp://host:1"]);
        assert_eq!(order(&both(Choice::At(vec!["unix:///x".into()]))), ["unix:///x"]);
        let nothing = EngineLocations { podman: None, ..locations(Choice::Auto, false) };
        assert_eq!(order(&nothing), here(&[&podman, &docker, podmans, dockers, &machine, &desktop]));
    }
}
