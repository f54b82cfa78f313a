//! What servers have said of their tools, kept on disk from bridge to bridge: one JSON file of mode 0600 for each
//! configuration of a server, in a folder of mode 0700.
//!
//! It starts no server and holds no secret: the configuration is only in the file's name, as a hash.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::answer::redact;
use crate::config::{Endpoint, Launch, Reach, ServerConfig};
use crate::limits::Limits;

/// Raised when the form of the files changes; others are ignored.
const VERSION: u32 = 1;
/// What a tool's listing is kept of.
const MEMBERS: [&str; 8] = [
    "name",
    "title",
    "description",
    "inputSchema",
    "input_schema",
    "outputSchema",
    "output_schema",
    "annotations",
];
const EXTENSION: &str = "json";

/// How a server is configured, as a hash: its command, arguments, variables and folder, or its address and headers. Its
/// name is no part of it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CacheKey(String);

/// The folder of kept listings.
#[derive(Debug)]
pub(super) struct CatalogCache {
    dir: PathBuf,
    entry_bytes_max: usize,
    entries_max: usize,
    bytes_max: u64,
}

/// Why a listing is not kept.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotKept {
    #[error("it holds a value of the server's configured variables, headers or address")]
    Secret,
    #[error("it has {bytes} bytes, at most {bytes_max} are kept")]
    TooLarge { bytes: usize, bytes_max: usize },
    #[error("it cannot be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
    #[error("the folder cannot be used: {0}")]
    Folder(#[from] std::io::Error),
}

/// A file's content.
#[derive(Serialize, Deserialize)]
struct Entry {
    version: u32,
    tools: Vec<Value>,
}

impl CacheKey {
    pub(super) fn of(server: &ServerConfig) -> Self {
        let mut hash = Sha256::new();
        // Each part behind its length, so that no two configurations read the same.
        let mut part = |bytes: &[u8]| {
            hash.update((bytes.len() as u64).to_le_bytes());
            hash.update(bytes);
        };
        let named = match &server.reach {
            Reach::Launch(Launch { program, args, env, cwd }) => {
                part(program.as_os_str().as_encoded_bytes());
                part(&(args.len() as u64).to_le_bytes());
                for argument in args {
                    part(argument.as_bytes());
                }
                match cwd {
                    Some(cwd) => part(cwd.as_os_str().as_encoded_bytes()),
                    None => part(b""),
                }
                env
            }
            Reach::Endpoint(Endpoint { url, headers, .. }) => {
                part(url.as_str().as_bytes());
                headers
            }
        };
        let mut named: Vec<(&str, &str)> = named.iter().collect();
        named.sort_unstable();
        for (name, value) in named {
            part(name.as_bytes());
            part(value.as_bytes());
        }
        Self(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
    }
}

impl CatalogCache {
    pub(super) fn new(dir: PathBuf, limits: &Limits) -> Self {
        Self {
            dir,
            entry_bytes_max: limits.catalog_entry_bytes_max,
            entries_max: limits.catalog_entries_max,
            bytes_max: limits.catalog_bytes_max,
        }
    }

    /// The tools that are kept for this configuration; nothing when there are none, or when the file cannot be trusted
    /// or read, which is logged.
    pub(super) fn read(&self, key: &CacheKey) -> Option<Vec<Value>> {
        let path = self.path(key);
        match self.entry(&path) {
            Ok(entry) => Some(entry.tools),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => {
                tracing::warn!(%error, path = %path.display(), "a kept list of tools is ignored");
                None
            }
        }
    }

    /// Keeps a listing in place of an earlier one, with the configured values of variables written as their names.
    /// Either the old or the new file is there at any time. Of too many the oldest go, but none of `current`.
    pub(super) fn write(
        &self,
        key: &CacheKey,
        listing: &[Value],
        redacted: &dyn Fn(String) -> String,
        current: &[CacheKey],
    ) -> Result<(), NotKept> {
        let entry = Entry {
            version: VERSION,
            tools: listing.iter().filter_map(|tool| kept(tool, redacted)).collect(),
        };
        let content = serde_json::to_string(&entry)?;
        if content.len() > self.entry_bytes_max {
            return Err(NotKept::TooLarge { bytes: content.len(), bytes_max: self.entry_bytes_max });
        }
        // What is no text of its own, as a key or a number.
        if redacted(content.clone()) != content {
            return Err(NotKept::Secret);
        }
        self.make_folder()?;
        let path = self.path(key);
        if fs::read(&path).is_ok_and(|kept| kept == content.as_bytes()) {
            return Ok(());
        }
        // tempfile makes files of mode 0600.
        let mut file = tempfile::NamedTempFile::new_in(&self.dir)?;
        file.write_all(content.as_bytes())?;
        file.persist(&path).map_err(|error| error.error)?;
        self.remove_oldest(current)?;
        Ok(())
    }

    fn entry(&self, path: &Path) -> std::io::Result<Entry> {
        // Neither a link nor a pipe is followed or waited for.
        let flags = (OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits();
        let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
        check_ours(&file.metadata()?, fs::Metadata::is_file)?;
        check_ours(&fs::symlink_metadata(&self.dir)?, fs::Metadata::is_dir)?;
        let content = self.bounded(file)?;
        let entry: Entry = serde_json::from_slice(&content)?;
        if entry.version != VERSION {
            return Err(std::io::Error::other(format!("its version is {}, not {VERSION}", entry.version)));
        }
        Ok(entry)
    }

    fn bounded(&self, file: File) -> std::io::Result<Vec<u8>> {
        let mut content = Vec::new();
        file.take(self.entry_bytes_max as u64 + 1).read_to_end(&mut content)?;
        if content.len() > self.entry_bytes_max {
            return Err(std::io::Error::other("it is too large"));
        }
        Ok(content)
    }

    fn make_folder(&self) -> std::io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.dir)?;
        let metadata = fs::symlink_metadata(&self.dir)?;
        check_ours(&metadata, fs::Metadata::is_dir)?;
        if metadata.mode() & 0o077 != 0 {
            fs::set_permissions(&self.dir, Permissions::from_mode(0o700))?;
        }
        Ok(())
    }

    /// Beyond the bounds the oldest files go, those among them that were begun and never finished; none of `current`.
    fn remove_oldest(&self, current: &[CacheKey]) -> std::io::Result<()> {
        let current: BTreeSet<PathBuf> = current.iter().map(|key| self.path(key)).collect();
        let (mut entries, mut bytes) = (0, 0);
        let mut others = Vec::new();
        for entry in fs::read_dir(&self.dir)? {
            let path = entry?.path();
            // Another bridge may have removed it meanwhile.
            let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
            if current.contains(&path) {
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

    fn path(&self, key: &CacheKey) -> PathBuf {
        self.dir.join(&key.0).with_extension(EXTENSION)
    }
}

/// What is kept of an item of `tools/list`.
fn kept(item: &Value, redacted: &dyn Fn(String) -> String) -> Option<Value> {
    let item = item.as_object()?;
    let members = item.iter().filter(|(key, _)| MEMBERS.contains(&key.as_str()));
    let mut kept =
        Value::Object(members.map(|(key, value)| (key.clone(), value.clone())).collect::<Map<_, _>>());
    redact(&mut kept, redacted);
    Some(kept)
}

/// Refuses what others could have written.
fn check_ours(metadata: &fs::Metadata, is_kind: fn(&fs::Metadata) -> bool) -> std::io::Result<()> {
    let ours = metadata.uid() == nix::unistd::geteuid().as_raw();
    if !is_kind(metadata) || !ours || metadata.mode() & 0o022 != 0 {
        return Err(std::io::Error::other(
            "it must be a plain file of yours, in a folder of yours, that only you can write",
        ));
    }
    Ok(())
}

#[cfg(test)]
#[path = "catalog_cache_tests.rs"]
pub(super) mod tests;
