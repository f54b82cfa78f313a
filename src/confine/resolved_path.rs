//! A path with everything on the way to its end: whoever can change a symlink there chooses where the path leads.
//!
//! It judges nothing and opens nothing.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

/// Symlinks on one way.
const LINKS_MAX: usize = 40;

/// A path with the symlinks that lead to its end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResolvedPath {
    /// The symlinks on it, each at its own place without links.
    pub links: Vec<PathBuf>,
    /// Everything on it at its own place, the end among it.
    pub passed: Vec<PathBuf>,
    /// Its end, without links.
    pub end: PathBuf,
}

impl ResolvedPath {
    /// Of an absolute path; a part that is not there leads nowhere else.
    #[must_use]
    pub fn of(path: &Path) -> Self {
        let mut way = Self::default();
        way.end.push("/");
        let mut rest: VecDeque<OsString> = parts(path).collect();
        while let Some(part) = rest.pop_front() {
            if part == ".." {
                way.end.pop();
                continue;
            }
            let next = way.end.join(&part);
            way.passed.push(next.clone());
            match next.read_link() {
                Ok(target) if way.links.len() < LINKS_MAX => {
                    way.links.push(next);
                    if target.is_absolute() {
                        way.end = PathBuf::from("/");
                    }
                    parts(&target).rev().for_each(|part| rest.push_front(part));
                }
                _ => way.end = next,
            }
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
        assert_eq!(way.links, [at("outer"), at("outer"), at("a/inner")].to_vec());
        symlink("loop", at("loop")).unwrap();
        assert_eq!(ResolvedPath::of(&at("loop")).links.len(), LINKS_MAX);
        assert_eq!(ResolvedPath::of(&at("nowhere/x")).end, at("nowhere/x"));
    }
}
