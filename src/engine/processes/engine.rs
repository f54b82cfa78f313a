//! The engine that needs nothing installed: starts a sandbox as a process of this machine and ends it.

use std::time::Duration;

use futures_util::future::{BoxFuture, ready};

use super::super::choice::Choice;
use super::super::error::EngineError;
use super::super::interface::{Engine, EngineInfo, StartFailure, StartedSandbox};
use super::super::kernel::online_processors;
use super::super::masks;
use super::super::owner::Owner;
use super::super::spec::SandboxSpec;
use super::environment::{Environments, missing};
use super::plan::ENVIRONMENT_FOLDER;
use super::python::Python;
use super::refusal::unconfined;
use super::start::{Packages, start};
use crate::confine::{PROGRAM_FOLDERS, StepFailure, StepKind};

/// Starts sandboxes as processes of this machine. It is there always; whether the machine lets it work is found out by each
/// start.
#[derive(Debug)]
pub struct ProcessEngine {
    environments: Environments,
    /// Why no container engine serves, where any would have done.
    instead_of: Option<InsteadOf>,
}

/// Why no container engine serves.
#[derive(Debug, Clone)]
pub enum InsteadOf {
    /// None answers.
    NoEngine {
        /// Each place where one could be, and why it does not serve.
        tried: Vec<String>,
    },
    /// One answers and has no image for sandboxes.
    NoImage {
        /// The engine.
        engine: &'static str,
        /// The names that were looked for.
        names: Vec<String>,
    },
}

/// What a sandbox could not exceed if it had them: nothing of them is mounted.
const GROUPS: &str = "/sys/fs/cgroup";

impl ProcessEngine {
    /// The engine that was named.
    pub fn new(environments: Environments) -> Self {
        Self { environments, instead_of: None }
    }

    /// In place of a container engine.
    pub fn standing_in(environments: Environments, instead_of: InsteadOf) -> Self {
        Self { environments, instead_of: Some(instead_of) }
    }

    /// The error of a start, with that of the container engines that were looked for first.
    fn refused(&self, error: EngineError) -> EngineError {
        let no_containers = match self.instead_of.clone() {
            None => return error,
            Some(InsteadOf::NoEngine { tried }) => {
                EngineError::NoEngine { tried, choice: Choice::Auto, is_named: false }
            }
            Some(InsteadOf::NoImage { names, .. }) => EngineError::ImageMissing { names },
        };
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
        if !cfg!(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))) {
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

    /// The first image that is here as an environment; if none is asked for by name, what the machine has.
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

impl InsteadOf {
    /// What the first reply says.
    fn notice(&self) -> String {
        let why = match self {
            Self::NoEngine { .. } => "no Podman or Docker answers".to_owned(),
            Self::NoImage { engine, .. } => {
                format!("{engine} has no image for sandboxes, which `belljar image build` builds")
            }
        };
        format!(
            "{why}, so sandboxes are processes of this machine; MCP_BRIDGE_RUNTIME=process names this engine and \
             silences the notice"
        )
    }
}

impl Engine for ProcessEngine {
    fn address(&self) -> &str {
        "no container engine"
    }

    /// One that stands in gives way to a container engine that has been started since.
    fn answers(&self) -> BoxFuture<'_, bool> {
        Box::pin(ready(self.instead_of.is_none()))
    }

    fn about(&self) -> BoxFuture<'_, Result<EngineInfo, EngineError>> {
        let name = "process (sandboxes in namespaces of this machine, no container engine)".to_owned();
        Box::pin(ready(Ok(EngineInfo { name, is_containers: false, runtime: None })))
    }

    fn processors(&self, _: Duration) -> BoxFuture<'_, Result<u64, EngineError>> {
        Box::pin(ready(Ok(online_processors())))
    }

    fn outlives_bridge(&self) -> bool {
        false
    }

    fn program_folders(&self) -> Vec<String> {
        PROGRAM_FOLDERS.into_iter().chain([ENVIRONMENT_FOLDER]).map(str::to_owned).collect()
    }

    fn is_here(&self) -> bool {
        true
    }

    fn masked_paths(&self) -> Vec<&'static str> {
        let of_kernel = masks::DEFAULTS.into_iter().chain(masks::OF_PROC).chain(masks::OF_SYS);
        of_kernel.chain([GROUPS]).collect()
    }

    fn start<'a>(&'a self, spec: &'a SandboxSpec) -> BoxFuture<'a, Result<StartedSandbox, StartFailure>> {
        Box::pin(async move {
            let started = tokio::time::timeout(spec.request, self.started(spec)).await;
            let late = EngineError::Timeout { action: "start the sandbox", after: spec.request };
            // What was started ends with its value.
            started
                .unwrap_or(Err(late))
                .map_err(|error| StartFailure { error: self.refused(error), may_exist: false })
        })
    }

    fn reap<'a>(&'a self, owner: &'a Owner) -> BoxFuture<'a, Result<usize, EngineError>> {
        // A sandbox ends with its bridge; only files of locks can be left.
        owner.sweep();
        Box::pin(ready(Ok(0)))
    }
}
