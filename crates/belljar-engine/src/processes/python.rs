//! Finds the machine's Python for sandboxes without a container engine.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use belljar_confine::PROGRAM_FOLDERS;
use serde::{Deserialize, Serialize};
use tokio::process::Command;

use super::super::error::EngineError;

/// A program of Python, and its version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Python {
    /// The path of the program, below /usr.
    pub(super) program: String,
    /// The major and minor version.
    pub(super) version: (u32, u32),
}

/// Folders in which sandboxes can see programs, in the order of their PATH.
const FOLDERS: [&str; 2] = ["/usr/local/bin", "/usr/bin"];
/// The oldest version that the runtime supports.
const VERSION_MIN: (u32, u32) = (3, 11);
/// The newest minor version whose name is searched.
const MINOR_MAX: u32 = 20;

impl Python {
    /// Finds the first Python that is new enough.
    ///
    /// # Errors
    /// [`EngineError::NoPython`] if there is none.
    pub(super) async fn find() -> Result<Self, EngineError> {
        Self::find_in(&FOLDERS, &PROGRAM_FOLDERS).await
    }

    /// An identifier that changes when the program is replaced: its file, size and time of change.
    pub(super) fn id(&self) -> Option<String> {
        let real = Path::new(&self.program).canonicalize().ok()?;
        let file = real.metadata().ok()?;
        let (size, seconds, nanos) = (file.size(), file.mtime(), file.mtime_nsec());
        Some(format!("{} {} {} {size} {seconds}.{nanos}", real.display(), file.dev(), file.ino()))
    }

    /// This Python with the symlinks in its path resolved. The name of the file usually has the version, so an update
    /// to another version does not change what the path means.
    pub(super) fn real(mut self) -> Self {
        if let Ok(real) = Path::new(&self.program).canonicalize() {
            self.program = real.display().to_string();
        }
        self
    }

    /// The reason why the machine no longer has this Python; `None`: it still has it.
    pub(super) async fn why_other(&self) -> Option<String> {
        let (major, minor) = self.version;
        let made = format!("they are for Python {major}.{minor} in {}", self.program);
        match version(Path::new(&self.program), &PROGRAM_FOLDERS).await {
            Some(found) if found == self.version => None,
            Some((major, minor)) => Some(format!("{made}, which is Python {major}.{minor} now")),
            None => Some(format!("{made}, which is not there any more")),
        }
    }

    /// The folder of the packages in an environment for this Python.
    pub(super) fn packages_in(&self, environment: &Path) -> PathBuf {
        let (major, minor) = self.version;
        environment.join(format!("lib/python{major}.{minor}/site-packages"))
    }

    /// Finds a Python in these folders. Links are followed only into the `visible` folders, since a sandbox sees no
    /// others.
    async fn find_in(folders: &[&str], visible: &[&str]) -> Result<Self, EngineError> {
        let newer = (VERSION_MIN.1..=MINOR_MAX).rev().map(|minor| format!("python3.{minor}"));
        let names: Vec<String> = ["python3".to_owned()].into_iter().chain(newer).collect();
        let mut old = None;
        for name in &names {
            for folder in folders {
                let path = Path::new(folder).join(name);
                let Some(version) = version(&path, visible).await else { continue };
                if version >= VERSION_MIN {
                    return Ok(Self { program: path.display().to_string(), version });
                }
                old = old.or(Some((path, version)));
            }
        }
        let (major, minor) = VERSION_MIN;
        let found = old.map_or("no python3".into(), |(path, (major, minor))| {
            format!("{} is Python {major}.{minor}", path.display())
        });
        Err(EngineError::NoPython {
            what: format!(
                "sandboxes without a container engine need Python {major}.{minor} or newer in {}: {found}",
                folders.join(" or ")
            ),
            remedy: "install it with `sudo apt-get install python3` (or your distribution's way), or use Podman or \
                     Docker, whose images have a Python of their own"
                .into(),
        })
    }
}

/// The version of a Python in the visible folders: from the name of its file, else from its own output.
async fn version(path: &Path, visible: &[&str]) -> Option<(u32, u32)> {
    let real = path.canonicalize().ok()?;
    if !visible.iter().any(|folder| real.starts_with(folder)) {
        return None;
    }
    if let Some(version) = real.file_name()?.to_str()?.strip_prefix("python").and_then(pair) {
        return Some(version);
    }
    let mut asked = Command::new(path);
    asked.args(["-I", "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]).env_clear();
    // If the program hangs, it is killed when the time for the start is over.
    asked.stdin(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    let said = asked.output().await.ok()?;
    pair(std::str::from_utf8(&said.stdout).ok()?.trim())
}

fn pair(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn python(folder: &Path, name: &str, version: &str) {
        let path = folder.join(name);
        std::fs::write(&path, format!("#!/bin/sh\necho {version}\n")).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[tokio::test]
    async fn a_python_that_is_new_enough_is_found_under_any_name() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().canonicalize().unwrap();
        let folder = folder.to_str().unwrap();
        let found = async || Python::find_in(&[folder], &[folder]).await;
        let EngineError::NoPython { what, .. } = found().await.unwrap_err() else { panic!() };
        assert!(what.ends_with("no python3"), "{what}");
        python(dir.path(), "python3", "3.9");
        let EngineError::NoPython { what, .. } = found().await.unwrap_err() else { panic!() };
        assert!(what.ends_with("/python3 is Python 3.9"), "{what}");
        python(dir.path(), "python3.12", "nothing");
        assert_eq!(found().await.unwrap().version, (3, 12));
        std::fs::remove_file(dir.path().join("python3")).unwrap();
        symlink("python3.12", dir.path().join("python3")).unwrap();
        assert!(found().await.unwrap().program.ends_with("/python3"));
    }

    #[tokio::test]
    async fn a_python_that_sandboxes_cannot_see_is_skipped() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        let [local, usr, opt] = ["usr/local", "usr/bin", "opt"].map(|name| dir.join(name));
        for folder in [&local, &usr, &opt] {
            std::fs::create_dir_all(folder).unwrap();
        }
        python(&opt, "python3", "3.14");
        symlink(opt.join("python3"), local.join("python3")).unwrap();
        let folders = [local.to_str().unwrap(), usr.to_str().unwrap()];
        let visible = dir.join("usr");
        let found = async || Python::find_in(&folders, &[visible.to_str().unwrap()]).await;
        found().await.unwrap_err();
        python(&usr, "python3.12", "nothing");
        symlink("python3.12", usr.join("python3")).unwrap();
        assert_eq!(found().await.unwrap().program, usr.join("python3").to_str().unwrap());
    }
}
