//! The servers that a client has.
//!
//! It reads nothing.

use std::path::PathBuf;

use serde_json::{Map, Value as Json};

use super::table::Client;

/// What one client has.
#[derive(Debug)]
pub struct Found {
    /// The client.
    pub client: &'static Client,
    /// Its servers, in the order of its files.
    pub servers: Vec<FoundServer>,
    /// Its files that were there.
    pub read: Vec<PathBuf>,
}

/// A server of a client, as belljar writes it.
#[derive(Debug, Clone, PartialEq)]
pub struct FoundServer {
    /// As the client calls it.
    pub name: String,
    /// Its entry.
    pub entry: Map<String, Json>,
    /// The file that it stands in.
    pub path: PathBuf,
}

/// Whether a command line starts belljar itself.
pub type IsOwn<'o> = &'o dyn Fn(&str, &[String]) -> bool;
