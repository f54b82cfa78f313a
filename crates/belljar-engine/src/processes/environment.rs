//! Virtual environments of the machine's Python, which replace images for sandboxes of processes.
//!
//! An environment is a folder, and its name is a link to the folder. It gets its name only when it is complete. A build
//! and a sandbox hold a lock on the folder. A folder with neither a name nor a lock is removed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::fcntl::{Flock, FlockArg};
use nix::sys::statvfs::{FsFlags, statvfs};
use nix::unistd::geteuid;
use serde::{Deserialize, Serialize};

use super::super::error::EngineError;
use super::super::images::ImageInfo;
use super::python::Python;
use crate::recipe::{ImageName, OWN_IMAGE};

/// A path at which nothing can be.
const NOWHERE: &str = "/dev/null/no-safe-folder";

/// The store of environments.
#[derive(Debug, Clone, Default)]
pub struct Environments {
    pub(super) dir: PathBuf,
}

/// An environment that cannot be removed as long as this value exists.
#[derive(Debug)]
pub(super) struct Environment {
    /// The folder.
    pub(super) dir: PathBuf,
    /// The reference of the image that it replaces.
    pub(super) reference: String,
    /// The Python that it was made for.
    pub(super) python: Python,
    pub(super) _in_use: Arc<Flock<File>>,
}

/// The record that is stored with an environment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    /// The Python that it was made for.
    pub(super) python: Python,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) bytes: u64,
    pub(super) created: String,
}

/// The name of an environment that the user did not name.
const DEFAULT: &str = "default";
/// The name of the file with the [`Record`].
const RECORD: &str = "environment.json";
/// How often an environment is opened again if it was replaced meanwhile.
const OPENS_MAX: usize = 10;

impl Environments {
    /// The store of the environments below this folder. Without a folder the store is empty.
    pub(crate) fn new(dir: Option<PathBuf>) -> Self {
        Self { dir: dir.unwrap_or_else(|| NOWHERE.into()) }
    }

    /// The name of the environment for this reference of an image; `None`: only a container engine can have such an
    /// image.
    pub(super) fn name_of(reference: &str) -> Option<String> {
        if reference == OWN_IMAGE {
            return Some(DEFAULT.to_owned());
        }
        ImageName::of_reference(reference).map(|name| name.to_string())
    }

    /// The references of all environments.
    pub(super) fn references(&self) -> Vec<String> {
        let mut names: Vec<String> = self.named().into_keys().collect();
        names.sort();
        names.iter().filter_map(|name| reference_of(name)).collect()
    }

    /// Opens the environment for this reference, for use in a sandbox; `None`: it does not exist.
    ///
    /// # Errors
    /// [`EngineError::Environment`] if it cannot be used.
    pub(super) async fn open(&self, reference: &str) -> Result<Option<Environment>, EngineError> {
        let Some(name) = Self::name_of(reference) else { return Ok(None) };
        let unusable = |why: String| unusable(&name, &why);
        let mut why = String::new();
        for _ in 0..OPENS_MAX {
            let Some(dir) = self.dir_of(&name).map_err(|error| unusable(error.to_string()))? else {
                return Ok(None);
            };
            let in_use = match lock(&dir, FlockArg::LockSharedNonblock) {
                Ok(in_use) => in_use,
                Err(error) => {
                    // The environment may be replaced just now.
                    why = error.to_string();
                    continue;
                }
            };
            let record = read(&dir).map_err(|error| unusable(error.to_string()))?;
            let python = record.python;
            if let Some(why) = python.why_other().await {
                return Err(unusable(why));
            }
            if !python.packages_in(&dir).is_dir() {
                return Err(unusable(format!("{} has no packages", dir.display())));
            }
            if is_noexec(&dir) {
                return Err(noexec(&self.dir));
            }
            let reference = reference.to_owned();
            return Ok(Some(Environment { dir, reference, python, _in_use: Arc::new(in_use) }));
        }
        Err(unusable(why))
    }

    /// The facts about an environment, whether it can be used or not.
    pub(super) fn about(&self, reference: &str) -> Result<Option<ImageInfo>, EngineError> {
        let Some(name) = Self::name_of(reference) else { return Ok(None) };
        let failed = |error: io::Error| unusable(&name, &error.to_string());
        let Some(dir) = self.dir_of(&name).map_err(failed)? else { return Ok(None) };
        // A broken environment can still be removed and built again.
        let record = read(&dir).ok();
        Ok(Some(ImageInfo {
            id: dir.file_name().map(|id| id.to_string_lossy().into_owned()).unwrap_or_default(),
            names: vec![reference.to_owned()],
            bytes: record.as_ref().map_or(0, |record| record.bytes),
            created: record.as_ref().map(|record| record.created.clone()).unwrap_or_default(),
            labels: record.map_or_else(Default::default, |record| record.labels.into_iter().collect()),
        }))
    }

    /// Gives this name to a complete folder; an earlier folder loses the name.
    pub(super) fn give_name(&self, name: &str, dir: &Path, record: &Record) -> io::Result<()> {
        fs::write(dir.join(RECORD), serde_json::to_vec(record)?)?;
        let target = dir.file_name().ok_or(ErrorKind::InvalidInput)?;
        let mut link = target.to_owned();
        link.push(".link");
        let link = self.dir.join(link);
        symlink(target, &link)?;
        fs::rename(&link, self.dir.join(name)).inspect_err(|_| drop(fs::remove_file(&link)))
    }

    /// Removes the name of an environment that no sandbox uses.
    pub(super) fn remove(&self, reference: &str) -> Result<(), EngineError> {
        let action = "remove the environment";
        let refused = |message: String| EngineError::Refused { action, message };
        let Some(name) = Self::name_of(reference) else { return Ok(()) };
        let failed = |error: io::Error| refused(error.to_string());
        let Some(dir) = self.dir_of(&name).map_err(failed)? else { return Ok(()) };
        let removed = match lock(&dir, FlockArg::LockExclusiveNonblock) {
            // The lock keeps new sandboxes from using it until the name is removed.
            Ok(_alone) => fs::remove_file(self.dir.join(&name)),
            Err(error) if error.kind() == ErrorKind::NotFound => fs::remove_file(self.dir.join(&name)),
            Err(_) => return Err(refused(format!("a sandbox has {name}; end the session first"))),
        };
        removed.map_err(failed)?;
        self.sweep();
        Ok(())
    }

    /// Removes folders with neither a name nor a lock: those of killed builds, and those of replaced environments.
    pub(super) fn sweep(&self) {
        let named: BTreeSet<PathBuf> = self.named().into_values().collect();
        let Ok(entries) = fs::read_dir(&self.dir) else { return };
        for path in entries.flatten().map(|entry| entry.path()) {
            // Names have no dot, so a symlink with a dot was left by a killed build.
            let is_link = path.is_symlink();
            if path.extension().is_none() || named.contains(&path) {
                continue;
            }
            let removed = match lock(&path, FlockArg::LockExclusiveNonblock) {
                _ if is_link => fs::remove_file(&path),
                Ok(_alone) if !self.named().values().any(|dir| *dir == path) => fs::remove_dir_all(&path),
                _ => continue,
            };
            if let Err(error) = removed {
                tracing::warn!(%error, path = %path.display(), "a folder of an environment stays");
            }
        }
    }

    /// All names, each with its folder.
    fn named(&self) -> BTreeMap<String, PathBuf> {
        let entries = fs::read_dir(&self.dir).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let names = names.filter(|name| reference_of(name).is_some());
        names.filter_map(|name| Some((name.clone(), self.dir_of(&name).ok()??))).collect()
    }

    /// The folder with this name.
    fn dir_of(&self, name: &str) -> io::Result<Option<PathBuf>> {
        match fs::read_link(self.dir.join(name)) {
            // Only the last part of the target is used, so that no folder outside of the store counts as an
            // environment.
            Ok(target) => Ok(target.file_name().map(|target| self.dir.join(target))),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

fn reference_of(name: &str) -> Option<String> {
    if name == DEFAULT {
        return Some(OWN_IMAGE.to_owned());
    }
    ImageName::new(name).ok().map(|name| name.reference())
}

fn read(dir: &Path) -> io::Result<Record> {
    let about = fs::symlink_metadata(dir)?;
    if !about.is_dir() || about.uid() != geteuid().as_raw() || about.mode() & 0o022 != 0 {
        return Err(io::Error::other(format!("{} is not a folder that only you can write", dir.display())));
    }
    serde_json::from_slice(&fs::read(dir.join(RECORD))?).map_err(io::Error::other)
}

/// Locks a folder.
pub(super) fn lock(dir: &Path, how: FlockArg) -> io::Result<Flock<File>> {
    let flags = nix::libc::O_DIRECTORY | nix::libc::O_NOFOLLOW;
    let file = fs::OpenOptions::new().read(true).custom_flags(flags).open(dir)?;
    let lock = Flock::lock(file, how).map_err(|(_, errno)| io::Error::from(errno))?;
    // The folder may have been removed before it was locked.
    if fs::metadata(dir)?.ino() == lock.metadata()?.ino() {
        Ok(lock)
    } else {
        Err(ErrorKind::NotFound.into())
    }
}

pub(super) fn is_noexec(dir: &Path) -> bool {
    statvfs(dir).is_ok_and(|about| about.flags().contains(FsFlags::ST_NOEXEC))
}

/// The error for a file system that does not allow libraries to be loaded.
pub(super) fn noexec(dir: &Path) -> EngineError {
    EngineError::Environment {
        what: format!("packages in {} cannot be used: it is mounted noexec", dir.display()),
        remedy:
            "set XDG_DATA_HOME to a folder on another file system, and run `belljar image build` again; or \
                 mount that one with `exec`"
                .into(),
    }
}

fn unusable(name: &str, why: &str) -> EngineError {
    let remedy = match name == DEFAULT {
        true => "build it again with `belljar image build`".to_owned(),
        false => format!(
            "build it again with `belljar image build --with PACKAGE --name {name}`, or do without it with `belljar image \
             use default`"
        ),
    };
    EngineError::Environment {
        what: format!("the packages of the image {name} cannot be used: {why}"),
        remedy,
    }
}

/// The error for an environment that does not exist.
pub(super) fn missing(name: &str) -> EngineError {
    let what =
        format!("the image {name} is missing on this machine, where sandboxes have no container engine");
    let remedy = match name == DEFAULT {
        true => "build it with `belljar image build`".to_owned(),
        false => format!(
            "build it with `belljar image build --with PACKAGE --name {name}`, or do without it with `belljar image use \
             default`"
        ),
    };
    EngineError::Environment { what, remedy }
}
