//! The servers and settings that are in effect. They follow the configuration files while the bridge runs.
//!
//! A change is noticed when a client asks for something, and is in effect from the next run on: a run keeps the servers
//! that it began with. This module starts and ends no server.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use belljar_base::limits::Limits;
use belljar_base::names::ServerName;
use belljar_base::problem::report;
use belljar_base::text;
use belljar_confine::PrivatePlaces;
use belljar_guard::{Keeper, Mark, PARENT_VARIABLE};
use belljar_tools::catalog::{Catalog, server_aliases};
use belljar_upstream::{
    CallBounds, DeferredTransport, Inherited, LoginFile, LoginSpec, PlacesNow, ProcessSpec, RemoteSpec,
    ServerSpec, ServerTransport, printed,
};
use parking_lot::Mutex;

use crate::broker::tools::tool_index::Configured;
use crate::config::{
    self, CommandLine, Config, ConfigFiles, Endpoint, Environment, Launch, ModelEndpoint, ModelKey,
    ModelSettings, NamedSecrets, SandboxFiles, SandboxServers, ServerConfig, Transport, edited_settings,
};
use crate::models::{self, ModelError};

/// The configuration that is in effect. It follows the configuration files.
pub struct ActiveConfig {
    mark: Mark,
    /// The path of this program, which runs as the keeper of servers.
    program: PathBuf,
    /// The folder of the logins at remote servers.
    logins: Option<PathBuf>,
    now: Mutex<ConfigState>,
}

/// The configuration files, and the configuration of the last run.
struct ConfigState {
    files: ConfigFiles,
    /// The configuration that the last run of any session began with.
    in_effect: Arc<Config>,
}

impl ConfigState {
    /// The environment of the owner of the sessions.
    fn environment(&self) -> Environment {
        self.files.environment().with_owner_env(&self.in_effect.owner_env)
    }
}

/// The configuration that the last run of a session began with, so that its next reply reports the changes since.
pub(crate) struct SeenConfig {
    config: Arc<Config>,
    /// Sentences about unreadable files.
    unread: Vec<String>,
}

/// Programs that start servers, and their options that name the folder of the server's code.
const LAUNCHERS: [&str; 8] = ["bun", "bunx", "npm", "npx", "pnpm", "poetry", "uv", "uvx"];
const LAUNCHER_FOLDERS: [&str; 5] = ["--cwd", "--directory", "--prefix", "--project", "-C"];
/// Longest list of servers in a sentence about a change, in characters.
const NAMES_CHARS_MAX: usize = 300;
/// The largest number of unreadable files that are reported.
const UNREAD_SAID_MAX: usize = 3;

impl ActiveConfig {
    /// Follows these files. `program` runs as the keeper of servers, their processes carry `mark`, and logins are in
    /// the folder `logins`.
    #[must_use]
    pub fn new(mut files: ConfigFiles, mark: Mark, program: PathBuf, logins: Option<PathBuf>) -> Self {
        files.record_given();
        let in_effect = Arc::clone(files.config());
        Self { mark, program, logins, now: Mutex::new(ConfigState { files, in_effect }) }
    }

    /// From now on, a session with this environment uses the servers, too.
    pub(crate) fn share_with(&self, environment: &Environment) {
        self.now.lock().files.share_with(environment);
    }

    /// The names of the servers that a run would have if it began now.
    pub(crate) fn names(&self) -> Vec<ServerName> {
        let mut now = self.now.lock();
        report(&now.files.look());
        now.files.record_given();
        now.files.servers().iter().map(|server| server.name.clone()).collect()
    }

    /// Sentences about the configuration files that cannot be read now, bounded.
    pub(crate) fn unread(&self) -> Vec<String> {
        unread(&self.now.lock().files)
    }

    /// Puts the configuration of the files into effect. Returns the folders that are offered to servers as roots if it is
    /// another one than before.
    pub(crate) fn advance(&self) -> Option<Vec<PathBuf>> {
        let mut now = self.now.lock();
        let after = Arc::clone(now.files.config());
        let before = std::mem::replace(&mut now.in_effect, Arc::clone(&after));
        if Arc::ptr_eq(&before, &after) {
            return None;
        }
        let is_other = before.servers != after.servers
            || before.not_used != after.not_used
            || edited_settings(&before, &after).is_some();
        is_other.then(|| after.roots.clone())
    }

    /// The configuration that a session begins with.
    pub(crate) fn seen(&self) -> SeenConfig {
        let now = self.now.lock();
        SeenConfig { config: Arc::clone(&now.in_effect), unread: unread(&now.files) }
    }

    /// A sentence about the changes since the session's last run began, which count as seen now; `None`: nothing has
    /// changed.
    pub(crate) fn changes(&self, seen: &mut SeenConfig) -> Option<String> {
        let SeenConfig { config: before, unread: said_before } = std::mem::replace(seen, self.seen());
        let after = &seen.config;
        let mut notes = Vec::new();
        // Each run comes here, and comparing all settings takes longer than a warm run.
        if !Arc::ptr_eq(&before, after) {
            let servers = (before.servers != after.servers).then(|| said(&before.servers, &after.servers));
            notes.extend(servers.into_iter().chain(edited_settings(&before, after)));
        }
        let news = seen.unread.iter().filter(|unread| !said_before.contains(unread));
        notes.extend(news.map(|unread| format!("{unread}; what it said before counts")));
        (!notes.is_empty()).then(|| notes.join("; "))
    }

    /// The specifications by which the servers in effect are started or reached.
    #[must_use]
    pub fn specs(&self) -> Vec<ServerSpec> {
        let now = self.now.lock();
        let ConfigState { files, in_effect, .. } = &*now;
        let (told, environment) = (files.told(), Arc::clone(files.environment()));
        let changeable = move || {
            if let Some(problem) = &told.borrow().unrecorded {
                return Err(format!("is not started: {problem}"));
            }
            let given = environment.given_places().map_err(|problem| format!("is not started: {problem}"))?;
            let given = given.into_iter().map(|(_, place)| place);
            Ok(told.borrow().changeable.iter().cloned().chain(given).collect())
        };
        let config_context = ConfigContext {
            environment: Arc::new(now.environment()),
            sandbox_servers: in_effect.sandbox_servers,
            private: in_effect.private.clone(),
            changeable: PlacesNow::new(changeable),
        };
        in_effect.servers.iter().map(|server| self.spec(server, &config_context)).collect()
    }

    /// The catalog of the servers in effect, before any server is asked.
    #[must_use]
    pub(crate) fn catalog(&self, limits: &Limits) -> Catalog {
        let now = self.now.lock();
        let servers = now.in_effect.servers.iter();
        let servers = servers.map(|server| {
            let cwd = match &server.transport {
                Transport::Launch(launch) => launch.cwd.clone(),
                Transport::Endpoint(_) => None,
            };
            (server.name.clone(), server.description.clone(), cwd)
        });
        Catalog::beside(servers, &now.in_effect.not_used, limits)
    }

    /// The absolute paths on the command lines of the servers in effect, without the launchers' own paths.
    pub(crate) fn paths_of_arguments(&self) -> BTreeMap<ServerName, Vec<String>> {
        let now = self.now.lock();
        let paths = now.in_effect.servers.iter().filter_map(|server| match &server.transport {
            Transport::Launch(launch) => Some((server.name.clone(), paths(&launch.program, &launch.args))),
            Transport::Endpoint(_) => None,
        });
        paths.filter(|(_, paths)| !paths.is_empty()).collect()
    }

    /// The configurations of the servers in effect.
    pub(crate) fn known(&self) -> BTreeMap<ServerName, Configured> {
        self.now
            .lock()
            .in_effect
            .servers
            .iter()
            .map(|server| (server.name.clone(), Configured::of(server)))
            .collect()
    }

    /// The reason why a configured server cannot be used, by its name or alias; `None`: it can be used, or is not
    /// configured.
    pub(crate) fn refusal(&self, server: &str, limits: &Limits) -> Option<String> {
        let now = self.now.lock();
        let refused = now.files.refused();
        let aliases =
            server_aliases(refused.iter().map(|refused| refused.name.as_str()), limits.alias_bytes_max);
        let is_it = |name: &str| name == server || aliases.get(name).is_some_and(|alias| alias == server);
        refused.iter().find(|refused| is_it(refused.name.as_str())).map(ToString::to_string)
    }

    /// Sentences about the configured servers and the files that cannot be used.
    pub(crate) fn unusable(&self) -> Vec<String> {
        let files = &self.now.lock().files;
        files.refused().iter().map(ToString::to_string).chain(unread(files)).collect()
    }

    /// The servers in effect to which files of the sandbox are not sent.
    pub(crate) fn keeps_files_from(&self) -> BTreeSet<ServerName> {
        let now = self.now.lock();
        let kept =
            now.in_effect.servers.iter().filter(|server| server.rules.sandbox_files == SandboxFiles::Kept);
        kept.map(|server| server.name.clone()).collect()
    }

    /// The settings of the model in the configuration in effect.
    pub(crate) fn model(&self) -> ModelSettings {
        self.now.lock().in_effect.model.clone()
    }

    /// The endpoint of the model, as [`model_endpoint`] returns it.
    pub(crate) async fn model_endpoint(
        &self,
        endpoint: &ModelEndpoint,
        limits: &Limits,
    ) -> Result<models::Endpoint, ModelError> {
        let environment = self.now.lock().environment();
        model_endpoint(endpoint, &self.mark, &environment, limits).await
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
            is_private: rules.is_private,
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

/// The part of the configuration that every process of a server is started with.
#[derive(Clone)]
struct ConfigContext {
    environment: Arc<Environment>,
    /// Whether a server is confined if its entry does not say so.
    sandbox_servers: SandboxServers,
    /// The files and folders that a server gets only if its entry names them.
    private: PrivatePlaces,
    /// The folders that confined servers and code can change, see [`Config::changeable`].
    changeable: PlacesNow,
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
            searched: false,
            args: launch.args.clone(),
            env: owned(&launch.env).into_iter().chain([parent(&self.mark)]).collect(),
            inherited: environment.inherited(launch, sandbox.as_ref()),
            cwd: match &sandbox {
                Some(_) => launch.cwd.clone(),
                None => Some(launch.folder(environment)),
            },
            keeper: Keeper::new(self.program.clone()),
            changeable: changeable.clone(),
            sandbox,
            projects: launch.projects.clone(),
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
        let checked = deferred.clone();
        DeferredTransport {
            check: Arc::new(move || checked.check()),
            commands: deferred
                .commands()
                .iter()
                .map(|command| command_spec(command, &self.mark, &self.config_context.environment))
                .collect(),
            written: deferred.written(),
            resolve: Arc::new(resolve),
        }
    }
}

/// The endpoint of the model. If a command prints its key, the command is run.
///
/// # Errors
/// The reason why the endpoint cannot be used as it is configured.
pub async fn model_endpoint(
    endpoint: &ModelEndpoint,
    mark: &Mark,
    environment: &Environment,
    limits: &Limits,
) -> Result<models::Endpoint, ModelError> {
    let key = match &endpoint.key {
        None => None,
        Some(ModelKey::Value(key)) => Some(key.clone()),
        Some(ModelKey::Command(command)) => {
            let printed = printed(&[command_spec(command, mark, environment)], limits).await;
            let printed =
                printed.map_err(|reason| ModelError::Unusable { reason: format!("its key: {reason}") })?;
            printed.into_iter().next().map(|key| key.trim_end_matches(['\r', '\n']).to_owned())
        }
    };
    models::Endpoint::new(&endpoint.url, &endpoint.name, key.as_deref(), limits.model_answer_bytes_max)
}

/// The variable that marks a child of this bridge. It comes last, so that no entry can replace it: a bridge that runs
/// inside another bridge is recognized by this variable.
fn parent(mark: &Mark) -> (String, String) {
    (PARENT_VARIABLE.to_owned(), mark.as_str().to_owned())
}

/// The process of a command that prints a value.
fn command_spec(command: &CommandLine, mark: &Mark, environment: &Environment) -> ProcessSpec {
    let mut words = command.words.iter().cloned();
    ProcessSpec {
        program: words.next().unwrap_or_default().into(),
        searched: false,
        args: words.collect(),
        env: vec![parent(mark)],
        // All variables of the session: a keyring or an agent needs some that no list can foresee.
        inherited: Inherited::Only {
            variables: environment.variables.clone().into_iter().collect(),
            withheld: vec![],
        },
        cwd: command.folder.clone(),
        keeper: None,
        sandbox: None,
        projects: vec![],
        private: PrivatePlaces::default(),
        changeable: PlacesNow::default(),
    }
}

/// The specification of a remote server. A login is used only if the user has configured no credentials.
#[must_use]
pub fn remote_spec(server: &ServerName, endpoint: &Endpoint, logins: Option<&Path>) -> RemoteSpec {
    let Endpoint { url, transport, headers, login } = endpoint;
    let has_credentials = headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization"));
    let logins = logins.filter(|_| !has_credentials);
    RemoteSpec {
        url: url.clone(),
        transport: *transport,
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

/// Sentences about the files that cannot be read, bounded.
fn unread(files: &ConfigFiles) -> Vec<String> {
    let said = files.unread().iter().take(UNREAD_SAID_MAX);
    said.map(|problem| {
        let problem = problem.to_string();
        format!("a configuration file cannot be used: {}", text::bounded(&problem, NAMES_CHARS_MAX))
    })
    .collect()
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
/// The arguments that are absolute paths, and the paths in options such as `--root=/srv`.
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
