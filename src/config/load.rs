//! Reads `Config` from the environment and the files of configuration.
//!
//! Loading never fails, starts nothing and writes nothing.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use belljar_base::limits::Limits;
use belljar_base::names::ServerName;
use belljar_base::problem::{OF_FILE_MAX, Origin, Problem, Severity};
use belljar_base::system::System;
use belljar_base::text::{self, suggest};
use belljar_confine::{ChangeablePlaces, PrivatePlaces};
use belljar_engine::{Choice, EngineLocations};
use belljar_tools::policy::Policy;

use super::configuration::{Config, own_places, places_of_code, stores};
use super::owner::Owner;
use super::read::changeable::{misled, of_configuration, own_program};
use super::read::environment::Environment;
use super::read::file::WatchedFile;
use super::servers::load::{self, EntriesByFile, EntryRules, LoadedServers};
use super::servers::server::{RefusedServer, ServerConfig};
use super::settings::choices::{
    AllowCommands, LearnShapes, Rollback, Sampling, SelfServers, Shared, StructuredContent,
};
use super::settings::model::ModelSettings;
use super::settings::mounts::{Mounts, mounts};
use super::settings::owner_env::{OwnerEnv, owner_env};
use super::settings::policy_file::{Changeable, PolicyFile};
use super::settings::policy_profile::ProfileSetting;
use super::settings::resolve::{Settings, Source};
use super::settings::toml_file::{self, TomlFile};
use super::settings::values as read;
use crate::journal::JournalDetail;

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
            home: environment.home.clone(),
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
                reconnection: settings
                    .required("MCP_BRIDGE_RECONNECT_TIMEOUT", |text| read::seconds(text, 1, 3600)),
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
    // The variables of Docker's own client.
    let of_docker = || {
        // The working folder may be that of a project, which must not choose an engine.
        let home = environment.home.clone().unwrap_or_else(|| "/".into());
        let folder = text("DOCKER_CERT_PATH").map(|folder| home.join(folder));
        let folder = folder.or_else(|| Some(home.join(".docker")));
        folder.filter(|_| text("DOCKER_TLS_VERIFY").is_some_and(|value| !value.is_empty()))
    };
    let certificates = settings.optional("MCP_BRIDGE_CERTIFICATES", read::whole_path);
    let certificates = certificates.map(|folder| environment.expand_home(&folder));
    let choice = settings.required("MCP_BRIDGE_RUNTIME", read::engine);
    let oci_runtime = settings.optional("MCP_BRIDGE_OCI_RUNTIME", read::oci_runtime);
    let kubernetes = settings.optional("MCP_BRIDGE_KUBERNETES", read::kubernetes).unwrap_or_default();
    // The cluster has its own names for runtimes.
    let of_cluster = kubernetes.runtime_class.clone().filter(|_| choice == Choice::Kubernetes);
    EngineLocations {
        certificates: certificates.or_else(of_docker),
        choice,
        oci_runtime: of_cluster.or(oci_runtime),
        kubernetes,
        container_host: text("CONTAINER_HOST"),
        docker_host: text("DOCKER_HOST"),
        runtime_dir: environment.runtime_dir().or_else(|| {
            Some(PathBuf::from(format!("/run/user/{}", environment.uid))).filter(|dir| dir.is_dir())
        }),
        root: environment.uid == 0,
        podman: None,
        ssh: None,
        desktops: System::HERE
            .desktop_sockets(environment.home.as_deref(), Some(&environment.temporary_dir())),
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
