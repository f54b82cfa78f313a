//! The engine that needs nothing installed: starts a sandbox as a process of this machine and ends it.

use std::time::Duration;

use belljar_confine::{PROGRAM_FOLDERS, StepFailure, StepKind};
use futures_util::future::{BoxFuture, ready};

use super::super::error::{EngineError, InsteadOf};
use super::super::guarantees::{Guarantees, Network};
use super::super::interface::{Engine, EngineInfo, StartFailure, StartedSandbox};
use super::super::kernel::online_processors;
use super::super::masks;
use super::super::owner::Owner;
use super::super::spec::SandboxSpec;
use super::environment::{Environments, missing};
use super::plan::ENVIRONMENT_FOLDER;
use super::python::Python;
use super::start::unconfined;
use super::start::{Packages, start};

/// Starts sandboxes as processes of this machine. This engine can always be chosen. Only a start shows whether the
/// machine allows such sandboxes.
#[derive(Debug)]
pub struct ProcessEngine {
    environments: Environments,
    /// The reason why no container engine is used, if any would have been accepted.
    instead_of: Option<InsteadOf>,
}

/// The path of the control groups. It is masked as well, although nothing is mounted there in these sandboxes.
const GROUPS: &str = "/sys/fs/cgroup";
/// What the root of these sandboxes has besides requested places and folders of programs. Nothing is mounted at /sys.
const ADDED_MOUNTS: [&str; 6] =
    ["/dev/full", "/dev/null", "/dev/random", "/dev/urandom", "/dev/zero", "/proc"];

impl ProcessEngine {
    /// The engine. With `instead_of` it is a fallback for a container engine; without it, the operator has named it.
    pub fn new(environments: Environments, instead_of: Option<InsteadOf>) -> Self {
        Self { environments, instead_of }
    }

    /// The error of a start, together with the reason why no container engine was used.
    fn refused(&self, error: EngineError) -> EngineError {
        let Some(instead_of) = self.instead_of.clone() else { return error };
        let no_containers = EngineError::from(instead_of);
        match error {
            EngineError::TakesContainers { .. } => no_containers,
            EngineError::Unconfined { .. }
            | EngineError::NoPython { .. }
            | EngineError::Environment { .. } => {
                EngineError::Neither { containers: Box::new(no_containers), processes: Box::new(error) }
            }
            other => other,
        }
    }

    async fn started(&self, spec: &SandboxSpec) -> Result<StartedSandbox, EngineError> {
        if !cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
            let why = "it takes Linux on x86-64 or aarch64".to_owned();
            return Err(unconfined(&StepFailure {
                could_not: "be confined".into(),
                why,
                errno: None,
                kind: StepKind::Other,
            }));
        }
        if let Some(name) = &spec.oci_runtime {
            return Err(EngineError::TakesContainers { what: format!("the OCI runtime {name}") });
        }
        let mut started = start(spec, self.packages(&spec.images).await?).await?;
        started.warnings.extend(self.instead_of.as_ref().map(InsteadOf::notice));
        Ok(started)
    }

    /// The packages for a sandbox: those of the first image that exists here as an environment. If none exists, a
    /// single image is an error, since the user has named it. Otherwise the machine's packages are used.
    async fn packages(&self, images: &[String]) -> Result<Packages, EngineError> {
        for image in images {
            if let Some(environment) = self.environments.open(image).await? {
                return Ok(Packages::Environment(environment));
            }
        }
        match images {
            [image] => Err(match Environments::name_of(image) {
                Some(name) => missing(&name),
                None => EngineError::TakesContainers { what: format!("the image {image}") },
            }),
            _ => Ok(Packages::Machine(Python::find().await?)),
        }
    }
}

impl Engine for ProcessEngine {
    fn address(&self) -> &str {
        "no container engine"
    }

    /// A fallback never answers, so that a container engine that was started since is used instead.
    fn answers(&self) -> BoxFuture<'_, bool> {
        Box::pin(ready(self.instead_of.is_none()))
    }

    fn about(&self) -> BoxFuture<'_, Result<EngineInfo, EngineError>> {
        let name = "process (sandboxes in namespaces of this machine, no container engine)".to_owned();
        Box::pin(ready(Ok(EngineInfo { name, is_containers: false, runtime: None })))
    }

    fn processors(&self, _: Duration) -> BoxFuture<'_, Option<u64>> {
        Box::pin(ready(Some(online_processors())))
    }

    fn outlives_bridge(&self) -> bool {
        false
    }

    fn is_here(&self) -> bool {
        true
    }

    fn guarantees(&self) -> Guarantees {
        let of_kernel = masks::DEFAULTS.into_iter().chain(masks::OF_PROC).chain(masks::OF_SYS);
        Guarantees {
            masked_paths: of_kernel.chain([GROUPS]).collect(),
            program_folders: PROGRAM_FOLDERS.into_iter().chain([ENVIRONMENT_FOLDER]).collect(),
            added_mounts: &ADDED_MOUNTS,
            open_mounts: &[],
            shut_places: true,
            own_users: false,
            network: Network::NoInterface,
            streams: [&["pipe"]; 3],
        }
    }

    fn start<'a>(&'a self, spec: &'a SandboxSpec) -> BoxFuture<'a, Result<StartedSandbox, StartFailure>> {
        Box::pin(async move {
            let started = tokio::time::timeout(spec.request, self.started(spec)).await;
            let late = EngineError::Timeout { action: "start the sandbox", after: spec.request };
            // Dropping the started sandbox ends it.
            started
                .unwrap_or(Err(late))
                .map_err(|error| StartFailure { error: self.refused(error), may_exist: false })
        })
    }

    fn reap<'a>(&'a self, owner: &'a Owner) -> BoxFuture<'a, Result<usize, EngineError>> {
        // A sandbox ends with its bridge, so only lock files can be left.
        owner.sweep();
        Box::pin(ready(Ok(0)))
    }
}
