//! The specifications of servers: how each is started or reached.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use belljar_base::limits::Limits;
use belljar_base::names::ServerName;
use belljar_base::programs::{find_program, locate_program};
use belljar_confine::{PrivatePlaces, ServerSandbox};
use belljar_guard::Keeper;
use url::Url;

use super::login_file::LoginFile;
use crate::service_login::LoginSettings;

/// The specification of one server. It may hold secrets, so neither this type nor its parts have `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct ServerSpec {
    /// The server's name.
    pub name: ServerName,
    /// The transport. With `deferred`, only the parts that need no command's output.
    pub transport: ServerTransport,
    /// The longest time of its start; `None`: the limit for all servers.
    pub start_time: Option<Duration>,
    /// The bounds that its entry sets.
    pub bounds: CallBounds,
    /// Whether each session has a server of its own.
    pub is_private: bool,
    /// Further values to redact, each with the name that replaces it.
    pub secrets: Vec<(String, String)>,
    /// How the transport is resolved at each start, if commands are needed for it.
    pub deferred: Option<DeferredTransport>,
}

impl ServerSpec {
    /// A server with this transport, and nothing else configured.
    #[must_use]
    pub fn new(name: ServerName, transport: ServerTransport) -> Self {
        Self {
            name,
            transport,
            start_time: None,
            bounds: CallBounds::default(),
            is_private: false,
            secrets: Vec::new(),
            deferred: None,
        }
    }
}

/// Bounds on the calls of one server, in addition to those of the bridge.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallBounds {
    /// The longest time of one call; `None`: only the run's time bounds it.
    pub time: Option<Duration>,
    /// The largest number of simultaneous calls; `None`: the limit for all servers.
    pub at_once: Option<usize>,
    /// The place of these settings, for the model to tell the user.
    pub set_in: String,
}

impl CallBounds {
    pub(crate) fn at_once(&self, limits: &Limits) -> usize {
        let of_any = limits.calls_in_flight_per_server_max;
        self.at_once.map_or(of_any, |at_once| at_once.min(of_any))
    }
}

/// A transport that is known only after commands have run.
#[derive(Clone)]
pub struct DeferredTransport {
    /// Checks directly before each run of the commands that they may be run. The error completes the sentence "server 'x'
    /// is configured, but …".
    pub check: Arc<dyn Fn() -> Result<(), String> + Send + Sync>,
    /// The commands.
    pub commands: Vec<ProcessSpec>,
    /// The text of the entry. Equal texts have the same transport. It may hold secrets.
    pub written: String,
    /// Makes the transport from the output of the commands, in their order.
    pub resolve: Arc<TransportResolver>,
}

/// Makes a transport and its secrets from the output of the commands. The error completes the sentence "server 'x' is
/// configured, but …".
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
    /// The program, searched in `PATH` if it has no slash.
    pub program: PathBuf,
    /// The program's arguments.
    pub args: Vec<String>,
    /// Whether `program` was found by its name.
    pub searched: bool,
    /// The variables of the bridge's environment that the program inherits.
    pub inherited: Inherited,
    /// Variables that are added to the inherited ones.
    pub env: Vec<(String, String)>,
    /// Its working folder; `None`: the bridge's own, or the HOME of a confined server.
    pub cwd: Option<PathBuf>,
    /// The keeper, which ends all descendants of the server; `None`: the system supports no keeper.
    pub keeper: Option<Keeper>,
    /// Its confinement; `None`: it has the user's rights.
    pub sandbox: Option<ServerSandbox>,
    /// The real folders of the project that belljar was started in, the innermost first. Files there may come from
    /// strangers, so a confined server is not given what symlinks there lead to elsewhere.
    pub projects: Vec<PathBuf>,
    /// Private places. The user is not advised to give the server access to them, even if the server says that it lacks
    /// them.
    pub private: PrivatePlaces,
    /// The paths that any confined server or the sandboxed code can change. Symlinks in these paths are not followed to
    /// places outside of them.
    pub changeable: PlacesNow,
}

/// Paths at the time of a server's start. Other paths make no server another one.
#[derive(Clone)]
pub struct PlacesNow(Arc<FindPlaces>);

/// Finds paths. The error completes the sentence "server 'x' is configured, but …".
type FindPlaces = dyn Fn() -> Result<Vec<PathBuf>, String> + Send + Sync;

impl PlacesNow {
    /// The paths that `find` gives at each start. If it gives an error, no confined server starts.
    #[must_use]
    pub fn new(find: impl Fn() -> Result<Vec<PathBuf>, String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(find))
    }

    pub(crate) fn get(&self) -> Result<Vec<PathBuf>, String> {
        (self.0)()
    }
}

impl Default for PlacesNow {
    fn default() -> Self {
        Self::new(|| Ok(Vec::new()))
    }
}

impl PartialEq for PlacesNow {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for PlacesNow {}

impl ProcessSpec {
    /// Whether the program may have to install the server before it starts it.
    pub(super) fn is_launcher(&self) -> bool {
        const LAUNCHERS: [&str; 10] =
            ["bunx", "deno", "docker", "npm", "npx", "pipx", "pnpm", "podman", "uv", "uvx"];
        self.program.file_name().is_some_and(|name| LAUNCHERS.iter().any(|launcher| name == *launcher))
    }

    /// The variables that it inherits, as far as the bridge knows them as text.
    pub(super) fn inherited_texts(&self) -> Vec<(&str, &str)> {
        match &self.inherited {
            Inherited::All => vec![],
            Inherited::Only { variables, .. } => {
                variables.iter().filter_map(|(name, value)| Some((name.to_str()?, value.to_str()?))).collect()
            }
        }
    }

    /// A variable of the server.
    pub(super) fn variable(&self, name: &str) -> Option<OsString> {
        let own = self.env.iter().rfind(|(own, _)| own == name).map(|(_, value)| OsString::from(value));
        own.or_else(|| match &self.inherited {
            Inherited::All => None,
            Inherited::Only { variables, .. } => {
                variables.iter().find(|(inherited, _)| inherited == name).map(|(_, value)| value.clone())
            }
        })
    }

    /// Whether the program is a name that is searched, also if it was found already.
    pub(super) fn is_searched(&self) -> bool {
        self.searched || !self.program.as_os_str().as_encoded_bytes().contains(&b'/')
    }

    /// The same command with the full path of a program that is not on the server's PATH. The folder of a full path
    /// becomes the last one of PATH, since scripts such as npx need the program beside them.
    pub(super) fn found(&self) -> Self {
        let mut spec = self.clone();
        let Inherited::Only { .. } = self.inherited else { return spec };
        let (path, home) = (self.variable("PATH"), self.variable("HOME").map(PathBuf::from));
        let cwd = self.cwd.as_deref().unwrap_or(Path::new("/"));
        let is_on_path = locate_program(&self.program, path.as_deref(), cwd).is_some();
        if !is_on_path && let Some(found) = find_program(&self.program, path.as_deref(), cwd, home.as_deref())
        {
            spec.searched = spec.is_searched();
            spec.program = found;
        }
        let folder = spec.program.parent().filter(|folder| folder.is_absolute()).and_then(Path::to_str);
        let path = path.unwrap_or_default().into_string();
        if let (Some(folder), Ok(path)) = (folder, path)
            && !path.split(':').any(|known| known == folder)
        {
            let separator = if path.is_empty() { "" } else { ":" };
            spec.env.push(("PATH".to_owned(), format!("{path}{separator}{folder}")));
        }
        spec
    }
}

#[cfg(test)]
impl ProcessSpec {
    /// A command that is not confined and has all of the bridge's environment.
    pub(crate) fn plain(program: &str, args: &[&str]) -> Self {
        Self {
            program: program.into(),
            searched: false,
            args: args.iter().map(|&arg| arg.to_owned()).collect(),
            inherited: Inherited::All,
            env: vec![],
            cwd: None,
            keeper: None,
            sandbox: None,
            projects: vec![],
            private: PrivatePlaces::default(),
            changeable: PlacesNow::default(),
        }
    }
}

/// The variables of the bridge's environment that a process gets. Two are equal if the process gets the same.
#[derive(Clone, Eq)]
pub enum Inherited {
    /// All variables.
    All,
    /// Some variables.
    Only {
        /// The variables that it gets.
        variables: Vec<(OsString, OsString)>,
        /// The names of the variables that it does not get.
        withheld: Vec<String>,
    },
}

impl Inherited {
    /// Gives a program these variables, and no others.
    pub(super) fn pass_to(&self, command: &mut Command) {
        if let Self::Only { variables, .. } = self {
            command.env_clear().envs(variables.iter().map(|(name, value)| (name, value)));
        }
    }
}

impl PartialEq for Inherited {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::All, Self::All) => true,
            (Self::Only { variables, .. }, Self::Only { variables: others, .. }) => variables == others,
            (Self::All, Self::Only { .. }) | (Self::Only { .. }, Self::All) => false,
        }
    }
}

/// The address of a remote server, and the transport to it.
#[derive(Clone, PartialEq, Eq)]
pub struct RemoteSpec {
    /// `http` or `https`, with a host.
    pub url: Url,
    /// The transport that the server supports; `None`: it is detected.
    pub transport: Option<RemoteTransport>,
    /// Headers of each request, valid names with values. They are sent to the origin of `url` only.
    pub headers: Vec<(String, String)>,
    /// The login; `None`: no login is used, for example since the headers have credentials.
    pub login: Option<LoginSpec>,
}

/// The login of belljar at a remote server.
#[derive(Clone, PartialEq, Eq)]
pub struct LoginSpec {
    /// The file for the login.
    pub file: LoginFile,
    /// The settings of the login in the entry.
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
