//! Asks the engine what became of a container.
//!
//! Containers remove themselves when they end, so only the engine's events say why they have ended.

use std::collections::HashMap;

use belljar_base::clock;
use bollard::Docker;
use bollard::query_parameters::{EventsOptionsBuilder, InspectContainerOptions};
use futures_util::StreamExt;
use tokio::time::timeout;

use super::super::error::is_not_found;
use super::super::fate::{FATE_REQUEST, Fate, SIGNALLED};

/// The age of events that are read, in seconds. The clock of the engine's machine may differ by that much.
const EVENTS_AGE_MAX: i64 = 3600;

/// The fate of a container that has just ended, after at most two times [`FATE_REQUEST`].
pub(super) async fn fate(docker: &Docker, id: &str) -> Fate {
    if let Ok(Some(fate)) = timeout(FATE_REQUEST, from_events(docker, id)).await {
        return fate;
    }
    match timeout(FATE_REQUEST, docker.inspect_container(id, None::<InspectContainerOptions>)).await {
        Ok(Ok(found)) => match found.state.unwrap_or_default() {
            state if state.running == Some(true) => Fate::Disconnected,
            state => state.exit_code.map_or(Fate::Gone, Fate::Ended),
        },
        Ok(Err(error)) if is_not_found(&error) => Fate::Gone,
        Ok(Err(_)) | Err(_) => Fate::NoAnswer,
    }
}

/// Reads the events until the container's end, which may still be to come; `None`: the engine has no events.
async fn from_events(docker: &Docker, id: &str) -> Option<Fate> {
    let since = (clock::now().timestamp() - EVENTS_AGE_MAX).to_string();
    let filters = HashMap::from([("container", vec![id])]);
    let options = EventsOptionsBuilder::default().since(&since).filters(&filters).build();
    let mut events = std::pin::pin!(docker.events(Some(options)));
    // The last event that can be the reason of the end: an earlier lack of memory may have ended an interpreter only.
    let mut reason = None;
    loop {
        let event = events.next().await?.ok()?;
        match event.action.as_deref() {
            Some("oom") => reason = Some(Fate::OutOfMemory),
            Some("kill") => reason = Some(Fate::Removed),
            Some("die") => {
                let code = event.actor?.attributes?.get("exitCode")?.parse().ok()?;
                return Some(reason.filter(|_| code > i64::from(SIGNALLED)).unwrap_or(Fate::Ended(code)));
            }
            _ => {}
        }
    }
}
