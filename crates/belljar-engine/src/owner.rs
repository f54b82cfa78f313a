//! Marks a bridge's resources in an engine as its own, and distinguishes live owners from dead ones.
//!
//! A bridge is alive while it holds the lock on its file. Process numbers are not used, since the system reuses them.
//! This module does not wait for engines that do not answer: `cleanup_list` does, for the guardian.

use std::collections::HashMap;
use std::fs::File;
use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher, RandomState};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use belljar_base::own_file;
use nix::fcntl::{Flock, FlockArg};

use super::error::EngineError;

/// The label with the owner's id.
pub(super) const OWNER: &str = "belljar.owner";
/// The label with the sandbox's number, which is unique for its owner.
pub(super) const SANDBOX: &str = "belljar.sandbox";
/// The label that identifies the folder of locks: another user's locks cannot be seen from here.
pub(super) const LOCKS: &str = "belljar.locks";

/// The file with the number of a folder of locks.
const NUMBER: &str = "folder-number";
/// How often a new lock may be removed by other bridges that start at the same time.
const CLAIMS_MAX: usize = 10;

/// This bridge, as the owner of containers. It counts as alive as long as this value exists. Its files are removed only
/// by [`Owner::release`]: if they stay, its guardian or the next start cleans up.
#[derive(Debug)]
pub struct Owner {
    id: String,
    dir: PathBuf,
    /// Identifies the folder in a label without revealing its path.
    dir_id: String,
    path: PathBuf,
    _lock: Flock<File>,
}

/// The path of an owner's lock, so that the guardian can know it before the lock exists.
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
    /// Takes the lock, whose name is unique, in its folder, which is created with mode 0700.
    ///
    /// # Errors
    /// [`EngineError::OwnerLock`] if the folder or the lock cannot be created.
    pub fn claim(path: PathBuf) -> Result<Self, EngineError> {
        let dir = path.parent().unwrap_or(Path::new(".")).to_owned();
        let failed = |source| EngineError::OwnerLock { dir: dir.display().to_string(), source };
        // Below the folder of temporary files, another user may have created it first.
        own_file::make_folder(&dir).map_err(failed)?;
        // Another bridge that starts at the same time may find the file before it is locked, take its owner for dead,
        // and remove the file.
        for _ in 0..CLAIMS_MAX {
            let file = own_file::open(&path, File::options().append(true).create(true)).map_err(failed)?;
            // Other bridges hold it only for a moment.
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

    /// Removes the owner's files. It must have no resources left in the engine.
    pub fn release(self) {
        remove_files(&self.path);
    }

    /// The lock's file.
    #[must_use]
    pub fn lock(&self) -> &Path {
        &self.path
    }

    /// The folder for sockets of this bridge, which is removed with the lock.
    #[must_use]
    pub fn sockets(&self) -> PathBuf {
        sockets_of(&self.path)
    }

    /// The labels for a container of this bridge; `sandbox` is the sandbox's number.
    #[must_use]
    pub fn labels(&self, sandbox: u64) -> HashMap<String, String> {
        HashMap::from([
            (OWNER.into(), self.id.clone()),
            (LOCKS.into(), self.dir_id.clone()),
            (SANDBOX.into(), sandbox.to_string()),
        ])
    }

    /// The name of the owner in labels.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// The identifier of the folder of locks in labels.
    pub(super) fn dir_id(&self) -> &str {
        &self.dir_id
    }

    /// Whether the owner of that name is alive.
    pub(super) fn alive(&self, owner: &str) -> bool {
        // The label is untrusted text: only a plain file name may be opened.
        if owner.contains(['/', '.']) {
            return true;
        }
        match File::open(self.dir.join(format!("{owner}.lock"))) {
            Ok(file) => Flock::lock(file, FlockArg::LockExclusiveNonblock).is_err(),
            Err(error) => error.kind() != std::io::ErrorKind::NotFound,
        }
    }

    /// The owners whose lock file exists and is not held.
    pub(super) fn dead(&self) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(&self.dir) else { return vec![] };
        let locks = entries.flatten().map(|entry| entry.path()).filter(|path| is_lock(path));
        let owners = locks.filter_map(|path| path.file_stem()?.to_str().map(str::to_owned));
        owners.filter(|owner| *owner != self.id && !self.alive(owner)).collect()
    }

    /// Removes lock files that nobody holds.
    pub(super) fn sweep(&self) {
        let Ok(entries) = std::fs::read_dir(&self.dir) else { return };
        for path in entries.flatten().map(|entry| entry.path()) {
            if path == self.path || !is_lock(&path) {
                continue;
            }
            let Ok(file) = File::open(&path) else { continue };
            // The lock is held while the files are removed, so that the next bridge that takes it notices their
            // removal.
            if let Ok(_free) = Flock::lock(file, FlockArg::LockExclusiveNonblock) {
                remove_files(&path);
            }
        }
    }
}

/// Whether a file has the name of an owner's lock, as `lock_path` gives it. Other files in the folder are not touched.
fn is_lock(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.starts_with("owner-") && name.ends_with(".lock")
}

/// A number that tells this folder from all others, also from one with the same path in another container that shares the
/// engine. It is in a file of the folder. Where none can be made, only the path counts.
fn fingerprint(dir: &Path) -> String {
    let number = RandomState::new().build_hasher().finish();
    // Another bridge may have made it.
    if let Err(error) = own_file::create(dir, NUMBER, format!("{number:016x}").as_bytes())
        && error.kind() != std::io::ErrorKind::AlreadyExists
    {
        tracing::warn!(%error, "the folder of locks gets no number of its own");
    }
    // The hash is stable across starts (`new()` has fixed keys).
    let mut hasher = DefaultHasher::new();
    (dir, own_file::read(&dir.join(NUMBER), 16).unwrap_or_default()).hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_is_alive_until_dropped_and_its_files_are_swept_after_a_crash() {
        let dir = tempfile::tempdir().unwrap();
        let first = Owner::claim(lock_path(dir.path(), "first")).unwrap();
        let second = Owner::claim(lock_path(dir.path(), "second")).unwrap();
        assert!(second.alive(&first.id));
        let other = dir.path().join("Cargo.lock");
        std::fs::write(&other, "").unwrap();
        let crashed = dir.path().join("owner-crashed.lock");
        std::fs::write(&crashed, "").unwrap();
        std::fs::create_dir(sockets_of(&crashed)).unwrap();
        assert!(!second.alive("owner-crashed"));
        second.sweep();
        assert!(!crashed.exists() && !sockets_of(&crashed).exists() && other.exists());
        assert!(first.path.exists());
        let (id, path) = (first.id.clone(), first.path.clone());
        drop(first);
        assert!(path.exists() && !second.alive(&id));
        Owner::claim(lock_path(dir.path(), "third")).unwrap().release();
        assert!(!lock_path(dir.path(), "third").exists());
    }

    #[test]
    fn folders_of_one_path_in_two_containers_have_labels_of_their_own() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("locks");
        let label = |name: &str| {
            let owner = Owner::claim(lock_path(&path, name)).unwrap();
            owner.labels(1).remove(LOCKS).unwrap()
        };
        let (first, same) = (label("first"), label("second"));
        std::fs::rename(&path, dir.path().join("of another container")).unwrap();
        let other = label("first");
        assert_eq!(first, same);
        assert_ne!(first, other);
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
}
