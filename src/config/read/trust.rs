//! Records which projects' files the user trusts. Such a file comes with a cloned repository, so trust covers only the
//! exact bytes that the user has seen.
//!
//! It does not decide what an untrusted file may do; `resolve` does.

use std::io;
use std::path::{Path, PathBuf};

use belljar_base::digest;
use belljar_base::limits::Limits;
use belljar_base::own_file;
use belljar_base::problem::Problem;
use belljar_base::resolved_path::ResolvedPath;
use serde_json::{Map, Value};

use super::environment::Environment;
use super::file;

/// The name of the file in the user's state folder that records trust.
const STORE: &str = "trusted.json";

/// The trust of the user in a project's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    /// The user trusts exactly these bytes.
    Trusted,
    /// The user trusts an earlier content of the file.
    Changed,
    /// The user never trusted the file.
    Unknown,
}

impl Trust {
    /// The end of a message that begins with "a project", about a setting that its file may not change.
    pub(crate) fn because(self) -> &'static str {
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
    /// No home folder is known, so there is no place to record trust.
    #[error("no home folder is known, so there is no place to remember what is trusted")]
    NoHome,
    /// There is no working folder.
    #[error("there is no working folder")]
    NoFolder,
    /// The project has no such file, or it may not be read.
    #[error("{message}")]
    Unreadable {
        /// The problem with the file, with its path.
        message: String,
    },
    /// The user was asked, and did not say yes.
    #[error("the answer was not yes, so nothing is trusted")]
    Unconfirmed,
    /// The file cannot be told from that of another project.
    #[error(
        "{path:?} is not trusted: its path is not UTF-8, or leads through a link; run this in the folder itself"
    )]
    Name {
        /// The project's file.
        path: PathBuf,
    },
    /// The record of trust cannot be read or written.
    #[error("cannot write {path}: {source}")]
    Store {
        /// The file with the record.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

/// The path of the project's file in the working folder.
#[must_use]
pub fn project_file(environment: &Environment) -> Option<PathBuf> {
    environment.cwd.as_ref().map(|cwd| cwd.join(".belljar/config.toml"))
}

/// Reads the project's file. A link in the project could lead to any file of the user, also to one in the project.
pub(crate) fn read(path: &Path, environment: &Environment, limits: &Limits) -> Result<Vec<u8>, Box<Problem>> {
    let way = ResolvedPath::of(path);
    let project = environment.cwd.as_ref().map(|cwd| ResolvedPath::of(cwd).end).unwrap_or_default();
    if way.link_in(&project).is_some() {
        let message = "is reached by a symbolic link of the project, so it is not read";
        return Err(Box::new(Problem::of_file(path, message)));
    }
    file::read_at_end(path, &way, environment.uid, limits.config_file_bytes_max)
}

/// The project's file in the working folder, as it was when it was read.
pub struct ProjectFile {
    /// Its path.
    pub path: PathBuf,
    /// Its content.
    pub text: String,
}

impl ProjectFile {
    /// Reads it.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(environment: &Environment, limits: &Limits) -> Result<Self, TrustError> {
        let path = project_file(environment).ok_or(TrustError::NoFolder)?;
        let unreadable = |problem: Box<_>| TrustError::Unreadable { message: ToString::to_string(&problem) };
        let bytes = read(&path, environment, limits).map_err(unreadable)?;
        let text = file::text(&path, bytes).map_err(unreadable)?;
        Ok(Self { path, text })
    }

    /// Trusts this content of it.
    ///
    /// # Errors
    /// The record of trust cannot be written.
    pub fn trust(&self, environment: &Environment, limits: &Limits) -> Result<(), TrustError> {
        change(environment, limits, &self.path, Some(digest::sha256(self.text.as_bytes())))
    }
}

/// Ends the trust in the project's file, and returns its path.
///
/// # Errors
/// There is no working folder, or the record of trust cannot be written.
pub fn distrust_project(environment: &Environment, limits: &Limits) -> Result<PathBuf, TrustError> {
    let path = project_file(environment).ok_or(TrustError::NoFolder)?;
    change(environment, limits, &path, None)?;
    Ok(path)
}

/// The path of the record of trust.
pub(crate) fn store(environment: &Environment) -> Option<PathBuf> {
    environment.state_dir().map(|dir| dir.join(STORE))
}

/// Compares these bytes of a project's file with the record of trust.
pub(crate) fn trust_of(environment: &Environment, limits: &Limits, path: &Path, bytes: &[u8]) -> Trust {
    match store(environment).map(|store| remembered(limits, &store)) {
        Some(known) => match name_of(path).and_then(|name| known.get(&name)?.as_str()) {
            Some(trusted) if trusted == digest::sha256(bytes) => Trust::Trusted,
            Some(_) => Trust::Changed,
            None => Trust::Unknown,
        },
        None => Trust::Unknown,
    }
}

/// The record of trust. A record that cannot be read, or that others could have written, trusts nothing.
fn remembered(limits: &Limits, store: &Path) -> Map<String, Value> {
    let bytes = own_file::read(store, limits.config_file_bytes_max).unwrap_or_default();
    serde_json::from_slice(&bytes).unwrap_or_default()
}

fn change(
    environment: &Environment,
    limits: &Limits,
    path: &Path,
    hash: Option<String>,
) -> Result<(), TrustError> {
    let store = store(environment).ok_or(TrustError::NoHome)?;
    let mut known = remembered(limits, &store);
    let name = name_of(path).ok_or_else(|| TrustError::Name { path: path.to_owned() })?;
    match hash {
        Some(hash) => drop(known.insert(name, Value::String(hash))),
        None => drop(known.remove(&name)),
    }
    let text = format!("{:#}\n", Value::Object(known));
    let folder = store.parent().unwrap_or(Path::new("/"));
    own_file::write(folder, STORE, text.as_bytes())
        .map_err(|source| TrustError::Store { path: store.clone(), source })
}

/// The name of a project's file; `None`: its path is not UTF-8, so that two projects could have one name, or its project
/// is reached through a link. The working folder is a real path, so a link has taken its place since the start. The file
/// itself may be a link to the trusted file of another project: its relative paths would lead elsewhere here.
fn name_of(path: &Path) -> Option<String> {
    let project = path.ancestors().nth(2).unwrap_or(path);
    let is_moved = project.canonicalize().is_ok_and(|real| real != project);
    path.to_str().filter(|_| !is_moved).map(str::to_owned)
}
