//! Finds the engine for sandboxes.

use std::path::Path;
use std::sync::Arc;

use super::containers::{self, EngineLocations};
use super::error::{EngineError, InsteadOf};
use super::images::ImageStore;
use super::interface::Engine;
use super::kubernetes::KubernetesEngine;
#[cfg(target_os = "linux")]
use super::processes::{Environments, ProcessEngine};
use super::spec::Choice;

/// The first engine that answers. If the operator accepts any engine and names no image, processes of this machine are
/// used when no engine answers, or when the engine that answers has none of the images. Of several named engines, one is
/// chosen, and the sentences name those that are left out. `sockets` is the folder for sockets of the bridge's own, which is
/// created when it is needed.
///
/// # Errors
/// [`EngineError::NoEngine`] lists every place with the reason why it was not used.
pub async fn find(
    locations: &EngineLocations,
    images: &[String],
    sockets: &Path,
) -> Result<(Arc<dyn Engine>, Vec<String>), EngineError> {
    if !locations.fleet().is_empty() {
        let (engine, left_out) = containers::choose(locations, images, sockets).await?;
        return Ok((Arc::new(engine), left_out));
    }
    Ok((find_one(locations, images, sockets).await?, vec![]))
}

async fn find_one(
    locations: &EngineLocations,
    images: &[String],
    sockets: &Path,
) -> Result<Arc<dyn Engine>, EngineError> {
    if locations.choice == Choice::Process {
        return processes(locations, None);
    }
    if locations.choice == Choice::Kubernetes {
        return Ok(Arc::new(KubernetesEngine::connect(&locations.kubernetes).await?));
    }
    let stands_in = |instead_of| processes(locations, Some(instead_of));
    match containers::find(locations, sockets).await {
        // An engine or image that is named is never replaced.
        Ok(engine) if locations.takes_any() && images.len() > 1 => match engine.image(images).await {
            Err(EngineError::ImageMissing { names }) => {
                stands_in(InsteadOf::NoImage { engine: engine.kind_name(), names })
            }
            _ => Ok(Arc::new(engine)),
        },
        Ok(engine) => Ok(Arc::new(engine)),
        Err(EngineError::NoEngine { tried, choice: Choice::Auto, is_named: false }) => {
            stands_in(InsteadOf::NoEngine { tried })
        }
        Err(error) => Err(error),
    }
}

/// The image store of the engine that answers first. If the operator accepts any engine and none answers, it is the
/// store of this machine's environments.
///
/// # Errors
/// As [`find`]. A cluster has no image store.
pub async fn find_images(
    locations: &EngineLocations,
    sockets: &Path,
) -> Result<Arc<dyn ImageStore>, EngineError> {
    if locations.choice == Choice::Process {
        return environments(locations, None);
    }
    if locations.choice == Choice::Kubernetes {
        return Err(EngineError::Cluster {
            what: "a cluster has no image store".into(),
            remedy: "build the image with Podman or Docker (MCP_BRIDGE_RUNTIME=podman), push it to a registry that the \
                     cluster reaches, and set sandbox.image to its name there"
                .into(),
        });
    }
    match containers::find(locations, sockets).await {
        Ok(engine) => Ok(Arc::new(engine)),
        Err(EngineError::NoEngine { tried, choice: Choice::Auto, is_named: false }) => {
            environments(locations, Some(InsteadOf::NoEngine { tried }))
        }
        Err(error) => Err(error),
    }
}

/// Processes of this machine, named by the operator or instead of a container engine.
#[cfg(target_os = "linux")]
fn processes(
    locations: &EngineLocations,
    instead_of: Option<InsteadOf>,
) -> Result<Arc<dyn Engine>, EngineError> {
    let environments = Environments::new(locations.environments.clone());
    Ok(Arc::new(ProcessEngine::new(environments, instead_of)))
}

/// The environments of these processes.
#[cfg(target_os = "linux")]
fn environments(
    locations: &EngineLocations,
    _: Option<InsteadOf>,
) -> Result<Arc<dyn ImageStore>, EngineError> {
    Ok(Arc::new(Environments::new(locations.environments.clone())))
}

#[cfg(not(target_os = "linux"))]
fn processes(_: &EngineLocations, instead_of: Option<InsteadOf>) -> Result<Arc<dyn Engine>, EngineError> {
    Err(not_here(instead_of))
}

#[cfg(not(target_os = "linux"))]
fn environments(
    _: &EngineLocations,
    instead_of: Option<InsteadOf>,
) -> Result<Arc<dyn ImageStore>, EngineError> {
    Err(not_here(instead_of))
}

/// Only Linux can confine a process as a sandbox.
#[cfg(not(target_os = "linux"))]
fn not_here(instead_of: Option<InsteadOf>) -> EngineError {
    instead_of.map_or_else(
        || EngineError::Unconfined {
            what: "a process is a sandbox on Linux only".into(),
            remedy: "use Podman or Docker, and leave MCP_BRIDGE_RUNTIME unset".into(),
        },
        EngineError::from,
    )
}
