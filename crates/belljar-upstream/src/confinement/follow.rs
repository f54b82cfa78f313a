//! Finds the user's files that a confined server needs to run at all: its program, the interpreter of that, and the
//! installation that it belongs to.
//!
//! The words of the entry decide, and where installed programs are. What files say decides nothing, but for the first
//! line of a script, which may name an installed program. So neither a server nor whoever sends a project chooses what
//! is visible. This module starts nothing. The user has to name other files that a program opens.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use belljar_base::resolved_path::ResolvedPath;
use belljar_confine::{Access, PROGRAM_FOLDERS};

use super::caches::{self, INSTALLERS, Runner};
use super::resolve::{beginning, inside, is_file, is_folder, names_in, resolve_within};
use super::surroundings::Surroundings;

/// The files that a confined server sees, as far as they were found.
#[derive(Debug, Default)]
pub(super) struct VisibleFiles {
    /// Symlinks and their targets.
    pub(super) links: BTreeMap<PathBuf, PathBuf>,
    /// Visible real paths.
    pub(super) visible: BTreeMap<PathBuf, Access>,
    /// Real folders that contain installed programs only.
    stores: Vec<PathBuf>,
    /// Real paths that the server may need, and that it does not see.
    unfollowed: BTreeSet<PathBuf>,
    /// The paths of the followed programs that the entry names or PATH leads to. `led` has the real paths of the
    /// followed programs that files name.
    named: BTreeSet<PathBuf>,
    led: BTreeSet<PathBuf>,
    /// The virtual environments that were followed.
    environments: BTreeSet<PathBuf>,
    /// The runner that starts the server's program, if one does.
    pub(super) runner: Option<Runner>,
}

/// The largest number of programs that are followed for one command.
const PROGRAMS_MAX: usize = 64;
/// The number of bytes of a script that are read for its first line.
const FIRST_LINE_BYTES: u64 = 512;
/// The largest number of files in a folder that are looked at.
const CHILDREN_MAX: usize = 4096;
/// The largest number of paths that were not followed and are named to the user.
const UNFOLLOWED_MAX: usize = 5;

/// Files whose presence marks a folder as a package.
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
/// The files that mark a folder as a Python package, which can be installed in editable mode.
const MARKS_OF_PYTHON: [&str; 3] = ["pyproject.toml", "setup.py", "setup.cfg"];
/// Interpreters, which run a script among their arguments.
const INTERPRETERS: [&str; 13] = [
    "node", "nodejs", "bun", "deno", "tsx", "ts-node", "ruby", "perl", "php", "java", "bash", "sh", "python",
];
/// The ends of the names of scripts.
const SCRIPTS: [&str; 11] = ["js", "mjs", "cjs", "ts", "mts", "py", "rb", "pl", "php", "sh", "jar"];
/// What interpreters and installers put beside scripts.
const BESIDE_SCRIPTS: [&str; 3] = [".venv", "__pycache__", "node_modules"];
/// Programs in packages that run a script of the user.
const SCRIPT_RUNNERS: [&str; 2] = ["mcp", "fastmcp"];

impl VisibleFiles {
    /// Begins without visible files.
    pub(super) fn new(at: &Surroundings<'_>) -> Self {
        let mut found = Self::default();
        let stores = caches::stores(at).into_iter().filter_map(|store| found.way(&store, at));
        let stores = stores.filter(|way| !is_chosen_by_others(way)).map(|way| way.end);
        found.stores = stores.filter(|store| is_folder(store, &at.looks) && !at.is_too_wide(store)).collect();
        found
    }

    /// The symlink by which a confined server, or whoever sends the project, could have chosen another program; `None` if
    /// the program may be followed.
    pub(super) fn link_before<'w>(
        &self,
        program: &'w ResolvedPath,
        at: &Surroundings<'_>,
    ) -> Option<&'w Path> {
        at.link_away(program, |name| self.is_visible(name) || self.is_program(name, at))
    }

    /// Follows a command with its arguments.
    pub(super) fn command(&mut self, program: &Path, args: &[String], at: &Surroundings<'_>) {
        self.program(program, at);
        let name = name_of(program);
        if let Some(runner) = Runner::of(&name) {
            self.runner.get_or_insert(runner);
            let args = runner.arguments(&name, args);
            for path in caches::stored(runner, at) {
                if let Some(store) = self.store(&path, at) {
                    self.resolved_tree(&store, Access::Layer, at);
                }
            }
            for (path, access) in caches::named(runner, &args, at) {
                self.tree(&path, access, at);
            }
            let is_of_other =
                |command: &String| is_interpreter(command) || SCRIPT_RUNNERS.contains(&command.as_str());
            if args.runs_scripts() || args.command.first().is_some_and(is_of_other) {
                self.scripts(args.command, at);
            }
        }
        match name.as_str() {
            "env" => {
                let is_setting = |word: &&String| word.starts_with('-') || word.contains('=');
                let rest = args.iter().skip_while(is_setting).cloned().collect::<Vec<_>>();
                if let Some((next, args)) = rest.split_first()
                    && let Some(next) = at.locate_within(next)
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

    /// Follows each word that names a script. Only words decide, not which of the files exist: a server that can remove
    /// one does not choose another one.
    fn scripts(&mut self, words: &[String], at: &Surroundings<'_>) {
        for word in words {
            // `fastmcp run server.py:app` names an object in the script.
            let word = word.split(':').next().unwrap_or_default();
            if is_script(Path::new(word)) {
                self.script(word, at);
            }
        }
    }

    fn script(&mut self, word: &str, at: &Surroundings<'_>) {
        if let Some(script) = at.argument(word) {
            self.program(&script, at);
        }
    }

    /// Follows each word of a shell's script that may be a program, if it is an interpreter or a runner, or lies
    /// outside of the system's folders.
    fn script_of_shell(&mut self, args: &[String], at: &Surroundings<'_>) {
        let words: Vec<String> = args
            .iter()
            .filter(|arg| !arg.starts_with('-'))
            .flat_map(|arg| arg.split(|c: char| c.is_whitespace() || "\"';&|()".contains(c)))
            .filter(|word| !word.is_empty())
            .map(str::to_owned)
            .collect();
        for (place, word) in words.iter().enumerate() {
            // A word without a slash is a name to search in PATH. A word with one is followed only if it names an
            // existing path.
            let is_ours = !word.contains('/') || at.argument(word).is_some();
            let program = at.locate_within(word).filter(|_| is_ours).filter(|found| {
                is_interpreter(&name_of(found))
                    || Runner::of(&name_of(found)).is_some()
                    || !is_of_system(found)
            });
            if let Some(program) = program.filter(|program| !self.named.contains(program)) {
                self.command(&program, &words[place + 1..], at);
            }
        }
    }

    /// Follows the scripts among an interpreter's arguments.
    fn interpreted(&mut self, name: &str, args: &[String], at: &Surroundings<'_>) {
        let is_python = name.starts_with("python");
        // The arguments behind a module or a code are its own.
        let last = args.iter().position(|arg| is_python && last_option(arg).is_some()).unwrap_or(args.len());
        let (own, rest) = args.split_at(last);
        let option = rest.first().and_then(|option| last_option(option));
        if let Some(('m', inline)) = option
            && let Some(module) =
                Some(inline).filter(|inline| !inline.is_empty()).or(rest.get(1).map(String::as_str))
        {
            // Python searches the module in the working folder first.
            let first = module.split('.').next().filter(|first| !first.is_empty() && !first.contains('/'));
            let names = first.map(|first| [first.to_owned(), format!("{first}.py")]);
            let files = names.iter().flatten().filter_map(|name| at.in_folder(name));
            files.for_each(|path| self.tree(&path, Access::Execute, at));
        }
        self.scripts(own, at);
        // A script without an ending is the first word, or behind options the first path.
        let is_script =
            |(place, word): &(usize, &String)| !word.starts_with('-') && (*place == 0 || word.contains('/'));
        if let Some((_, word)) = own.iter().enumerate().find(is_script) {
            self.script(word, at);
        }
        if is_python {
            // These packages were installed by the user without a virtual environment.
            let Some(libraries) = self.store(&at.home.join(".local/lib"), at) else { return };
            let names = names_in(&libraries.end, CHILDREN_MAX, &at.looks);
            let names = names.iter().filter(|name| name.starts_with("python"));
            let found: Vec<PathBuf> = names
                .filter_map(|name| inside(&libraries.end, name, &at.looks))
                .filter(|path| is_folder(path, &at.looks))
                .collect();
            if !found.is_empty() {
                self.see_links(&libraries);
            }
            found.iter().for_each(|path| self.tree(path, Access::Execute, at));
        }
    }

    /// Follows a program that the entry names, or that PATH leads to: its file, its interpreter, and its installation.
    pub(super) fn program(&mut self, path: &Path, at: &Surroundings<'_>) {
        if self.named.len() >= PROGRAMS_MAX || !self.named.insert(path.to_owned()) {
            return;
        }
        let Some(way) = self.way(path, at).filter(|way| is_file(&way.end, &at.looks)) else {
            if at.exists(path) && self.unfollowed.len() < UNFOLLOWED_MAX {
                self.unfollowed.insert(path.to_owned());
            }
            return;
        };
        self.see(&way, Access::Execute);
        // A program can look for its files beside the name that starts it, or beside its file. Whoever made a link chose the
        // names between these.
        for name in way.names.iter().take(1).chain([&way.end]).collect::<BTreeSet<_>>() {
            self.installation(name, at);
        }
        if is_script(&way.end) && !is_of_system(&way.end) {
            // Another user's link shows what that user could show, and nothing of others around it.
            let of_link = way.foreign_link(nix::unistd::geteuid().as_raw()).and_then(owner_of);
            self.package(&way.end, of_link, at);
        }
        self.interpreter(&way.end, at);
    }

    /// Follows a program that a file names, if it is an installed one or visible already.
    fn program_of_file(&mut self, path: &Path, at: &Surroundings<'_>) {
        let Some(way) = self.way(path, at).filter(|way| is_file(&way.end, &at.looks)) else { return };
        if !self.is_visible(&way.end) && !self.is_program(&way.end, at) {
            self.tell(path, at);
            return;
        }
        if self.led.len() >= PROGRAMS_MAX || !self.led.insert(way.end.clone()) {
            return;
        }
        self.see(&way, Access::Execute);
        let store = self.stores.iter().find(|store| way.end.starts_with(store)).cloned();
        for folder in store.into_iter().chain(python_prefix(&way.end, at)) {
            self.tree(&folder, Access::Execute, at);
        }
        self.interpreter(&way.end, at);
    }

    /// Follows the interpreter in the first line of a script.
    fn interpreter(&mut self, script: &Path, at: &Surroundings<'_>) {
        if at.changeable.holds(script) {
            return;
        }
        let Some((interpreter, of_it)) = interpreter_of(script, at) else { return };
        let named = of_it.iter().find(|word| !word.starts_with('-') && !word.contains('='));
        match named.filter(|_| name_of(&interpreter) == "env") {
            Some(named) if is_interpreter(named) || Runner::of(named).is_some() => {
                if let Some(found) = at.locate_within(named) {
                    self.program(&found, at);
                }
            }
            Some(named) => self.program_of_file(Path::new(named), at),
            None => self.program_of_file(&interpreter, at),
        }
    }

    /// Follows the installation that a file outside of the system's folders belongs to.
    fn installation(&mut self, file: &Path, at: &Surroundings<'_>) {
        if is_of_system(file) {
            return;
        }
        // Folders of installers count anywhere, not only in HOME: variables and other users' homes can lead to them.
        let is_installer = |folder: &&Path| INSTALLERS.iter().any(|path| folder.ends_with(path));
        if let Some(installer) = file.ancestors().skip(1).find(is_installer) {
            self.tree(installer, Access::Execute, at);
        }
        if let Some(modules) = outermost_modules(file) {
            self.tree(&modules, Access::Execute, at);
        }
        if let Some(environment) = environment_of(file, at) {
            self.environment(&environment, at);
            return;
        }
        let (Some(bin), Some(prefix)) = (file.parent(), file.parent().and_then(Path::parent)) else { return };
        let is_library = |name: &str| at.has_mark(prefix, name) && is_folder(&prefix.join(name), &at.looks);
        let has_libraries = ["lib", "lib64", "libexec"].iter().any(|name| is_library(name));
        // Neither the project nor a folder that can be changed makes the folder above it an installation.
        if name_of(bin) == "bin" && has_libraries && at.folders_from(bin).any(|folder| folder == prefix) {
            self.tree(prefix, Access::Execute, at);
        }
        // Some programs that are installed as a single file start another one beside them.
        for (own, other) in
            [("uvx", "uv"), ("bunx", "bun"), ("npx", "node"), ("npm", "node"), ("pnpx", "pnpm")]
        {
            if name_of(file) == own
                && let Some(other) = inside(bin, other, &at.looks)
            {
                self.program(&other, at);
            }
        }
    }

    /// Follows a virtual environment at a real path: its packages, and the Python that it was made with. A package that
    /// is installed in it in editable mode lies elsewhere, and is for the user to name.
    fn environment(&mut self, folder: &Path, at: &Surroundings<'_>) {
        if at.is_too_wide(folder) || !self.environments.insert(folder.to_owned()) {
            return;
        }
        self.tree(folder, Access::Execute, at);
        for name in ["python", "python3"] {
            self.program_of_file(&folder.join("bin").join(name), at);
        }
        if let Some(package) = folder.parent().filter(|parent| has_one_of(&MARKS_OF_PYTHON, parent, at)) {
            self.tell(package, at);
        }
    }

    /// Follows the package that a script belongs to. If it belongs to none, its folder is visible only if nothing but
    /// programs is there, since a folder such as the user's documents can hold a script too.
    fn package(&mut self, script: &Path, of_link: Option<u32>, at: &Surroundings<'_>) {
        let is_shown = |folder: &&Path| of_link.is_none() || owner_of(folder) == of_link;
        let folders =
            || script.parent().into_iter().flat_map(|folder| at.folders_from(folder)).take_while(is_shown);
        // What another user has put there decides nothing. The user can give the folder.
        let has_others_mark = |folder: &&Path| {
            MARKS.iter().any(|mark| !at.has_mark(folder, mark) && is_file(&folder.join(mark), &at.looks))
        };
        if let Some(folder) = folders().find(has_others_mark) {
            self.tell(folder, at);
        }
        match (folders().find(|folder| has_one_of(&MARKS, folder, at)), folders().next()) {
            (Some(folder), _) => self.tree(folder, Access::Execute, at),
            (None, Some(folder)) if holds_only_programs(folder, at) => self.tree(folder, Access::Execute, at),
            (None, Some(folder)) => self.tell(folder, at),
            (None, None) if script.parent().is_some_and(|folder| at.secret.meets(folder)) => tracing::warn!(
                ?script,
                "a confined server sees no other file of its script's folder, since keys, logins or belljar's own \
                 files are kept there; move the script to a folder of its own"
            ),
            (None, None) => {}
        }
        // Packages are installed above, too, whatever the folder holds.
        let above = script.parent().into_iter().flat_map(|folder| at.folders_above(folder));
        for folder in above.take_while(is_shown) {
            let installed = |name| inside(folder, name, &at.looks).filter(|_| at.has_mark(folder, name));
            match installed("node_modules") {
                Some(modules) => self.tree(&modules, Access::Execute, at),
                None => self.tell(&folder.join("node_modules"), at),
            }
            match installed(".venv") {
                Some(environment) if is_file(&environment.join("pyvenv.cfg"), &at.looks) => {
                    self.environment(&environment, at);
                }
                Some(_) => {}
                None => self.tell(&folder.join(".venv"), at),
            }
        }
    }

    /// Makes a file visible, or a folder with its content. A folder that has the files of more than one program is left
    /// out.
    pub(super) fn tree(&mut self, path: &Path, access: Access, at: &Surroundings<'_>) {
        if let Some(way) = self.way(path, at) {
            self.resolved_tree(&way, access, at);
        }
    }

    fn resolved_tree(&mut self, way: &ResolvedPath, access: Access, at: &Surroundings<'_>) {
        if is_file(&way.end, &at.looks) || is_folder(&way.end, &at.looks) && !at.is_too_wide(&way.end) {
            self.see(way, access);
        }
    }

    /// Resolves the path of a store of packages, which no word of the entry names. One that another user could choose is
    /// left out, and its path is named to the user.
    fn store(&mut self, path: &Path, at: &Surroundings<'_>) -> Option<ResolvedPath> {
        let way = self.way(path, at)?;
        if is_chosen_by_others(&way) {
            self.unfollowed.insert(path.to_owned());
            return None;
        }
        Some(way)
    }

    /// Resolves a path; `None` if it does not exist, or if a symlink that others can turn leads to what is no installed
    /// program.
    fn way(&self, path: &Path, at: &Surroundings<'_>) -> Option<ResolvedPath> {
        let way = resolve_within(path, &at.looks).ok()?;
        at.link_away(&way, |name| self.is_program(name, at)).is_none().then_some(way)
    }

    /// Whether a real path is of the system, of a store of programs, or a Python with its library.
    fn is_program(&self, real: &Path, at: &Surroundings<'_>) -> bool {
        is_of_system(real)
            || self.stores.iter().any(|store| real.starts_with(store))
            || !at.changeable.holds(real) && python_prefix(real, at).is_some()
    }

    fn is_visible(&self, real: &Path) -> bool {
        real.ancestors().any(|folder| self.visible.contains_key(folder))
    }

    /// Remembers the target of a path that is not followed, to tell the user.
    fn tell(&mut self, path: &Path, at: &Surroundings<'_>) {
        if self.unfollowed.len() >= UNFOLLOWED_MAX {
            return;
        }
        let Some(way) = self.way(path, at) else { return };
        if is_file(&way.end, &at.looks) || is_folder(&way.end, &at.looks) && !at.is_too_wide(&way.end) {
            self.unfollowed.insert(way.end);
        }
    }

    /// Makes a resolved path visible.
    pub(super) fn see(&mut self, way: &ResolvedPath, access: Access) {
        // The plan is text, so other paths are left out. The program and the paths of `sandbox` were checked before.
        let is_text = |path: &PathBuf| path.to_str().is_some();
        let mut links = way.links.iter().flat_map(|(link, target)| [link, target]);
        if !is_text(&way.end) || !links.all(is_text) {
            return;
        }
        self.see_links(way);
        if !is_of_system(&way.end) {
            let seen = self.visible.entry(way.end.clone()).or_insert(access);
            *seen = access.max(*seen);
        }
    }

    /// Makes the symlinks of a resolved path visible. Every confined process sees those in the system's folders already.
    pub(super) fn see_links(&mut self, way: &ResolvedPath) {
        self.links.extend(way.links.iter().filter(|(link, _)| !is_of_system(link)).cloned());
    }

    /// The visible paths, parents first, without those that a parent makes visible with at least the same access.
    pub(super) fn into_parts(self) -> FollowResult {
        // The files of a package can make many paths visible, so each path is compared only with the folders above it.
        // In the order of paths, parents come before their children.
        let mut visible = BTreeMap::<PathBuf, Access>::new();
        for (path, access) in self.visible {
            let above = path.ancestors().skip(1).find_map(|folder| visible.get(folder));
            if above.is_none_or(|above| *above < access) {
                visible.insert(path, access);
            }
        }
        // The links are made one after the other, so none may lie below another link, through which it would be made.
        // What lies in a visible folder is there already.
        let mut links = BTreeMap::<PathBuf, PathBuf>::new();
        for (path, target) in self.links {
            let mut above = path.ancestors().skip(1);
            let is_there = above.any(|folder| links.contains_key(folder) || visible.contains_key(folder));
            let holds_visible =
                visible.range(path.clone()..).next().is_some_and(|(below, _)| below.starts_with(&path));
            if !is_there && !holds_visible {
                links.insert(path, target);
            }
        }
        let is_seen = |path: &PathBuf| path.ancestors().any(|folder| visible.contains_key(folder));
        let unfollowed = self.unfollowed.into_iter().filter(|path| !is_seen(path)).collect();
        let visible = visible.into_iter().collect();
        FollowResult { links, visible, unfollowed }
    }
}

/// The files that a confined server sees, and the paths that were not followed.
pub(super) struct FollowResult {
    /// Symlinks and their targets.
    pub(super) links: BTreeMap<PathBuf, PathBuf>,
    /// Visible real paths, parents first.
    pub(super) visible: Vec<(PathBuf, Access)>,
    /// Real paths that the server may need, and that it does not see.
    pub(super) unfollowed: Vec<PathBuf>,
}

fn owner_of(path: &Path) -> Option<u32> {
    path.symlink_metadata().ok().map(|about| about.uid())
}

/// Whether another user could choose where a path leads.
fn is_chosen_by_others(way: &ResolvedPath) -> bool {
    way.chosen_by_others(nix::unistd::geteuid().as_raw()).is_some()
}

/// Whether every confined process sees the path.
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

/// The option of Python that ends its options, `m` or `c`, with what follows it in the same word. Others, such as `-I`, may
/// stand before it.
fn last_option(word: &str) -> Option<(char, &str)> {
    const FLAGS: &str = "bBdEhiIOPqRsStuvVx?";
    let rest = word.strip_prefix('-')?.trim_start_matches(|flag| FLAGS.contains(flag));
    let option = rest.chars().next().filter(|option| ['m', 'c'].contains(option))?;
    Some((option, &rest[1..]))
}

fn is_script(file: &Path) -> bool {
    let extension = file.extension().and_then(OsStr::to_str).unwrap_or_default();
    SCRIPTS.contains(&extension)
}

/// Whether a folder holds scripts only, beside what interpreters and installers put there.
fn holds_only_programs(folder: &Path, at: &Surroundings<'_>) -> bool {
    let is_program =
        |name: &OsStr| is_script(Path::new(name)) || BESIDE_SCRIPTS.iter().any(|own| name == *own);
    let mut entries = fs::read_dir(folder).into_iter().flatten();
    entries.all(|entry| at.looks.take(1) && entry.is_ok_and(|entry| is_program(&entry.file_name())))
}

fn outermost_modules(file: &Path) -> Option<PathBuf> {
    let all: Vec<&Path> = file.ancestors().filter(|folder| name_of(folder) == "node_modules").collect();
    all.last().map(|folder| folder.to_path_buf())
}

/// The nearest virtual environment that a file is in.
fn environment_of(file: &Path, at: &Surroundings<'_>) -> Option<PathBuf> {
    let is_environment = |folder: &&Path| has_one_of(&["pyvenv.cfg"], folder, at);
    at.folders_from(file.parent()?).find(is_environment).map(Path::to_path_buf)
}

/// The folder of the Python installation that a program belongs to. It is recognised by its standard library.
fn python_prefix(program: &Path, at: &Surroundings<'_>) -> Option<PathBuf> {
    let bin = program.parent().filter(|bin| name_of(bin) == "bin")?;
    let prefix = bin.parent().filter(|prefix| !at.is_too_wide(prefix))?;
    if !name_of(program).starts_with("python") || !is_file(program, &at.looks) {
        return None;
    }
    let libraries = prefix.join("lib");
    let names = names_in(&libraries, CHILDREN_MAX, &at.looks);
    let mut of_python = names.iter().filter(|name| name.starts_with("python"));
    of_python.any(|name| is_file(&libraries.join(name).join("os.py"), &at.looks)).then(|| prefix.to_owned())
}

fn has_one_of(marks: &[&str], folder: &Path, at: &Surroundings<'_>) -> bool {
    marks.iter().any(|mark| at.has_mark(folder, mark) && is_file(&folder.join(mark), &at.looks))
}

/// The program of a script's first line, and its arguments.
fn interpreter_of(file: &Path, at: &Surroundings<'_>) -> Option<(PathBuf, Vec<String>)> {
    let first = beginning(file, FIRST_LINE_BYTES, &at.looks);
    let line = first.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let line = String::from_utf8_lossy(line);
    let mut words = line.split_whitespace().map(str::to_owned);
    Some((words.next()?.into(), words.collect()))
}

#[cfg(test)]
#[path = "follow_tests.rs"]
mod tests;
