//! Reads the `[[mount]]` tables of the user's config.toml: folders of the user that code may read, or write.
//!
//! It checks that they exist and are safe to share; it mounts nothing. A project's file may have no such tables.

use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use belljar_base::problem::{Position, Problem, Severity};
use belljar_base::resolved_path::ResolvedPath;
use belljar_base::text;
use belljar_confine::{ChangeablePlaces, MountList, PlaceKind, PrivatePlaces};

use super::toml_file::{FileOwner, TomlFile, WrittenMount};
use crate::config::read::changeable::shown_path;
use crate::config::read::environment::Environment;

/// The largest number of mounted folders.
const MOUNTS_MAX: usize = 32;
/// The folder in the sandbox that holds all mounts.
const BELOW: &str = "/mnt/";
/// The longest path of a mount in the sandbox, in bytes.
const GUEST_BYTES_MAX: usize = 200;
/// Folders of the system. No folder that is one of them, lies in one or contains one is mounted. Those of macOS come
/// last.
const OF_THE_SYSTEM: [&str; 47] = [
    "/bin",
    "/boot",
    "/dev",
    "/etc",
    "/gnu",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/lost+found",
    "/nix",
    "/ostree",
    "/proc",
    "/root",
    "/run",
    "/sbin",
    "/snap",
    "/sys",
    "/sysroot",
    "/usr",
    "/var/backups",
    "/var/cache",
    "/var/crash",
    "/var/db",
    "/var/empty",
    "/var/lib",
    "/var/lock",
    "/var/log",
    "/var/mail",
    "/var/root",
    "/var/run",
    "/var/snap",
    "/var/spool",
    "/var/vm",
    "/Applications",
    "/Library",
    "/System",
    "/cores",
    "/private/etc",
    "/private/var/audit",
    "/private/var/db",
    "/private/var/empty",
    "/private/var/log",
    "/private/var/root",
    "/private/var/run",
    "/private/var/spool",
    "/private/var/vm",
];
/// Folders that every user or program shares: only folders inside them are mounted.
const SHARED: [&str; 6] = ["/Users", "/Volumes", "/home", "/private/tmp", "/tmp", "/var/tmp"];
/// The folder of the system in which desktops mount disks.
const DISKS: &str = "/run/media";

/// A folder of the user that is mounted into sandboxes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountedFolder {
    /// Its path on the host, absolute and without links.
    pub host: PathBuf,
    /// Its path in the sandbox, below `/mnt`.
    pub guest: String,
    /// Whether code may write to it.
    pub writable: bool,
    /// The file that has the `[[mount]]`, and the position in it.
    pub source: (PathBuf, Position),
    /// The path as it is written, with all links and folders on the way.
    way: ResolvedPath,
    /// The path as it is written, absolute.
    written: PathBuf,
}

/// The description of sandboxed code as a process that can change places.
pub(crate) const CODE: &str = "code";
/// The hint for a mount that is left out.
const NOT_MOUNTED: &str = "it is not mounted";

/// The folders of all `[[mount]]` tables.
#[derive(Debug, Default)]
pub(crate) struct Mounts {
    /// The folders that can be mounted.
    pub(crate) folders: Vec<MountedFolder>,
    /// Folders that should be writable and are not mounted, since belljar's own files are, contain or lie in them.
    /// Sandboxes that still run may have them.
    pub(crate) conflicting: Vec<PathBuf>,
}

impl MountedFolder {
    /// The device and inode of the folder to which the written path leads now.
    pub(crate) fn identity(&self) -> Option<(u64, u64)> {
        self.written.metadata().ok().map(|about| (about.dev(), about.ino()))
    }

    /// The problem if a confined server or code could replace the folder by another one, or may have left the symlink that leads
    /// to it; `None`: none could.
    pub(crate) fn replaced(
        &self,
        changeable: &ChangeablePlaces,
        recorded: &ChangeablePlaces,
    ) -> Option<Problem> {
        let linked = || {
            let link = recorded.link_in(&self.way)?;
            Some(format!(
                "host: the path of {} goes through the symlink {}, which {} could change, and so choose what is mounted",
                shown_path(&self.host),
                shown_path(link),
                recorded.changer(link)?
            ))
        };
        let message = replaced(changeable, &self.way, &self.host).or_else(linked)?;
        let (path, position) = &self.source;
        Some(Problem::of_file(path, message).at(*position).key("mount").hint(NOT_MOUNTED))
    }
}

/// The message about a folder that a process could replace by another one.
fn replaced(changeable: &ChangeablePlaces, way: &ResolvedPath, host: &Path) -> Option<String> {
    let (who, place) = changeable.replaced_in(way)?;
    Some(format!(
        "host: the path of {} leads through {}, which {who} can replace, and so choose what is mounted",
        shown_path(host),
        shown_path(place)
    ))
}

/// The folders that can be mounted. Problems with the others are reported.
pub(crate) fn mounts(
    environment: &Environment,
    private: &PrivatePlaces,
    files: &[TomlFile],
    problems: &mut Vec<Problem>,
) -> Mounts {
    let host = |file: &TomlFile, written: &WrittenMount| {
        let path = environment.resolve(&written.host, file.path.parent());
        std::path::absolute(&path).unwrap_or(path)
    };
    let own = files.iter().filter(|file| file.owner == FileOwner::User);
    let writable = own.flat_map(|file| {
        let writable = file.mounts.iter().filter(|written| written.writable);
        writable.map(|written| (CODE.to_owned(), host(file, written)))
    });
    // Code never gets the others, which may be as wide as the root.
    let writable = writable.filter(|(_, host)| is_kept_from_code(environment, &real(host)).is_none());
    let (writable, projects) = (ChangeablePlaces::new(writable), environment.projects());
    let rules = Rules { environment, private, writable, projects };
    let mut mounts = Mounts::default();
    for file in files {
        for written in &file.mounts {
            let problem =
                |message: String| Problem::of_file(&file.path, message).at(written.position).key("mount");
            if file.owner != FileOwner::User {
                let hint = "write it into your own config.toml";
                let problem = problem("is not taken from a project".into());
                problems.push(problem.severity(Severity::Warning).hint(hint));
                continue;
            }
            let path = host(file, written);
            let way = ResolvedPath::of(&path);
            match rules.checked(&path, &way, written, &mounts.folders) {
                Ok((host, guest)) => {
                    let (writable, source) = (written.writable, (file.path.clone(), written.position));
                    let folder = MountedFolder { host, guest, writable, source, way, written: path };
                    mounts.folders.push(folder);
                }
                Err(refusal) => {
                    mounts.conflicting.extend(
                        Some(way.end).filter(|_| written.writable && refusal.private == Some(PlaceKind::Own)),
                    );
                    problems.push(problem(refusal.message).hint(NOT_MOUNTED));
                }
            }
        }
    }
    mounts
}

/// The reason why a folder is not mounted.
struct Refusal {
    message: String,
    /// The kind of the private place that it is, holds or lies in.
    private: Option<PlaceKind>,
}

impl From<String> for Refusal {
    fn from(message: String) -> Self {
        Self { message, private: None }
    }
}

/// What decides which folders may be mounted.
struct Rules<'r> {
    environment: &'r Environment,
    private: &'r PrivatePlaces,
    /// All folders of the file that code may write to, whether they can be mounted or not.
    writable: ChangeablePlaces,
    /// The folders of the project that belljar was started in. Files there may come from strangers.
    projects: Vec<PathBuf>,
}

impl Rules<'_> {
    fn checked(
        &self,
        path: &Path,
        way: &ResolvedPath,
        written: &WrittenMount,
        others: &[MountedFolder],
    ) -> Result<(PathBuf, String), Refusal> {
        if others.len() == MOUNTS_MAX {
            return Err(format!("is one more than the {MOUNTS_MAX} that there may be").into());
        }
        let shown = shown_path(path);
        // This comes first: what the path leads to now is what code has chosen.
        if let Some(message) = replaced(&self.writable, way, path) {
            return Err(message.into());
        }
        if let Some(link) = self.projects.iter().find_map(|project| way.link_in(project)) {
            let link = shown_path(link);
            return Err(format!(
                "host: {shown} goes through the project's symlink {link}; whoever sends the project chose where that leads, \
                 so name the real path"
            )
            .into());
        }
        if let Some((place, why)) = way.chosen_by_others(self.environment.uid) {
            let place = shown_path(place);
            return Err(format!("host: the path of {shown} leads through {place}, {why}").into());
        }
        let host = path.canonicalize().map_err(|error| format!("host: {shown}: {error}"))?;
        if host != way.end {
            return Err(format!("host: {shown} leads to another folder from moment to moment").into());
        }
        if !host.is_dir() {
            return Err(format!(
                "host: {shown} is no folder; a file is mounted with the folder that it is in"
            )
            .into());
        }
        if let Some(why) = is_kept_from_code(self.environment, &host) {
            return Err(format!("host: {shown} {why}").into());
        }
        if let Some((private, place)) = self.private.kept_from_code(path, written.writable) {
            let why = match private {
                PlaceKind::Own => "holds belljar's own files",
                PlaceKind::Logins => "holds keys or logins",
                PlaceKind::Start => "holds what is executed when you log in",
            };
            // belljar's program may be read.
            let is_only_changed = private == PlaceKind::Own && self.private.at(path).is_none();
            let remedy = if is_only_changed { "; without writable it would be mounted" } else { "" };
            let message = format!("host: {shown} {why} ({}){remedy}", shown_path(&place));
            return Err(Refusal { message, private: Some(private) });
        }
        Ok((host.clone(), named(&host, &shown, written, others)?))
    }
}

/// The path of a folder in the sandbox, if it can be mounted there beside the others.
fn named(
    host: &Path,
    shown: &str,
    written: &WrittenMount,
    others: &[MountedFolder],
) -> Result<String, String> {
    // These characters are separators in the syntax of engines.
    let is_plain =
        host.to_str().is_some_and(|host| !host.contains([':', ',']) && !host.contains(char::is_control));
    if !is_plain {
        return Err(format!("host: {shown} has a name with a colon, a comma or something unprintable in it"));
    }
    let guest = match &written.guest {
        Some(guest) => guest.trim_end_matches('/').to_owned(),
        None => format!("{BELOW}{}", host.file_name().unwrap_or_default().to_string_lossy()),
    };
    let is_name = |part: &str| {
        let has_letters = part.chars().any(|c| c != '.');
        has_letters && part.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
    };
    let below = guest.strip_prefix(BELOW).filter(|below| below.split('/').all(is_name));
    if below.is_none() || guest.len() > GUEST_BYTES_MAX {
        let shown = text::inert_excerpt(&guest, GUEST_BYTES_MAX);
        return Err(format!(
            "guest: \"{shown}\" must be below /mnt, of ASCII letters, digits, '.', '_' and '-'"
        ));
    }
    // If one of two nested mounts is writable, code could change the other one through it, for example by a link.
    let mounts = MountList::now();
    let is_beside = |other: &&MountedFolder| {
        (written.writable || other.writable)
            && (mounts.lies_in(host, &other.host) || mounts.lies_in(&other.host, host))
    };
    if let Some(other) = others.iter().find(is_beside) {
        return Err(format!(
            "host: {shown} lies in or above that of {}, and one of them is writable",
            other.guest
        ));
    }
    let overlaps = |other: &&MountedFolder| {
        Path::new(&guest).starts_with(&other.guest) || Path::new(&other.guest).starts_with(&guest)
    };
    match others.iter().find(overlaps) {
        Some(other) => {
            Err(format!("guest: {guest} lies in or above {}, which is mounted already", other.guest))
        }
        None => Ok(guest),
    }
}

/// The path with links resolved, if it exists.
fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// The reason for which code may not have this folder, whatever is in it.
fn is_kept_from_code(environment: &Environment, host: &Path) -> Option<&'static str> {
    if !host.components().any(|part| matches!(part, Component::Normal(_))) {
        return Some("is all of the machine; mount a folder with your data");
    }
    if SHARED.iter().any(|shared| host == real(Path::new(shared))) {
        return Some("is shared by all users or programs; mount a folder inside it");
    }
    if is_of_the_system(environment, host) {
        return Some("belongs to the system or holds a folder that does; mount a folder with your data");
    }
    let is_home = environment.home.as_deref().is_some_and(|home| real(home).starts_with(host));
    is_home.then_some("holds your whole home, with all keys and logins")
}

fn is_of_the_system(environment: &Environment, host: &Path) -> bool {
    // `/root` is one of these folders, but the user's home if the user is root.
    let is_in_home = environment
        .home
        .as_deref()
        .map(real)
        .is_some_and(|home| host != home && host.starts_with(&home) && home.components().count() > 1);
    let is_on_disk = host != Path::new(DISKS) && host.starts_with(DISKS);
    let is_system = |own: &&str| {
        let own = real(Path::new(own));
        host.starts_with(&own) || own.starts_with(host)
    };
    !is_in_home && !is_on_disk && OF_THE_SYSTEM.iter().any(is_system)
}

#[cfg(test)]
#[path = "mounts_tests.rs"]
mod tests;
