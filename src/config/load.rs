//! `Config`: every setting and server that is sound, beside every problem of those that are not.
//!
//! Loading never fails, starts nothing and writes nothing.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use belljar_base::limits::Limits;
use belljar_base::names::{ServerName, WorkspaceName};
use belljar_base::problem::{OF_FILE_MAX, Origin, Problem, Severity};
use belljar_base::run::OutputMode;
use belljar_base::text::{self, suggest};
use belljar_confine::{ChangeablePlaces, PrivatePlaces};
use belljar_engine::{EngineLocations, User};
use belljar_protocol::{ExtraSystemCall, PostureField};
use belljar_tools::policy::Policy;
use tracing::level_filters::LevelFilter;

use super::owner::Owner;
use super::read::changeable::{misled, of_configuration, own_program};
use super::read::environment::Environment;
use super::read::file::{self, WatchedFile};
use super::servers::load::{self, EntriesByFile, EntryRules, LoadedServers};
use super::servers::server::{RefusedServer, ServerConfig};
use super::servers::transport::{Launch, Transport};
use super::settings::choices::{
    AllowCommands, Audit, LearnShapes, Rollback, Sampling, SandboxServers, SelfServers, Shared,
    StructuredContent,
};
use super::settings::model::ModelSettings;
use super::settings::mounts::{MountedFolder, Mounts, mounts};
use super::settings::owner_env::{OwnerEnv, owner_env};
use super::settings::policy_file::{self, Changeable, PolicyFile};
use super::settings::policy_profile::ProfileSetting;
use super::settings::resolve::{Setting, Settings, Source};
use super::settings::resume::ResumeFrom;
use super::settings::toml_file::{self, TomlFile};
use super::settings::values as read;
use crate::journal::JournalDetail;

/// The configuration of this process.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// The requested engine, and where engines are searched; without a mark.
    pub engine: EngineLocations,
    /// PATH.
    pub path: Option<OsString>,
    /// The sandbox's image; `None`: the project's own.
    pub image: Option<String>,
    /// The user's time zone, by its name in the tz database.
    pub time_zone: String,
    /// Time of a run that asks for none; at most `timeout_max`.
    pub timeout: Duration,
    /// Longest time that a run may ask for.
    pub timeout_max: Duration,
    /// How long a request waits for its run before the reply is a task, if the client supports tasks.
    pub task_after: Duration,
    /// Memory of the sandbox, in bytes.
    pub memory_bytes: u64,
    /// Processes and threads of the sandbox.
    pub pids: u32,
    /// CPUs of the sandbox, in thousandths of one; `None`: all processors of the engine's machine but one.
    pub cpu_millis: Option<u32>,
    /// Whether `cpu_millis` comes from a project that is not trusted, so that it must not exceed the default.
    pub cpu_is_capped: bool,
    /// The user that the sandboxed code runs as; `None`: each sandbox has a user of its own.
    pub container_user: Option<User>,
    /// The properties in which a sandbox may be weaker than required.
    pub allow_weak: Vec<PostureField>,
    /// System calls that code can make besides those that the sandbox's filter allows.
    pub extra_syscalls: Vec<ExtraSystemCall>,
    /// Whether refused system calls are counted. It is an option of one command, not a setting.
    pub trace_denied: bool,
    /// Folders of the user that code may read or write.
    pub mounts: Vec<MountedFolder>,
    /// Idle time after which a sandbox is stopped; `None`: never.
    pub idle_stop: Option<Duration>,
    /// The folder for the lock that marks this bridge as alive; it belongs to this user.
    pub lock_dir: PathBuf,
    /// The person for whom sessions run, with the places of what belongs to that person.
    pub owner: Owner,
    /// The workspace that is shared by sessions; `None`: each session has its own, which is deleted when it ends.
    pub workspace: Option<WorkspaceName>,
    /// The folder for files that can be generated again; `None`: there is no such folder, since the user has no home.
    pub cache_dir: Option<PathBuf>,
    /// The folder in which earlier versions stored a model for search by meaning; `None`: the user has no home.
    pub former_model_dir: Option<PathBuf>,
    /// The files and folders that a server gets only if its entry names them.
    pub private: PrivatePlaces,
    /// How replies are written.
    pub output_mode: OutputMode,
    /// The level of the log.
    pub log_level: LevelFilter,
    /// Whether entries that would start this bridge are used.
    pub self_servers: SelfServers,
    /// Whether a server is confined if its entry does not say so.
    pub sandbox_servers: SandboxServers,
    /// How many sandboxes are started ahead of first runs, see [`HandlerSettings`](crate::server::HandlerSettings).
    pub prewarm: u64,
    /// Whether the client's session is one of the user's shared bridge.
    pub shared: Shared,
    /// Packages that are imported while a sandbox is idle.
    pub preload: Vec<String>,
    /// The treatment of the variables when a run has to be killed.
    pub rollback: Rollback,
    /// Checkpoints that code may keep at once.
    pub checkpoints: u8,
    /// Whether replies carry structured content beside the text.
    pub structured: StructuredContent,
    /// Whether signatures show the shapes of earlier results.
    pub learn_shapes: LearnShapes,
    /// Beginnings of the names of clients that get images as files.
    pub images_as_files: Vec<String>,
    /// The names of the servers to use; `None`: all.
    pub chosen_servers: Option<Vec<String>>,
    /// Every setting with the value that is in effect and the source of the value.
    pub settings: Vec<Setting>,
    /// The problem with a setting of the sandbox that cannot be read. While there is one, no sandbox is started.
    pub sandbox_problem: Option<Problem>,
    /// The reason for which it is not recorded what confined servers and code can change. While there is one, neither
    /// starts.
    pub unrecorded: Option<Problem>,
    /// The variables of the session's owner.
    pub(crate) owner_env: OwnerEnv,
    /// The servers, sorted by name, each name once.
    pub servers: Vec<ServerConfig>,
    /// The folders that confined servers, chosen or not, and sandboxed code can change, or once could. No link in them is
    /// followed for a confined server.
    pub changeable: Vec<PathBuf>,
    /// The servers that are configured and cannot be used, sorted by name.
    pub refused: Vec<RefusedServer>,
    /// The names of the other servers of the user's and trusted files, which are not chosen or cannot be used.
    pub not_used: Vec<ServerName>,
    /// Whether `${cmd:…}` of entries runs commands.
    pub allow_commands: AllowCommands,
    /// The rules that decide which calls are allowed.
    pub policy: PolicyFile,
    /// The folders that are offered to servers as roots.
    pub roots: Vec<PathBuf>,
    /// Whether servers may ask for the client's model.
    pub sampling: Sampling,
    /// The language model that code may ask, and the bounds on its requests.
    pub model: ModelSettings,
    /// The amount that the audit log records of calls and runs.
    pub audit: Audit,
    /// The amount of a session that the journal records.
    pub journal: JournalDetail,
    /// The session whose runs are replayed at the start of a new one.
    pub resume: Option<ResumeFrom>,
    /// The folder of the audit log and of the notices of sandboxes; `None`: there is no such folder, since the user has no
    /// home.
    pub own_state_dir: Option<PathBuf>,
    /// The bounds.
    pub limits: Limits,
    /// Everything that is wrong or worth a note, in the order in which it was found.
    pub problems: Vec<Problem>,
}

const DAY_S: u64 = 86_400;
/// The largest number of sandboxes that wait for an owner's next sessions.
const PREWARM_MAX: u64 = 16;

/// The previous configuration, which stays in effect for files that cannot be read now.
pub(super) struct PreviousConfig<'c> {
    pub(super) config: &'c Config,
    pub(super) entries: &'c EntriesByFile,
    pub(super) servers_problem: Option<&'c Problem>,
    pub(super) changeable: &'c ChangeablePlaces,
    pub(super) recorded: Option<&'c ChangeablePlaces>,
    pub(super) conflicting: &'c [PathBuf],
}

/// The state that the next reload compares with.
#[derive(Debug)]
pub(super) struct ReloadState {
    /// The files that references lead to.
    pub(super) files: Vec<WatchedFile>,
    /// The environment variables that entries refer to, whether they are set or not.
    pub(super) variables: BTreeSet<String>,
    /// The entries of each file as they were when it could be read last.
    pub(super) entries: EntriesByFile,
    /// The problems with files that cannot be used now.
    pub(super) unread: Vec<Problem>,
    /// The problem with the setting that confines servers. While there is one, servers without a `sandbox` of their own
    /// are not used.
    pub(super) servers_problem: Option<Problem>,
    /// The places that code and confined servers can change, or could since the first load.
    pub(super) changeable: ChangeablePlaces,
    /// The places that were given at any time, as far as that was recorded; `None`: the record was never read.
    pub(super) recorded: Option<ChangeablePlaces>,
    /// See [`Mounts::conflicting`].
    pub(super) conflicting: Vec<PathBuf>,
    /// The places that they can change now. What is refused to them is not among these.
    pub(super) given: ChangeablePlaces,
    /// Whether places besides the folders in which code stores are among these.
    pub(super) gives_others: bool,
    /// See [`Changeable::has_others`].
    pub(super) has_others: bool,
}

/// The settings, and the parts of the files that are needed to load servers and policy.
struct ReadSettings {
    config: Config,
    /// The source of the choice of servers.
    names: Source,
    profile_setting: ProfileSetting,
    /// The problem with the setting that confines servers.
    servers_problem: Option<Problem>,
    /// See [`Mounts::conflicting`].
    conflicting: Vec<PathBuf>,
}

impl Config {
    /// Reads the captured variables and the configuration files that they lead to.
    #[must_use]
    pub fn load(environment: &Environment) -> Self {
        Self::load_following(environment, None).0
    }

    /// The number of servers started by a command that have the user's rights, and the number of all that are started
    /// by a command.
    #[must_use]
    pub fn servers_with_rights(&self) -> (usize, usize) {
        let launches = self.servers.iter().filter_map(|server| match &server.transport {
            Transport::Launch(launch) => Some(launch),
            Transport::Endpoint(_) => None,
        });
        let has_rights = |launch: &&Launch| launch.sandbox.resolved(self.sandbox_servers).is_none();
        (launches.clone().filter(has_rights).count(), launches.count())
    }

    /// Whether sessions with these configurations may share servers and all that depends on settings: everything is equal but
    /// problems, and what was given in the past, which also other bridges add to.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let compared =
            |config: &Self| Self { changeable: vec![], problems: vec![], unrecorded: None, ..config.clone() };
        compared(self) == compared(other)
    }

    /// Whether the value of any setting comes from this file.
    fn has_settings_of(&self, file: Option<PathBuf>) -> bool {
        let is_of_it = |setting: &Setting| match &setting.source {
            Source::File { path, .. } => Some(path) == file.as_ref(),
            Source::Default | Source::Variable(_) => false,
        };
        self.settings.iter().any(is_of_it)
    }

    /// Puts locks and sockets into the state folder if a confined server or code could change their usual place. Returns the
    /// problem if such a process could change what belljar stores: in a place that it was given.
    fn place_own(
        &mut self,
        environment: &Environment,
        changeable: &ChangeablePlaces,
        given: &ChangeablePlaces,
    ) -> Option<Problem> {
        self.engine.runtime_dir.take_if(|dir| of_configuration(changeable, dir).is_some());
        if of_configuration(changeable, &self.lock_dir).is_some()
            && let Some(state) = environment.state_dir()
        {
            self.lock_dir = state.join("locks");
        }
        let environments = self.engine.environments.clone();
        let stored =
            [self.own_state_dir.clone(), self.cache_dir.clone(), environments, self.owner.journals()];
        let stored = stored.into_iter().flatten().chain([self.lock_dir.clone(), self.owner.saved_of_all()]);
        stored.into_iter().find_map(|dir| of_configuration(given, &dir))
    }

    /// Loads the configuration, and the state that the next reload compares with. On a reload, files that cannot be
    /// used keep the content that they had in `before`.
    pub(super) fn load_following(
        environment: &Environment,
        before: Option<PreviousConfig<'_>>,
    ) -> (Self, ReloadState) {
        let limits = Limits::default();
        let (recorded, unread_places) = match environment.given_places() {
            Ok(places) => (ChangeablePlaces::new(places), None),
            // What was read before still counts.
            Err(problem) => {
                let recorded = before.as_ref().and_then(|before| before.recorded.cloned());
                (recorded.unwrap_or_default(), Some(*problem))
            }
        };
        let is_unread = unread_places.is_some();
        let is_known = !is_unread || before.as_ref().is_some_and(|before| before.recorded.is_some());
        let unknown_places = unread_places.clone().filter(|_| !is_known);
        let formerly = before.as_ref().map(|before| before.changeable.clone()).unwrap_or_default();
        let (environment, misplaced) = &environment.without_base_dirs_in(&formerly.and(&recorded));
        let mut problems: Vec<Problem> = unread_places.into_iter().chain(misplaced.iter().cloned()).collect();
        let of_places = problems.first().cloned();
        let (read, tables) = ReadSettings::read(environment, &limits, &mut problems);
        let unusable = before.as_ref().and_then(|_| unusable(environment, &problems));
        let is_emptied = |before: &PreviousConfig<'_>| {
            let has_said = before.config.has_settings_of(environment.config_file())
                || !before.config.owner_env.is_empty()
                || before.servers_problem.is_some();
            toml_file::is_emptied(environment) && has_said
        };
        // A file that others can change by now is not read, nor is one missing that they may have moved.
        let is_misled = |before: &PreviousConfig<'_>| {
            let own = environment.config_file();
            own.is_some_and(|own| of_configuration(before.changeable, &own).is_some())
        };
        let kept =
            before.as_ref().filter(|before| unusable.is_some() || is_emptied(before) || is_misled(before));
        let ReadSettings { mut config, names, profile_setting, servers_problem, conflicting } = match kept {
            Some(before) => {
                // As at a start, a setting of the sandbox that cannot be read is a problem: no looser value may replace
                // it.
                let sandbox_problem = read.config.sandbox_problem.clone();
                let mut config = Self { sandbox_problem, ..before.config.clone() };
                if is_emptied(before) {
                    // To take a folder back can be meant.
                    config.mounts.clear();
                }
                ReadSettings { config, ..read }
            }
            None => read,
        };
        let servers_problem = match (servers_problem, kept) {
            (Some(problem), Some(before)) if is_of_whole_file(&problem) => before.servers_problem.cloned(),
            (None, Some(before)) => before.servers_problem.cloned(),
            (problem, _) => problem,
        };
        let of_code: Vec<PathBuf> = places_of_code(&config).collect();
        // Mounts of settings that are not used do not count.
        let conflicting = kept.map_or(conflicting, |before| before.conflicting.to_vec());
        let rules = EntryRules {
            self_servers: config.self_servers,
            commands: config.allow_commands,
            sandbox_servers: config.sandbox_servers,
            unconfined: servers_problem.as_ref(),
            private: &config.private,
            of_code: &of_code,
            conflicting: &conflicting,
            formerly: &formerly,
            recorded: &recorded,
            unknown_places: unknown_places.as_ref(),
        };
        let environment = &environment.with_owner_env(&config.owner_env);
        let none = EntriesByFile::new();
        let entries = before.as_ref().map_or(&none, |before| before.entries);
        let loaded = load::load(environment, &limits, rules, (&tables, entries), &mut problems);
        problems.extend(unknown(config.chosen_servers.as_deref(), &names, &loaded));
        let LoadedServers {
            servers,
            refused,
            names,
            mut files,
            mut variables,
            entries,
            mut unread,
            given,
            lasting,
            changeable,
        } = chosen(loaded, config.chosen_servers.as_deref());
        let is_used = |name: &ServerName| servers.iter().any(|server| server.name == *name);
        config.not_used = names.into_iter().filter(|name| !is_used(name)).collect();
        let of_now = changeable.clone();
        let changeable = changeable.and(&recorded);
        config.mounts.retain(|mount| {
            let replaced = mount.replaced(&of_now, &recorded);
            problems.extend(replaced.clone());
            replaced.is_none()
        });
        let own = environment.config_file().and_then(|own| of_configuration(&changeable, &own));
        problems.extend(own.clone());
        let misplaced = config.place_own(environment, &changeable, &lasting.and(&recorded));
        problems.extend(misplaced.clone());
        config.sandbox_problem = own.or(of_places).or(misplaced).or(config.sandbox_problem);
        let projects = environment.projects();
        let misled = config.model.named.iter().find_map(|file| misled(&changeable, &projects, file));
        let misled = misled.map(|(message, hint)| {
            Problem::new(Origin::Variable("MCP_BRIDGE_MODEL_KEY".to_owned()), message).hint(hint)
        });
        problems.extend(misled.clone());
        let misled = misled.or(unknown_places);
        files.extend(config.model.files.iter().cloned());
        variables.extend(config.model.variables.iter().cloned());
        let emptied = environment.config_file().filter(|file| {
            let has_server = |before: &&PreviousConfig<'_>| {
                before.config.servers.iter().any(|server| server.source == *file)
            };
            let of_it = |before: &&PreviousConfig<'_>| has_server(before) || is_emptied(before);
            toml_file::is_emptied(environment) && before.as_ref().is_some_and(|before| of_it(&before))
        });
        let emptied = emptied.map(|file| {
            Problem::of_file(&file, "is empty, as before it is written anew: its mounts are gone")
                .hint("a comment in it takes the rest back, too")
        });
        unread.extend(unusable.or(emptied).filter(|problem| !unread.contains(problem)));
        let own = |name: &str| {
            let path = environment.variable("PATH").filter(|_| !is_unread);
            own_program(name, path, &changeable)
        };
        (config.engine.podman, config.engine.ssh) = (own("podman"), own("ssh"));
        let has_others = !changeable.are_in(&stores(&config));
        let gives_others = !given.are_in(&stores(&config));
        let of_policy = Changeable { places: changeable, has_others };
        let policy = match before {
            Some(before) => {
                before.config.policy.mistrust(&of_policy);
                before.config.policy.clone()
            }
            None => PolicyFile::open(environment, &limits, profile_setting, of_policy, &mut problems),
        };
        let model = match &misled {
            Some(problem) => config.model.clone().made_unusable(problem),
            None => config.model.clone(),
        };
        (
            Self {
                servers,
                changeable: lasting.and(&recorded).paths(),
                refused,
                policy,
                problems,
                model,
                ..config
            },
            ReloadState {
                files,
                variables,
                entries,
                unread,
                servers_problem,
                changeable: lasting,
                recorded: is_known.then_some(recorded),
                conflicting,
                given,
                gives_others,
                has_others,
            },
        )
    }
}

impl ReadSettings {
    /// Reads all settings. Servers and policy are left empty in the configuration; their tables are returned beside it.
    fn read(
        environment: &Environment,
        limits: &Limits,
        problems: &mut Vec<Problem>,
    ) -> (Self, Vec<TomlFile>) {
        let mut settings = Settings::new(environment, limits, problems);
        let (timeout, timeout_max) = timeouts(&mut settings);
        let mut is_on = |name: &str| settings.required(name, read::switch);
        let self_servers =
            if is_on("MCP_BRIDGE_ALLOW_SELF_SERVER") { SelfServers::Allow } else { SelfServers::Skip };
        let allow_commands =
            if is_on("MCP_BRIDGE_ALLOW_CMD") { AllowCommands::Yes } else { AllowCommands::No };
        let rollback = if is_on("MCP_BRIDGE_ROLLBACK") { Rollback::On } else { Rollback::Off };
        let structured =
            if is_on("MCP_BRIDGE_STRUCTURED") { StructuredContent::On } else { StructuredContent::Off };
        let shared = if is_on("MCP_BRIDGE_SHARED") { Shared::Yes } else { Shared::No };
        let learn_shapes = if is_on("MCP_BRIDGE_LEARN_SHAPES") { LearnShapes::On } else { LearnShapes::Off };
        let prewarm = settings.required("MCP_BRIDGE_PREWARM", |text| read::count(text, PREWARM_MAX));
        let profile = ProfileSetting::profile(&mut settings);
        let idle =
            settings.required("MCP_BRIDGE_RUNTIME_IDLE_TIMEOUT", |text| read::seconds(text, 0, 30 * DAY_S));
        let saved = settings.required("MCP_BRIDGE_STATE_DIR", read::text);
        let saved = environment.resolve(&saved, environment.cwd.as_deref());
        // The usual folder stays the user's, also while the user works on what is in it.
        let is_usual = settings.source("MCP_BRIDGE_STATE_DIR") == Source::Default
            || environment.home.as_ref().is_some_and(|home| home.join("MCPs") == saved);
        let project = environment.project_on_the_way(&saved).filter(|_| !is_usual);
        let in_project = project.map(|project| {
            let message = format!(
                "leads through {}, which is open, and whose files may come from others",
                project.display()
            );
            let problem =
                settings.source("MCP_BRIDGE_STATE_DIR").problem("state.dir", "MCP_BRIDGE_STATE_DIR", message);
            problem.hint("no sandbox is started until it names a folder outside of it")
        });
        let misplaced = environment.base_dirs_in_projects();
        misplaced.iter().cloned().chain(in_project.clone()).for_each(|problem| settings.problem(problem));
        // A named state folder also holds the journals and the cached data of servers. Logins, trust and the audit log
        // stay in the user's own folder.
        let named = Some(&saved)
            .filter(|_| in_project.is_none())
            .filter(|_| settings.source("MCP_BRIDGE_STATE_DIR") != Source::Default);
        let cache_dir = named.map(|dir| dir.join("cache")).or_else(|| environment.cache_dir());
        let journals = named.cloned().or_else(|| environment.state_dir()).map(|dir| dir.join("sessions"));
        let owner = Owner {
            name: None,
            journals,
            remembered: environment.state_dir(),
            cache: cache_dir.clone(),
            saved,
        };
        let owner = match &environment.owner {
            Some(name) => owner.named(name),
            None => owner,
        };
        if environment.home.is_none() {
            let message = "is not set and no home folder is known, so \"~\" leads nowhere";
            settings.problem(Problem::new(Origin::Variable("HOME".to_owned()), message));
        }
        let config = Config {
            engine: engine(&mut settings, environment),
            path: environment.variable("PATH").map(OsString::from),
            image: settings.optional("MCP_BRIDGE_IMAGE", read::text),
            time_zone: environment.time_zone(),
            timeout,
            timeout_max,
            task_after: settings.required("MCP_BRIDGE_TASK_AFTER", |text| read::seconds(text, 1, DAY_S)),
            memory_bytes: settings.required("MCP_BRIDGE_MEMORY", read::size_bytes),
            pids: settings.required("MCP_BRIDGE_PIDS", |text| read::whole(text, 16, 32_768)) as u32,
            cpu_millis: settings.optional("MCP_BRIDGE_CPUS", read::cpu_millis),
            cpu_is_capped: settings.is_of_untrusted_project("MCP_BRIDGE_CPUS"),
            container_user: settings.required("MCP_BRIDGE_CONTAINER_USER", read::container_user),
            allow_weak: settings.optional("MCP_BRIDGE_ALLOW_WEAK", read::posture_fields).unwrap_or_default(),
            extra_syscalls: settings
                .optional("MCP_BRIDGE_EXTRA_SYSCALLS", read::extra_system_calls)
                .unwrap_or_default(),
            trace_denied: false,
            mounts: Vec::new(),
            idle_stop: Some(idle).filter(|idle| !idle.is_zero()),
            lock_dir: environment.lock_dir(),
            workspace: settings.optional("MCP_BRIDGE_WORKSPACE", read::workspace),
            owner,
            cache_dir,
            former_model_dir: environment.data_dir().map(|dir| dir.join("model")),
            private: PrivatePlaces::default(),
            output_mode: settings.required("MCP_BRIDGE_OUTPUT_MODE", read::output_mode),
            log_level: settings.required("MCP_BRIDGE_LOG_LEVEL", read::log_level),
            self_servers,
            sandbox_servers: settings.required("MCP_BRIDGE_SANDBOX_SERVERS", read::sandbox_servers),
            prewarm,
            preload: settings.optional("MCP_BRIDGE_PRELOAD", read::packages).unwrap_or_default(),
            shared,
            rollback,
            checkpoints: settings.required("MCP_BRIDGE_CHECKPOINTS", |text| read::whole(text, 0, 64)) as u8,
            structured,
            learn_shapes,
            images_as_files: settings.required("MCP_BRIDGE_IMAGES_AS_FILES", |text| Ok(read::list(text))),
            chosen_servers: settings.optional("MCP_BRIDGE_SERVERS", |text| {
                // Each server is compared with all of them.
                Ok(read::list(text).into_iter().take(limits.servers_max).collect())
            }),
            settings: Vec::new(),
            sandbox_problem: None,
            unrecorded: None,
            owner_env: OwnerEnv::new(),
            servers: Vec::new(),
            changeable: Vec::new(),
            refused: Vec::new(),
            not_used: Vec::new(),
            allow_commands,
            policy: PolicyFile::fixed(Policy::default()),
            roots: roots(&mut settings, environment),
            sampling: sampling(&mut settings),
            model: ModelSettings::read(&mut settings, environment, limits, allow_commands),
            audit: settings.required("MCP_BRIDGE_AUDIT", read::audit),
            journal: journal(&mut settings, environment.owner.is_some()),
            resume: settings.optional("MCP_BRIDGE_RESUME", str::parse),
            own_state_dir: environment.state_dir(),
            limits: Limits {
                jobs_max: settings.required("MCP_BRIDGE_JOBS", |text| read::whole(text, 0, 16)) as usize,
                job_time: settings.required("MCP_BRIDGE_JOB_TIMEOUT", |text| read::seconds(text, 1, DAY_S)),
                ..limits.clone()
            },
            problems: Vec::new(),
        };
        // Only the servers' loader uses this variable. It is read here so that it is shown with the other settings.
        settings.optional("MCP_SERVERS_CONFIG", read::text);
        let names = settings.source("MCP_BRIDGE_SERVERS");
        let (settings, mut read_failures, tables) = settings.finish();
        // The limits and rules that it has are not known.
        let unknown = misplaced.into_iter().find(|problem| problem.severity == Severity::Error);
        for part in [&mut read_failures.sandbox, &mut read_failures.policy, &mut read_failures.servers] {
            *part = unknown.clone().or(part.take());
        }
        // A profile that cannot be read must not be replaced by a looser one.
        let profile_setting = ProfileSetting::new(profile, &read_failures);
        let private = PrivatePlaces::new(environment.home.clone(), own_places(environment, &config));
        let private = private.with_program(environment.executable.clone());
        let beside = load::places(environment).into_iter().filter(|place| place.is_file());
        // The folder of a file that is named counts too.
        let beside = beside.filter_map(|file| file.parent().map(Path::to_owned));
        let Mounts { folders: mounts, conflicting } =
            mounts(environment, &private.with(beside), &tables, problems);
        let owner_env = owner_env(environment, limits, &private, &tables, problems);
        let model = match &read_failures.model {
            Some(problem) => config.model.clone().made_unusable(problem),
            None => config.model.clone(),
        };
        let config = Config {
            settings,
            mounts,
            owner_env,
            sandbox_problem: read_failures.sandbox.or(in_project),
            model,
            private,
            ..config
        };
        let servers_problem = read_failures.servers;
        (Self { config, names, profile_setting, servers_problem, conflicting }, tables)
    }
}

/// The folders and files that belljar acts on, whether they exist or not: configuration, servers' entries, trust,
/// logins, skills, environments, locks. Symlinks in these folders are listed by themselves, since what they lead to is
/// elsewhere.
fn own_places(environment: &Environment, config: &Config) -> Vec<PathBuf> {
    let kept = [
        policy_file::path(environment),
        environment.config_file(),
        config.cache_dir.clone(),
        config.owner.journals(),
        // The folders of all owners.
        Some(config.owner.saved_of_all()),
        Some(config.lock_dir.clone()),
    ];
    let kept = environment.own_folders().into_iter().chain(kept.into_iter().flatten());
    let places: Vec<PathBuf> = kept.chain(load::places(environment)).collect();
    let links = places.iter().flat_map(|folder| file::links_in(folder));
    places.iter().cloned().chain(links).collect()
}

/// The places of the host that code can change: what it stores, and the folders that are mounted writable.
fn places_of_code(config: &Config) -> impl Iterator<Item = PathBuf> {
    let mounted = config.mounts.iter().filter(|mount| mount.writable).map(|mount| mount.host.clone());
    stores(config).into_iter().chain(mounted)
}

/// The folders in which belljar stores what code writes.
fn stores(config: &Config) -> [PathBuf; 3] {
    [config.owner.workspaces(), config.owner.outbox(), config.owner.skills()]
}

/// The error for which the settings of the user's file are not used. An error in a project's file costs only that
/// file's settings.
fn unusable(environment: &Environment, problems: &[Problem]) -> Option<Problem> {
    let own = environment.config_file()?;
    let is_of_it = |problem: &&Problem| problem.origin == Origin::File(own.clone());
    problems.iter().filter(is_of_it).find(|problem| problem.severity == Severity::Error).cloned()
}

/// Whether the problem concerns a whole file, so that the file's earlier content stays in effect.
fn is_of_whole_file(problem: &Problem) -> bool {
    matches!(problem.origin, Origin::File(_)) && problem.key.is_none()
}

/// Reads the permission for sampling; a value that cannot be read counts as `Off`, as no looser value may replace it.
fn sampling(settings: &mut Settings<'_>) -> Sampling {
    unless_misread(settings, "MCP_BRIDGE_SAMPLING", Sampling::Off, read::sampling)
}

/// Reads the amount to record in journals; a value that cannot be read counts as `Off`, so that nothing is recorded
/// against the user's wish. Sessions over HTTP resume from their journals, so all is recorded of them unless the user chooses.
fn journal(settings: &mut Settings<'_>, is_over_http: bool) -> JournalDetail {
    let variable = "MCP_BRIDGE_JOURNAL";
    let chosen = unless_misread(settings, variable, JournalDetail::Off, read::journal);
    let is_default = settings.source(variable) == Source::Default;
    if is_over_http && is_default { JournalDetail::Full } else { chosen }
}

fn unless_misread<T>(
    settings: &mut Settings<'_>,
    name: &str,
    strictest: T,
    read: fn(&str) -> Result<T, String>,
) -> T {
    let is_misread = Cell::new(false);
    let value = settings.required(name, |text| read(text).inspect_err(|_| is_misread.set(true)));
    if is_misread.get() { strictest } else { value }
}

/// The folders that are offered to servers as roots. Folders that do not exist are reported.
fn roots(settings: &mut Settings<'_>, environment: &Environment) -> Vec<PathBuf> {
    let variable = "MCP_BRIDGE_ROOTS";
    let written = settings.optional(variable, |text| Ok(read::list(text))).unwrap_or_default();
    let source = settings.source(variable);
    let mut roots = Vec::new();
    for folder in written {
        let path = environment.resolve(&folder, environment.cwd.as_deref());
        if path.is_absolute() && path.is_dir() {
            roots.push(path);
        } else {
            let message = format!("names \"{}\", which is no folder", text::inert_excerpt(&folder, 200));
            let hint = "it is not offered to servers; write folders that exist, such as ~/work";
            settings.problem(source.problem("servers.roots", variable, message).hint(hint));
        }
    }
    roots
}

/// Keeps the servers that the operator chose; the others are refused.
pub(super) fn chosen(mut loaded: LoadedServers, names: Option<&[String]>) -> LoadedServers {
    let is_chosen =
        |name: &ServerName| names.is_none_or(|names| names.iter().any(|chosen| chosen == name.as_str()));
    let reason = || "is not used: run.servers, or MCP_BRIDGE_SERVERS, does not name it".to_owned();
    let (wanted, others): (Vec<_>, Vec<_>) =
        loaded.servers.into_iter().partition(|server| is_chosen(&server.name));
    for refused in loaded.refused.iter_mut().filter(|refused| !is_chosen(&refused.name)) {
        refused.reason = reason();
    }
    loaded.refused.extend(others.into_iter().map(|ServerConfig { name, source, position, .. }| {
        RefusedServer { name, source, position, reason: reason() }
    }));
    loaded.refused.sort_by(|one, other| one.name.cmp(&other.name));
    LoadedServers { servers: wanted, ..loaded }
}

/// The chosen names that no server has. They are reported and choose nothing: a misspelt name must not let other
/// servers in.
fn unknown(names: Option<&[String]>, source: &Source, loaded: &LoadedServers) -> Vec<Problem> {
    let refused = || loaded.refused.iter().map(|server| &server.name);
    let known = || loaded.servers.iter().map(|server| &server.name).chain(refused()).map(ServerName::as_str);
    let known_names: BTreeSet<&str> = known().collect();
    let unknown = || names.unwrap_or_default().iter().filter(|name| !known_names.contains(name.as_str()));
    let origin = source.problem("run.servers", "MCP_BRIDGE_SERVERS", "").origin;
    let untold = Problem::untold(origin, unknown().count().saturating_sub(OF_FILE_MAX));
    unknown()
        .take(OF_FILE_MAX)
        .map(|name| {
            let message = format!("names {:?}, which is no configured server", text::inert_excerpt(name, 60));
            let hint = suggest::did_you_mean(name, known());
            source.problem("run.servers", "MCP_BRIDGE_SERVERS", message).hint(hint.unwrap_or_default())
        })
        .chain(untold)
        .collect()
}

/// The engine that the operator asks for, and the places that the environment names.
fn engine(settings: &mut Settings<'_>, environment: &Environment) -> EngineLocations {
    let text = |name: &str| environment.variable(name).and_then(|value| value.to_str()).map(str::to_owned);
    EngineLocations {
        choice: settings.required("MCP_BRIDGE_RUNTIME", read::engine),
        oci_runtime: settings.optional("MCP_BRIDGE_OCI_RUNTIME", read::oci_runtime),
        container_host: text("CONTAINER_HOST"),
        docker_host: text("DOCKER_HOST"),
        runtime_dir: environment.runtime_dir().or_else(|| {
            Some(PathBuf::from(format!("/run/user/{}", environment.uid))).filter(|dir| dir.is_dir())
        }),
        root: environment.uid == 0,
        podman: None,
        ssh: None,
        home: environment.home.clone(),
        environments: environment.data_dir().map(|dir| dir.join("environments")),
        mark: None,
    }
}

/// The default and the longest time of a run; the default is never the longer one.
fn timeouts(settings: &mut Settings<'_>) -> (Duration, Duration) {
    let timeout = settings.required("MCP_BRIDGE_TIMEOUT", |text| read::seconds(text, 1, DAY_S));
    let timeout_max = settings.required("MCP_BRIDGE_MAX_TIMEOUT", |text| read::seconds(text, 1, DAY_S));
    let source = settings.source("MCP_BRIDGE_TIMEOUT");
    if timeout > timeout_max && source != Source::Default {
        let max_s = timeout_max.as_secs();
        let message =
            format!("is {}, more than MCP_BRIDGE_MAX_TIMEOUT allows; using {max_s}", timeout.as_secs());
        settings.problem(source.problem("run.timeout", "MCP_BRIDGE_TIMEOUT", message));
    }
    if timeout > timeout_max {
        settings.bounded_by("MCP_BRIDGE_TIMEOUT", "MCP_BRIDGE_MAX_TIMEOUT");
    }
    (timeout.min(timeout_max), timeout_max)
}

#[cfg(test)]
#[path = "load_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "malformed_tests.rs"]
mod malformed_tests;
