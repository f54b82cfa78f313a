//! The servers of a client.
//!
//! It reads nothing.

use std::path::PathBuf;

use serde_json::{Map, Value as Json};

use super::known_clients::Client;

/// The servers of one client, with the files that they were read from.
#[derive(Debug)]
pub struct ClientServers {
    /// The client.
    pub client: &'static Client,
    /// The servers, in the order of the files.
    pub servers: Vec<ClientServer>,
    /// The files that exist.
    pub read: Vec<PathBuf>,
}

/// A server of a client, with its entry in the format of belljar.
#[derive(Debug, Clone, PartialEq)]
pub struct ClientServer {
    /// The name that the client uses.
    pub name: String,
    /// The entry.
    pub entry: Map<String, Json>,
    /// The file that has the server.
    pub path: PathBuf,
}

/// Returns whether a command line starts belljar itself.
pub type OwnCommandCheck<'o> = &'o dyn Fn(&str, &[String]) -> bool;
