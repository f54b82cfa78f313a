//! How a server is reached: by starting a command, or at an address.
//!
//! It checks nothing: `launch` and `endpoint` make these types from an entry.

use std::fmt;
use std::path::PathBuf;

use belljar_confine::ServerSandbox;
use belljar_upstream::RemoteTransport;
use belljar_upstream::service_login::LoginSettings;
use url::Url;

use super::env_pattern::EnvPattern;
use crate::config::read::environment::Environment;
use crate::config::settings::choices::SandboxServers;

/// The transport to a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transport {
    /// The bridge starts the server and talks to it over stdin and stdout.
    Launch(Launch),
    /// The server is running elsewhere, and the bridge talks to it over HTTP.
    Endpoint(Endpoint),
}

/// The command and the environment that a local server is started with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launch {
    /// A name to search on PATH, or an absolute path. A relative path in the file was resolved against `cwd`, or
    /// without one against the file's folder.
    pub program: PathBuf,
    /// The program's arguments.
    pub args: Vec<String>,
    /// Variables in addition to the inherited ones.
    pub env: NamedSecrets,
    /// Patterns of the bridge's variables that it inherits in addition to the default ones.
    pub env_inherit: Vec<EnvPattern>,
    /// The working folder that its entry sets, absolute: a relative one was resolved against the file's folder. For
    /// an entry of a project's file, the project's folder if the entry sets none.
    pub cwd: Option<PathBuf>,
    /// The confinement that its entry sets.
    pub sandbox: SandboxChoice,
    /// The real folders of the project that belljar was started in, the innermost first. Files there may come from
    /// strangers.
    pub projects: Vec<PathBuf>,
}

impl Launch {
    /// The working folder of the server if it is not confined. Clients start the bridge in a project's folder, whose
    /// files may come from a stranger, and many servers load what is in theirs. So without a folder in the entry it is
    /// HOME, or the root where there is no HOME.
    #[must_use]
    pub fn folder(&self, environment: &Environment) -> PathBuf {
        let home = || environment.home.clone().filter(|home| home.is_dir());
        self.cwd.clone().or_else(home).unwrap_or_else(|| "/".into())
    }
}

/// The confinement that an entry sets for its server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum SandboxChoice {
    /// The entry sets none: `servers.sandbox` decides.
    #[default]
    Default,
    /// The server runs with the user's rights.
    No,
    /// The server is confined.
    Yes(ServerSandbox),
}

impl SandboxChoice {
    /// The server's confinement; `None`: the server runs with the user's rights.
    #[must_use]
    pub fn resolved(&self, by_default: SandboxServers) -> Option<ServerSandbox> {
        match (self, by_default) {
            (Self::Yes(sandbox), _) => Some(sandbox.clone()),
            (Self::Default, SandboxServers::Yes) => Some(ServerSandbox::default()),
            (Self::Default, SandboxServers::No) | (Self::No, _) => None,
        }
    }
}

/// The address of a remote server. `Debug` shows only the origin of the address.
#[derive(Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// `http` or `https`, with a host, without a user and a fragment. Its path and query may hold secrets.
    pub url: Url,
    /// The transport there; `None`: the bridge detects it.
    pub transport: Option<RemoteTransport>,
    /// Headers of each request. They are sent to this origin only.
    pub headers: NamedSecrets,
    /// The login that the entry sets.
    pub login: LoginSettings,
}

/// Values that may be secrets, in the file's order, each name once. `Debug` shows names only.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct NamedSecrets(Vec<(String, String)>);

impl Endpoint {
    /// The address without secrets: scheme, host and port.
    #[must_use]
    pub fn origin(&self) -> String {
        self.url.origin().ascii_serialization()
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("origin", &self.origin())
            .field("transport", &self.transport)
            .field("headers", &self.headers)
            .field("login", &self.login.kind())
            .finish()
    }
}

impl NamedSecrets {
    pub(crate) fn new(pairs: Vec<(String, String)>) -> Self {
        Self(pairs)
    }

    /// The names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Whether there are no values.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for NamedSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.0.iter().map(|(name, _)| (name, format_args!("…")))).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_shows_neither_its_path_and_query_nor_the_values_of_its_headers() {
        let endpoint = Endpoint {
            url: Url::parse("https://example.com:8443/secret1/mcp?key=secret2").unwrap(),
            transport: None,
            headers: NamedSecrets::new(vec![("Authorization".into(), "Bearer secret3".into())]),
            login: LoginSettings::default(),
        };
        assert_eq!(
            format!("{endpoint:?}"),
            "Endpoint { origin: \"https://example.com:8443\", transport: None, headers: {\"Authorization\": …}, \
             login: \"login in a browser\" }"
        );
    }
}
