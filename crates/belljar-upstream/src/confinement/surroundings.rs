//! The folder and the environment that a server's command is started in.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use belljar_base::look_budget::LookBudget;
use belljar_base::programs::locate_program;
use belljar_base::resolved_path::ResolvedPath;
use belljar_confine::{ChangeablePlaces, PrivatePlaces, SecretPlaces};

use super::resolve::{inside, is_file, is_folder, resolve_within};

/// The folder and the environment that a command is started in.
pub(super) struct Surroundings<'a> {
    /// The server's variables, including the inherited ones.
    pub(super) variables: &'a BTreeMap<String, String>,
    /// The variables that the server inherits from the bridge, before the entry replaces any.
    pub(super) inherited: &'a BTreeMap<String, String>,
    /// The server's HOME.
    pub(super) home: &'a Path,
    /// The user's HOME: as the variable names it, and its real path.
    pub(super) user_homes: &'a [PathBuf],
    /// The server's HOME: as the variable names it, and its real path.
    pub(super) homes: &'a [PathBuf],
    /// The real working folder, if the entry sets one. Otherwise it is the server's HOME, which is empty.
    pub(super) folder: Option<&'a Path>,
    /// The user's private places.
    pub(super) private: &'a PrivatePlaces,
    /// The places of keys, logins and belljar's own files.
    pub(super) secret: &'a SecretPlaces,
    /// The paths that confined servers or code can change. Files there are not read, symlinks there are not followed out
    /// of them, and no file there, or its absence, decides what is visible elsewhere.
    pub(super) changeable: &'a ChangeablePlaces,
    /// The real folders of the project that belljar was started in, the innermost first.
    pub(super) projects: &'a [PathBuf],
    /// The number of file-system operations that may still be done to find the server's files.
    pub(super) looks: LookBudget,
}

/// The number of parent folders in which the root of an installation or a package is searched.
const LEVELS_MAX: usize = 8;

/// The largest number of file-system operations for one plan. Each takes some microseconds, and a plan is made on the
/// bridge's thread. Real packages need some hundreds, and about one more for each package in a virtual environment.
pub(super) const LOOKS_MAX: usize = 20_000;
/// Folders in a HOME that many programs share.
const SHARED: [&str; 4] = [".local", ".local/share", ".config", ".cache"];

impl Surroundings<'_> {
    pub(super) fn variable(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// The value of a variable that is inherited from the bridge, whatever the entry sets.
    pub(super) fn inherited(&self, name: &str) -> Option<&str> {
        self.inherited.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// The existing path that an argument names. A relative argument may be a name that only looks like a path, and the
    /// user did not choose the author of the files in the working folder: a symlink that leads out of that folder is
    /// not followed.
    pub(super) fn argument(&self, word: &str) -> Option<PathBuf> {
        let path = self.folder.map_or_else(|| word.into(), |folder| folder.join(word));
        let way = resolve_within(&path, &self.looks).ok()?;
        if Path::new(word).is_absolute() {
            return Some(path);
        }
        let folder = resolve_within(self.folder?, &self.looks).ok()?.end;
        let leads_out =
            !way.end.starts_with(&folder) && way.links.iter().any(|(link, _)| link.starts_with(&folder));
        (!leads_out).then_some(path)
    }

    /// The real path of a file or folder of the working folder. The user did not choose the author of the files there,
    /// so no symlink below that folder is followed.
    pub(super) fn in_folder(&self, name: &str) -> Option<PathBuf> {
        inside(self.folder?, name, &self.looks)
    }

    /// The first symlink on the way that is in the project that belljar was started in. Whoever sends the project's files
    /// could turn it to any place, also to one in the project that only the user fills, such as `.git`.
    pub(super) fn link_of_project<'w>(&self, way: &'w ResolvedPath) -> Option<&'w Path> {
        self.projects.iter().find_map(|project| way.link_in(project))
    }

    /// The symlink by which a path leaves the project, or what a confined server or code can change, and comes to a name
    /// that `is_program` does not accept, or another user's symlink to what is not that user's. The first name of a program
    /// counts as well as its end: each can belong to an installation.
    pub(super) fn link_away<'w>(
        &self,
        way: &'w ResolvedPath,
        is_program: impl Fn(&Path) -> bool,
    ) -> Option<&'w Path> {
        let of_project = |project: &PathBuf| {
            let (link, names) = way.after(|link| link.starts_with(project))?;
            names.iter().any(|name| !name.starts_with(project) && !is_program(name)).then_some(link)
        };
        let link = self.projects.iter().find_map(of_project);
        link.or_else(|| self.changeable.link_out(way, &is_program)).or_else(|| {
            let owner = |path: &Path| path.symlink_metadata().ok().map(|about| about.uid());
            let link = way.foreign_link(nix::unistd::geteuid().as_raw())?;
            (owner(link) != owner(&way.end) && !is_program(&way.end)).then_some(link)
        })
    }

    /// The folders in which the package that a real folder belongs to is searched: the folder and those above it. If the
    /// folder can be changed, they end with the outermost one that can be, and if it is in the project, with that. Whoever
    /// changes the folder or sends the project could hide a package from the search, which would then find another one
    /// above.
    pub(super) fn folders_from<'p>(&'p self, folder: &'p Path) -> impl Iterator<Item = &'p Path> {
        let is_changeable = self.changeable.holds(folder);
        let folders = self.folders_above(folder);
        let project = self.projects.iter().find(|project| folder.starts_with(project));
        folders.take_while(move |folder| {
            (!is_changeable || self.changeable.holds(folder))
                && project.is_none_or(|project| folder.starts_with(project))
        })
    }

    /// A real folder and those above it, as far as they may belong to one installation.
    pub(super) fn folders_above<'p>(&'p self, folder: &'p Path) -> impl Iterator<Item = &'p Path> {
        folder.ancestors().take(LEVELS_MAX).take_while(|folder| !self.is_too_wide(folder))
    }

    /// Whether a name in a real folder can mark that as a package or installation: it is there, and is the user's, root's or
    /// that of whoever owns the folder. Another user may be able to put one into a folder that many use.
    pub(super) fn has_mark(&self, folder: &Path, name: &str) -> bool {
        let owner = |path: &Path| path.symlink_metadata().ok().map(|about| about.uid());
        let uid = nix::unistd::geteuid().as_raw();
        self.looks.take(1)
            && owner(&folder.join(name))
                .is_some_and(|mark| [Some(uid), Some(0), owner(folder)].contains(&Some(mark)))
    }

    /// Whether a path leads to an existing file or folder.
    pub(super) fn exists(&self, path: &Path) -> bool {
        resolve_within(path, &self.looks).is_ok()
    }

    /// Whether a path leads to a regular file.
    pub(super) fn leads_to_file(&self, path: &Path) -> bool {
        resolve_within(path, &self.looks).is_ok_and(|way| is_file(&way.end, &self.looks))
    }

    /// Whether a path leads to a folder.
    pub(super) fn leads_to_folder(&self, path: &Path) -> bool {
        resolve_within(path, &self.looks).is_ok_and(|way| is_folder(&way.end, &self.looks))
    }

    /// The file that a command starts.
    pub(super) fn locate(&self, program: &Path) -> Option<PathBuf> {
        let folder = self.folder.unwrap_or(Path::new("/"));
        locate_program(program, self.variable("PATH").map(OsStr::new), folder)
    }

    /// The file of a program in an argument or in a script. A name is searched neither in the working folder nor where
    /// others can put a program.
    pub(super) fn locate_within(&self, program: &str) -> Option<PathBuf> {
        if program.contains('/') {
            return self.locate(Path::new(program));
        }
        let is_changeable =
            |path: &Path| self.changeable.changed_in(&ResolvedPath::within(path, &self.looks)).is_some();
        let mut folders = self.variable("PATH")?.split(':').filter(|folder| folder.starts_with('/'));
        folders.find_map(|folder| {
            let file = locate_program(Path::new(program), Some(OsStr::new(folder)), Path::new("/"))?;
            (!is_changeable(&file)).then_some(file)
        })
    }

    /// Whether a folder has the files of more than one program, or is, holds or lies in a place of keys, logins or
    /// belljar's own files.
    pub(super) fn is_too_wide(&self, folder: &Path) -> bool {
        let is_shared = |home: &PathBuf| SHARED.iter().any(|name| folder == home.join(name));
        folder.components().count() < 3
            || folder == Path::new("/var/tmp")
            || folder.starts_with("/run")
            || self
                .user_homes
                .iter()
                .chain(self.homes)
                .any(|home| home.starts_with(folder) || is_shared(home))
            || !self.looks.take(folder.components().count())
            || self.secret.meets(folder)
    }
}
