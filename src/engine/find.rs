//! Finds the engine for sandboxes.

use std::path::Path;
use std::sync::Arc;

use super::choice::Choice;
use super::containers::{self, Places};
use super::error::EngineError;
use super::images::ImageStore;
use super::interface::Engine;
use super::processes::{Environments, ProcessEngine};

/// The first engine that answers, else processes of this machine if any engine will do; `sockets` is the folder for sockets of the bridge's own, made when it is needed.
///
/// # Errors
/// [`EngineError::NoEngine`] lists every place and why it did not serve.
pub async fn find(places: &Places, sockets: &Path) -> Result<Arc<dyn Engine>, EngineError> {
    if places.choice == Choice::Process {
        return Ok(Arc::new(ProcessEngine::new(environments(places))));
    }
    match containers::find(places, sockets).await {
        Ok(engine) => Ok(Arc::new(engine)),
        // One that is named is never replaced.
        Err(EngineError::NoEngine { tried, choice: Choice::Auto, is_named: false }) => {
            Ok(Arc::new(ProcessEngine::standing_in(environments(places), tried)))
        }
        Err(error) => Err(error),
    }
}

/// The images of the engine that [`find`] finds.
///
/// # Errors
/// As [`find`].
pub async fn find_images(places: &Places, sockets: &Path) -> Result<Arc<dyn ImageStore>, EngineError> {
    if places.choice == Choice::Process {
        return Ok(Arc::new(environments(places)));
    }
    match containers::find(places, sockets).await {
        Ok(engine) => Ok(Arc::new(engine)),
        Err(EngineError::NoEngine { choice: Choice::Auto, is_named: false, .. }) => {
            Ok(Arc::new(environments(places)))
        }
        Err(error) => Err(error),
    }
}

fn environments(places: &Places) -> Environments {
    Environments::new(places.environments.clone())
}
