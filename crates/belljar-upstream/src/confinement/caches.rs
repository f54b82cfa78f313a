//! Programs that start servers from stored packages, and the folders of these packages.

use std::path::{Path, PathBuf};

use belljar_confine::{Access, Network};

use super::runner_arguments::{RunnerArguments, SUBCOMMANDS};
use super::surroundings::Surroundings;

/// A program that starts a package's program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Runner {
    Npm,
    Uv,
    Pipx,
    Bun,
    Deno,
    Pnpm,
    Yarn,
    /// A container engine, which needs its socket.
    Containers,
}

/// Options of uv that name a file.
const UV_FILES: [&str; 12] = [
    "-c",
    "--constraint",
    "--constraints",
    "--override",
    "--overrides",
    "-b",
    "--build-constraint",
    "--build-constraints",
    "--with-requirements",
    "--env-file",
    "--config-file",
    "--from",
];

impl Runner {
    /// The runner with this program name.
    pub(super) fn of(name: &str) -> Option<Self> {
        Some(match name {
            "npx" | "npm" => Self::Npm,
            "uvx" | "uv" => Self::Uv,
            "pipx" => Self::Pipx,
            "bunx" | "bun" => Self::Bun,
            "deno" => Self::Deno,
            "pnpm" | "pnpx" => Self::Pnpm,
            "yarn" => Self::Yarn,
            "docker" | "podman" | "nerdctl" => Self::Containers,
            _ => return None,
        })
    }

    /// Splits the arguments into those of the runner and those of the command that it runs. `name` is the name of the
    /// runner's program.
    pub(super) fn arguments<'a>(self, name: &str, args: &'a [String]) -> RunnerArguments<'a> {
        let known = if ["npx", "uvx", "bunx", "pnpx"].contains(&name) { &[][..] } else { &SUBCOMMANDS };
        RunnerArguments::of(args, known, self.file_options())
    }

    /// Whether its subcommand `run` or `start` runs what the project in its working folder defines.
    fn is_of_projects(self) -> bool {
        matches!(self, Self::Uv | Self::Npm | Self::Pnpm | Self::Yarn | Self::Bun | Self::Deno)
    }

    fn file_options(self) -> &'static [&'static str] {
        if self == Self::Uv { &UV_FILES } else { &[] }
    }

    /// Variables that make it use stored packages if it has no network, and keep it from looking for updates.
    pub(super) fn variables(self, network: Network) -> Vec<(String, String)> {
        let offline = match self {
            Self::Npm | Self::Pnpm => Some(("npm_config_offline", "true")),
            Self::Uv => Some(("UV_OFFLINE", "1")),
            _ => None,
        };
        let offline = offline.filter(|_| network == Network::None);
        let quiet = (self == Self::Npm).then_some(("npm_config_update_notifier", "false"));
        offline.into_iter().chain(quiet).map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }
}

/// The last parts of the paths of folders in which version managers and similar programs install other programs. If a
/// server's program is in such a folder, the server sees the whole folder.
pub(super) const INSTALLERS: [&str; 19] = [
    ".nvm",
    ".fnm",
    ".local/share/fnm",
    ".volta",
    ".asdf",
    ".local/share/mise",
    ".pyenv",
    ".rbenv",
    ".rye/py",
    ".rye/tools",
    ".rye/self",
    ".pixi",
    ".bun",
    ".deno",
    ".sdkman",
    ".local/share/uv/python",
    ".local/share/uv/tools",
    ".local/share/pipx",
    ".local/pipx",
];
/// The folder in which some systems store all packages, beside `/usr`.
const SYSTEM_STORE: &str = "/nix/store";

/// Folders that contain installed programs only. Files of packages may refer to paths in them.
pub(super) fn stores(at: &Surroundings<'_>) -> Vec<PathBuf> {
    let installers = INSTALLERS.iter().map(|name| at.home.join(name));
    let runners =
        [Runner::Npm, Runner::Uv, Runner::Pipx, Runner::Bun, Runner::Deno, Runner::Pnpm, Runner::Yarn];
    let stored = runners.into_iter().flat_map(|runner| stored(runner, at));
    installers.chain(stored).chain([SYSTEM_STORE.into()]).collect()
}

/// The folders in which a runner stores packages. No word of the entry names them.
pub(super) fn stored(runner: Runner, at: &Surroundings<'_>) -> Vec<PathBuf> {
    let in_home = |places: &[&str]| places.iter().map(|place| at.home.join(place)).collect();
    match runner {
        Runner::Npm => {
            let cache = of_variables(at, &["npm_config_cache", "NPM_CONFIG_CACHE"], ".npm");
            cache.iter().flat_map(|cache| [cache.join("_npx"), cache.join("_cacache")]).collect()
        }
        Runner::Uv => [
            of_variables(at, &["UV_CACHE_DIR"], below(at, "XDG_CACHE_HOME", ".cache", "uv")),
            of_variables(at, &["UV_TOOL_DIR"], below(at, "XDG_DATA_HOME", ".local/share", "uv/tools")),
            of_variables(
                at,
                &["UV_PYTHON_INSTALL_DIR"],
                below(at, "XDG_DATA_HOME", ".local/share", "uv/python"),
            ),
        ]
        .into_iter()
        .flatten()
        .collect(),
        Runner::Pipx => in_home(&[".local/share/pipx", ".local/pipx", ".cache/pipx"]),
        Runner::Bun => in_home(&[".bun"]),
        Runner::Deno => of_variables(at, &["DENO_DIR"], below(at, "XDG_CACHE_HOME", ".cache", "deno"))
            .into_iter()
            .collect(),
        Runner::Pnpm => in_home(&[".local/share/pnpm", ".cache/pnpm"]),
        Runner::Yarn => in_home(&[".yarn", ".cache/yarn"]),
        Runner::Containers => vec![],
    }
}

/// The project folders and files that a runner's arguments name. The packages of the working folder are included if one of
/// them has the command.
pub(super) fn named(
    runner: Runner,
    args: &RunnerArguments<'_>,
    at: &Surroundings<'_>,
) -> Vec<(PathBuf, Access)> {
    let is_own = || {
        let command = args.command.first().filter(|name| !name.contains('/') && !name.starts_with('.'));
        let modules = at.in_folder("node_modules");
        let program = modules.zip(command).map(|(modules, name)| modules.join(".bin").join(name));
        program.is_some_and(|program| at.exists(&program))
    };
    let own: &[&str] = match runner {
        Runner::Npm | Runner::Pnpm if is_own() => &["node_modules", "package.json"],
        _ => &[],
    };
    let own = own.iter().filter_map(|name| at.in_folder(name));
    let all = own.chain(projects(runner, args, at));
    let files = files(runner, args, at).into_iter().map(|path| (path, Access::Execute));
    all.map(|path| (path, Access::Layer)).chain(files).collect()
}

/// Files that the runner's own options name.
fn files(runner: Runner, args: &RunnerArguments<'_>, at: &Surroundings<'_>) -> Vec<PathBuf> {
    let named = args.options.iter().filter(|(name, _)| runner.file_options().contains(name));
    let values = named.filter_map(|(_, value)| *value);
    values.filter_map(|value| at.argument(value)).filter(|path| at.leads_to_file(path)).collect()
}

/// Folders of projects: those that the runner's options name, or else the one that contains the working folder, if the
/// runner runs a project.
fn projects(runner: Runner, args: &RunnerArguments<'_>, at: &Surroundings<'_>) -> Vec<PathBuf> {
    let names: &[&str] = match runner {
        Runner::Uv => &["--directory", "--project", "--from", "--with-editable", "--with"],
        Runner::Npm => &["--prefix", "-C"],
        Runner::Pnpm => &["--dir", "-C"],
        _ => &[],
    };
    let mut found = Vec::new();
    let mut names_folder = false;
    for (name, value) in &args.options {
        let Some(value) = value.filter(|_| names.contains(name)) else { continue };
        // `--with` and `--from` name packages too. Words decide, not which folders exist: whoever can remove a named folder
        // does not choose the project of the working folder.
        names_folder |=
            !["--with", "--from"].contains(name) || value.starts_with(['.', '~']) || value.contains('/');
        found.extend(at.argument(value).filter(|path| at.leads_to_folder(path)));
    }
    let runs_project = !names_folder && runner.is_of_projects() && args.runs_project();
    if runs_project {
        let marks = ["pyproject.toml", "package.json"];
        let is_mark = |folder: &Path, mark| at.has_mark(folder, mark) && at.leads_to_file(&folder.join(mark));
        let is_project = |folder: &&Path| marks.iter().any(|mark| is_mark(folder, mark));
        let root = at.folder.into_iter().flat_map(|folder| at.folders_from(folder)).find(is_project);
        found.extend(root.map(Path::to_path_buf));
    }
    found
}

/// The folder that the first of these variables names, else the usual one in HOME. A variable of the entry counts only
/// if its folder looks like a store: an entry can come from a project, and could name any folder of the user. The user's
/// own store does not take its place, since a server could empty its store to see that one.
fn of_variables(at: &Surroundings<'_>, names: &[&str], otherwise: impl AsRef<Path>) -> Option<PathBuf> {
    let absolute = |value: &str| Some(PathBuf::from(value)).filter(|path| path.is_absolute());
    let of_user = names.iter().find_map(|name| at.inherited(name)).and_then(absolute);
    let of_entry = names.iter().find_map(|name| at.variable(name)).and_then(absolute);
    if of_entry != of_user {
        return of_entry.filter(|path| is_store(path, at));
    }
    Some(of_user.unwrap_or_else(|| at.home.join(otherwise)))
}

/// Whether a folder has what uv, npm or Deno put into theirs.
fn is_store(folder: &Path, at: &Surroundings<'_>) -> bool {
    let has = |name: &str| at.exists(&folder.join(name));
    has("CACHEDIR.TAG") || has(".lock") && has(".gitignore") || has("_npx") || has("_cacache") || has("gen")
}

fn below(at: &Surroundings<'_>, variable: &str, otherwise: &str, name: &str) -> PathBuf {
    let named = at.inherited(variable).map(PathBuf::from).filter(|path| path.is_absolute());
    named.unwrap_or_else(|| at.home.join(otherwise)).join(name)
}
