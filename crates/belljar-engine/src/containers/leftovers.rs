//! Lists the containers of bridges, and removes those of bridges that are dead.
//!
//! It does not wait for engines that do not answer: `cleanup_list` does, for the guardian.

use std::collections::HashMap;

use bollard::Docker;
use bollard::errors::Error;
use bollard::models::ContainerSummary;
use bollard::query_parameters::{ListContainersOptionsBuilder, PruneContainersOptionsBuilder};
use futures_util::StreamExt;

use super::super::error::EngineError;
use super::super::owner::{LOCKS, OWNER, Owner};
use super::container::remove;
use super::find::ContainerEngine;

/// The largest number of stale containers that are removed in parallel: the first sandbox waits for all of them.
const REMOVALS_AT_ONCE_MAX: usize = 8;

/// Removes the containers whose owner is dead, and returns their number. Containers without the label are never
/// touched.
///
/// # Errors
/// The engine cannot list containers. A container that cannot be removed is logged and left to the next start.
pub(super) async fn reap(engine: &ContainerEngine, owner: &Owner) -> Result<usize, EngineError> {
    let ContainerList { containers, is_whole } = list(&engine.docker, LOCKS, owner.dir_id()).await?;
    if !is_whole {
        for dead in owner.dead() {
            prune(&engine.docker, OWNER, &dead).await?;
        }
    }
    let stale = containers.into_iter().filter_map(|container| {
        let label = container.labels.as_ref()?.get(OWNER)?;
        let is_stale = label != owner.id() && !owner.alive(label);
        container.id.filter(|_| is_stale)
    });
    let removing = stale.map(async |id| match remove(&engine.docker, &id).await {
        Ok(()) => 1,
        Err(error) => {
            tracing::warn!(%error, container = id, "a stale container stays");
            0
        }
    });
    let removed = futures_util::stream::iter(removing).buffer_unordered(REMOVALS_AT_ONCE_MAX);
    let removed = removed.fold(0, async |sum, one| sum + one).await;
    owner.sweep();
    Ok(removed)
}

/// The containers that an engine has listed.
pub(super) struct ContainerList {
    pub(super) containers: Vec<ContainerSummary>,
    /// Whether the list is complete. If not, containers that do not run may be missing.
    pub(super) is_whole: bool,
}

/// States that have the same name in every engine and in bollard.
const KNOWN_STATES: [&str; 4] = ["created", "running", "paused", "exited"];

/// Lists containers with this label, whether they run or not.
pub(super) async fn list(docker: &Docker, label: &str, value: &str) -> Result<ContainerList, EngineError> {
    let label = ("label".to_owned(), vec![format!("{label}={value}")]);
    let ask = async |filters: HashMap<String, Vec<String>>| {
        let options = ListContainersOptionsBuilder::default().all(true).filters(&filters).build();
        docker.list_containers(Some(options)).await
    };
    let mut is_whole = true;
    let listed = match ask(HashMap::from([label.clone()])).await {
        // Until it is cleaned up, a container has the state "stopped" in Podman, which bollard cannot parse.
        Err(Error::JsonDataError { .. } | Error::JsonSerdeError { .. }) => {
            is_whole = false;
            let states = ("status".to_owned(), KNOWN_STATES.map(str::to_owned).to_vec());
            ask(HashMap::from([label, states])).await
        }
        listed => listed,
    };
    let containers = listed.map_err(|error| EngineError::request("list containers", &error))?;
    Ok(ContainerList { containers, is_whole })
}

/// Removes the containers with this label that do not run, in any state.
pub(super) async fn prune(docker: &Docker, label: &str, value: &str) -> Result<(), EngineError> {
    let filters = HashMap::from([("label".to_owned(), vec![format!("{label}={value}")])]);
    let options = PruneContainersOptionsBuilder::default().filters(&filters).build();
    let pruned = docker.prune_containers(Some(options)).await;
    pruned.map(drop).map_err(|error| EngineError::request("remove containers", &error))
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;
    use std::path::Path;
    use std::sync::Arc;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::super::super::owner::lock_path;
    use super::super::super::spec::Choice;
    use super::super::find::{EngineLocations, find};
    use super::*;

    /// An engine with a container in the state "stopped", and the decoded requests to it.
    async fn engine_with_one_stopped() -> (ContainerEngine, Arc<Mutex<Vec<String>>>) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("tcp://{}", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&asked);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut bytes = vec![0; 8192];
                let read = stream.read(&mut bytes).await.unwrap();
                let head = String::from_utf8_lossy(&bytes[..read]).into_owned();
                let line = head.lines().next().unwrap_or_default();
                let line =
                    line.replace("%22", "\"").replace("%7B", "{").replace("%7D", "}").replace("%3D", "=");
                let body = match line.as_str() {
                    ping if ping.contains("/_ping") => "OK",
                    list if list.contains("/containers/json") && !list.contains("status") => {
                        r#"[{"Id": "x", "State": "stopped"}]"#
                    }
                    list if list.contains("/containers/json") => "[]",
                    _ => r#"{"ContainersDeleted": ["x"], "SpaceReclaimed": 0}"#,
                };
                kept.lock().push(line);
                let head = format!(
                    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                    body.len()
                );
                stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
            }
        });
        let locations = EngineLocations { choice: Choice::At(vec![address]), ..EngineLocations::default() };
        (find(&locations, Path::new("/nowhere")).await.unwrap(), asked)
    }

    #[tokio::test]
    async fn what_an_engine_calls_by_another_name_is_removed_for_each_dead_owner_and_for_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let own = Owner::claim(lock_path(dir.path(), "own")).unwrap();
        let _alive = Owner::claim(lock_path(dir.path(), "alive")).unwrap();
        std::fs::write(lock_path(dir.path(), "dead"), "").unwrap();
        let (engine, asked) = engine_with_one_stopped().await;
        reap(&engine, &own).await.unwrap();
        let asked = asked.lock();
        let pruned: Vec<&String> = asked.iter().filter(|line| line.contains("/containers/prune")).collect();
        assert!(pruned.len() == 1 && pruned[0].contains("belljar.owner=owner-dead"), "{asked:?}");
        assert!(!lock_path(dir.path(), "dead").exists());
    }
}
