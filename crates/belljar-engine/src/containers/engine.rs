//! Podman or Docker, as an engine of sandboxes.

use std::time::Duration;

use futures_util::future::BoxFuture;

use super::super::error::EngineError;
use super::super::interface::{Engine, EngineInfo, StartFailure, StartedSandbox};
use super::super::owner::Owner;
use super::super::spec::SandboxSpec;
use super::find::ContainerEngine;
use super::leftovers;

impl Engine for ContainerEngine {
    fn address(&self) -> &str {
        &self.address
    }

    fn answers(&self) -> BoxFuture<'_, bool> {
        Box::pin(self.pings())
    }

    fn about(&self) -> BoxFuture<'_, Result<EngineInfo, EngineError>> {
        Box::pin(self.ask_about())
    }

    fn processors(&self, after: Duration) -> BoxFuture<'_, Result<u64, EngineError>> {
        Box::pin(self.count_processors(after))
    }

    fn outlives_bridge(&self) -> bool {
        true
    }

    fn program_folders(&self) -> Vec<String> {
        vec![]
    }

    fn is_here(&self) -> bool {
        self.is_of_this_machine()
    }

    fn masked_paths(&self) -> Vec<&'static str> {
        self.masked()
    }

    fn start<'a>(&'a self, spec: &'a SandboxSpec) -> BoxFuture<'a, Result<StartedSandbox, StartFailure>> {
        Box::pin(async move {
            let (container, streams) = self.started(spec).await?;
            Ok(container.into_started(streams))
        })
    }

    fn reap<'a>(&'a self, owner: &'a Owner) -> BoxFuture<'a, Result<usize, EngineError>> {
        Box::pin(leftovers::reap(self, owner))
    }
}
