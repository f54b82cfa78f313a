//! The resources of a bridge at an engine: the list that its guardian gets, and their removal when the bridge is gone.
//!
//! It removes the containers with the label of the owner and the files of the owner, and nothing else.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bollard::Docker;
use bollard::query_parameters::KillContainerOptionsBuilder;
use futures_util::future::join_all;
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::super::error::EngineError;
use super::super::kubernetes::remove_lease_of;
use super::super::owner::{OWNER, SANDBOX, remove_files, sockets_of};
use super::super::spec::Choice;
use super::container::remove;
use super::find::{ContainerEngine, EngineLocations, find};
use super::leftovers::{ContainerList, list, prune};

/// The resources of a bridge that the guardian cleans up when the bridge is killed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CleanupList {
    /// The owner's lock.
    pub lock: PathBuf,
    /// The addresses of the engines that were used.
    pub engines: BTreeSet<String>,
    /// The `ssh` program, which reaches some engines.
    pub ssh: Option<PathBuf>,
    /// The folder of certificates, with which some engines are reached.
    pub certificates: Option<PathBuf>,
    /// The numbers of the sandboxes that were requested from the engine, and whose fate is not known.
    pub creating: BTreeSet<u64>,
}

/// The longest time for which a dead bridge's lock may still be held: the kernel closes its files one after the other.
const RELEASE: Duration = Duration::from_secs(5);
/// How long an engine that does not answer is asked again, since it may be starting.
const UNREACHABLE: Duration = Duration::from_secs(60);
/// The longest time until a container appears that a bridge requested before it died.
const APPEARING: Duration = Duration::from_secs(6);
/// The longest time of one look at the engine, with the removals.
const LOOK: Duration = Duration::from_secs(15);
/// First and longest pause between two looks.
const PAUSE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(500));

impl CleanupList {
    /// Removes the resources after their owner's death. While the owner lives, nothing is removed.
    ///
    /// # Errors
    /// The engine did not answer for the whole time, or did not remove a container. The owner's files are removed all
    /// the same; the next start looks for the containers again.
    pub async fn remove(&self) -> Result<(), EngineError> {
        // The lock is held meanwhile, so that no other bridge does the same.
        let Ok(_lock) = taken_over(&self.lock).await else { return Ok(()) };
        let removed = join_all(self.engines.iter().map(|address| self.remove_from(address))).await;
        remove_files(&self.lock);
        removed.into_iter().collect()
    }

    /// Removes the sandboxes at an engine, and looks until none can appear any more.
    async fn remove_from(&self, address: &str) -> Result<(), EngineError> {
        let started = Instant::now();
        let mut awaited = self.creating.clone();
        let mut pause = PAUSE.0;
        let mut engine = None;
        loop {
            let looked = match tokio::time::timeout(LOOK, self.look(address, &mut engine)).await {
                Ok(looked) => looked,
                Err(_) => Err(EngineError::Timeout { action: "remove containers", after: LOOK }),
            };
            match looked {
                Ok(found) => {
                    awaited.retain(|number| !found.contains(number));
                    if found.is_empty() && (awaited.is_empty() || started.elapsed() > APPEARING) {
                        return Ok(());
                    }
                    if started.elapsed() > UNREACHABLE {
                        return Err(EngineError::Timeout { action: "remove containers", after: UNREACHABLE });
                    }
                }
                // A Podman service that the bridge started ends with the bridge, and so do its containers.
                Err(error) if started.elapsed() > UNREACHABLE || self.is_private(address) => {
                    return Err(error);
                }
                Err(_) => engine = None,
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE.1);
        }
    }

    /// Removes the present sandboxes of the owner, and returns the numbers of their sandboxes.
    async fn look(
        &self,
        address: &str,
        engine: &mut Option<ContainerEngine>,
    ) -> Result<Vec<u64>, EngineError> {
        let owner = self.lock.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        // The Pods of a deleted Lease are removed by their cluster.
        if let Some(removed) = remove_lease_of(address, &owner).await {
            return removed.map(|()| vec![]);
        }
        let engine = match engine {
            Some(engine) => engine,
            none => none.insert(find(&self.locations(address), &sockets_of(&self.lock)).await?),
        };
        let docker: &Docker = &engine.docker;
        let mut found = Vec::new();
        let ContainerList { containers, is_whole } = list(docker, OWNER, &owner).await?;
        if !is_whole {
            prune(docker, OWNER, &owner).await?;
        }
        for container in containers {
            let number = container.labels.as_ref().and_then(|labels| labels.get(SANDBOX)?.parse().ok());
            found.push(number.unwrap_or_default());
            let Some(id) = container.id else { continue };
            // The container is killed first, since Podman's forced removal begins with SIGTERM. Killing fails if it
            // does not run.
            let at_once = KillContainerOptionsBuilder::default().signal("KILL").build();
            let _killed_or_not_running = docker.kill_container(&id, Some(at_once)).await;
            if let Err(error) = remove(docker, &id).await {
                // The container may be just starting; the next look tries again.
                tracing::debug!(%error, container = id, "a container could not be removed yet");
            }
        }
        Ok(found)
    }

    fn locations(&self, address: &str) -> EngineLocations {
        EngineLocations {
            choice: Choice::At(vec![address.to_owned()]),
            ssh: self.ssh.clone(),
            certificates: self.certificates.clone(),
            ..EngineLocations::default()
        }
    }

    fn is_private(&self, address: &str) -> bool {
        address
            .strip_prefix("unix://")
            .is_some_and(|path| Path::new(path).starts_with(sockets_of(&self.lock)))
    }
}

/// The lock is held, because its owner lives or another bridge is cleaning up.
struct LockHeld;

/// Waits until the owner is dead, and takes its lock; `None` if there is no lock.
async fn taken_over(path: &Path) -> Result<Option<Flock<File>>, LockHeld> {
    let started = Instant::now();
    let Ok(mut file) = File::open(path) else { return Ok(None) };
    loop {
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => return Ok(Some(lock)),
            Err((back, Errno::EWOULDBLOCK)) if started.elapsed() < RELEASE => file = back,
            Err((_, Errno::EWOULDBLOCK)) => return Err(LockHeld),
            // A file system without locks tells nothing about the owner. The owner is dead nevertheless, since the
            // guardian's stdin was closed before.
            Err(_) => return Ok(None),
        }
        tokio::time::sleep(PAUSE.0).await;
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::owner::{Owner, lock_path};
    use super::*;

    fn cleanup_list(lock: PathBuf) -> CleanupList {
        CleanupList {
            lock,
            engines: BTreeSet::new(),
            ssh: None,
            certificates: None,
            creating: BTreeSet::new(),
        }
    }

    #[tokio::test]
    async fn the_files_of_a_dead_owner_go_once_its_lock_is_free() {
        let dir = tempfile::tempdir().unwrap();
        let owner = Owner::claim(lock_path(dir.path(), "x")).unwrap();
        std::fs::create_dir(owner.sockets()).unwrap();
        let told = cleanup_list(owner.lock().to_owned());
        let removing = tokio::spawn(async move { told.remove().await });
        tokio::task::yield_now().await;
        assert!(owner.lock().exists(), "its owner lives");
        let (lock, sockets) = (owner.lock().to_owned(), owner.sockets());
        drop(owner);
        removing.await.unwrap().unwrap();
        assert!(!lock.exists() && !sockets.exists());
    }

    #[tokio::test(start_paused = true)]
    async fn what_an_owner_has_stays_while_it_lives() {
        let dir = tempfile::tempdir().unwrap();
        let owner = Owner::claim(lock_path(dir.path(), "x")).unwrap();
        std::fs::create_dir(owner.sockets()).unwrap();
        // Nothing listens at this address, so a search for containers would fail.
        let engines = BTreeSet::from([format!("unix://{}", owner.sockets().join("engine.sock").display())]);
        let told = CleanupList { engines, ..cleanup_list(owner.lock().to_owned()) };
        told.remove().await.unwrap();
        assert!(owner.lock().exists() && owner.sockets().exists());
    }

    #[tokio::test]
    async fn a_private_socket_that_is_gone_is_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let lock = lock_path(dir.path(), "x");
        let socket = sockets_of(&lock).join("engine-1/engine.sock");
        let engines = BTreeSet::from([format!("unix://{}", socket.display())]);
        let told = CleanupList { engines, ..cleanup_list(lock) };
        let bound = Duration::from_secs(30);
        assert!(tokio::time::timeout(bound, told.remove()).await.expect("it gives up at once").is_err());
    }

    #[test]
    fn what_is_told_reads_back_the_same() {
        let told = CleanupList {
            engines: ["unix:///run/x.sock", "tcp://one:2376"].map(str::to_owned).into(),
            creating: BTreeSet::from([3, 5]),
            ..cleanup_list("/run/belljar/owner-x.lock".into())
        };
        let line = serde_json::to_string(&told).unwrap();
        assert_eq!(serde_json::from_str::<CleanupList>(&line).unwrap(), told);
    }
}
