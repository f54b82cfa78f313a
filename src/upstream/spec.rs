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

/// The specification of one server. It may hold secrets, so neither this type nor its parts have `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct ServerSpec {
    /// Its name.
    pub name: ServerName,
    /// The transport. With `deferred`, it is only what is known before the commands have run.
    pub transport: ServerTransport,
    /// The longest time of its start; `None`: that of any server.
    pub start_time: Option<Duration>,
    /// What its entry bounds.
    pub bounds: CallBounds,
    /// Further values that are kept out of texts, each with what is written for it.
    pub secrets: Vec<(String, String)>,
    /// The transport that is resolved at each start, if commands are needed for it.
    pub deferred: Option<DeferredTransport>,
}

impl ServerSpec {
    /// A server of which no more is said than how it is reached.
    #[must_use]
    pub fn new(name: ServerName, transport: ServerTransport) -> Self {
        Self {
            name,
            transport,
            start_time: None,
            bounds: CallBounds::default(),
            secrets: Vec::new(),
            deferred: None,
        }
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

/// A transport that is known only after commands have run.
#[derive(Clone)]
pub struct DeferredTransport {
    /// The commands.
    pub commands: Vec<ProcessSpec>,
    /// The entry as it is written. Two with the same text have the same transport. It may hold secrets.
    pub written: String,
    /// Makes the transport from what the commands have printed, in their order.
    pub resolve: Arc<TransportResolver>,
}

/// Makes a transport and its secrets from the output of the commands. The error comes after "is configured, but".
pub type TransportResolver =
    dyn Fn(&[String]) -> Result<(ServerTransport, Vec<(String, String)>), String> + Send + Sync;

impl PartialEq for DeferredTransport {
    fn eq(&self, other: &Self) -> bool {
        self.written == other.written
    }
}

impl Eq for DeferredTransport {}

/// The transport to a server.
#[derive(Clone, PartialEq, Eq)]
pub enum ServerTransport {
    /// The bridge starts the server and speaks to it over stdio.
    Process(ProcessSpec),
    /// The bridge speaks to the server over HTTP.
    Remote(RemoteSpec),
}

/// The command of a server that is started over stdio.
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
    /// What any confined server of the configuration, and code, can change: a confined server is not led out of it.
    pub changeable: Arc<[PathBuf]>,
}

/// The variables of the bridge's environment that a process gets.
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

/// The address of a remote server, and the transport to it.
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

/// The login of belljar at a remote server.
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
