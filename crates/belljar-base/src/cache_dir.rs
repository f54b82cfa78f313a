//! A folder of files that can be made again. A file is written whole or not at all, and read only if no other user could
//! have written it. Of too many files the oldest are removed.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use crate::own_file;

/// The folder, of mode 0700, and its bounds. Its files have mode 0600.
#[derive(Debug)]
pub struct CacheDir {
    /// Its path. It is made by the first write.
    pub dir: PathBuf,
    /// Size of the largest file that is read, in bytes.
    pub entry_bytes_max: usize,
    /// How many files stay. Those in use stay in any case.
    pub entries_max: usize,
    /// How many bytes of files stay. Those in use stay in any case.
    pub bytes_max: u64,
}

impl CacheDir {
    /// Reads a file.
    ///
    /// # Errors
    /// When it is not there, too large, or when others could have written it.
    pub fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        own_file::read(&self.path(name), self.entry_bytes_max as u64)
    }

    /// Writes a file in place of an earlier one: either the old or the new one is there at any time. Of too many files the
    /// oldest are removed, but none that is in use.
    ///
    /// # Errors
    /// When the folder cannot be made or written.
    pub fn write(&self, name: &str, content: &[u8], in_use: &BTreeSet<String>) -> io::Result<()> {
        if self.read(name).is_ok_and(|kept| kept == content) {
            return Ok(());
        }
        own_file::write(&self.dir, name, content)?;
        self.remove_oldest(in_use)
    }

    /// The path of a file.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Removes the oldest files beyond the bounds, unfinished ones among them, but none that is in use.
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
            } else if metadata.is_file() && is_of_cache(&entry.file_name()) {
                others.push(((metadata.mtime(), metadata.mtime_nsec()), metadata.len(), path));
            }
        }
        others.sort();
        for (_, len, path) in others.into_iter().rev() {
            entries += 1;
            bytes += len;
            if entries > self.entries_max || bytes > self.bytes_max {
                own_file::remove(&path)?;
            }
        }
        Ok(())
    }
}

/// Whether a cache gives its files such names: a hash, or an unfinished file's. Other files are not its own.
fn is_of_cache(name: &OsStr) -> bool {
    let stem = name.to_str().and_then(|name| name.split('.').next()).unwrap_or_default();
    let is_hash = stem.len() >= 32 && stem.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hash || name.as_encoded_bytes().starts_with(b".tmp")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beyond_the_bounds_only_files_of_the_cache_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let cache = CacheDir { dir: dir.path().into(), entry_bytes_max: 9, entries_max: 1, bytes_max: 1_000 };
        let hash = |digit: &str| format!("{}.json", digit.repeat(64));
        for name in ["letter.txt", "photo.jpeg", &hash("a"), ".tmpunfinished"] {
            fs::write(dir.path().join(name), "x").unwrap();
        }
        cache.write(&hash("b"), b"new", &BTreeSet::from([hash("b")])).unwrap();
        let mut left: Vec<String> = fs::read_dir(dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        assert_eq!(left, [hash("b"), "letter.txt".into(), "photo.jpeg".into()]);
    }
}
