//! Finds the engine for sandboxes.

use std::path::Path;
use std::sync::Arc;

use super::choice::Choice;
use super::containers::{self, Places};
use super::error::EngineError;
use super::interface::Engine;
use super::processes::ProcessEngine;

/// The first engine that answers, else processes of this machine if any engine will do; `sockets` is the folder for sockets of the bridge's own, made when it is needed.
///
/// # Errors
/// [`EngineError::NoEngine`] lists every place and why it did not serve.
pub async fn find(places: &Places, sockets: &Path) -> Result<Arc<dyn Engine>, EngineError> {
    if places.choice == Choice::Process {
        return Ok(Arc::new(ProcessEngine::default()));
    }
    match containers::find(places, sockets).await {
        Ok(engine) => Ok(Arc::new(engine)),
        // One that is named is never replaced.
        Err(EngineError::NoEngine { tried, choice: Choice::Auto, is_named: false }) => {
            Ok(Arc::new(ProcessEngine::standing_in(tried)))
        }
        Err(error) => Err(error),
    }
}
