//! `Config`: every setting and server that is sound, beside every problem of those that are not.
//!
//! Loading never fails, starts nothing and writes nothing.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tracing::level_filters::LevelFilter;

use super::environment::Environment;
use super::locate::locate_program;
use super::problem::{Origin, Problem, Severity};
use super::servers::{self, ServerConfig};
use super::variables::{self as read, Variables};
use crate::limits::Limits;
use crate::protocol::PostureField;
use crate::run::OutputMode;

/// What counts for this process.
#[derive(Debug, Clone)]
pub struct Config {
    /// Which engine is asked for.
    pub engine: EngineChoice,
    /// Where engines may be found.
    pub engine_addresses: EngineAddresses,
    /// The sandbox's image; `None`: the project's own.
    pub image: Option<String>,
    /// Time of a run that asks for none; at most `timeout_max`.
    pub timeout: Duration,
    /// Longest time that a run may ask for.
    pub timeout_max: Duration,
    /// Memory of the sandbox, in bytes.
    pub memory_bytes: u64,
    /// Processes and threads of the sandbox.
    pub pids: u32,
    /// CPUs of the sandbox, in thousandths of one; `None`: no limit.
    pub cpu_millis: Option<u32>,
    /// Who the sandboxed code runs as.
    pub container_user: ContainerUser,
    /// In what a sandbox may be weaker than asked for.
    pub allow_weak: Vec<PostureField>,
    /// Idle time after which a sandbox is stopped; `None`: never.
    pub idle_stop: Option<Duration>,
    /// Where the lock that marks this bridge as alive is kept: a folder of this user.
    pub lock_dir: PathBuf,
    /// Where saved tools are kept. It can be the folder of server entries too: what is written there
    /// must not end in `.json` at its top.
    pub state_dir: PathBuf,
    /// Where is kept what can be made again; `None`: nowhere, since the user has no home.
    pub cache_dir: Option<PathBuf>,
    /// Where the sentence encoder's model is put; `None`: nowhere, since the user has no home.
    pub model_dir: Option<PathBuf>,
    /// Whether tools are searched by meaning.
    pub semantic: Semantic,
    /// How replies are written.
    pub output_mode: OutputMode,
    /// What is logged.
    pub log_level: LevelFilter,
    /// Whether entries that start this bridge are kept.
    pub self_servers: SelfServers,
    /// Whether the sandbox is started ahead of the first run.
    pub prewarm: Prewarm,
    /// What becomes of the variables when a run has to be killed.
    pub rollback: Rollback,
    /// Whether replies carry structured content beside the text.
    pub structured: StructuredContent,
    /// Whether signatures say what results of tools have looked like.
    pub learn_shapes: LearnShapes,
    /// The servers, sorted by name, each name once.
    pub servers: Vec<ServerConfig>,
    /// The bounds.
    pub limits: Limits,
    /// Everything that is wrong or worth a note, in the order in which it was found.
    pub problems: Vec<Problem>,
}

/// The engine that the operator asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EngineChoice {
    /// The best one that answers.
    Auto,
    /// Podman, wherever it is found.
    Podman,
    /// Docker, wherever it is found.
    Docker,
    /// The one at this `unix://`, `tcp://` or `ssh://` address.
    Url(String),
}

/// What the environment says of engines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineAddresses {
    /// DOCKER_HOST.
    pub docker_host: Option<String>,
    /// CONTAINER_HOST.
    pub container_host: Option<String>,
    /// XDG_RUNTIME_DIR, or `/run/user/UID` where that exists: where sockets and locks of this user live.
    pub runtime_dir: Option<PathBuf>,
    /// The effective user.
    pub uid: u32,
    /// PATH.
    pub path: Option<OsString>,
    /// The `podman` command on PATH, where there is one.
    pub podman: Option<PathBuf>,
    /// The `ssh` command on PATH, where there is one.
    pub ssh: Option<PathBuf>,
    /// The user's home folder, in which desktop engines put their sockets.
    pub home: Option<PathBuf>,
}

/// A user and group by number; the user is never 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContainerUser {
    /// The user, at least 1.
    pub uid: u32,
    /// The group.
    pub gid: u32,
}

/// What becomes of entries that would start this bridge as its own server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SelfServers {
    /// They are left out.
    Skip,
    /// They are servers as any other.
    Allow,
}

/// What becomes of the variables when a run has to be killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rollback {
    /// They are as before that run.
    On,
    /// They are gone.
    Off,
}

/// Whether the sandbox is started ahead of the first run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prewarm {
    /// Right after `initialize`.
    On,
    /// By the first run.
    Off,
}

/// Whether replies carry structured content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StructuredContent {
    /// Text and images only.
    Off,
    /// Beside the text.
    On,
}

/// Whether signatures say what results of tools have looked like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LearnShapes {
    /// Their keys and types are kept, never a value.
    On,
    /// Nothing is kept or read.
    Off,
}

/// Whether tools are searched by meaning beside words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Semantic {
    /// When a model is installed.
    Auto,
    /// Never.
    Off,
}

const DAY_S: u64 = 86_400;

/// Settings of the sandbox: one that cannot be read must not be replaced by something weaker.
const SANDBOX_VARIABLES: [&str; 6] = [
    "MCP_BRIDGE_RUNTIME",
    "MCP_BRIDGE_IMAGE",
    "MCP_BRIDGE_MEMORY",
    "MCP_BRIDGE_PIDS",
    "MCP_BRIDGE_CPUS",
    "MCP_BRIDGE_CONTAINER_USER",
];

impl Config {
    /// Reads the captured variables and the configuration files that they lead to.
    #[must_use]
    pub fn load(environment: &Environment) -> Self {
        let limits = Limits::default();
        let mut problems = Vec::new();
        let mut variables = Variables::new(environment, &mut problems);
        let (timeout, timeout_max) = timeouts(&mut variables);
        let mut is_on = |name: &str| variables.required(name, read::switch);
        let self_servers =
            if is_on("MCP_BRIDGE_ALLOW_SELF_SERVER") { SelfServers::Allow } else { SelfServers::Skip };
        let rollback = if is_on("MCP_BRIDGE_ROLLBACK") { Rollback::On } else { Rollback::Off };
        let prewarm = if is_on("MCP_BRIDGE_PREWARM") { Prewarm::On } else { Prewarm::Off };
        let structured =
            if is_on("MCP_BRIDGE_STRUCTURED") { StructuredContent::On } else { StructuredContent::Off };
        let learn_shapes = if is_on("MCP_BRIDGE_LEARN_SHAPES") { LearnShapes::On } else { LearnShapes::Off };
        let idle =
            variables.required("MCP_BRIDGE_RUNTIME_IDLE_TIMEOUT", |text| read::seconds(text, 0, 30 * DAY_S));
        let state_dir = variables.required("MCP_BRIDGE_STATE_DIR", read::text);
        if environment.home.is_none() {
            variables.problem("HOME", "is not set and no home folder is known, so \"~\" leads nowhere");
        }
        let config = Self {
            engine: variables.required("MCP_BRIDGE_RUNTIME", read::engine),
            engine_addresses: EngineAddresses::of(environment),
            image: variables.optional("MCP_BRIDGE_IMAGE", read::text),
            timeout,
            timeout_max,
            memory_bytes: variables.required("MCP_BRIDGE_MEMORY", read::size_bytes),
            pids: variables.required("MCP_BRIDGE_PIDS", |text| read::whole(text, 16, 32_768)) as u32,
            cpu_millis: variables.optional("MCP_BRIDGE_CPUS", read::cpu_millis),
            container_user: variables.required("MCP_BRIDGE_CONTAINER_USER", read::container_user),
            allow_weak: variables.optional("MCP_BRIDGE_ALLOW_WEAK", read::posture_fields).unwrap_or_default(),
            idle_stop: Some(idle).filter(|idle| !idle.is_zero()),
            lock_dir: environment.lock_dir(),
            state_dir: environment.resolve(&state_dir, environment.cwd.as_deref()),
            cache_dir: environment.cache_dir(),
            model_dir: environment.data_dir().map(|dir| dir.join("model")),
            semantic: variables.required("MCP_BRIDGE_SEMANTIC", read::semantic),
            output_mode: variables.required("MCP_BRIDGE_OUTPUT_MODE", read::output_mode),
            log_level: variables.required("MCP_BRIDGE_LOG_LEVEL", read::log_level),
            self_servers,
            prewarm,
            rollback,
            structured,
            learn_shapes,
            servers: Vec::new(),
            limits: Limits::default(),
            problems: Vec::new(),
        };
        let servers = servers::load(environment, &limits, self_servers, &mut problems);
        Self { servers, limits, problems, ..config }
    }
}

impl Config {
    /// The problem with a setting of the sandbox, if one cannot be read: then no sandbox may be started.
    #[must_use]
    pub fn sandbox_problem(&self) -> Option<&Problem> {
        self.problems.iter().find(|problem| {
            matches!(&problem.origin, Origin::Variable(name) if SANDBOX_VARIABLES.contains(&name.as_str()))
                && problem.severity == Severity::Error
        })
    }
}

impl EngineAddresses {
    fn of(environment: &Environment) -> Self {
        let text =
            |name: &str| environment.variable(name).and_then(|value| value.to_str()).map(str::to_owned);
        let path = environment.variable("PATH");
        let cwd = environment.cwd.as_deref().unwrap_or(Path::new("/"));
        Self {
            docker_host: text("DOCKER_HOST"),
            container_host: text("CONTAINER_HOST"),
            runtime_dir: environment.variable("XDG_RUNTIME_DIR").map(PathBuf::from).or_else(|| {
                Some(PathBuf::from(format!("/run/user/{}", environment.uid))).filter(|dir| dir.is_dir())
            }),
            uid: environment.uid,
            path: path.map(OsString::from),
            podman: locate_program(Path::new("podman"), path, cwd),
            ssh: locate_program(Path::new("ssh"), path, cwd),
            home: environment.home.clone(),
        }
    }
}

/// The usual and the longest time of a run; the usual one is never the longer.
fn timeouts(variables: &mut Variables<'_>) -> (Duration, Duration) {
    let timeout = variables.required("MCP_BRIDGE_TIMEOUT", |text| read::seconds(text, 1, DAY_S));
    let timeout_max = variables.required("MCP_BRIDGE_MAX_TIMEOUT", |text| read::seconds(text, 1, DAY_S));
    if timeout > timeout_max && variables.is_set("MCP_BRIDGE_TIMEOUT") {
        let max_s = timeout_max.as_secs();
        let message =
            format!("is {}, more than MCP_BRIDGE_MAX_TIMEOUT allows; using {max_s}", timeout.as_secs());
        variables.problem("MCP_BRIDGE_TIMEOUT", message);
    }
    (timeout.min(timeout_max), timeout_max)
}

#[cfg(test)]
#[path = "load_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "malformed_tests.rs"]
mod malformed_tests;
