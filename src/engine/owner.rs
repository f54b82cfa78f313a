//! Marks this bridge's containers as its own, and removes those of bridges that are dead.
//!
//! A bridge is alive while it holds the lock on its file; process numbers are never believed, they come back.

use std::collections::HashMap;
use std::fs::{DirBuilder, File};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use bollard::query_parameters::ListContainersOptionsBuilder;
use nix::fcntl::{Flock, FlockArg};
use nix::unistd::geteuid;

use super::container::remove;
use super::error::EngineError;
use super::find::Engine;

/// The label with the owner's id.
const OWNER: &str = "hotcell.owner";
/// The label that tells apart folders of locks: another user's locks cannot be seen from here.
const LOCKS: &str = "hotcell.locks";

/// This bridge, as the owner of containers; alive as long as this value.
#[derive(Debug)]
pub struct Owner {
    id: String,
    dir: PathBuf,
    /// Names the folder in a label without telling its path.
    dir_id: String,
    path: PathBuf,
    _lock: Flock<File>,
}

impl Owner {
    /// Takes a lock of its own in the folder, which is made with mode 0700.
    ///
    /// # Errors
    /// [`EngineError::OwnerLock`] when the folder or the lock cannot be made.
    pub fn claim(dir: &Path) -> Result<Self, EngineError> {
        let failed = |source| EngineError::OwnerLock { dir: dir.display().to_string(), source };
        DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(failed)?;
        // Among temporary files somebody else may have made it first.
        let found = std::fs::symlink_metadata(dir).map_err(failed)?;
        if !found.is_dir() || found.uid() != geteuid().as_raw() || found.mode() & 0o022 != 0 {
            return Err(failed(std::io::Error::other("it is not a folder that only you can write")));
        }
        let file = tempfile::Builder::new()
            .prefix("owner-")
            .suffix(".lock")
            .rand_bytes(16)
            .tempfile_in(dir)
            .map_err(failed)?;
        let (file, path) = file.keep().map_err(|error| failed(error.error))?;
        let lock = Flock::lock(file, FlockArg::LockExclusiveNonblock)
            .map_err(|(_, errno)| failed(std::io::Error::from(errno)))?;
        let id = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        let dir_id = fingerprint(dir);
        Ok(Self { id, dir: dir.to_owned(), dir_id, path, _lock: lock })
    }

    /// The labels for a container of this bridge.
    #[must_use]
    pub fn labels(&self) -> HashMap<String, String> {
        HashMap::from([(OWNER.into(), self.id.clone()), (LOCKS.into(), self.dir_id.clone())])
    }

    /// Removes the containers whose owner is dead; returns how many. Unlabelled ones are never touched.
    ///
    /// # Errors
    /// When the engine cannot list containers. One that cannot be removed is logged and left to the next start.
    pub async fn reap(&self, engine: &Engine) -> Result<usize, EngineError> {
        let filters = HashMap::from([("label", vec![format!("{LOCKS}={}", self.dir_id)])]);
        let filters: HashMap<String, Vec<String>> =
            filters.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        let options = ListContainersOptionsBuilder::default().all(true).filters(&filters).build();
        let containers = engine
            .docker
            .list_containers(Some(options))
            .await
            .map_err(|error| EngineError::request("list containers", &error))?;
        let mut removed = 0;
        for container in containers {
            let (Some(id), Some(owner)) =
                (container.id, container.labels.as_ref().and_then(|labels| labels.get(OWNER)))
            else {
                continue;
            };
            if *owner == self.id || self.alive(owner) {
                continue;
            }
            match remove(&engine.docker, &id).await {
                Ok(()) => removed += 1,
                Err(error) => tracing::warn!(%error, container = id, "a stale container stays"),
            }
        }
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

    /// Removes lock files that nobody holds.
    fn sweep(&self) {
        let Ok(entries) = std::fs::read_dir(&self.dir) else { return };
        for path in entries.flatten().map(|entry| entry.path()) {
            let ours = path == self.path;
            let is_lock = path.extension().is_some_and(|extension| extension == "lock");
            if ours || !is_lock {
                continue;
            }
            let free = File::open(&path)
                .is_ok_and(|file| Flock::lock(file, FlockArg::LockExclusiveNonblock).is_ok());
            if free && let Err(error) = std::fs::remove_file(&path) {
                tracing::debug!(%error, "a stale lock stays");
            }
        }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.path) {
            tracing::debug!(%error, "the owner lock was gone already");
        }
    }
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
    use super::*;

    #[test]
    fn an_owner_is_alive_until_dropped_and_its_lock_is_swept_after_a_crash() {
        let dir = tempfile::tempdir().unwrap();
        let first = Owner::claim(dir.path()).unwrap();
        let second = Owner::claim(dir.path()).unwrap();
        assert!(second.alive(&first.id));
        let crashed = dir.path().join("owner-crashed.lock");
        std::fs::write(&crashed, "").unwrap();
        assert!(!second.alive("owner-crashed"));
        second.sweep();
        assert!(!crashed.exists());
        assert!(first.path.exists());
        let id = first.id.clone();
        drop(first);
        assert!(!second.alive(&id));
    }

    #[test]
    fn a_folder_that_others_can_write_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
        let error = Owner::claim(dir.path()).unwrap_err();
        assert!(matches!(error, EngineError::OwnerLock { .. }), "{error}");
    }

    #[test]
    fn a_label_cannot_point_outside_the_folder_of_locks() {
        let dir = tempfile::tempdir().unwrap();
        let owner = Owner::claim(dir.path()).unwrap();
        assert!(owner.alive("../../etc/passwd"));
    }
}
