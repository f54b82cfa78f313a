//! Functions that code saved: plain `.py` files of mode 0600 in a folder of mode 0700, read again by later sessions.
//!
//! It does not run them; the sandbox does.

use std::fs::{self, DirBuilder};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::limits::Limits;
use crate::run::{FaultCode, ToolFault};

/// The folder of saved functions.
#[derive(Debug)]
pub(super) struct SavedTools {
    dir: PathBuf,
    source_bytes_max: usize,
    count_max: usize,
}

/// Why a function is not saved or read.
#[derive(Debug, thiserror::Error)]
pub(super) enum SavedToolError {
    #[error(
        "'{name}' is no name for a saved tool: it must be a Python identifier of at most 64 ASCII letters, digits and _"
    )]
    Name { name: String },
    #[error("the source of '{name}' has {bytes} bytes, at most {bytes_max} are kept")]
    TooLarge { name: String, bytes: usize, bytes_max: usize },
    #[error("{count_max} saved tools are kept already")]
    TooMany { count_max: usize },
    #[error("the folder of saved tools cannot be used: {0}")]
    Folder(#[from] std::io::Error),
}

impl SavedTools {
    pub(super) fn new(dir: PathBuf, limits: &Limits) -> Self {
        Self { dir, source_bytes_max: limits.saved_tool_bytes_max, count_max: limits.saved_tools_max }
    }

    /// Keeps a function, in place of one with the same name. Either the old or the new file is there at any time.
    pub(super) fn save(&self, name: &str, source: &str) -> Result<(), SavedToolError> {
        let path = self.path(name)?;
        if source.len() > self.source_bytes_max {
            let bytes_max = self.source_bytes_max;
            return Err(SavedToolError::TooLarge { name: name.to_owned(), bytes: source.len(), bytes_max });
        }
        DirBuilder::new().recursive(true).mode(0o700).create(&self.dir)?;
        if !path.exists() && self.files()?.len() >= self.count_max {
            return Err(SavedToolError::TooMany { count_max: self.count_max });
        }
        // tempfile makes files of mode 0600.
        let mut file = tempfile::NamedTempFile::new_in(&self.dir)?;
        file.write_all(source.as_bytes())?;
        file.as_file().sync_all()?;
        file.persist(path).map_err(|error| error.error)?;
        Ok(())
    }

    /// All functions by name. A file that is not ours, no plain file or too large is left out and logged.
    pub(super) fn all(&self) -> Result<Vec<(String, String)>, SavedToolError> {
        let mut saved = Vec::new();
        for (name, path) in self.files()? {
            match self.read(&path) {
                Ok(source) => saved.push((name, source)),
                Err(error) => tracing::warn!(%error, path = %path.display(), "a saved tool is left out"),
            }
        }
        Ok(saved)
    }

    fn files(&self) -> Result<Vec<(String, PathBuf)>, SavedToolError> {
        let entries = match fs::read_dir(&self.dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(vec![]),
            Err(error) => return Err(error.into()),
        };
        let mut files = Vec::new();
        for entry in entries {
            let path = entry?.path();
            let is_python = path.extension().is_some_and(|extension| extension == "py");
            let name = path.file_stem().and_then(|stem| stem.to_str()).filter(|name| is_identifier(name));
            if let Some(name) = name.filter(|_| is_python) {
                files.push((name.to_owned(), path.clone()));
            }
        }
        files.sort();
        files.truncate(self.count_max);
        Ok(files)
    }

    fn read(&self, path: &Path) -> std::io::Result<String> {
        let metadata = fs::symlink_metadata(path)?;
        let ours = metadata.uid() == nix::unistd::geteuid().as_raw();
        if !metadata.is_file() || !ours || metadata.mode() & 0o022 != 0 {
            return Err(std::io::Error::other("it must be a plain file of yours that only you can write"));
        }
        let mut source = String::new();
        let bytes =
            fs::File::open(path)?.take(self.source_bytes_max as u64 + 1).read_to_string(&mut source)?;
        if bytes > self.source_bytes_max {
            return Err(std::io::Error::other("it is too large"));
        }
        Ok(source)
    }

    fn path(&self, name: &str) -> Result<PathBuf, SavedToolError> {
        if !is_identifier(name) {
            let name = name.chars().take(64).flat_map(char::escape_debug).collect();
            return Err(SavedToolError::Name { name });
        }
        Ok(self.dir.join(format!("{name}.py")))
    }
}

impl From<SavedToolError> for ToolFault {
    fn from(error: SavedToolError) -> Self {
        let code = match error {
            SavedToolError::Folder(_) => FaultCode::Internal,
            SavedToolError::TooLarge { .. } => FaultCode::TooLarge,
            SavedToolError::Name { .. } | SavedToolError::TooMany { .. } => FaultCode::InvalidArguments,
        };
        // An I/O error's own text names no path of the host.
        Self::new(code, error.to_string())
    }
}

fn is_identifier(name: &str) -> bool {
    let starts = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    starts && name.len() <= 64 && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn store(dir: &Path) -> SavedTools {
        let limits = Limits { saved_tool_bytes_max: 20, saved_tools_max: 2, ..Limits::default() };
        SavedTools::new(dir.join("tools"), &limits)
    }

    #[test]
    fn what_is_saved_is_read_again_and_is_for_the_user_alone() {
        let dir = tempfile::tempdir().unwrap();
        let store = store(dir.path());
        assert_eq!(store.all().unwrap(), []);
        store.save("twice", "def twice(x): 1").unwrap();
        store.save("twice", "def twice(x): 2").unwrap();
        assert_eq!(store.all().unwrap(), [("twice".to_owned(), "def twice(x): 2".to_owned())]);
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&dir.path().join("tools")), 0o700);
        assert_eq!(mode(&dir.path().join("tools/twice.py")), 0o600);
    }

    #[test]
    fn names_sizes_and_numbers_are_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let store = store(dir.path());
        for name in ["../x", "", "a b", "9a", "é", &"a".repeat(65)] {
            assert!(matches!(store.save(name, ""), Err(SavedToolError::Name { .. })), "{name}");
        }
        assert!(matches!(store.save("a", &"x".repeat(21)), Err(SavedToolError::TooLarge { .. })));
        store.save("a", "1").unwrap();
        store.save("b", "1").unwrap();
        assert!(matches!(store.save("c", "1"), Err(SavedToolError::TooMany { count_max: 2 })));
        store.save("b", "2").unwrap();
    }

    #[test]
    fn a_file_that_others_can_write_or_a_link_is_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let store = store(dir.path());
        store.save("good", "1").unwrap();
        let tools = dir.path().join("tools");
        fs::write(tools.join("open.py"), "2").unwrap();
        fs::set_permissions(tools.join("open.py"), fs::Permissions::from_mode(0o666)).unwrap();
        std::os::unix::fs::symlink("/etc/hostname", tools.join("a_link.py")).unwrap();
        let SavedTools { dir, .. } = store;
        let store = SavedTools { dir, source_bytes_max: 20, count_max: 10 };
        assert_eq!(store.all().unwrap(), [("good".to_owned(), "1".to_owned())]);
    }
}
