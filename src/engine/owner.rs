//! Marks what a bridge has with an engine as its own, and tells owners that are alive from dead ones.
//!
//! A bridge is alive while it holds the lock on its file; process numbers are never believed, they come back. It does
//! not wait for engines that do not answer: `belongings` does, for the guardian.

use std::collections::HashMap;
use std::fs::{DirBuilder, File, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};
use nix::unistd::geteuid;

use super::error::EngineError;

/// The label with the owner's id.
pub(super) const OWNER: &str = "belljar.owner";
/// The label with the sandbox's number among its owner's.
pub(super) const SANDBOX: &str = "belljar.sandbox";
/// The label that tells apart folders of locks: another user's locks cannot be seen from here.
pub(super) const LOCKS: &str = "belljar.locks";

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

    /// The name of the owner in labels.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// Names the folder of the locks in labels.
    pub(super) fn dir_id(&self) -> &str {
        &self.dir_id
    }

    /// Whether the owner of that name is alive.
    pub(super) fn alive(&self, owner: &str) -> bool {
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
    pub(super) fn dead(&self) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(&self.dir) else { return vec![] };
        let locks = entries.flatten().map(|entry| entry.path());
        let locks = locks.filter(|path| path.extension().is_some_and(|extension| extension == "lock"));
        let owners = locks.filter_map(|path| path.file_stem()?.to_str().map(str::to_owned));
        owners.filter(|owner| *owner != self.id && !self.alive(owner)).collect()
    }

    /// Removes lock files that nobody holds.
    pub(super) fn sweep(&self) {
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
}
