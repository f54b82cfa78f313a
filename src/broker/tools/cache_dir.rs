//! A folder of files that can be made again: each written as a whole or not at all, read only when nobody else can have
//! written it, and the oldest removed when there are too many.
//!
//! It does not know what is in them.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use crate::own_file;

/// The folder, of mode 0700, and its bounds. Its files have mode 0600.
#[derive(Debug)]
pub(super) struct KeptFolder {
    pub(in crate::broker) dir: PathBuf,
    /// Largest file, in bytes.
    pub(super) entry_bytes_max: usize,
    /// Files that are kept, those in use in any case.
    pub(super) entries_max: usize,
    /// The same of their bytes.
    pub(in crate::broker) bytes_max: u64,
}

impl KeptFolder {
    /// A file's content.
    ///
    /// # Errors
    /// When it is not there, too large, or when others could have written it.
    pub(in crate::broker) fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        own_file::read(&self.path(name), self.entry_bytes_max as u64)
    }

    /// Writes a file in place of an earlier one: either the old or the new one is there at any time. Of too many the
    /// oldest go, but none that is in use.
    ///
    /// # Errors
    /// When the folder cannot be made or written.
    pub(in crate::broker) fn write(
        &self,
        name: &str,
        content: &[u8],
        in_use: &BTreeSet<String>,
    ) -> io::Result<()> {
        if self.read(name).is_ok_and(|kept| kept == content) {
            return Ok(());
        }
        own_file::write(&self.dir, name, content)?;
        self.remove_oldest(in_use)
    }

    pub(in crate::broker) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Beyond the bounds the oldest files go, those among them that were begun and never finished; none in use.
    fn remove_oldest(&self, in_use: &BTreeSet<String>) -> io::Result<()> {
        let (mut entries, mut bytes) = (0, 0);
        let mut others = Vec::new();
        for entry in fs::read_dir(&self.dir)? {
            let entry = entry?;
            let path = entry.path();
            // Another bridge may have removed it meanwhile.
            let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
            if entry.file_name().to_str().is_some_and(|name| in_use.contains(name)) {
                entries += 1;
                bytes += metadata.len();
            } else if metadata.is_file() {
                others.push(((metadata.mtime(), metadata.mtime_nsec()), metadata.len(), path));
            }
        }
        others.sort();
        for (_, len, path) in others.into_iter().rev() {
            entries += 1;
            bytes += len;
            if entries > self.entries_max || bytes > self.bytes_max {
                match fs::remove_file(path) {
                    Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                    _ => {}
                }
            }
        }
        Ok(())
    }
}
