//! Which projects' files the user trusts: a file comes with a cloned repository, and counts in full only as the bytes
//! that the user has seen.
//!
//! It does not decide what an untrusted file may do; `resolve` does.

use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::environment::Environment;
use super::file;
use crate::digest;
use crate::limits::Limits;
use crate::own_file;

/// Where it is remembered, in the user's state folder.
const STORE: &str = "trusted.json";

/// The trust of the user in a project's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    /// These very bytes.
    Trusted,
    /// Other bytes, which stood there before.
    Changed,
    /// It was never trusted.
    Unknown,
}

impl Trust {
    /// What is to be said of a project's file that is refused something, behind "a project".
    pub(in crate::config) fn because(self) -> &'static str {
        match self {
            Self::Trusted => "even though it is trusted",
            Self::Changed => "whose file has changed since it was trusted",
            Self::Unknown => "that is not trusted",
        }
    }
}

/// The reason for which trust could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// There is no place for it.
    #[error("no home folder is known, so there is no place to remember what is trusted")]
    NoHome,
    /// There is no working folder.
    #[error("there is no working folder")]
    NoFolder,
    /// The project has no such file, or it may not be read.
    #[error("{message}")]
    Unreadable {
        /// What is wrong with it, with its path.
        message: String,
    },
    /// What was remembered cannot be read or written.
    #[error("cannot write {path}: {source}")]
    Store {
        /// The file that remembers.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// The file of the project in the working folder.
#[must_use]
pub fn project_file(environment: &Environment) -> Option<PathBuf> {
    environment.cwd.as_ref().map(|cwd| cwd.join(".belljar/config.toml"))
}

/// Trusts the project's file in the working folder as it is now; the answer is its path and text.
///
/// # Errors
/// The file cannot be read, or the trust cannot be remembered.
pub fn trust_project(environment: &Environment, limits: &Limits) -> Result<(PathBuf, String), TrustError> {
    let path = project_file(environment).ok_or(TrustError::NoFolder)?;
    let unreadable = |problem: Box<_>| TrustError::Unreadable { message: ToString::to_string(&problem) };
    let bytes = file::read(&path, environment.uid, limits).map_err(unreadable)?;
    let hash = digest::sha256(&bytes);
    let text = file::text(&path, bytes).map_err(unreadable)?;
    change(environment, limits, &path, Some(hash))?;
    Ok((path, text))
}

/// Forgets that the project's file was trusted; the answer is its path.
///
/// # Errors
/// It cannot be forgotten.
pub fn distrust_project(environment: &Environment, limits: &Limits) -> Result<PathBuf, TrustError> {
    let path = project_file(environment).ok_or(TrustError::NoFolder)?;
    change(environment, limits, &path, None)?;
    Ok(path)
}

/// Where trust is remembered.
pub(in crate::config) fn store(environment: &Environment) -> Option<PathBuf> {
    environment.state_dir().map(|dir| dir.join(STORE))
}

/// Whether these bytes of a project's file are trusted.
pub(in crate::config) fn trust_of(
    environment: &Environment,
    limits: &Limits,
    path: &Path,
    bytes: &[u8],
) -> Trust {
    match store(environment).map(|store| remembered(environment, limits, &store)) {
        Some(known) => match known.get(&name_of(path)).and_then(Value::as_str) {
            Some(trusted) if trusted == digest::sha256(bytes) => Trust::Trusted,
            Some(_) => Trust::Changed,
            None => Trust::Unknown,
        },
        None => Trust::Unknown,
    }
}

/// What is remembered; what cannot be read is trusted by nobody.
fn remembered(environment: &Environment, limits: &Limits, store: &Path) -> Map<String, Value> {
    let bytes = file::read(store, environment.uid, limits).unwrap_or_default();
    serde_json::from_slice(&bytes).unwrap_or_default()
}

fn change(
    environment: &Environment,
    limits: &Limits,
    path: &Path,
    hash: Option<String>,
) -> Result<(), TrustError> {
    let store = store(environment).ok_or(TrustError::NoHome)?;
    let mut known = remembered(environment, limits, &store);
    match hash {
        Some(hash) => drop(known.insert(name_of(path), Value::String(hash))),
        None => drop(known.remove(&name_of(path))),
    }
    let text = format!("{:#}\n", Value::Object(known));
    let folder = store.parent().unwrap_or(Path::new("/"));
    own_file::write(folder, STORE, text.as_bytes())
        .map_err(|source| TrustError::Store { path: store.clone(), source })
}

/// One name for one file, by whatever way it is reached.
fn name_of(path: &Path) -> String {
    path.canonicalize().unwrap_or_else(|_| path.to_owned()).display().to_string()
}
