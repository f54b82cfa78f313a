//! How a server is reached.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use url::Url;

use super::login_file::LoginFile;
use crate::confine::{PrivatePlaces, ServerSandbox};
use crate::guard::Keeper;
use crate::names::ServerName;
use crate::service_login::LoginSettings;

/// How to reach one server. May hold secrets, so neither this type nor its parts have `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct ServerSpec {
    /// Its name.
    pub name: ServerName,
    /// The way to it; where `later` is something, only as far as that is known without it.
    pub way: Way,
    /// The longest time of its start; `None`: that of any server.
    pub start_time: Option<Duration>,
    /// What its entry bounds.
    pub bounds: CallBounds,
    /// Further values that are kept out of texts, each with what is written for it.
    pub secrets: Vec<(String, String)>,
    /// What has to be found out whenever it is started.
    pub later: Option<Later>,
}

impl ServerSpec {
    /// A server of which no more is said than how it is reached.
    #[must_use]
    pub fn new(name: ServerName, way: Way) -> Self {
        Self { name, way, start_time: None, bounds: CallBounds::default(), secrets: Vec::new(), later: None }
    }
}

/// Bounds of the calls of one server, beside those of the bridge.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallBounds {
    /// The longest time of one call.
    pub time: Option<Duration>,
    /// Calls that are under way at once.
    pub at_once: Option<usize>,
    /// Where that is set, for the model to tell the user.
    pub set_in: String,
}

/// A way of which parts are known only when commands have been run.
#[derive(Clone)]
pub struct Later {
    /// The commands.
    pub commands: Vec<ProcessSpec>,
    /// Two with the same text lead to the same way. It may hold secrets.
    pub written: String,
    /// The way and its secrets, of what the commands have printed, in their order; or why there is none, to be said behind
    /// "is configured, but".
    pub found: Arc<FoundBy>,
}

/// See [`Later::found`].
pub type FoundBy = dyn Fn(&[String]) -> Result<(Way, Vec<(String, String)>), String> + Send + Sync;

impl PartialEq for Later {
    fn eq(&self, other: &Self) -> bool {
        self.written == other.written
    }
}

impl Eq for Later {}

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
    /// What it has of the bridge's environment.
    pub inherited: Inherited,
    /// Added to that.
    pub env: Vec<(String, String)>,
    /// Where it runs; the bridge's own folder by default.
    pub cwd: Option<PathBuf>,
    /// Ends whatever it starts; nothing where the system has no such thing.
    pub keeper: Option<Keeper>,
    /// What it is confined to; `None`: it has the user's rights.
    pub sandbox: Option<ServerSandbox>,
    /// What it is not offered if it says that it lacks it.
    pub private: PrivatePlaces,
}

/// What a process has of the bridge's environment.
#[derive(Clone, PartialEq, Eq)]
pub enum Inherited {
    /// All of it.
    All,
    /// Some of it.
    Only {
        /// These variables.
        variables: Vec<(OsString, OsString)>,
        /// The names of the others.
        withheld: Vec<String>,
    },
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
    /// The login for it; nothing where none is used, as with credentials among the headers.
    pub login: Option<LoginSpec>,
}

/// How belljar logs in to a remote server.
#[derive(Clone, PartialEq, Eq)]
pub struct LoginSpec {
    /// Where the login is kept.
    pub file: LoginFile,
    /// What the entry says of it.
    pub settings: LoginSettings,
}

/// A transport of MCP over HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemoteTransport {
    /// Streamable HTTP.
    Streamable,
    /// HTTP+SSE, of protocol version 2024-11-05.
    Sse,
}
