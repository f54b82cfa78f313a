//! Finds what a confined server has to see of the user's files to run at all: its program, what interprets it, and what it is
//! installed with.
//!
//! It starts nothing. What a program opens beside that is the user's to name.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::path::{Component, Path, PathBuf};

use super::caches::{self, Runner};
use super::runner_arguments::RunnerArguments;
use super::surroundings::Surroundings;
use crate::confine::{Access, PROGRAM_FOLDERS};

/// The files that a confined server sees, as far as they have been found.
#[derive(Debug, Default)]
pub(super) struct VisibleFiles {
    /// Symlinks and their targets.
    pub(super) links: BTreeMap<PathBuf, PathBuf>,
    /// Real paths.
    pub(super) visible: BTreeMap<PathBuf, Access>,
    /// The programs that have been followed.
    followed: BTreeSet<PathBuf>,
    /// Real paths that the server can change: what is written there leads nowhere else.
    changeable: Vec<PathBuf>,
    /// The runner that starts the server's program, if another program does.
    pub(super) runner: Option<Runner>,
}

/// Symlinks on one way.
const HOPS_MAX: usize = 40;
/// Programs that are followed for one command.
const PROGRAMS_MAX: usize = 64;
/// The beginning of a file that is read for the program that interprets it.
const FIRST_LINE_BYTES: u64 = 512;
/// The most that is read of a file that says where packages are.
const LISTING_BYTES: u64 = 64 * 1024;
/// How far up the folder of a program's installation is looked for.
const LEVELS_MAX: usize = 8;

/// Ends of the folders of programs that install other programs: all of what they have installed is seen.
const INSTALLERS: [&str; 17] = [
    ".nvm",
    ".fnm",
    ".local/share/fnm",
    ".volta",
    ".asdf",
    ".local/share/mise",
    ".pyenv",
    ".rbenv",
    ".rye",
    ".pixi",
    ".bun",
    ".deno",
    ".sdkman",
    ".local/share/uv/python",
    ".local/share/uv/tools",
    ".local/share/pipx",
    ".local/pipx",
];
/// Interpreters: the first of their arguments that is a file is the program.
const INTERPRETERS: [&str; 13] = [
    "node", "nodejs", "bun", "deno", "tsx", "ts-node", "ruby", "perl", "php", "java", "bash", "sh", "python",
];
/// Programs of packages that run a script of the user.
const SCRIPT_RUNNERS: [&str; 2] = ["mcp", "fastmcp"];

impl VisibleFiles {
    /// For a server that can change these files and folders.
    pub(super) fn new(changeable: &[PathBuf]) -> Self {
        let real = changeable.iter().filter_map(|path| path.canonicalize().ok());
        Self { changeable: real.collect(), ..Self::default() }
    }

    fn is_changeable(&self, path: &Path) -> bool {
        self.changeable.iter().any(|folder| path.starts_with(folder))
    }

    /// Follows a command with its arguments.
    pub(super) fn command(&mut self, program: &Path, args: &[String], at: &Surroundings<'_>) {
        self.program(program, at);
        let name = name_of(program);
        if let Some(runner) = Runner::of(&name) {
            self.runner.get_or_insert(runner);
            for (path, access) in caches::of(runner, args, at) {
                self.tree(&path, access);
            }
            self.script_of_runner(&runner.arguments(args), at);
        }
        match name.as_str() {
            "env" => {
                let is_setting = |word: &&String| word.starts_with('-') || word.contains('=');
                let rest = args.iter().skip_while(is_setting).cloned().collect::<Vec<_>>();
                if let Some((next, args)) = rest.split_first()
                    && let Some(next) = at.locate(Path::new(next))
                {
                    self.command(&next, args, at);
                }
            }
            "sh" | "bash" | "dash" | "zsh"
                if args.iter().any(|arg| arg.starts_with('-') && arg.ends_with('c')) =>
            {
                self.script_of_shell(args, at);
            }
            _ if is_interpreter(&name) => self.interpreted(&name, args, at),
            _ => {}
        }
    }

    /// The script that a runner starts, itself or by another program that runs scripts.
    fn script_of_runner(&mut self, args: &RunnerArguments<'_>, at: &Surroundings<'_>) {
        let Some((command, rest)) = args.command.split_first() else { return };
        let script = |word: &String| {
            // `fastmcp run server.py:app` names an object in the script.
            let file = at.folder.join(word.split(':').next().unwrap_or_default());
            (is_script(&file) && file.is_file()).then_some(file)
        };
        let own = script(command).filter(|_| args.runs_scripts());
        let is_of_other = || is_interpreter(command) || SCRIPT_RUNNERS.contains(&command.as_str());
        if let Some(script) = own.or_else(|| rest.iter().find_map(script).filter(|_| is_of_other())) {
            self.program(&script, at);
        }
    }

    /// Each word of a shell's script that names a program or a file outside of the system's folders may be one.
    fn script_of_shell(&mut self, args: &[String], at: &Surroundings<'_>) {
        let words: Vec<String> = args
            .iter()
            .filter(|arg| !arg.starts_with('-'))
            .flat_map(|arg| arg.split(|c: char| c.is_whitespace() || "\"';&|()".contains(c)))
            .filter(|word| !word.is_empty())
            .map(str::to_owned)
            .collect();
        for (place, word) in words.iter().enumerate() {
            let program = at.locate(Path::new(word)).filter(|found| {
                is_interpreter(&name_of(found))
                    || Runner::of(&name_of(found)).is_some()
                    || !is_of_system(found)
            });
            if let Some(program) = program.filter(|program| !self.followed.contains(program)) {
                self.command(&program, &words[place + 1..], at);
            }
        }
    }

    /// The script among an interpreter's arguments.
    fn interpreted(&mut self, name: &str, args: &[String], at: &Surroundings<'_>) {
        if let Some(module) = args.iter().position(|arg| arg == "-m").and_then(|place| args.get(place + 1)) {
            // Found in the working folder before anywhere else.
            let first = module.split('.').next().unwrap_or_default();
            let [package, file] = [at.folder.join(first), at.folder.join(format!("{first}.py"))];
            [package, file]
                .iter()
                .filter(|path| path.exists())
                .for_each(|path| self.tree(path, Access::Execute));
        }
        let files = args.iter().filter(|arg| !arg.starts_with('-')).map(|arg| at.folder.join(arg));
        if let Some(script) = files.into_iter().find(|path| path.is_file()) {
            self.program(&script, at);
        }
        if name.starts_with("python") {
            // Packages that the user has installed without a virtual environment.
            for found in children(&at.home.join(".local/lib")) {
                if name_of(&found).starts_with("python") {
                    self.tree(&found, Access::Execute);
                }
            }
        }
    }

    /// A program's file, what interprets it, and what it is installed with.
    pub(super) fn program(&mut self, path: &Path, at: &Surroundings<'_>) {
        if self.followed.len() >= PROGRAMS_MAX || !self.followed.insert(path.to_owned()) {
            return;
        }
        let Some(steps) = self.file(path) else { return };
        if steps.iter().any(|step| self.is_changeable(step)) {
            return;
        }
        for step in &steps {
            self.installation(step, at);
        }
        let Some(real) = steps.last() else { return };
        if let Some((interpreter, of_it)) = interpreter_of(real) {
            match name_of(&interpreter).as_str() {
                "env" => {
                    self.program(&interpreter, at);
                    let name = of_it.iter().find(|word| !word.starts_with('-') && !word.contains('='));
                    if let Some(found) = name.and_then(|name| at.locate(Path::new(name))) {
                        self.program(&found, at);
                    }
                }
                _ => self.program(&interpreter, at),
            }
        }
        if is_script(real) && !is_of_system(real) {
            self.package(real, at);
        }
    }

    /// What a file outside of the system's folders is installed with.
    fn installation(&mut self, file: &Path, at: &Surroundings<'_>) {
        if is_of_system(file) {
            return;
        }
        // Wherever they are: their variables and other users' homes lead elsewhere than HOME.
        let is_installer = |folder: &&Path| INSTALLERS.iter().any(|path| folder.ends_with(path));
        if let Some(installer) = file.ancestors().skip(1).find(is_installer) {
            self.tree(installer, Access::Execute);
        }
        if let Some(modules) = outermost_modules(file) {
            self.tree(&modules, Access::Execute);
        }
        let folders: Vec<&Path> = file.ancestors().skip(1).take(LEVELS_MAX).collect();
        if let Some(environment) = folders.iter().find(|folder| folder.join("pyvenv.cfg").is_file()) {
            self.environment(environment, at);
            return;
        }
        let (Some(bin), Some(prefix)) = (folders.first(), folders.get(1)) else { return };
        let has_libraries = ["lib", "lib64", "libexec"].iter().any(|name| prefix.join(name).is_dir());
        if name_of(bin) == "bin" && has_libraries && !at.is_too_wide(prefix) {
            self.tree(prefix, Access::Execute);
        }
        // Programs that are installed as one file start others that are beside them.
        for (own, other) in
            [("uvx", "uv"), ("bunx", "bun"), ("npx", "node"), ("npm", "node"), ("pnpx", "pnpm")]
        {
            let other = bin.join(other);
            if name_of(file) == own && other.exists() {
                self.program(&other, at);
            }
        }
    }

    /// A virtual environment: its packages, those that are elsewhere, and the Python that it was made with.
    fn environment(&mut self, folder: &Path, at: &Surroundings<'_>) {
        let is_new = !self.visible.contains_key(folder);
        self.tree(folder, Access::Execute);
        if !is_new || self.is_changeable(folder) {
            return;
        }
        let about = text_of(&folder.join("pyvenv.cfg"));
        let home =
            about.lines().filter_map(|line| line.split_once('=')).find(|(key, _)| key.trim() == "home");
        if let Some((_, home)) = home {
            for python in children(Path::new(home.trim())) {
                if name_of(&python).starts_with("python") {
                    self.program(&python, at);
                }
            }
        }
        let libraries = children(&folder.join("lib"));
        for packages in libraries.iter().map(|library| library.join("site-packages")) {
            for file in children(&packages) {
                let name = name_of(&file);
                let is_finder = name.starts_with("__editable__") && name.ends_with(".py");
                if name.ends_with(".pth") || is_finder {
                    let text = text_of(&file);
                    let elsewhere = text.split(['\n', '\'', '"']).map(str::trim).map(Path::new);
                    let elsewhere = elsewhere.filter(|path| path.is_absolute() && path.is_dir());
                    elsewhere
                        .filter(|path| !at.is_too_wide(path))
                        .for_each(|path| self.tree(path, Access::Execute));
                }
            }
        }
    }

    /// The package that a script belongs to; without one, the script's folder.
    fn package(&mut self, script: &Path, at: &Surroundings<'_>) {
        const MARKS: [&str; 8] = [
            "package.json",
            "pyproject.toml",
            "setup.py",
            "deno.json",
            "Gemfile",
            "composer.json",
            "requirements.txt",
            "uv.lock",
        ];
        let folders =
            || script.ancestors().skip(1).take(LEVELS_MAX).take_while(|folder| !at.is_too_wide(folder));
        let root = folders().find(|folder| MARKS.iter().any(|mark| folder.join(mark).is_file()));
        if let Some(root) = root.or_else(|| folders().next()) {
            self.tree(root, Access::Execute);
        }
        for folder in folders() {
            let [modules, environment] = [folder.join("node_modules"), folder.join(".venv")];
            if modules.is_dir() {
                self.tree(&modules, Access::Execute);
            }
            if environment.join("pyvenv.cfg").is_file() {
                self.environment(&environment, at);
            }
        }
    }

    /// One file, with the symlinks on the way to it; all paths that the way goes through, the real one last.
    fn file(&mut self, path: &Path) -> Option<Vec<PathBuf>> {
        let steps = self.links_to(path)?;
        self.see(steps.last()?, Access::Execute);
        Some(steps)
    }

    /// A folder with all that is in it, or a file.
    pub(super) fn tree(&mut self, path: &Path, access: Access) {
        if let Some(real) = self.real(path) {
            self.see(&real, access);
        }
    }

    /// Where a path leads, with the symlinks on the way remembered.
    pub(super) fn real(&mut self, path: &Path) -> Option<PathBuf> {
        self.links_to(path).and_then(|mut steps| steps.pop())
    }

    fn see(&mut self, real: &Path, access: Access) {
        if !is_of_system(real) {
            let seen = self.visible.entry(real.to_owned()).or_insert(access);
            *seen = access.max(*seen);
        }
    }

    /// Remembers the symlinks on the way to a path; `None` where it leads nowhere, or the server can change where.
    fn links_to(&mut self, path: &Path) -> Option<Vec<PathBuf>> {
        let mut steps = vec![normal(path)];
        let mut links = Vec::new();
        for _ in 0..HOPS_MAX {
            let path = steps.last()?.clone();
            let link = path
                .ancestors()
                .collect::<Vec<_>>()
                .into_iter()
                .rev()
                .find_map(|part| Some((part.to_owned(), fs::read_link(part).ok()?)));
            let Some((link, target)) = link else {
                path.symlink_metadata().ok()?;
                let is_led = steps.iter().any(|step| self.is_changeable(step));
                if is_led && !self.is_changeable(&path) {
                    return None;
                }
                self.links.extend(links);
                return Some(steps);
            };
            let leads_to = normal(&link.parent()?.join(&target));
            let rest = path.strip_prefix(&link).ok()?;
            steps.push(if rest.as_os_str().is_empty() { leads_to } else { leads_to.join(rest) });
            links.push((link, target));
        }
        None
    }

    /// What is visible, parents first, each once: what a parent allows too is left out.
    pub(super) fn into_parts(self) -> (BTreeMap<PathBuf, PathBuf>, Vec<(PathBuf, Access)>) {
        let mut visible: Vec<(PathBuf, Access)> = Vec::new();
        // Parents come before their children in the order of paths.
        for (path, access) in self.visible {
            let above =
                visible.iter().rev().find(|(parent, _)| path.starts_with(parent)).map(|(_, access)| *access);
            if above.is_none_or(|above| above < access) {
                visible.push((path, access));
            }
        }
        (self.links, visible)
    }
}

/// Whether every confined process sees it.
pub(super) fn is_of_system(path: &Path) -> bool {
    PROGRAM_FOLDERS.iter().any(|folder| path.starts_with(folder))
}

pub(super) fn name_of(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

fn is_interpreter(name: &str) -> bool {
    let plain = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    INTERPRETERS.contains(&plain)
}

fn is_script(file: &Path) -> bool {
    let extension = file.extension().and_then(OsStr::to_str).unwrap_or_default();
    ["js", "mjs", "cjs", "ts", "mts", "py", "rb", "pl", "php", "sh"].contains(&extension)
}

fn outermost_modules(file: &Path) -> Option<PathBuf> {
    let all: Vec<&Path> = file.ancestors().filter(|folder| name_of(folder) == "node_modules").collect();
    all.last().map(|folder| folder.to_path_buf())
}

/// The program of a script's first line, and its arguments.
fn interpreter_of(file: &Path) -> Option<(PathBuf, Vec<String>)> {
    let mut first = Vec::new();
    fs::File::open(file).ok()?.take(FIRST_LINE_BYTES).read_to_end(&mut first).ok()?;
    let line = first.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let line = String::from_utf8_lossy(line);
    let mut words = line.split_whitespace().map(str::to_owned);
    Some((words.next()?.into(), words.collect()))
}

/// Without `.` and `..`; a path that goes above a symlink by `..` is not followed there.
fn normal(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut path, part| {
        match part {
            Component::ParentDir => {
                path.pop();
            }
            Component::CurDir => {}
            part => path.push(part),
        }
        path
    })
}

fn children(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path())).collect()
}

fn text_of(file: &Path) -> String {
    let mut text = Vec::new();
    if let Ok(file) = fs::File::open(file) {
        // What cannot be read says nothing.
        drop(file.take(LISTING_BYTES).read_to_end(&mut text));
    }
    String::from_utf8_lossy(&text).into_owned()
}

#[cfg(test)]
#[path = "follow_tests.rs"]
mod tests;
