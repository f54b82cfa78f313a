//! The process's surroundings as one value, captured once; nothing else in the crate reads them.
//!
//! It does not interpret them: `load` does.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use belljar_base::problem::{Origin, Problem, Severity};
use belljar_base::resolved_path::ResolvedPath;
use belljar_base::system::System;
use belljar_confine::ChangeablePlaces;
use belljar_guard::PARENT_VARIABLE;

use super::changeable::shown_path;
use super::given_places;

/// Longest name of a time zone, in bytes.
const TIME_ZONE_BYTES_MAX: usize = 64;
/// The system's folders of programs.
const SYSTEM_PATH: [&str; 6] =
    ["/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin"];
/// Variables on which settings, paths and searches for programs depend, besides those of belljar.
const SETTINGS: [&str; 17] = [
    "CONTAINER_HOST",
    "DOCKER_CERT_PATH",
    "DOCKER_HOST",
    "DOCKER_TLS_VERIFY",
    "HOME",
    "KUBECONFIG",
    "KUBERNETES_SERVICE_HOST",
    "KUBERNETES_SERVICE_PORT",
    "LANG",
    "PATH",
    "TMPDIR",
    "TZ",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
    "XDG_STATE_HOME",
];
/// The variables of base directories, and the folders in HOME that count without them.
const BASE_DIRS: [(&str, &str); 4] = [
    ("XDG_CONFIG_HOME", ".config"),
    ("XDG_STATE_HOME", ".local/state"),
    ("XDG_DATA_HOME", ".local/share"),
    ("XDG_CACHE_HOME", ".cache"),
];
/// What is in the top folder of a repository.
const REPOSITORIES: [&str; 5] = [".git", ".hg", ".jj", ".sl", ".svn"];

/// The environment that the bridge was started with.
#[derive(Clone, PartialEq, Eq)]
pub struct Environment {
    /// The environment variables.
    pub variables: BTreeMap<OsString, OsString>,
    /// The user's home folder, where one is known.
    pub home: Option<PathBuf>,
    /// The effective user.
    pub uid: u32,
    /// The working folder, where it still exists.
    pub cwd: Option<PathBuf>,
    /// The running executable, where the system tells.
    pub executable: Option<PathBuf>,
    /// The name of the owner of sessions; `None`: the user.
    pub owner: Option<String>,
}

/// The relation of this bridge to a bridge that started it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nesting {
    /// No other bridge started this one.
    Outermost,
    /// Another bridge started this one, so loading servers could start bridges in a circle.
    Nested,
}

impl Environment {
    /// Captures the environment of this process.
    #[must_use]
    pub fn capture() -> Self {
        Self {
            variables: std::env::vars_os().collect(),
            home: dirs::home_dir(),
            uid: nix::unistd::geteuid().as_raw(),
            cwd: std::env::current_dir().ok().or_else(former_cwd),
            executable: std::env::current_exe().ok(),
            owner: None,
        }
    }

    /// The environment of another process of this user, which has these variables and this working folder.
    #[must_use]
    pub fn of_client(variables: BTreeMap<OsString, OsString>, cwd: Option<PathBuf>) -> Self {
        let home = variables.get(OsStr::new("HOME")).filter(|home| !home.is_empty()).map(PathBuf::from);
        Self { home: home.or_else(dirs::home_dir), variables, cwd, ..Self::capture() }
    }

    /// This environment for another owner of sessions, whose name can name folders, with these variables.
    #[must_use]
    pub fn of_owner(&self, name: &str, variables: impl IntoIterator<Item = (&'static str, String)>) -> Self {
        let mut own = Self { owner: Some(name.to_owned()), ..self.clone() };
        own.variables.extend(variables.into_iter().map(|(name, value)| (name.into(), value.into())));
        own
    }

    /// This environment with an owner's own variables; `None` as a value: the variable is not set.
    #[must_use]
    pub(crate) fn with_owner_env(&self, env: &BTreeMap<String, Option<String>>) -> Self {
        let mut own = self.clone();
        for (name, value) in env {
            match value {
                Some(value) => drop(own.variables.insert(name.into(), value.into())),
                None => drop(own.variables.remove(OsStr::new(name))),
            }
        }
        own
    }

    /// Whether both environments have the same text in each variable that a setting, a path or a search for programs depends on.
    #[must_use]
    pub fn has_settings_of(&self, other: &Self) -> bool {
        let of_settings = |environment: &Self| -> Vec<(OsString, OsString)> {
            let variables = environment.variables.iter().filter(|(name, _)| Self::is_of_settings(name));
            variables.map(|(name, value)| (name.clone(), value.clone())).collect()
        };
        of_settings(self) == of_settings(other)
    }

    /// Whether a setting, a path or a search for programs depends on the variable.
    pub(crate) fn is_of_settings(name: &OsStr) -> bool {
        let bytes = name.as_encoded_bytes();
        bytes.starts_with(b"MCP_") || SETTINGS.iter().any(|of| bytes == of.as_bytes())
    }

    /// The folders of PATH that lead through the opened project, where `npx`, direnv and virtual environments put some, and
    /// PATH without them. Whoever sends the project could put a program of any name there. The project's own entries
    /// can name such a program by its path.
    #[must_use]
    pub fn path_without_projects(&self) -> (Vec<PathBuf>, OsString) {
        let Some(path) = self.variables.get(OsStr::new("PATH")) else { return Default::default() };
        // The programs in the system's folders were installed by the administrator, whichever of them is opened.
        let is_of_system =
            |project: &PathBuf| SYSTEM_PATH.iter().any(|of| Path::new(of).starts_with(project));
        let projects: Vec<PathBuf> =
            self.projects().into_iter().filter(|project| !is_of_system(project)).collect();
        let cwd = self.cwd.as_deref().unwrap_or(Path::new("/"));
        let is_of_project = |folder: &PathBuf| {
            // An empty or relative part of PATH leads into the project, too.
            let way = ResolvedPath::of(&cwd.join(folder));
            let is_cut_off = way.missing == Some(std::io::ErrorKind::InvalidFilename);
            let passes = |project| way.passed.iter().any(|place| place.starts_with(project));
            !projects.is_empty() && is_cut_off || projects.iter().any(passes)
        };
        let (left_out, others): (Vec<PathBuf>, Vec<PathBuf>) =
            std::env::split_paths(path).partition(is_of_project);
        match std::env::join_paths(others) {
            Ok(others) => (left_out.iter().map(|folder| cwd.join(folder)).collect(), others),
            Err(_) => (vec![], path.clone()),
        }
    }

    /// The file of this program, or what stands for it if the file was replaced.
    pub(crate) fn own_file(&self) -> PathBuf {
        self.executable.clone().filter(|file| file.is_file()).unwrap_or_else(this_program)
    }

    /// Starts this program again in this process, with another PATH. Returns only an error.
    #[must_use]
    pub fn again_with_path(&self, path: &OsStr) -> std::io::Error {
        let mut again = Command::new(self.own_file());
        let mut arguments = std::env::args_os();
        if let Some(name) = arguments.next() {
            again.arg0(name);
        }
        again.args(arguments);
        // Without PATH, some programs search the working folder, too.
        let path = if path.is_empty() { OsStr::new("/usr/local/bin:/usr/bin:/bin") } else { path };
        again.env("PATH", path).exec()
    }

    /// A variable's value; a blank one counts as not set.
    #[must_use]
    pub fn variable(&self, name: &str) -> Option<&OsStr> {
        self.variables
            .get(OsStr::new(name))
            .map(OsString::as_os_str)
            .filter(|value| !value.as_encoded_bytes().trim_ascii().is_empty())
    }

    /// The real folders whose files may come from strangers: the one that belljar was started in, since clients start their
    /// servers in the folder that they have open, and each repository that it is in, since a repository can have others
    /// in it. None that is HOME or holds HOME.
    pub(crate) fn projects(&self) -> Vec<PathBuf> {
        // The system gives the real path. It is not resolved again, since whoever sends the project could turn the folder into
        // a symlink meanwhile.
        let Some(folder) = self.cwd.clone() else { return vec![] };
        let home = self.home.as_ref().map(|home| ResolvedPath::of(home).end);
        let is_foreign = |folder: &&Path| home.as_ref().is_none_or(|home| !home.starts_with(folder));
        let mut foreign = folder.ancestors().take_while(is_foreign);
        // Another user's mark makes no repository of a folder that is not that user's.
        let is_trusted = |folder: &Path, mark: &Metadata| {
            let owner = folder.metadata().map_or(self.uid, |about| about.uid());
            [self.uid, 0, owner].contains(&mark.uid())
        };
        let is_repository = |folder: &&Path| {
            let mut marks = REPOSITORIES.iter().filter_map(|name| folder.join(name).symlink_metadata().ok());
            marks.any(|mark| is_trusted(folder, &mark))
        };
        let opened = foreign.next().map(Path::to_owned);
        opened.into_iter().chain(foreign.filter(is_repository).map(Path::to_owned)).collect()
    }

    /// The project that the path of a folder leads through; `None`: it leads through none.
    pub(crate) fn project_on_the_way(&self, folder: &Path) -> Option<PathBuf> {
        let way = ResolvedPath::of(folder);
        let is_passed = |project: &PathBuf| way.passed.iter().any(|place| place.starts_with(project));
        self.projects().into_iter().find(is_passed)
    }

    /// This environment without the base directories that a process could change, and the problem with each.
    pub(crate) fn without_base_dirs_in(&self, places: &ChangeablePlaces) -> (Self, Vec<Problem>) {
        let (mut own, mut problems) = (self.clone(), Vec::new());
        for (name, _) in BASE_DIRS {
            let Some(dir) = self.variable(name).map(PathBuf::from).filter(|dir| dir.is_absolute()) else {
                continue;
            };
            let way = ResolvedPath::of(&dir.join("belljar"));
            let Some((who, place)) = places.changed_in(&way) else { continue };
            let message =
                format!("is not used: it leads through {}, which {who} can change", shown_path(place));
            let problem = Problem::new(Origin::Variable(name.to_owned()), message).severity(Severity::Error);
            problems
                .push(problem.hint(
                    "nothing runs until it names a folder outside of what servers and code can change",
                ));
            own.variables.remove(OsStr::new(name));
        }
        (own, problems)
    }

    /// The project that a file lies in or that leads to it: the one that is open, or a repository.
    pub(crate) fn project_of_file(&self, file: &Path) -> Option<PathBuf> {
        // The file may lie in a repository, and so may each link that leads to it. The first of the projects is the path itself.
        let around = |place: PathBuf| Self { cwd: Some(place), ..self.clone() }.projects().into_iter().nth(1);
        let passed = || ResolvedPath::of(file).passed.into_iter();
        self.project_on_the_way(file).or_else(|| passed().find_map(around))
    }

    /// Problems with base directories that are not used since they lead through the project that is open.
    pub(crate) fn base_dirs_in_projects(&self) -> Vec<Problem> {
        // Without the rules of the first ones nothing may run. The others are made again.
        let names = [
            ("XDG_CONFIG_HOME", ".config", Severity::Error),
            ("XDG_STATE_HOME", ".local/state", Severity::Error),
            ("XDG_DATA_HOME", ".local/share", Severity::Warning),
            ("XDG_CACHE_HOME", ".cache", Severity::Warning),
        ];
        let problem = |(name, usual, severity): (&str, &str, Severity)| {
            let folder = self.variable(name).map(PathBuf::from).filter(|dir| dir.is_absolute())?;
            let end = |folder: &Path| ResolvedPath::of(folder).end;
            let is_usual = self.home.as_ref().is_some_and(|home| end(&home.join(usual)) == end(&folder));
            let project = self.project_on_the_way(&folder).filter(|_| !is_usual)?;
            let message = format!(
                "is not used: it leads through {}, which is open, and whose files may come from others",
                shown_path(&project)
            );
            // Where there is nothing of belljar's, nothing of it is missing.
            let has_some = folder.join("belljar").symlink_metadata().is_ok();
            let severity = if has_some { severity } else { Severity::Warning };
            let problem = Problem::new(Origin::Variable(name.to_owned()), message).severity(severity);
            Some(match severity {
                Severity::Error => problem
                    .hint("nothing runs until it names a folder outside of it, or another folder is open"),
                Severity::Warning | Severity::Note => problem,
            })
        };
        names.into_iter().filter_map(problem).collect()
    }

    /// Whether [`PARENT_VARIABLE`] is set.
    #[must_use]
    pub fn nesting(&self) -> Nesting {
        match self.variable(PARENT_VARIABLE) {
            Some(_) => Nesting::Nested,
            None => Nesting::Outermost,
        }
    }

    /// The user's time zone by its name in the tz database: that of TZ, else that of the machine, else UTC.
    #[must_use]
    pub fn time_zone(&self) -> String {
        let link = std::fs::read_link("/etc/localtime").ok();
        let named = self.variable("TZ").or(link.as_ref().map(|path| path.as_os_str()));
        let named = named.and_then(OsStr::to_str).unwrap_or_default();
        let name = named.rsplit_once("zoneinfo/").map_or(named.trim_start_matches(':'), |(_, name)| name);
        let is_name = name.starts_with(|first: char| first.is_ascii_alphabetic())
            && name.len() <= TIME_ZONE_BYTES_MAX
            && name.chars().all(|character| character.is_ascii_alphanumeric() || "/_+-".contains(character));
        if is_name { name } else { "UTC" }.to_owned()
    }

    /// A folder for locks: in XDG_RUNTIME_DIR, else one of this user's own among the temporary files, or in the state
    /// folder if another user has taken that one's name, or could.
    pub(crate) fn lock_dir(&self) -> PathBuf {
        if let Some(dir) = self.runtime_dir() {
            return dir.join("belljar");
        }
        let usual = self.temporary_dir().join(format!("belljar-{}", self.uid));
        let is_ours = |found: Metadata| self.is_own_folder(&found);
        let is_taken = usual.symlink_metadata().is_ok_and(|found| !is_ours(found))
            || ResolvedPath::of(&usual).chosen_by_others(self.uid).is_some();
        self.state_dir().filter(|_| is_taken).map_or(usual, |state| state.join("locks"))
    }

    /// The folder of temporary files: TMPDIR unless it is in the project that is open, else /tmp.
    pub(crate) fn temporary_dir(&self) -> PathBuf {
        let named = self.variable("TMPDIR").map(PathBuf::from).filter(|dir| dir.is_absolute());
        named.filter(|dir| self.project_on_the_way(dir).is_none()).unwrap_or_else(|| "/tmp".into())
    }

    /// The folder of the user's sockets, XDG_RUNTIME_DIR. Where another user could put something into it, it is not used, as the
    /// base directory specification wants, and neither is one in the project that is open.
    pub(crate) fn runtime_dir(&self) -> Option<PathBuf> {
        let dir = self.variable("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|dir| dir.is_absolute())?;
        let is_ours = dir.metadata().map_or(true, |found| self.is_own_folder(&found));
        let is_safe = is_ours
            && self.project_on_the_way(&dir).is_none()
            && ResolvedPath::of(&dir).chosen_by_others(self.uid).is_none();
        is_safe.then_some(dir)
    }

    /// Whether this is a folder of the user alone.
    fn is_own_folder(&self, found: &Metadata) -> bool {
        found.is_dir() && found.uid() == self.uid && found.mode() & 0o022 == 0
    }

    /// The folder for files that can be generated again: in XDG_CACHE_HOME, else in the system's folder for caches of
    /// the user.
    pub(crate) fn cache_dir(&self) -> Option<PathBuf> {
        self.base_dir("XDG_CACHE_HOME", System::HERE.caches()).map(|dir| dir.join("belljar"))
    }

    /// The folder for what the user has installed: in XDG_DATA_HOME, else in the system's folder for data of the user.
    pub(crate) fn data_dir(&self) -> Option<PathBuf> {
        self.base_dir("XDG_DATA_HOME", System::HERE.data()).map(|dir| dir.join("belljar"))
    }

    /// The folder of programs' configuration: XDG_CONFIG_HOME, else `~/.config`, on every system.
    #[must_use]
    pub fn config_home(&self) -> Option<PathBuf> {
        self.base_dir("XDG_CONFIG_HOME", ".config")
    }

    /// The user's own config.toml.
    pub(crate) fn config_file(&self) -> Option<PathBuf> {
        self.config_home().map(|dir| dir.join("belljar/config.toml"))
    }

    /// The folder for belljar's own state: in XDG_STATE_HOME, else in `~/.local/state`.
    pub(crate) fn state_dir(&self) -> Option<PathBuf> {
        self.base_dir("XDG_STATE_HOME", ".local/state").map(|dir| dir.join("belljar"))
    }

    /// The folder of what all belljars of this user share, whatever their other variables are.
    pub(crate) fn common_dir(&self) -> Option<PathBuf> {
        self.home.as_ref().map(|home| home.join(".local/state/belljar"))
    }

    /// The folders in which belljar stores something, wherever the settings have the rest.
    pub(crate) fn stored(&self) -> Vec<PathBuf> {
        let environments = self.data_dir().map(|dir| dir.join("environments"));
        let dirs = [self.state_dir(), self.common_dir(), self.cache_dir(), self.data_dir(), environments];
        dirs.into_iter().flatten().chain([self.lock_dir()]).collect()
    }

    /// The places that servers and code were given so far, each with a description of the process.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn given_places(&self) -> Result<Vec<(String, PathBuf)>, Box<Problem>> {
        self.common_dir().map_or_else(|| Ok(Vec::new()), |dir| given_places::read(&dir))
    }

    /// All folders in which a belljar of this user may have its settings, state, data and cache: those that this environment
    /// names, used or not, and the usual ones, which a belljar with another environment has.
    pub(crate) fn own_folders(&self) -> Vec<PathBuf> {
        let named =
            |variable: &str| self.variable(variable).map(PathBuf::from).filter(|dir| dir.is_absolute());
        let both = BASE_DIRS
            .into_iter()
            .flat_map(|(variable, usual)| [named(variable), self.home.as_ref().map(|home| home.join(usual))]);
        // Locks, with sockets of engines beside them.
        let of_sessions = [
            self.variable("XDG_RUNTIME_DIR").map(PathBuf::from),
            Some(PathBuf::from(format!("/run/user/{}", self.uid))),
        ];
        let folders = both.chain(of_sessions).flatten().map(|dir| dir.join("belljar"));
        let temporary =
            [self.variable("TMPDIR").map(PathBuf::from), Some("/tmp".into()), Some(std::env::temp_dir())];
        let temporary = temporary.into_iter().flatten().map(|dir| dir.join(format!("belljar-{}", self.uid)));
        let own = [self.cache_dir(), self.data_dir()].into_iter().flatten();
        folders.chain(temporary).chain(own).collect()
    }

    /// The base directory that a variable names. Relative paths are ignored, as the base directory specification
    /// requires, and paths that lead through the project that is open, whose files may come from others.
    fn base_dir(&self, variable: &str, usual: &str) -> Option<PathBuf> {
        let given = self.variable(variable).map(PathBuf::from).filter(|dir| dir.is_absolute());
        given
            .filter(|dir| self.project_on_the_way(dir).is_none())
            .or_else(|| self.home.as_ref().map(|home| home.join(usual)))
    }

    /// A path with a leading `~` replaced by the home folder, and taken from `base` when relative.
    pub(crate) fn resolve(&self, path: &str, base: Option<&Path>) -> PathBuf {
        let expanded = self.expand_home(path);
        match base {
            Some(base) => base.join(expanded),
            None => expanded,
        }
    }

    /// A path with a leading `~` replaced by the home folder.
    pub(crate) fn expand_home(&self, path: &str) -> PathBuf {
        match (&self.home, path.strip_prefix('~')) {
            (Some(home), Some("")) => home.clone(),
            (Some(home), Some(rest)) if rest.starts_with('/') => home.join(rest.trim_start_matches('/')),
            _ => PathBuf::from(path),
        }
    }
}

/// The path of a working folder that was removed. It counts as the opened project still.
fn former_cwd() -> Option<PathBuf> {
    let path = std::fs::read_link("/proc/self/cwd").ok()?;
    let path = path.as_os_str().as_bytes().strip_suffix(b" (deleted)")?;
    Some(PathBuf::from(OsStr::from_bytes(path)))
}

impl fmt::Debug for Environment {
    /// Names the variables without their values, which may be secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Environment")
            .field("variables", &self.variables.keys())
            .field("home", &self.home)
            .field("uid", &self.uid)
            .field("cwd", &self.cwd)
            .field("executable", &self.executable)
            .field("owner", &self.owner)
            .finish()
    }
}

/// A path of this program, to start it again. On Linux it works even if the file was replaced since its start.
pub fn this_program() -> PathBuf {
    let here = match System::HERE {
        System::Linux => None,
        System::MacOs => std::env::current_exe().ok(),
    };
    here.unwrap_or_else(|| "/proc/self/exe".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(variables: &[(&str, &str)]) -> Environment {
        Environment {
            variables: variables.iter().map(|(name, value)| (name.into(), value.into())).collect(),
            home: Some("/home/ada".into()),
            uid: 1000,
            cwd: Some("/work".into()),
            executable: None,
            owner: None,
        }
    }

    #[test]
    fn the_parents_mark_makes_a_bridge_nested() {
        assert_eq!(environment(&[]).nesting(), Nesting::Outermost);
        assert_eq!(environment(&[(PARENT_VARIABLE, "1")]).nesting(), Nesting::Nested);
    }

    #[test]
    fn debug_shows_no_value() {
        let shown = format!("{:?}", environment(&[("TOKEN", "s3cret")]));
        assert_eq!(
            shown,
            r#"Environment { variables: ["TOKEN"], home: Some("/home/ada"), uid: 1000, cwd: Some("/work"), executable: None, owner: None }"#
        );
    }

    #[test]
    fn the_cache_is_where_the_user_says_or_in_the_home() {
        let of = |variables: &[(&str, &str)]| environment(variables).cache_dir();
        assert_eq!(of(&[("XDG_CACHE_HOME", "/var/c")]), Some("/var/c/belljar".into()));
        let usual = Path::new("/home/ada").join(System::HERE.caches()).join("belljar");
        assert_eq!((of(&[]), of(&[("XDG_CACHE_HOME", "c")])), (Some(usual.clone()), Some(usual)));
        assert_eq!(Environment { home: None, ..environment(&[]) }.cache_dir(), None);
        let data = |variables: &[(&str, &str)]| environment(variables).data_dir();
        assert_eq!(data(&[("XDG_DATA_HOME", "/var/d")]), Some("/var/d/belljar".into()));
        assert!(data(&[]).unwrap().starts_with("/home/ada"));
    }

    #[test]
    fn locks_are_in_the_state_folder_if_another_user_has_taken_their_usual_place() {
        let temporary = tempfile::tempdir().unwrap();
        let uid = nix::unistd::geteuid().as_raw();
        let environment = environment(&[("TMPDIR", temporary.path().to_str().unwrap())]);
        let (ours, other) =
            (Environment { uid, ..environment.clone() }, Environment { uid: uid + 1, ..environment });
        let usual = |environment: &Environment| temporary.path().join(format!("belljar-{}", environment.uid));
        let state = Path::new("/home/ada/.local/state/belljar/locks");
        for environment in [&ours, &other] {
            assert_eq!(environment.lock_dir(), usual(environment));
            std::fs::create_dir(usual(environment)).unwrap();
        }
        assert_eq!((ours.lock_dir(), other.lock_dir()), (usual(&ours), state.into()));
        std::fs::remove_dir(usual(&ours)).unwrap();
        std::os::unix::fs::symlink(temporary.path(), usual(&ours)).unwrap();
        assert_eq!(ours.lock_dir(), state);
        assert_eq!(Environment { home: None, ..ours.clone() }.lock_dir(), usual(&ours));
    }

    #[test]
    fn a_folder_of_sockets_that_others_can_fill_is_not_used() {
        use std::os::unix::fs::PermissionsExt;
        let place = tempfile::tempdir().unwrap();
        let uid = nix::unistd::geteuid().as_raw();
        for (mode, above, is_used) in
            [(0o700, 0o755, true), (0o755, 0o755, true), (0o777, 0o755, false), (0o700, 0o777, false)]
        {
            let dir = place.path().join("above/run");
            std::fs::create_dir_all(&dir).unwrap();
            for (folder, mode) in [(dir.as_path(), mode), (dir.parent().unwrap(), above)] {
                std::fs::set_permissions(folder, PermissionsExt::from_mode(mode)).unwrap();
            }
            let named =
                [("XDG_RUNTIME_DIR", dir.to_str().unwrap()), ("TMPDIR", place.path().to_str().unwrap())];
            let environment = Environment { uid, ..environment(&named) };
            assert_eq!(environment.runtime_dir().is_some(), is_used, "{mode:o} in {above:o}");
            let locks =
                if is_used { dir.join("belljar") } else { place.path().join(format!("belljar-{uid}")) };
            assert_eq!(environment.lock_dir(), locks, "{mode:o} in {above:o}");
            // Another user's folder, whatever its mode is.
            assert_eq!(Environment { uid: uid + 1, ..environment }.runtime_dir(), None);
        }
        let relative = environment(&[("XDG_RUNTIME_DIR", "run")]);
        assert_eq!(relative.runtime_dir(), None);
    }

    #[test]
    fn only_ones_own_home_is_expanded() {
        let environment = environment(&[]);
        assert_eq!(environment.resolve("~/MCPs", None), Path::new("/home/ada/MCPs"));
        assert_eq!(environment.resolve("~eve/x", None), Path::new("~eve/x"));
        assert_eq!(environment.resolve("x", Some(Path::new("/base"))), Path::new("/base/x"));
    }

    #[test]
    fn folders_of_path_in_the_opened_project_are_left_out() {
        let home = tempfile::tempdir().unwrap();
        let real = home.path().canonicalize().unwrap();
        for folder in ["clone/node_modules/.bin", "own/bin"] {
            std::fs::create_dir_all(real.join(folder)).unwrap();
        }
        let link = |target: &str, name: &str| std::os::unix::fs::symlink(target, real.join(name)).unwrap();
        link("clone", "link");
        link("../own/bin", "clone/away");
        link(&("d/../".repeat(600) + "../own"), "clone/long");
        let path = format!(
            "{0}/clone/node_modules/.bin:{0}/link/bin::bin:{0}/clone/away:{0}/clone/long:{0}/own/bin:/usr/bin",
            real.display()
        );
        for (cwd, expected) in [("clone", format!("{}/own/bin:/usr/bin", real.display())), ("", path.clone())]
        {
            let environment = Environment {
                variables: BTreeMap::from([("PATH".into(), path.clone().into())]),
                home: Some(real.clone()),
                cwd: Some(real.join(cwd)),
                ..Environment::capture()
            };
            let (left_out, others) = environment.path_without_projects();
            assert_eq!(
                (left_out.len(), others.to_str()),
                (
                    path.split(':').count() - others.to_str().unwrap().split(':').count(),
                    Some(expected.as_str())
                ),
                "{cwd}"
            );
        }
        // A project below a folder of the system counts, and the folder itself does not.
        for (cwd, expected) in [
            ("/usr", "/usr/bin:/usr/local/bin"),
            ("/usr/local", "/usr/bin:/usr/local/bin"),
            ("/usr/share", "/usr/bin:/usr/local/bin"),
        ] {
            let variables = BTreeMap::from([("PATH".into(), "/usr/bin:/usr/share/x:/usr/local/bin".into())]);
            let environment = Environment {
                variables,
                home: Some(real.clone()),
                cwd: Some(cwd.into()),
                ..Environment::capture()
            };
            let kept = environment.path_without_projects().1;
            assert_eq!(kept.to_str().unwrap().replace(":/usr/share/x", ""), expected, "{cwd}");
            assert_eq!(kept.to_str().unwrap().contains("share"), cwd != "/usr/share", "{cwd}");
        }
    }

    #[test]
    fn the_opened_folder_and_its_repositories_are_not_the_users_own() {
        let home = tempfile::tempdir().unwrap();
        let real = home.path().canonicalize().unwrap();
        let at = |path: &str| real.join(path);
        for folder in ["code/.git", "code/clone/sub", "code/own/.git", "plain"] {
            std::fs::create_dir_all(at(folder)).unwrap();
        }
        let projects = |cwd: &str| {
            let cwd = Some(real.join(cwd));
            let environment = Environment { home: Some(real.clone()), cwd, ..Environment::capture() };
            environment.projects()
        };
        assert_eq!(projects("code/clone/sub"), [at("code/clone/sub"), at("code")]);
        // It stays the project that it was if a symlink takes its place.
        std::fs::rename(at("code/clone"), at("code/other")).unwrap();
        std::os::unix::fs::symlink(&real, at("code/clone")).unwrap();
        assert_eq!(projects("code/clone/sub"), [at("code/clone/sub"), at("code")]);
        assert_eq!(projects("code/own"), [at("code/own"), at("code")]);
        assert_eq!(projects("plain"), [at("plain")]);
        assert!(projects("").is_empty() && projects(real.parent().unwrap().to_str().unwrap()).is_empty());
    }
}
