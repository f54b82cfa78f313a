//! Podman or Docker, as an engine of sandboxes.

use std::time::Duration;

use futures_util::future::BoxFuture;

use super::super::error::EngineError;
use super::super::guarantees::{Guarantees, Network};
use super::super::interface::{Engine, EngineInfo, StartFailure, StartedSandbox};
use super::super::owner::Owner;
use super::super::spec::SandboxSpec;
use super::find::ContainerEngine;
use super::leftovers;

/// Places where Podman or Docker mounts something by itself.
const ADDED_MOUNTS: [&str; 20] = [
    "/dev",
    "/dev/console",
    "/dev/full",
    "/dev/null",
    "/dev/ptmx",
    "/dev/pts",
    "/dev/random",
    "/dev/tty",
    "/dev/urandom",
    "/dev/zero",
    "/etc/group",
    "/etc/hostname",
    "/etc/hosts",
    "/etc/localtime",
    "/etc/passwd",
    "/etc/resolv.conf",
    "/proc",
    "/run/.containerenv",
    "/run/secrets",
    "/sys",
];
const STREAM: [&str; 3] = ["pipe", "socket", "null"];

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

    fn processors(&self, after: Duration) -> BoxFuture<'_, Option<u64>> {
        Box::pin(async move {
            let count = self.count_processors(after).await;
            count.inspect_err(|error| tracing::warn!(%error, "the processors are not known")).ok()
        })
    }

    fn outlives_bridge(&self) -> bool {
        true
    }

    fn is_here(&self) -> bool {
        self.is_of_this_machine()
    }

    fn guarantees(&self) -> Guarantees {
        Guarantees {
            masked_paths: self.masked(),
            program_folders: vec![],
            added_mounts: &ADDED_MOUNTS,
            open_mounts: &[],
            shut_places: true,
            own_users: false,
            network: Network::NoInterface,
            streams: [&STREAM; 3],
        }
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
