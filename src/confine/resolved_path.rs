//! A path with all symlinks and folders on its way: a process that can change one of the symlinks chooses the target.
//!
//! It judges nothing and opens nothing.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::path::{Component, Path, PathBuf};

use super::look_budget::LookBudget;

/// The largest number of symlinks that are followed on one way.
const LINKS_MAX: usize = 40;
/// The largest number of parts that are looked at on one way, including parts of symlink targets. The number of parts
/// that still wait has the same bound.
const PARTS_MAX: usize = 512;

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
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

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
}
