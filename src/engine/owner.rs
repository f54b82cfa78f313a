//! Marks this bridge's containers as its own, and removes those of bridges that are dead.
//!
//! A bridge is alive while it holds the lock on its file; process numbers are never believed, they come back. It does
//! not wait for engines that do not answer: `belongings` does, for the guardian.

use std::collections::HashMap;
use std::fs::{DirBuilder, File, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use bollard::Docker;
use bollard::errors::Error;
use bollard::models::ContainerSummary;
use bollard::query_parameters::{ListContainersOptionsBuilder, PruneContainersOptionsBuilder};
use futures_util::StreamExt;
use nix::fcntl::{Flock, FlockArg};
use nix::unistd::geteuid;

use super::container::remove;
use super::error::EngineError;
use super::find::Engine;

/// The label with the owner's id.
pub(super) const OWNER: &str = "belljar.owner";
/// The label with the sandbox's number among its owner's.
pub(super) const SANDBOX: &str = "belljar.sandbox";
/// The label that tells apart folders of locks: another user's locks cannot be seen from here.
const LOCKS: &str = "belljar.locks";

/// Stale containers that are removed at once: the first sandbox waits for all of them.
const REMOVALS_AT_ONCE_MAX: usize = 8;
/// How often a new lock may be taken away by others that start at the same time.
const CLAIMS_MAX: usize = 10;

/// This bridge, as the owner of containers; alive as long as this value. Its files go with [`Owner::release`] only: when
/// they stay, its guardian or the next start looks after what is left.
#[derive(Debug)]
pub struct Owner {
    id: String,
    dir: PathBuf,
    /// Names the folder in a label without telling its path.
    dir_id: String,
    path: PathBuf,
    _lock: Flock<File>,
}

/// Where an owner's lock is going to be, so that the guardian can be told before it is there.
#[must_use]
pub fn lock_path(dir: &Path, name: &str) -> PathBuf {
    dir.join(format!("owner-{name}.lock"))
}

/// The folder of an owner's sockets, beside its lock.
pub(super) fn sockets_of(lock: &Path) -> PathBuf {
    lock.with_extension("d")
}

/// Removes an owner's files, the lock last.
pub(super) fn remove_files(lock: &Path) {
    let gone = |error: &std::io::Error| error.kind() == std::io::ErrorKind::NotFound;
    let sockets = std::fs::remove_dir_all(sockets_of(lock));
    for error in [sockets, std::fs::remove_file(lock)].into_iter().filter_map(Result::err) {
        if !gone(&error) {
            tracing::debug!(%error, "a file of an owner stays");
        }
    }
}

impl Owner {
    /// Takes the lock, which nobody else has the name of, in its folder, which is made with mode 0700.
    ///
    /// # Errors
    /// [`EngineError::OwnerLock`] when the folder or the lock cannot be made.
    pub fn claim(path: PathBuf) -> Result<Self, EngineError> {
        let dir = path.parent().unwrap_or(Path::new(".")).to_owned();
        let failed = |source| EngineError::OwnerLock { dir: dir.display().to_string(), source };
        DirBuilder::new().recursive(true).mode(0o700).create(&dir).map_err(failed)?;
        // Among temporary files somebody else may have made it first.
        let found = std::fs::symlink_metadata(&dir).map_err(failed)?;
        if !found.is_dir() || found.uid() != geteuid().as_raw() || found.mode() & 0o022 != 0 {
            return Err(failed(std::io::Error::other("it is not a folder that only you can write")));
        }
        // One that starts at the same time takes a lock that nobody holds yet for a dead one's, and removes it.
        for _ in 0..CLAIMS_MAX {
            let file = OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .open(&path)
                .map_err(failed)?;
            // Others hold it for a moment only.
            let lock = Flock::lock(file, FlockArg::LockExclusive)
                .map_err(|(_, errno)| failed(std::io::Error::from(errno)))?;
            let is_there = std::fs::metadata(&path).is_ok_and(|found| {
                lock.metadata().is_ok_and(|held| (held.dev(), held.ino()) == (found.dev(), found.ino()))
            });
            if is_there {
                let id = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
                let dir_id = fingerprint(&dir);
                return Ok(Self { id, dir, dir_id, path, _lock: lock });
            }
        }
        Err(failed(std::io::Error::other("the lock is taken away each time")))
    }

    /// Ends in order: nothing of this owner is left with the engine.
    pub fn release(self) {
        remove_files(&self.path);
    }

    /// The lock's file.
    #[must_use]
    pub fn lock(&self) -> &Path {
        &self.path
    }

    /// A folder for sockets of this bridge's own, which goes with the lock.
    #[must_use]
    pub fn sockets(&self) -> PathBuf {
        sockets_of(&self.path)
    }

    /// The labels for a container of this bridge; the number is the sandbox's.
    #[must_use]
    pub fn labels(&self, sandbox: u64) -> HashMap<String, String> {
        HashMap::from([
            (OWNER.into(), self.id.clone()),
            (LOCKS.into(), self.dir_id.clone()),
            (SANDBOX.into(), sandbox.to_string()),
        ])
    }

    /// Removes the containers whose owner is dead; returns how many. Unlabelled ones are never touched.
    ///
    /// # Errors
    /// When the engine cannot list containers. One that cannot be removed is logged and left to the next start.
    pub async fn reap(&self, engine: &Engine) -> Result<usize, EngineError> {
        let Listed { containers, is_whole } = list(&engine.docker, LOCKS, &self.dir_id).await?;
        if !is_whole {
            for dead in self.dead() {
                prune(&engine.docker, OWNER, &dead).await?;
            }
        }
        let stale = containers.into_iter().filter_map(|container| {
            let owner = container.labels.as_ref()?.get(OWNER)?;
            let is_stale = *owner != self.id && !self.alive(owner);
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
        self.sweep();
        Ok(removed)
    }

    fn alive(&self, owner: &str) -> bool {
        // The label is text from outside: only a plain file name may be looked for.
        if owner.contains(['/', '.']) {
            return true;
        }
        match File::open(self.dir.join(format!("{owner}.lock"))) {
            Ok(file) => Flock::lock(file, FlockArg::LockExclusiveNonblock).is_err(),
            Err(error) => error.kind() != std::io::ErrorKind::NotFound,
        }
    }

    /// Owners whose lock is there and held by nobody.
    fn dead(&self) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(&self.dir) else { return vec![] };
        let locks = entries.flatten().map(|entry| entry.path());
        let locks = locks.filter(|path| path.extension().is_some_and(|extension| extension == "lock"));
        let owners = locks.filter_map(|path| path.file_stem()?.to_str().map(str::to_owned));
        owners.filter(|owner| *owner != self.id && !self.alive(owner)).collect()
    }

    /// Removes lock files that nobody holds.
    fn sweep(&self) {
        let Ok(entries) = std::fs::read_dir(&self.dir) else { return };
        for path in entries.flatten().map(|entry| entry.path()) {
            let ours = path == self.path;
            let is_lock = path.extension().is_some_and(|extension| extension == "lock");
            if ours || !is_lock {
                continue;
            }
            let Ok(file) = File::open(&path) else { continue };
            // Held while the files go, so that whoever takes it next sees that they are gone.
            if let Ok(_free) = Flock::lock(file, FlockArg::LockExclusiveNonblock) {
                remove_files(&path);
            }
        }
    }
}

/// What an engine says that it has.
pub(super) struct Listed {
    pub(super) containers: Vec<ContainerSummary>,
    /// Whether that is all: one that does not run may be missing otherwise.
    pub(super) is_whole: bool,
}

/// States that every engine and bollard call the same.
const KNOWN_STATES: [&str; 4] = ["created", "running", "paused", "exited"];

/// Containers, running or not, with this label.
pub(super) async fn list(docker: &Docker, label: &str, value: &str) -> Result<Listed, EngineError> {
    let label = ("label".to_owned(), vec![format!("{label}={value}")]);
    let ask = async |filters: HashMap<String, Vec<String>>| {
        let options = ListContainersOptionsBuilder::default().all(true).filters(&filters).build();
        docker.list_containers(Some(options)).await
    };
    let mut is_whole = true;
    let listed = match ask(HashMap::from([label.clone()])).await {
        // Podman calls one "stopped" until it has been cleaned up, a word that bollard does not take.
        Err(Error::JsonDataError { .. } | Error::JsonSerdeError { .. }) => {
            is_whole = false;
            let states = ("status".to_owned(), KNOWN_STATES.map(str::to_owned).to_vec());
            ask(HashMap::from([label, states])).await
        }
        listed => listed,
    };
    let containers = listed.map_err(|error| EngineError::request("list containers", &error))?;
    Ok(Listed { containers, is_whole })
}

/// Removes the containers with this label that do not run, whatever state they are in.
pub(super) async fn prune(docker: &Docker, label: &str, value: &str) -> Result<(), EngineError> {
    let filters = HashMap::from([("label".to_owned(), vec![format!("{label}={value}")])]);
    let options = PruneContainersOptionsBuilder::default().filters(&filters).build();
    let pruned = docker.prune_containers(Some(options)).await;
    pruned.map(drop).map_err(|error| EngineError::request("remove containers", &error))
}

fn fingerprint(dir: &Path) -> String {
    use std::hash::{DefaultHasher, Hash, Hasher};
    // Stable across starts (`new()` has fixed keys); it only has to tell folders apart.
    let mut hasher = DefaultHasher::new();
    dir.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::super::choice::Choice;
    use super::super::find::{Places, find};
    use super::*;

    #[test]
    fn an_owner_is_alive_until_dropped_and_its_files_are_swept_after_a_crash() {
        let dir = tempfile::tempdir().unwrap();
        let first = Owner::claim(lock_path(dir.path(), "first")).unwrap();
        let second = Owner::claim(lock_path(dir.path(), "second")).unwrap();
        assert!(second.alive(&first.id));
        let crashed = dir.path().join("owner-crashed.lock");
        std::fs::write(&crashed, "").unwrap();
        std::fs::create_dir(sockets_of(&crashed)).unwrap();
        assert!(!second.alive("owner-crashed"));
        second.sweep();
        assert!(!crashed.exists() && !sockets_of(&crashed).exists());
        assert!(first.path.exists());
        let (id, path) = (first.id.clone(), first.path.clone());
        drop(first);
        assert!(path.exists() && !second.alive(&id));
        Owner::claim(lock_path(dir.path(), "third")).unwrap().release();
        assert!(!lock_path(dir.path(), "third").exists());
    }

    #[test]
    fn a_folder_that_others_can_write_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
        let error = Owner::claim(lock_path(dir.path(), "x")).unwrap_err();
        assert!(matches!(error, EngineError::OwnerLock { .. }), "{error}");
    }

    #[test]
    fn a_label_cannot_point_outside_the_folder_of_locks() {
        let dir = tempfile::tempdir().unwrap();
        let owner = Owner::claim(lock_path(dir.path(), "x")).unwrap();
        assert!(owner.alive("../../etc/passwd"));
    }

    /// An engine that calls a container "stopped"; what it was asked for, decoded.
    async fn engine_with_one_stopped() -> (Engine, Arc<Mutex<Vec<String>>>) {
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
                kept.lock().unwrap().push(line);
                let head = format!(
                    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                    body.len()
                );
                stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
            }
        });
        let places = Places {
            choice: Choice::At(address),
            oci_runtime: None,
            container_host: None,
            docker_host: None,
            runtime_dir: None,
            root: false,
            podman: None,
            ssh: None,
            home: None,
            mark: None,
        };
        (find(&places, Path::new("/nowhere")).await.unwrap(), asked)
    }

    #[tokio::test]
    async fn what_an_engine_calls_by_another_name_is_removed_for_each_dead_owner_and_for_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let own = Owner::claim(lock_path(dir.path(), "own")).unwrap();
        let _alive = Owner::claim(lock_path(dir.path(), "alive")).unwrap();
        std::fs::write(lock_path(dir.path(), "dead"), "").unwrap();
        let (engine, asked) = engine_with_one_stopped().await;
        own.reap(&engine).await.unwrap();
        let asked = asked.lock().unwrap();
        let pruned: Vec<&String> = asked.iter().filter(|line| line.contains("/containers/prune")).collect();
        assert!(pruned.len() == 1 && pruned[0].contains("belljar.owner=owner-dead"), "{asked:?}");
        assert!(!lock_path(dir.path(), "dead").exists());
    }
}
