//! The status of the running `belljar serve`, as it passes between two processes and as it is printed.

use std::fmt;

use belljar_base::text;
use serde::{Deserialize, Serialize};

/// The running `belljar serve`.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BridgeStatus {
    /// Its version of belljar.
    pub(super) version: String,
    /// The number of its process.
    pub(super) process: u32,
    /// Its sessions.
    pub(crate) sessions: Vec<SessionStatus>,
}

/// A session of the running `belljar serve`.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SessionStatus {
    /// The beginning of its ID.
    pub(crate) id: String,
    /// The seconds since its start.
    pub(super) age_s: u64,
    /// Its owner; `None`: the user.
    pub(super) owner: Option<String>,
    /// The number of its configured servers.
    pub(super) servers: usize,
    /// Its working folder.
    pub(super) folder: Option<String>,
}

impl fmt::Display for BridgeStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { version, process, sessions } = self;
        let version = text::inert_line(version);
        write!(f, "belljar {version} serves {} sessions (process {process})", sessions.len())
    }
}

impl fmt::Display for SessionStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, age_s, owner, servers, folder } = self;
        let owner = owner.as_ref().map_or_else(String::new, |owner| format!("{}  ", text::inert_line(owner)));
        let [id, folder] = [id.as_str(), folder.as_deref().unwrap_or_default()].map(text::inert_line);
        write!(f, "{id}  {age_s} s  {owner}{servers} servers  {folder}")
    }
}
