//! What is wrong with files whose path leads through a place that confined servers or sandboxed code can change: such a
//! process chooses what belljar reads or runs.
//!
//! It reads no file.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use belljar_base::problem::Problem;
use belljar_base::programs::locate_program;
use belljar_base::resolved_path::ResolvedPath;
use belljar_base::text;
use belljar_confine::ChangeablePlaces;

/// How much of a path is shown, in characters.
const SHOWN_CHARS_MAX: usize = 200;

/// The message and hint for a named file that others can replace; `None`: nobody can. Whoever sends a project's files
/// chooses where its symlinks lead, and can turn them later.
pub(crate) fn misled(
    places: &ChangeablePlaces,
    projects: &[PathBuf],
    file: &NamedFile,
) -> Option<(String, &'static str)> {
    let NamedFile { shown, way, read, is_program } = file;
    let link = projects.iter().find_map(|project| way.link_in(project));
    if let Some(link) = link.filter(|_| !is_program) {
        let link = shown_path(link);
        let message = format!("refers to {shown}, which goes through the project's symlink {link}");
        return Some((message, "name the file itself"));
    }
    // As for `${file:}`. A program may belong to whoever looks after the machine.
    let uid = nix::unistd::geteuid().as_raw();
    if let Some((place, why)) = way.chosen_by_others(uid).filter(|_| !is_program) {
        let message = format!("refers to {shown}, which leads through {why}: {}", shown_path(place));
        return Some((message, "name a file that only you can replace"));
    }
    let (who, place) = match read {
        ReadTime::Now => {
            let link = places.link_in(way)?;
            (places.changer(link)?, link)
        }
        ReadTime::Later => places.changed_in(way)?,
    };
    let place = shown_path(place);
    Some(match read {
        ReadTime::Now => (
            format!("refers to {shown}, and {who} can change the link {place} that leads there"),
            "name the file itself, or one outside of what servers and code can change",
        ),
        ReadTime::Later => (
            format!("refers to {shown}, and {who} can change {place}"),
            "name a file outside of what servers and code can change",
        ),
    })
}

/// The problem with a configuration file that others can change; `None`: nobody can.
pub(crate) fn of_configuration(places: &ChangeablePlaces, path: &Path) -> Option<Problem> {
    let way = ResolvedPath::of(&std::path::absolute(path).unwrap_or_else(|_| path.to_owned()));
    let (who, place) = places.changed_in(&way)?;
    let message =
        format!("is not used: its path leads through {}, which {who} can change", shown_path(place));
    Some(Problem::of_file(path, message).hint("keep it outside of what servers and code can change"))
}

/// The file of a program that belljar runs for itself. Passed over are relative folders, which would lead into the project
/// that a client has opened, and programs that code or servers can change or put there.
#[must_use]
pub fn own_program(
    name: &str,
    path_variable: Option<&OsStr>,
    changeable: &ChangeablePlaces,
) -> Option<PathBuf> {
    let is_own = |file: &PathBuf| changeable.changed_in(&ResolvedPath::of(file)).is_none();
    let folders = std::env::split_paths(path_variable?).filter(|folder| folder.is_absolute());
    let mut files = folders.filter_map(|folder| locate_program(&folder.join(name), None, &folder));
    files.find(is_own)
}

pub(crate) fn shown_path(path: &Path) -> String {
    text::inert_excerpt(&path.display().to_string(), SHOWN_CHARS_MAX)
}

/// A file that the configuration names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NamedFile {
    /// The reference as the user wrote it.
    pub(crate) shown: String,
    /// The resolved path, with all links and folders on the way.
    pub(crate) way: ResolvedPath,
    pub(crate) read: ReadTime,
    /// Whether it is run. A project's program is the user's choice, however its name leads to it: whoever sends the project
    /// could also put another file there.
    pub(crate) is_program: bool,
}

/// When a file is read, which decides what could be changed before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadTime {
    /// The file was already read at the end of its resolved path, so only the links on the path count.
    Now,
    /// The file is opened or run later, when any part of the path may have been changed.
    Later,
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn belljars_own_programs_are_not_searched_where_others_can_put_one() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        for place in ["a", "b"] {
            fs::create_dir(folder.join(place)).unwrap();
            fs::write(folder.join(place).join("tool"), "").unwrap();
            fs::set_permissions(folder.join(place).join("tool"), fs::Permissions::from_mode(0o755)).unwrap();
        }
        std::os::unix::fs::symlink("../a/tool", folder.join("b/linked")).unwrap();
        let path = format!("b-relative:{0}/a:{0}/b", folder.display());
        let changeable = |names: &[&str]| {
            ChangeablePlaces::new(names.iter().map(|name| ((*name).to_owned(), folder.join(name))))
        };
        let own = |name: &str, names: &[&str]| own_program(name, Some(path.as_ref()), &changeable(names));
        assert_eq!(own("tool", &[]), Some(folder.join("a/tool")));
        assert_eq!(own("tool", &["a"]), Some(folder.join("b/tool")));
        assert_eq!(own("tool", &["a", "b"]), None);
        assert_eq!((own("linked", &[]), own("linked", &["a"])), (Some(folder.join("b/linked")), None));
    }
}
