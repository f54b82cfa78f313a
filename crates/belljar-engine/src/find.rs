//! Finds the engine for sandboxes.

use std::path::Path;
use std::sync::Arc;

use super::containers::{self, EngineLocations};
use super::error::EngineError;
use super::images::ImageStore;
use super::interface::Engine;
use super::processes::{Environments, InsteadOf, ProcessEngine};
use super::spec::Choice;

/// The first engine that answers. If the operator accepts any engine and names no image, processes of this machine are
/// used when no engine answers, or when the engine that answers has none of the images. `sockets` is the folder for
/// sockets of the bridge's own, which is created when it is needed.
///
/// # Errors
/// [`EngineError::NoEngine`] lists every place with the reason why it was not used.
pub async fn find(
    locations: &EngineLocations,
    images: &[String],
    sockets: &Path,
) -> Result<Arc<dyn Engine>, EngineError> {
    if locations.choice == Choice::Process {
        return Ok(Arc::new(ProcessEngine::new(environments(locations))));
    }
    let stands_in =
        |instead_of| Ok(Arc::new(ProcessEngine::standing_in(environments(locations), instead_of)) as _);
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
/// As [`find`].
pub async fn find_images(
    locations: &EngineLocations,
    sockets: &Path,
) -> Result<Arc<dyn ImageStore>, EngineError> {
    if locations.choice == Choice::Process {
        return Ok(Arc::new(environments(locations)));
    }
    match containers::find(locations, sockets).await {
        Ok(engine) => Ok(Arc::new(engine)),
        Err(EngineError::NoEngine { choice: Choice::Auto, is_named: false, .. }) => {
            Ok(Arc::new(environments(locations)))
        }
        Err(error) => Err(error),
    }
}

fn environments(locations: &EngineLocations) -> Environments {
    Environments::new(locations.environments.clone())
}
