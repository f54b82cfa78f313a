//! `Config`: every setting and server that is sound, beside every problem of those that are not; and the places of this machine
//! that belljar acts on or stores something in.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use belljar_base::limits::Limits;
use belljar_base::names::{ServerName, WorkspaceName};
use belljar_base::own_file;
use belljar_base::problem::Problem;
use belljar_base::resolved_path::ResolvedPath;
use belljar_base::run::OutputMode;
use belljar_confine::{ChangeablePlaces, PrivatePlaces};
use belljar_engine::{EngineLocations, User};
use belljar_protocol::{ExtraSystemCall, PostureField};
use tracing::level_filters::LevelFilter;

use super::owner::Owner;
use super::read::changeable::of_configuration;
use super::read::environment::Environment;
use super::read::file;
use super::servers::load;
use super::servers::server::{RefusedServer, ServerConfig};
use super::servers::transport::{Launch, Transport};
use super::settings::choices::{
    AllowCommands, Audit, LearnShapes, Rollback, Sampling, SandboxServers, SelfServers, Shared,
    StructuredContent,
};
use super::settings::model::ModelSettings;
use super::settings::mounts::MountedFolder;
use super::settings::owner_env::OwnerEnv;
use super::settings::policy_file::{self, PolicyFile};
use super::settings::resolve::{Setting, Source};
use super::settings::resume::ResumeFrom;
use crate::journal::JournalDetail;

/// The configuration of this process.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// The requested engine, and where engines are searched; without a mark.
    pub engine: EngineLocations,
    /// The user's home folder.
    pub home: Option<PathBuf>,
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

impl Config {
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
    pub(super) fn has_settings_of(&self, file: Option<PathBuf>) -> bool {
        let is_of_it = |setting: &Setting| match &setting.source {
            Source::File { path, .. } => Some(path) == file.as_ref(),
            Source::Default | Source::Variable(_) => false,
        };
        self.settings.iter().any(is_of_it)
    }

    /// Puts locks and sockets into the state folder if a confined server or code could change their usual place, and looks for no
    /// engine where one of these could listen or lead elsewhere. Returns the problem if such a process could change what belljar stores: in a place that it was given.
    pub(super) fn place_own(
        &mut self,
        environment: &Environment,
        changeable: &ChangeablePlaces,
        given: &ChangeablePlaces,
    ) -> Option<Problem> {
        self.engine.runtime_dir.take_if(|dir| of_configuration(changeable, dir).is_some());
        self.engine.desktops.retain(|socket| {
            let way = ResolvedPath::of(&socket.path);
            of_configuration(changeable, &socket.path).is_none()
                && way.chosen_by_others(environment.uid).is_none()
        });
        if of_configuration(changeable, &self.lock_dir).is_some()
            && let Some(state) = environment.state_dir()
        {
            self.lock_dir = state.join("locks");
        }
        // Code may change what it stores itself. Who can change the certificates of engines chooses the engine.
        let stored =
            self.own_stores().chain([self.owner.saved_of_all()]).chain(self.engine.certificates.clone());
        let of_server = stored.into_iter().find_map(|dir| of_configuration(given, &dir));
        of_server.or_else(|| check_folders(&self.stored(), self.home.as_deref()))
    }

    /// The folders in which belljar itself stores something.
    fn own_stores(&self) -> impl Iterator<Item = PathBuf> {
        let environments = self.engine.environments.clone();
        let dirs = [self.own_state_dir.clone(), self.cache_dir.clone(), environments, self.owner.journals()];
        dirs.into_iter().flatten().chain([self.lock_dir.clone()])
    }

    /// All folders in which something is stored for this configuration.
    #[must_use]
    pub fn stored(&self) -> Vec<PathBuf> {
        self.own_stores().chain(stores(self)).collect()
    }
}

/// Makes those of these folders of belljar's that another user could make before it does. `home` is the user's home.
///
/// # Errors
/// Another user has made or can replace one, or has made a symlink in one: then nothing there is this user's to read, to use or
/// to remove.
pub fn claim_folders(folders: &[PathBuf], home: Option<&Path>) -> Result<(), Box<Problem>> {
    folders.iter().for_each(|dir| own_file::claim_folder(dir));
    check_folders(folders, home).map_or(Ok(()), |problem| Err(Box::new(problem)))
}

fn check_folders(folders: &[PathBuf], home: Option<&Path>) -> Option<Problem> {
    folders.iter().find_map(|dir| Some(planted(dir, &own_file::check_folder(dir, home).err()?)))
}

fn planted(dir: &Path, error: &io::Error) -> Problem {
    Problem::of_file(dir, format!("is not used: {error}"))
        .hint("belljar stores things there: remove what is not yours, or name a folder of your own")
}

/// The folders and files that belljar acts on, whether they exist or not: configuration, servers' entries, trust,
/// logins, skills, environments, locks. Symlinks in these folders are listed by themselves, since what they lead to is
/// elsewhere.
pub(super) fn own_places(environment: &Environment, config: &Config) -> Vec<PathBuf> {
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
pub(super) fn places_of_code(config: &Config) -> impl Iterator<Item = PathBuf> {
    let mounted = config.mounts.iter().filter(|mount| mount.writable).map(|mount| mount.host.clone());
    stores(config).into_iter().chain(mounted)
}

/// The folders in which belljar stores what code writes.
pub(super) fn stores(config: &Config) -> [PathBuf; 3] {
    [config.owner.workspaces(), config.owner.outbox(), config.owner.skills()]
}
