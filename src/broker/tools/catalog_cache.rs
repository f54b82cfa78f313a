//! The cache of servers' lists of tools, which later bridges use: one JSON file of mode 0600 for each configuration of
//! a server, in a folder of mode 0700.
//!
//! It starts no server and holds no secret: the configuration is only in the file's name, as a hash.

use std::io::ErrorKind;
use std::path::PathBuf;

use belljar_base::cache_dir::CacheDir;
use belljar_base::digest;
use belljar_base::limits::Limits;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::broker::failure_text::redact;
use crate::config::{Endpoint, Launch, ServerConfig, Transport};

/// The version of the files' format. Files of other versions are ignored.
const VERSION: u32 = 1;
/// The members of a tool that are cached.
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

/// A hash of the configuration of a server: command, arguments, variables and folder, or address and headers. The name
/// of the server is not a part of it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CacheKey(String);

/// The folder of cached lists.
#[derive(Debug)]
pub(crate) struct CatalogCache(CacheDir);

/// The reason for which a listing is not cached.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CatalogCacheError {
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
    pub(crate) fn of(server: &ServerConfig) -> Self {
        let mut hash = Sha256::new();
        // Each part comes after its length, so that different configurations give different inputs.
        let mut part = |bytes: &[u8]| {
            hash.update((bytes.len() as u64).to_le_bytes());
            hash.update(bytes);
        };
        let named = match &server.transport {
            Transport::Launch(Launch { program, args, env, env_inherit, cwd, sandbox: _, projects: _ }) => {
                part(program.as_os_str().as_encoded_bytes());
                part(&(args.len() as u64).to_le_bytes());
                for argument in args {
                    part(argument.as_bytes());
                }
                match cwd {
                    Some(cwd) => part(cwd.as_os_str().as_encoded_bytes()),
                    None => part(b""),
                }
                // The tools of a server may depend on the variables that it inherits.
                for pattern in env_inherit {
                    part(pattern.as_str().as_bytes());
                }
                env
            }
            Transport::Endpoint(Endpoint { url, headers, login, .. }) => {
                part(url.as_str().as_bytes());
                // A server may list other tools for another login.
                if let Some(service) = &login.service {
                    part(service.identity().as_bytes());
                }
                headers
            }
        };
        let mut named: Vec<(&str, &str)> = named.iter().collect();
        named.sort_unstable();
        for (name, value) in named {
            part(name.as_bytes());
            part(value.as_bytes());
        }
        // The output of commands is unknown and may change each time, so the key contains the commands themselves.
        if let Some(deferred) = &server.deferred {
            part(deferred.written().as_bytes());
        }
        Self(digest::hex(&hash.finalize()))
    }

    fn file(&self) -> String {
        format!("{}.{EXTENSION}", self.0)
    }
}

impl CatalogCache {
    pub(crate) fn new(dir: PathBuf, limits: &Limits) -> Self {
        Self(CacheDir {
            dir,
            entry_bytes_max: limits.catalog_entry_bytes_max,
            entries_max: limits.catalog_entries_max,
            bytes_max: limits.catalog_bytes_max,
        })
    }

    /// The cached tools for this configuration; `None`: there is no file, or it cannot be trusted or read, which is
    /// logged.
    pub(crate) fn read(&self, key: &CacheKey) -> Option<Vec<Value>> {
        match self.entry(key) {
            Ok(entry) => Some(entry.tools),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => {
                let path = self.0.path(&key.file());
                tracing::warn!(%error, path = %path.display(), "a kept list of tools is ignored");
                None
            }
        }
    }

    /// Writes a list in place of an earlier one, with the configured values of variables replaced by their names. The
    /// write is atomic. If there are too many files, the oldest are removed, except those of `current`.
    pub(crate) fn write(
        &self,
        key: &CacheKey,
        listing: &[Value],
        redacted: &dyn Fn(String) -> String,
        current: &[CacheKey],
    ) -> Result<(), CatalogCacheError> {
        let entry = Entry {
            version: VERSION,
            tools: listing.iter().filter_map(|tool| kept(tool, redacted)).collect(),
        };
        let content = serde_json::to_string(&entry)?;
        if content.len() > self.0.entry_bytes_max {
            return Err(CatalogCacheError::TooLarge {
                bytes: content.len(),
                bytes_max: self.0.entry_bytes_max,
            });
        }
        // A value outside of a text, such as a key or a number, cannot be replaced.
        if redacted(content.clone()) != content {
            return Err(CatalogCacheError::Secret);
        }
        let current = current.iter().map(CacheKey::file).collect();
        Ok(self.0.write(&key.file(), content.as_bytes(), &current)?)
    }

    fn entry(&self, key: &CacheKey) -> std::io::Result<Entry> {
        let entry: Entry = serde_json::from_slice(&self.0.read(&key.file())?)?;
        if entry.version != VERSION {
            return Err(std::io::Error::other(format!("its version is {}, not {VERSION}", entry.version)));
        }
        Ok(entry)
    }
}

/// The cached part of an item of `tools/list`.
fn kept(item: &Value, redacted: &dyn Fn(String) -> String) -> Option<Value> {
    let item = item.as_object()?;
    let members = item.iter().filter(|(key, _)| MEMBERS.contains(&key.as_str()));
    let mut kept =
        Value::Object(members.map(|(key, value)| (key.clone(), value.clone())).collect::<Map<_, _>>());
    redact(&mut kept, redacted);
    Some(kept)
}

#[cfg(test)]
#[path = "catalog_cache_tests.rs"]
pub(crate) mod tests;
