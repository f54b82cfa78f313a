//! A folder of files that can be made again: each written as a whole or not at all, read only when nobody else can have
//! written it, and the oldest removed when there are too many.
//!
//! It does not know what is in them.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::PathBuf;

use nix::fcntl::OFlag;

/// The folder, of mode 0700, and its bounds. Its files have mode 0600.
#[derive(Debug)]
pub(super) struct KeptFolder {
    pub(super) dir: PathBuf,
    /// Largest file, in bytes.
    pub(super) entry_bytes_max: usize,
    /// Files that are kept, those in use in any case.
    pub(super) entries_max: usize,
    /// The same of their bytes.
    pub(super) bytes_max: u64,
}

impl KeptFolder {
    /// A file's content.
    ///
    /// # Errors
    /// When it is not there, too large, or when others could have written it.
    pub(super) fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        // Neither a link nor a pipe is followed or waited for.
        let flags = (OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits();
        let file = OpenOptions::new().read(true).custom_flags(flags).open(self.path(name))?;
        check_ours(&file.metadata()?, fs::Metadata::is_file)?;
        check_ours(&fs::symlink_metadata(&self.dir)?, fs::Metadata::is_dir)?;
        let mut content = Vec::new();
        file.take(self.entry_bytes_max as u64 + 1).read_to_end(&mut content)?;
        if content.len() > self.entry_bytes_max {
            return Err(io::Error::other("it is too large"));
        }
        Ok(content)
    }

    /// Writes a file in place of an earlier one: either the old or the new one is there at any time. Of too many the
    /// oldest go, but none that is in use.
    ///
    /// # Errors
    /// When the folder cannot be made or written.
    pub(super) fn write(&self, name: &str, content: &[u8], in_use: &BTreeSet<String>) -> io::Result<()> {
        self.make()?;
        let path = self.path(name);
        if fs::read(&path).is_ok_and(|kept| kept == content) {
            return Ok(());
        }
        // tempfile makes files of mode 0600.
        let mut file = tempfile::NamedTempFile::new_in(&self.dir)?;
        file.write_all(content)?;
        file.persist(&path).map_err(|error| error.error)?;
        self.remove_oldest(in_use)
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    fn make(&self) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.dir)?;
        let metadata = fs::symlink_metadata(&self.dir)?;
        check_ours(&metadata, fs::Metadata::is_dir)?;
        if metadata.mode() & 0o077 != 0 {
            fs::set_permissions(&self.dir, Permissions::from_mode(0o700))?;
        }
        Ok(())
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

/// Refuses what others could have written.
fn check_ours(metadata: &fs::Metadata, is_kind: fn(&fs::Metadata) -> bool) -> io::Result<()> {
    let ours = metadata.uid() == nix::unistd::geteuid().as_raw();
    if !is_kind(metadata) || !ours || metadata.mode() & 0o022 != 0 {
        return Err(io::Error::other(
            "it must be a plain file of yours, in a folder of yours, that only you can write",
        ));
    }
    Ok(())
}
