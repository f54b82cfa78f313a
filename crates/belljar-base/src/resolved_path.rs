//! A path with all symlinks and folders on its way: a process or another user that can change one of them chooses the
//! target.
//!
//! It opens and refuses nothing: its callers do.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use nix::unistd::{Gid, Group, Uid, User};

use super::look_budget::LookBudget;

/// The largest number of symlinks that are followed on one way.
const LINKS_MAX: usize = 40;
/// The largest number of parts that are looked at on one way, including parts of symlink targets. The number of parts
/// that still wait has the same bound.
const PARTS_MAX: usize = 512;
/// The user as which owners appear that a user namespace does not have.
const OVERFLOW_USER: u32 = 65_534;

/// A resolved path, with the symlinks that lead to its target.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResolvedPath {
    /// The symlinks on the way, each by a path with no symlink above it, and with its target.
    pub links: Vec<(PathBuf, PathBuf)>,
    /// Every file, folder and symlink on the way, by a path with no symlink above it. The end is among them.
    pub passed: Vec<PathBuf>,
    /// The symlinks that lead directly to the end, by paths with no symlink above them, and then the end.
    pub names: Vec<PathBuf>,
    /// The end of the path, without links.
    pub end: PathBuf,
    /// Why the path was not followed to its end: a part does not exist, or there are too many links or parts. The rest
    /// of the path is only appended.
    pub missing: Option<io::ErrorKind>,
}

impl ResolvedPath {
    /// The first symlink on the way that is in a real folder.
    #[must_use]
    pub fn link_in(&self, folder: &Path) -> Option<&Path> {
        self.links.iter().map(|(link, _)| link.as_path()).find(|link| link.starts_with(folder))
    }

    /// The first symlink of which this is true, and the first and the last of `names` if the path comes to them after it.
    #[must_use]
    pub fn after(&self, is_it: impl Fn(&Path) -> bool) -> Option<(&Path, Vec<&Path>)> {
        let place = self.links.iter().position(|(link, _)| is_it(link))?;
        let last_of = |name: &PathBuf| self.links.iter().rposition(|(link, _)| link == name);
        let before =
            self.names.iter().take_while(|name| last_of(name).is_some_and(|last| last <= place)).count();
        let first = self.names.first().filter(|_| before == 0);
        Some((&self.links[place].0, first.into_iter().chain([&self.end]).map(PathBuf::as_path).collect()))
    }

    /// Follows an absolute path as the kernel does.
    #[must_use]
    pub fn of(path: &Path) -> Self {
        Self::within(path, &LookBudget::new(2 * PARTS_MAX))
    }

    /// As [`Self::of`], within the budget `looks`. A path that exceeds the budget counts as a path with too many parts.
    #[must_use]
    pub fn within(path: &Path, looks: &LookBudget) -> Self {
        let mut way = Self { end: PathBuf::from("/"), ..Self::default() };
        let mut rest: VecDeque<OsString> = parts(path).collect();
        let mut parts_left = PARTS_MAX;
        while let Some(part) = rest.pop_front() {
            if part == ".." {
                way.end.pop();
                continue;
            }
            let Some(left) = parts_left.checked_sub(1).filter(|_| looks.take(1)) else {
                way.missing.get_or_insert(io::ErrorKind::InvalidFilename);
                way.end.push(part);
                continue;
            };
            parts_left = left;
            let next = way.end.join(&part);
            way.passed.push(next.clone());
            match next.read_link() {
                Ok(target) if way.links.len() < LINKS_MAX => {
                    let more = parts(&target).count();
                    if rest.len() + more > PARTS_MAX || !looks.take(more) {
                        way.missing.get_or_insert(io::ErrorKind::InvalidFilename);
                        way.end.clone_from(&next);
                        way.links.push((next, target));
                        continue;
                    }
                    if rest.is_empty() {
                        way.names.push(next.clone());
                    }
                    if target.is_absolute() {
                        way.end = PathBuf::from("/");
                    }
                    parts(&target).rev().for_each(|part| rest.push_front(part));
                    way.links.push((next, target));
                }
                Ok(_) => {
                    way.missing.get_or_insert(io::ErrorKind::NotFound);
                    way.end = next;
                }
                Err(error) => {
                    // This error says that something else than a symlink is there.
                    if error.kind() != io::ErrorKind::InvalidInput {
                        way.missing.get_or_insert(error.kind());
                    }
                    way.end = next;
                }
            }
        }
        way.names.push(way.end.clone());
        if way.passed.last() != Some(&way.end) {
            way.passed.push(way.end.clone());
        }
        way
    }

    /// The first symlink on the way that belongs neither to the user nor to root.
    #[must_use]
    pub fn foreign_link(&self, uid: u32) -> Option<&Path> {
        let is_foreign = |link: &Path| {
            // What is no symlink any more has been exchanged since.
            let is_safe =
                |found: Metadata| found.is_symlink() && (found.uid() == uid || is_root(found.uid()));
            !link.symlink_metadata().is_ok_and(is_safe)
        };
        self.links.iter().map(|(link, _)| link.as_path()).find(|link| is_foreign(link))
    }

    /// The first symlink on the way that another user has made, or could have put there: whoever can write a folder can rename
    /// what is in it. What others can do in the folders above `home` does not count.
    #[must_use]
    pub fn link_of_others(&self, uid: u32, home: &Path) -> Option<&Path> {
        let is_moved = |link: &Path| {
            let mut above = link.ancestors().skip(1).filter(|folder| !home.starts_with(folder));
            above.any(|folder| replaceable(folder, uid).is_some())
        };
        let moved = self.links.iter().map(|(link, _)| link.as_path()).find(|link| is_moved(link));
        self.foreign_link(uid).or(moved)
    }

    /// The first place before the end that another user has made where all users can, or a symlink of another user. Other folders
    /// of a group or of an administrator's account do not count: on some machines HOME lies in one.
    #[must_use]
    pub fn planted_by_others(&self, uid: u32) -> Option<&Path> {
        // A symlink is in the file system of its folder, wherever it leads.
        let has_owners = |place: &Path| place.parent().is_none_or(has_owners);
        let about = |place: &Path| place.symlink_metadata().ok().filter(|_| has_owners(place));
        let is_of_all = |folder: &Path| about(folder).is_some_and(|about| about.mode() & 0o002 != 0);
        let is_foreign = |about: &Metadata| about.uid() != uid && !is_root(about.uid());
        let is_planted = |place: &&PathBuf| {
            about(place).is_some_and(|about| {
                is_foreign(&about) && (about.is_symlink() || place.parent().is_some_and(is_of_all))
            })
        };
        self.passed.iter().filter(|place| **place != self.end).find(is_planted).map(PathBuf::as_path)
    }

    /// The first symlink or folder on the way by which another user could choose where it leads, and why that user could.
    #[must_use]
    pub fn chosen_by_others(&self, uid: u32) -> Option<(&Path, &'static str)> {
        self.chosen_by_others_but(uid, &[])
    }

    /// As [`Self::chosen_by_others`], where what others can replace in these folders does not count.
    #[must_use]
    pub fn chosen_by_others_but(&self, uid: u32, folders: &[PathBuf]) -> Option<(&Path, &'static str)> {
        let link = self.foreign_link(uid).map(|link| (link, "a link that belongs to another user"));
        let mut above = self
            .passed
            .iter()
            .filter_map(|place| place.parent())
            .filter(|folder| !folders.iter().any(|but| but == folder));
        let planted = || {
            let (folder, end) = (self.end.parent()?, self.end.symlink_metadata().ok()?);
            let is_shared = has_owners(folder) && folder.symlink_metadata().ok()?.mode() & 0o022 != 0;
            let is_planted = is_shared && end.uid() != uid && !is_root(end.uid());
            is_planted.then_some((&*self.end, "what another user has put into a folder that all can write"))
        };
        link.or_else(|| above.find_map(|folder| Some((folder, replaceable(folder, uid)?)))).or_else(planted)
    }
}

/// Whether the file system of a folder keeps owners and modes. One of Windows, as WSL shows it at /mnt/c, or of a memory
/// stick does not: all that is in it appears as writable for everyone, or for nobody.
#[cfg(target_os = "linux")]
fn has_owners(folder: &Path) -> bool {
    use nix::sys::statfs::{FsType, MSDOS_SUPER_MAGIC, statfs};

    // V9FS_MAGIC of linux/magic.h, by which WSL and virtual machines share folders.
    let without = [MSDOS_SUPER_MAGIC, FsType(0x0102_1997)];
    !statfs(folder).is_ok_and(|system| without.contains(&system.filesystem_type()))
}

#[cfg(not(target_os = "linux"))]
fn has_owners(_folder: &Path) -> bool {
    true
}

/// Whether others cannot come to a folder, since one above it lets only this user through.
fn is_shut_off(folder: &Path, uid: u32) -> bool {
    let is_shut = |above: &Path| {
        above
            .symlink_metadata()
            .is_ok_and(|about| [uid, 0].contains(&about.uid()) && about.is_dir() && about.mode() & 0o011 == 0)
    };
    folder.ancestors().skip(1).any(is_shut)
}

/// Why other users can replace any file or folder in a folder; `None`: they cannot, or cannot come to it.
fn replaceable(folder: &Path, uid: u32) -> Option<&'static str> {
    let about = folder.symlink_metadata().ok().filter(Metadata::is_dir)?;
    let why = replaced_by_others(&about, uid)?;
    (has_owners(folder) && !is_shut_off(folder, uid)).then_some(why)
}

/// Why users other than this one and root can replace any file or folder in a folder; `None`: they cannot.
fn replaced_by_others(folder: &Metadata, uid: u32) -> Option<&'static str> {
    let (owner, mode) = (folder.uid(), folder.mode());
    if owner != uid && !is_root(owner) {
        return Some("a folder that belongs to another user");
    }
    // In a sticky folder, users replace only what is theirs.
    let is_of_others = mode & 0o1000 == 0 && is_written_by_others(folder, uid);
    is_of_others.then_some("a folder that other users can write; `chmod go-w` there prevents that")
}

/// Whether the mode of a file or folder lets users other than this one and root write it.
#[must_use]
pub fn is_written_by_others(about: &Metadata, uid: u32) -> bool {
    let is_of_other_group = || ![uid, 0].iter().any(|user| is_private_group(about.gid(), *user));
    about.mode() & 0o002 != 0 || about.mode() & 0o020 != 0 && is_of_other_group()
}

/// Whether the owner is root, or appears as nobody in a user namespace that does not have root.
fn is_root(owner: u32) -> bool {
    let is_first_namespace = || {
        let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
        map.split_whitespace().eq(["0", "0", "4294967295"])
    };
    owner == 0 || owner == OVERFLOW_USER && !is_first_namespace()
}

/// Whether a group is there for one user only, as on systems on which users write files for their group (umask 002): it
/// is the user's first one, has the user's name, lists nobody else, and is no other local account's first one. Without an account, the numbers must be equal.
fn is_private_group(group: u32, uid: u32) -> bool {
    let user = User::from_uid(Uid::from_raw(uid)).ok().flatten();
    match (user, Group::from_gid(Gid::from_raw(group)).ok().flatten()) {
        (Some(user), Some(group)) => {
            let is_alone = group.mem.iter().all(|name| *name == user.name);
            user.gid == group.gid && user.name == group.name && is_alone && {
                let accounts = fs::read_to_string("/etc/passwd").unwrap_or_default();
                !has_other_member(&accounts, &user.name, user.gid.as_raw())
            }
        }
        (None, None) => group == uid,
        _ => false,
    }
}

/// Whether this is the first group of another account too, which its list of members does not tell.
fn has_other_member(accounts: &str, name: &str, group: u32) -> bool {
    accounts.lines().any(|line| {
        let mut fields = line.split(':');
        let is_other = fields.next().is_some_and(|other| other != name);
        is_other && fields.nth(2).and_then(|field| field.parse().ok()) == Some(group)
    })
}

fn parts(path: &Path) -> impl DoubleEndedIterator<Item = OsString> + '_ {
    path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsString::from("..")),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    use super::*;

    #[test]
    fn a_group_that_is_the_first_one_of_another_account_is_shared() {
        let accounts = "root:x:0:0::/root:/bin/sh\nalice:x:1000:1000::/home/alice:/bin/sh\n\nbob:x:1001:1001::/:/bin/sh\n";
        assert!(!has_other_member(accounts, "alice", 1000));
        assert!(has_other_member(&accounts.replace("1001:1001", "1001:1000"), "alice", 1000));
    }

    #[test]
    fn every_place_on_the_way_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        fs::create_dir_all(dir.join("a/b")).unwrap();
        fs::write(dir.join("a/b/file"), "").unwrap();
        symlink("b/file", dir.join("a/inner")).unwrap();
        symlink(dir.join("a"), dir.join("outer")).unwrap();
        let way = ResolvedPath::of(&dir.join("outer/../outer/./inner"));
        let at = |name: &str| dir.join(name);
        assert_eq!(way.end, at("a/b/file"));
        let links: Vec<_> = way.links.iter().map(|(link, _)| link.clone()).collect();
        assert_eq!(links, [at("outer"), at("outer"), at("a/inner")].to_vec());
        assert_eq!(way.names, [at("a/inner"), at("a/b/file")].to_vec());
        assert_eq!(way.missing, None);
        symlink("loop", at("loop")).unwrap();
        let way = ResolvedPath::of(&at("loop"));
        assert_eq!((way.links.len(), way.missing), (LINKS_MAX, Some(io::ErrorKind::NotFound)));
        let way = ResolvedPath::of(&at("nowhere/x"));
        assert_eq!((way.end, way.missing), (at("nowhere/x"), Some(io::ErrorKind::NotFound)));
    }

    #[test]
    fn the_first_and_the_last_name_after_a_symlink_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        let at = |name: &str| dir.join(name);
        for folder in ["own", "theirs", "private/bin"] {
            fs::create_dir_all(at(folder)).unwrap();
        }
        fs::write(at("end"), "").unwrap();
        symlink("../end", at("own/last")).unwrap();
        symlink("../own/last", at("theirs/link")).unwrap();
        symlink("theirs/link", at("first")).unwrap();
        symlink("../private", at("theirs/folder")).unwrap();
        symlink("../../end", at("private/bin/python")).unwrap();
        symlink("own", at("way")).unwrap();
        for (path, expected) in [
            ("first", vec!["end"]),
            ("theirs/folder/bin/python", vec!["private/bin/python", "end"]),
            ("way/last", vec![]),
            ("theirs/folder/../way/../own/last", vec!["own/last", "end"]),
        ] {
            let way = ResolvedPath::of(&at(path));
            let found = way.after(|link| link.starts_with(at("theirs"))).map(|(_, names)| names);
            assert_eq!(found.unwrap_or_default(), expected.into_iter().map(at).collect::<Vec<_>>(), "{path}");
        }
    }

    #[test]
    fn a_path_of_too_many_parts_keeps_its_end_and_counts_as_missing() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        fs::create_dir(dir.join("a")).unwrap();
        let path = dir.join("a/../".repeat(PARTS_MAX)).join("a");
        let way = ResolvedPath::of(&path);
        assert_eq!((&way.end, way.missing), (&dir.join("a"), Some(io::ErrorKind::InvalidFilename)));
        assert_eq!(way.passed.last(), Some(&way.end));
        assert!(way.passed.len() <= PARTS_MAX + 1);
        // The target of a symlink can have as many.
        symlink("a/../".repeat(PARTS_MAX / 2) + "a", dir.join("long")).unwrap();
        symlink("a/../".repeat(PARTS_MAX / 4) + "a", dir.join("short")).unwrap();
        let way = ResolvedPath::of(&dir.join("long"));
        assert_eq!((&way.end, way.missing), (&dir.join("long"), Some(io::ErrorKind::InvalidFilename)));
        assert_eq!(way.links.len(), 1);
        let way = ResolvedPath::of(&dir.join("short"));
        assert_eq!((&way.end, way.missing), (&dir.join("a"), None));
        let looks = LookBudget::new(PARTS_MAX / 2);
        let way = ResolvedPath::within(&dir.join("short"), &looks);
        assert_eq!((way.missing, looks.left()), (Some(io::ErrorKind::InvalidFilename), 0));
    }

    /// A folder `a/b` with a link `a/link` to it, at its real path.
    fn tree() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap();
        fs::create_dir_all(path.join("a/b")).unwrap();
        symlink("b", path.join("a/link")).unwrap();
        (dir, path)
    }

    fn with_mode(folder: &Path, mode: u32) {
        fs::set_permissions(folder, Permissions::from_mode(mode)).unwrap();
    }

    fn found(path: &Path, uid: u32) -> Option<PathBuf> {
        ResolvedPath::of(path).chosen_by_others(uid).map(|(place, _)| place.to_owned())
    }

    /// As when another user makes a folder in /tmp before this user does. Only root can play both users.
    #[test]
    fn what_another_user_has_put_into_a_shared_folder_is_not_taken() {
        let (_dir, dir) = tree();
        let place = dir.join("a/b");
        with_mode(&dir.join("a"), 0o1777);
        assert_eq!(found(&place, nix::unistd::geteuid().as_raw()), None);
        if nix::unistd::geteuid().is_root() {
            chown(&place, Some(4242), None).unwrap();
            assert_eq!(found(&place, 0), Some(place.clone()));
            with_mode(&dir.join("a"), 0o755);
            assert_eq!(found(&place, 0), None, "nobody but its owner could have put it there");
        }
    }

    #[test]
    fn a_folder_that_others_can_write_leads_nowhere_unless_it_is_sticky() {
        let (_dir, dir) = tree();
        let (own, a) = (nix::unistd::geteuid().as_raw(), dir.join("a"));
        for (mode, is_safe) in [(0o755, true), (0o700, true), (0o757, false), (0o777, false), (0o1757, true)]
        {
            with_mode(&a, mode);
            let expected = Some(a.clone()).filter(|_| !is_safe);
            for path in ["a/b", "a/link", "a/none/x", "a/b/../b"] {
                assert_eq!(found(&dir.join(path), own), expected, "{mode:o} {path}");
            }
            // Nobody but those who can write the folder above can replace the folder itself.
            assert_eq!(found(&a, own), None, "{mode:o}");
        }
    }

    #[test]
    fn links_and_folders_of_another_user_lead_nowhere() {
        let (_dir, dir) = tree();
        let own = nix::unistd::geteuid().as_raw();
        with_mode(&dir.join("a"), 0o755);
        assert_eq!(found(&dir.join("a/link"), own), None);
        let (place, reader) = if own == 0 {
            std::os::unix::fs::lchown(dir.join("a/link"), Some(4242), None).unwrap();
            chown(dir.join("a"), Some(4243), None).unwrap();
            (dir.join("a/link"), own)
        } else {
            (dir.join("a/link"), own + 1)
        };
        assert_eq!(found(&place, reader), Some(place.clone()));
        assert_eq!(ResolvedPath::of(&place).foreign_link(reader), Some(&*place));
        // The owner of a folder can replace what is in it, whatever its mode is.
        assert_eq!(found(&dir.join("a/b"), own).is_some(), own == 0);
        assert!(found(&dir.join("a/b"), reader).is_some());
    }

    #[test]
    fn a_group_of_others_can_replace_what_it_can_write() {
        let (_dir, dir) = tree();
        let (own, a) = (nix::unistd::geteuid(), dir.join("a"));
        let first = fs::metadata(&a).unwrap().gid();
        with_mode(&a, 0o775);
        let is_private = is_private_group(first, own.as_raw()) || is_private_group(first, 0);
        assert_eq!(found(&a.join("b"), own.as_raw()).is_none(), is_private);
        if !own.is_root() {
            return; // Only root gives a folder to any group.
        }
        assert!(is_private, "root's own group");
        chown(&a, None, Some(4242)).unwrap();
        for (mode, is_safe) in [(0o2775, false), (0o2755, true), (0o3775, true)] {
            with_mode(&a, mode);
            assert_eq!(found(&a.join("b"), 0).is_none(), is_safe, "{mode:o}");
        }
    }
}
