//! Finds the engine for sandboxes.

use std::path::Path;
use std::sync::Arc;

use super::choice::Choice;
use super::containers::{self, EngineLocations};
use super::error::EngineError;
use super::images::ImageStore;
use super::interface::Engine;
use super::processes::{Environments, InsteadOf, ProcessEngine};

/// The first engine that answers. If any engine will do, processes of this machine stand in where none answers, or where it
/// has none of the images, and no image was asked for by name. `sockets` is the folder for sockets of the bridge's own, made
/// when it is needed.
///
/// # Errors
/// [`EngineError::NoEngine`] lists every place and why it did not serve.
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
        // What is named is never replaced.
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

/// The images of the engine that [`find`] finds.
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
