//! How a server is reached.

use std::path::PathBuf;

use url::Url;

use super::oauth::LoginFile;
use crate::guard::Keeper;
use crate::names::ServerName;

/// How to reach one server. May hold secrets, so neither this type nor its parts have `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct ServerSpec {
    /// Its name.
    pub name: ServerName,
    /// The way to it.
    pub way: Way,
}

/// The way to a server.
#[derive(Clone, PartialEq, Eq)]
pub enum Way {
    /// Its process is started, and spoken to over stdio.
    Process(ProcessSpec),
    /// It is spoken to over HTTP.
    Remote(RemoteSpec),
}

/// How to start one server over stdio.
#[derive(Clone, PartialEq, Eq)]
pub struct ProcessSpec {
    /// The program, found in `PATH` when it has no slash.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
    /// Added to the bridge's own environment.
    pub env: Vec<(String, String)>,
    /// Where it runs; the bridge's own folder by default.
    pub cwd: Option<PathBuf>,
    /// Ends whatever it starts; nothing where the system has no such thing.
    pub keeper: Option<Keeper>,
}

/// Where a remote server is, and how it is spoken to.
#[derive(Clone, PartialEq, Eq)]
pub struct RemoteSpec {
    /// `http` or `https`, with a host.
    pub url: Url,
    /// What it speaks; nothing to find it out.
    pub transport: Option<RemoteTransport>,
    /// Sent with each request, to the origin of `url` only. Valid names and values of headers.
    pub headers: Vec<(String, String)>,
    /// Where a login for it is kept; nothing where none is used, as with credentials among the headers.
    pub login: Option<LoginFile>,
}

/// A transport of MCP over HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemoteTransport {
    /// Streamable HTTP.
    Streamable,
    /// HTTP+SSE, of protocol version 2024-11-05.
    Sse,
}
