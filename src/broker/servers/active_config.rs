//! The servers and settings that are in effect. They follow the configuration files while the bridge runs.
//!
//! A change is noticed when a client asks for something, and is in effect from the next run on: a run keeps the servers
//! that it began with. This module starts and ends no server.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::broker::tools::tool_index::Configured;
use crate::catalog::{Catalog, server_aliases};
use crate::config::{
    self, CommandLine, Config, ConfigFiles, Endpoint, Environment, HttpTransport, Launch, ModelEndpoint,
    ModelKey, ModelSettings, NamedSecrets, SandboxFiles, SandboxServers, ServerConfig, Transport,
    edited_settings,
};
use crate::confine::{PrivatePlaces, ServerSandbox};
use crate::guard::{Keeper, Mark, PARENT_VARIABLE};
use crate::limits::Limits;
use crate::models::{self, ModelError};
use crate::names::ServerName;
use crate::problem::report;
use crate::text;
use crate::upstream::{
    self, CallBounds, DeferredTransport, LoginFile, LoginSpec, ProcessSpec, RemoteSpec, RemoteTransport,
    ServerSpec, ServerTransport, printed,
};

/// The configuration that is in effect. It follows the configuration files.
pub struct ActiveConfig {
    mark: Mark,
    /// This program, which keepers of servers run.
    program: PathBuf,
    /// The folder of the logins at remote servers.
    logins: Option<PathBuf>,
    now: Mutex<ConfigState>,
}

/// The configuration files, and the configuration of the last run.
struct ConfigState {
    files: ConfigFiles,
    /// The configuration that the last run began with.
    in_effect: Arc<Config>,
    /// The problems with unreadable files that were reported last.
    said_unread: Vec<String>,
}

/// The changes of the configuration that a new run finds.
pub(in crate::broker) struct Change {
    /// The folders that are offered to servers as roots.
    pub(in crate::broker) roots: Vec<PathBuf>,
    /// For the reader of the run's reply.
    pub(in crate::broker) said: String,
}

/// Programs that start servers, and their options for the folder of the server's code.
const LAUNCHERS: [&str; 8] = ["bun", "bunx", "npm", "npx", "pnpm", "poetry", "uv", "uvx"];
const LAUNCHER_FOLDERS: [&str; 5] = ["--cwd", "--directory", "--prefix", "--project", "-C"];
/// Longest list of servers in a sentence about a change, in characters.
const NAMES_CHARS_MAX: usize = 300;
/// Files of which it is said that they cannot be read.
const UNREAD_SAID_MAX: usize = 3;

impl ActiveConfig {
    /// The servers of these files, kept by this program, whose children carry the mark; with the logins of this folder.
    #[must_use]
    pub fn new(files: ConfigFiles, mark: Mark, program: PathBuf, logins: Option<PathBuf>) -> Self {
        let in_effect = Arc::clone(files.config());
        let said_unread = unread(&files);
        Self { mark, program, logins, now: Mutex::new(ConfigState { files, in_effect, said_unread }) }
    }

    /// The names of the servers that a run would have that was asked for now.
    pub(in crate::broker) fn names(&self) -> Vec<ServerName> {
        let mut now = self.now.lock();
        report(&now.files.look());
        now.files.servers().iter().map(|server| server.name.clone()).collect()
    }

    /// What has been seen to change since the last run began.
    pub(in crate::broker) fn change(&self) -> Option<Change> {
        let mut now = self.now.lock();
        let unread = unread(&now.files);
        let said_before = std::mem::replace(&mut now.said_unread, unread.clone());
        let news = unread.into_iter().filter(|unread| !said_before.contains(unread));
        let mut notes: Vec<String> = news
            .map(|unread| {
                format!("a configuration file cannot be used, and what it said before counts: {unread}")
            })
            .collect();
        let after = Arc::clone(now.files.config());
        let before = std::mem::replace(&mut now.in_effect, Arc::clone(&after));
        if Arc::ptr_eq(&before, &after) && notes.is_empty() {
            return None;
        }
        let servers = (before.servers != after.servers).then(|| said(&before.servers, &after.servers));
        notes.splice(0..0, servers.into_iter().chain(edited_settings(&before, &after)));
        (!notes.is_empty()).then(|| Change { said: notes.join("; "), roots: after.roots.clone() })
    }

    /// How the servers in effect are reached.
    #[must_use]
    pub fn specs(&self) -> Vec<ServerSpec> {
        let now = self.now.lock();
        let ConfigState { files, in_effect, .. } = &*now;
        let config_context = ConfigContext {
            environment: Arc::clone(files.environment()),
            sandbox_servers: in_effect.sandbox_servers,
            private: in_effect.private.clone(),
            changeable: in_effect.changeable.clone().into(),
        };
        in_effect.servers.iter().map(|server| self.spec(server, &config_context)).collect()
    }

    /// What is known of the servers in effect without asking them.
    #[must_use]
    pub(in crate::broker) fn catalog(&self, limits: &Limits) -> Catalog {
        let now = self.now.lock();
        let servers = now.in_effect.servers.iter();
        let servers = servers.map(|server| {
            let cwd = match &server.transport {
                Transport::Launch(launch) => launch.cwd.clone(),
                Transport::Endpoint(_) => None,
            };
            (server.name.clone(), server.description.clone(), cwd)
        });
        Catalog::new(servers, limits)
    }

    /// The absolute paths on the command lines of the servers in effect, without those that are the launcher's.
    pub(in crate::broker) fn paths_of_arguments(&self) -> BTreeMap<ServerName, Vec<String>> {
        let now = self.now.lock();
        let paths = now.in_effect.servers.iter().filter_map(|server| match &server.transport {
            Transport::Launch(launch) => Some((server.name.clone(), paths(&launch.program, &launch.args))),
            Transport::Endpoint(_) => None,
        });
        paths.filter(|(_, paths)| !paths.is_empty()).collect()
    }

    /// How the servers in effect are configured.
    pub(in crate::broker) fn known(&self) -> BTreeMap<ServerName, Configured> {
        self.now
            .lock()
            .in_effect
            .servers
            .iter()
            .map(|server| (server.name.clone(), Configured::of(server)))
            .collect()
    }

    /// Why a server that stands in the configuration, by its name or alias, cannot be used; `None`: it can, or stands nowhere.
    pub(in crate::broker) fn refusal(&self, server: &str, limits: &Limits) -> Option<String> {
        let now = self.now.lock();
        let refused = now.files.refused();
        let aliases =
            server_aliases(refused.iter().map(|refused| refused.name.as_str()), limits.alias_bytes_max);
        let is_it = |name: &str| name == server || aliases.get(name).is_some_and(|alias| alias == server);
        refused.iter().find(|refused| is_it(refused.name.as_str())).map(ToString::to_string)
    }

    /// The servers in effect to which files of the sandbox are not sent.
    pub(in crate::broker) fn keeps_files_from(&self) -> BTreeSet<ServerName> {
        let now = self.now.lock();
        let kept =
            now.in_effect.servers.iter().filter(|server| server.rules.sandbox_files == SandboxFiles::Kept);
        kept.map(|server| server.name.clone()).collect()
    }

    /// Which model code may ask, as the run in effect has it.
    pub(in crate::broker) fn model(&self) -> ModelSettings {
        self.now.lock().in_effect.model.clone()
    }

    /// As [`model_endpoint`].
    pub(in crate::broker) async fn model_endpoint(
        &self,
        endpoint: &ModelEndpoint,
        limits: &Limits,
    ) -> Result<models::Endpoint, ModelError> {
        model_endpoint(endpoint, &self.mark, limits).await
    }

    fn spec(&self, server: &ServerConfig, config_context: &ConfigContext) -> ServerSpec {
        let (mark, program, logins) = (self.mark.clone(), self.program.clone(), self.logins.clone());
        let context = LaunchContext { mark, program, logins, config_context: config_context.clone() };
        let deferred = server.deferred.as_ref().map(|deferred| context.deferred(deferred));
        let rules = &server.rules;
        let set_in = server.place();
        ServerSpec {
            name: server.name.clone(),
            transport: context.transport(&server.name, &server.transport),
            start_time: rules.start_time,
            bounds: CallBounds { time: rules.call_time, at_once: rules.calls_at_once, set_in },
            secrets: owned(&server.references),
            deferred,
        }
    }
}

/// The properties of the bridge that every process of a server is started with.
#[derive(Clone)]
struct LaunchContext {
    mark: Mark,
    program: PathBuf,
    /// The folder of the logins.
    logins: Option<PathBuf>,
    config_context: ConfigContext,
}

/// What every process that is started for a server has of the configuration.
#[derive(Clone)]
struct ConfigContext {
    environment: Arc<Environment>,
    /// Whether servers are confined whose entries do not say so.
    sandbox_servers: SandboxServers,
    /// What servers are not given unasked.
    private: PrivatePlaces,
    /// See [`Config::changeable`].
    changeable: Arc<[PathBuf]>,
}

impl LaunchContext {
    fn transport(&self, server: &ServerName, transport: &Transport) -> ServerTransport {
        match transport {
            Transport::Launch(launch) => ServerTransport::Process(self.process(launch)),
            Transport::Endpoint(endpoint) => {
                ServerTransport::Remote(remote_spec(server, endpoint, self.logins.as_deref()))
            }
        }
    }

    fn process(&self, launch: &Launch) -> ProcessSpec {
        let ConfigContext { environment, sandbox_servers, private, changeable } = &self.config_context;
        let sandbox = launch.sandbox.resolved(*sandbox_servers);
        ProcessSpec {
            program: launch.program.clone(),
            args: launch.args.clone(),
            env: owned(&launch.env).into_iter().chain([parent(&self.mark)]).collect(),
            inherited: inherited(environment, launch, sandbox.as_ref()),
            cwd: launch.cwd.clone(),
            keeper: Keeper::new(self.program.clone()),
            // Of no account to others, which need not be started anew where it changes.
            changeable: if sandbox.is_some() { Arc::clone(changeable) } else { [].into() },
            sandbox,
            private: private.clone(),
        }
    }

    fn deferred(&self, deferred: &config::DeferredEntry) -> DeferredTransport {
        let (context, entry) = (self.clone(), deferred.clone());
        let resolve = move |printed: &[String]| {
            let written = entry.commands().iter().map(|command| command.written.clone());
            let server = entry.finished(&written.zip(printed.iter().cloned()).collect())?;
            Ok((context.transport(&server.name, &server.transport), owned(&server.references)))
        };
        DeferredTransport {
            commands: deferred.commands().iter().map(|command| command_spec(command, &self.mark)).collect(),
            written: deferred.written(),
            resolve: Arc::new(resolve),
        }
    }
}

/// The model's service, once its key is known: where a command prints it, that is run.
///
/// # Errors
/// It cannot be asked as it is set.
pub async fn model_endpoint(
    endpoint: &ModelEndpoint,
    mark: &Mark,
    limits: &Limits,
) -> Result<models::Endpoint, ModelError> {
    let key = match &endpoint.key {
        None => None,
        Some(ModelKey::Value(key)) => Some(key.clone()),
        Some(ModelKey::Command(command)) => {
            let printed = printed(&[command_spec(command, mark)], limits).await;
            let printed =
                printed.map_err(|reason| ModelError::Unusable { reason: format!("its key: {reason}") })?;
            printed.into_iter().next().map(|key| key.trim_end_matches(['\r', '\n']).to_owned())
        }
    };
    models::Endpoint::new(&endpoint.url, &endpoint.name, key.as_deref(), limits.model_answer_bytes_max)
}

/// Last among variables, so that no entry can take it away: a bridge inside a bridge must know where it is.
fn parent(mark: &Mark) -> (String, String) {
    (PARENT_VARIABLE.to_owned(), mark.as_str().to_owned())
}

/// How a command is run that prints a value.
fn command_spec(command: &CommandLine, mark: &Mark) -> ProcessSpec {
    let mut words = command.words.iter().cloned();
    ProcessSpec {
        program: words.next().unwrap_or_default().into(),
        args: words.collect(),
        env: vec![parent(mark)],
        // Commands are the user's own: a keyring or an agent is found by variables that no list foresees.
        inherited: upstream::Inherited::All,
        cwd: command.folder.clone(),
        keeper: None,
        sandbox: None,
        private: PrivatePlaces::default(),
        changeable: [].into(),
    }
}

/// What the server inherits of the bridge's environment.
fn inherited(
    environment: &Environment,
    launch: &Launch,
    sandbox: Option<&ServerSandbox>,
) -> upstream::Inherited {
    let config::Inherited { variables, withheld } = environment.inherited(launch, sandbox);
    upstream::Inherited::Only { variables, withheld }
}

/// How a server at this address is reached. A login is used only where the user has configured no credentials.
#[must_use]
pub fn remote_spec(server: &ServerName, endpoint: &Endpoint, logins: Option<&Path>) -> RemoteSpec {
    let Endpoint { url, transport, headers, login } = endpoint;
    let has_credentials = headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization"));
    let logins = logins.filter(|_| !has_credentials);
    RemoteSpec {
        url: url.clone(),
        transport: match transport {
            HttpTransport::Detected => None,
            HttpTransport::Streamable => Some(RemoteTransport::Streamable),
            HttpTransport::Sse => Some(RemoteTransport::Sse),
        },
        headers: owned(headers),
        login: logins.map(|dir| LoginSpec {
            file: LoginFile::new(dir.to_owned(), server, url.clone()),
            settings: login.clone(),
        }),
    }
}

fn owned(pairs: &NamedSecrets) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// Why files cannot be read, bounded.
fn unread(files: &ConfigFiles) -> Vec<String> {
    let said = files.unread().iter().take(UNREAD_SAID_MAX);
    said.map(|problem| text::bounded(&problem.to_string(), NAMES_CHARS_MAX).into_owned()).collect()
}

fn said(before: &[ServerConfig], after: &[ServerConfig]) -> String {
    let of = |servers: &[ServerConfig], name: &ServerName| {
        servers.iter().find(|server| server.name == *name).cloned()
    };
    let names = |servers: &[ServerConfig], holds: &dyn Fn(&ServerConfig) -> bool| {
        let names = servers.iter().filter(|server| holds(server)).map(|server| server.name.as_str());
        names.collect::<Vec<_>>().join(", ")
    };
    let changes = [
        ("added", names(after, &|server| of(before, &server.name).is_none())),
        ("removed", names(before, &|server| of(after, &server.name).is_none())),
        ("changed", names(after, &|server| of(before, &server.name).is_some_and(|old| old != *server))),
    ];
    let changes: Vec<String> = changes
        .into_iter()
        .filter(|(_, names)| !names.is_empty())
        .map(|(what, names)| format!("{what}: {}", text::bounded(&text::inert_line(&names), NAMES_CHARS_MAX)))
        .collect();
    format!("the user has changed the configured servers ({})", changes.join("; "))
}
/// The arguments that are absolute paths, or options with one (`--root=/srv`).
fn paths(program: &Path, args: &[String]) -> Vec<String> {
    let is_launcher =
        program.file_name().and_then(|name| name.to_str()).is_some_and(|name| LAUNCHERS.contains(&name));
    let mut paths = Vec::new();
    let mut before = "";
    for arg in args {
        let (option, path) = match arg.split_once('=') {
            Some((option, path)) if option.starts_with('-') => (option, path),
            _ => (before, arg.as_str()),
        };
        if path.starts_with('/') && !(is_launcher && LAUNCHER_FOLDERS.contains(&option)) {
            paths.push(path.to_owned());
        }
        before = arg;
    }
    paths
}
