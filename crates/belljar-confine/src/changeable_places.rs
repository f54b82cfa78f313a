//! The places that sandboxed code or confined servers can change. A process that can replace a file or folder on a path
//! chooses where the path leads.
//!
//! It opens and refuses nothing: its callers do.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::mount_list::MountList;
use super::private_places::{Identity, identity};
use belljar_base::resolved_path::ResolvedPath;

/// Real files and folders, each with a description of the process that can change it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChangeablePlaces(Arc<[ChangeablePlace]>);

/// A path at which a process can change a file or folder.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ChangeablePlace {
    who: String,
    path: PathBuf,
    identity: Option<Identity>,
}

impl ChangeablePlaces {
    /// Resolves the paths, each with a description of the process that can change it. A path through a symlink that
    /// such a process can change is left out: the process could have chosen its target. The folder of the symlink is in
    /// the list by itself. Bind mounts of a place, or of something in it, are in the list too.
    #[must_use]
    pub fn new(named: impl IntoIterator<Item = (String, PathBuf)>) -> Self {
        Self::new_beside(&Self::default(), named)
    }

    /// As [`Self::new()`], without what a symlink leads to that the processes of `others` can change.
    #[must_use]
    pub fn new_beside(others: &Self, named: impl IntoIterator<Item = (String, PathBuf)>) -> Self {
        let mounts = MountList::now();
        let ways = named.into_iter().map(|(who, path)| (who, ResolvedPath::of(&path)));
        let (direct, linked): (Vec<_>, Vec<_>) = ways.partition(|(_, way)| way.links.is_empty());
        let places = |(who, way): (String, ResolvedPath)| {
            let place =
                move |path: PathBuf| ChangeablePlace { who: who.clone(), identity: of_folder(&path), path };
            mounts.names_of_parts(&way.end).into_iter().map(place)
        };
        let ends = |ways: Vec<_>| ways.into_iter().flat_map(places).collect::<Vec<_>>();
        let direct = ends(direct);
        let first = Self(direct.clone().into());
        let is_sure =
            |way: &ResolvedPath| [&first, others].iter().all(|places| places.link_in(way).is_none());
        let linked: Vec<_> = linked.into_iter().filter(|(_, way)| is_sure(way)).collect();
        Self([direct, ends(linked)].concat().into())
    }

    /// These places and the others.
    #[must_use]
    pub fn and(&self, others: &Self) -> Self {
        let new = others.0.iter().filter(|place| !self.0.contains(place));
        Self(self.0.iter().chain(new).cloned().collect())
    }

    /// The real paths, each with the description of the process that can change it.
    pub fn named(&self) -> impl Iterator<Item = (&str, &Path)> {
        self.0.iter().map(|place| (place.who.as_str(), place.path.as_path()))
    }

    /// Whether each of them is one of these folders, or is in one.
    #[must_use]
    pub fn are_in(&self, folders: &[PathBuf]) -> bool {
        self.0.iter().all(|place| folders.iter().any(|folder| place.path.starts_with(folder)))
    }

    /// Those that other processes than this one can change. Its description may go on in theirs.
    #[must_use]
    pub fn of_others(&self, who: &str) -> Self {
        Self(self.0.iter().filter(|place| !place.who.starts_with(who)).cloned().collect())
    }

    /// Their paths.
    #[must_use]
    pub fn paths(&self) -> Vec<PathBuf> {
        self.0.iter().map(|place| place.path.clone()).collect()
    }

    /// The process that can change this real path. Other names of the same folder count, where the system compares
    /// names without case.
    #[must_use]
    pub fn changer(&self, real: &Path) -> Option<&str> {
        let above: Vec<_> = real.ancestors().filter_map(of_folder).collect();
        let is_in = |place: &&ChangeablePlace| {
            real.starts_with(&place.path) || place.identity.is_some_and(|place| above.contains(&place))
        };
        self.0.iter().find(is_in).map(|place| place.who.as_str())
    }

    /// Whether a process can change this real path.
    #[must_use]
    pub fn holds(&self, real: &Path) -> bool {
        self.changer(real).is_some()
    }

    /// The first symlink on the way that a process can change.
    #[must_use]
    pub fn link_in<'a>(&self, way: &'a ResolvedPath) -> Option<&'a Path> {
        way.links.iter().map(|(link, _)| link.as_path()).find(|link| self.holds(link))
    }

    /// The first file, folder or symlink on the way that a process can change, and the process.
    #[must_use]
    pub fn changed_in<'a>(&'a self, way: &'a ResolvedPath) -> Option<(&'a str, &'a Path)> {
        way.passed.iter().find_map(|place| Some((self.changer(place)?, place.as_path())))
    }

    /// The first file, folder or symlink on the way that a process can replace by another, and the process. A process
    /// cannot replace the place itself that it was given.
    #[must_use]
    pub fn replaced_in<'a>(&'a self, way: &'a ResolvedPath) -> Option<(&'a str, &'a Path)> {
        way.passed.iter().find_map(|place| Some((self.changer(place.parent()?)?, place.as_path())))
    }

    /// The first symlink by which a process could have made the path lead out of what that process can change, to a name
    /// that `is_fine` does not accept.
    #[must_use]
    pub fn link_out<'a>(&self, way: &'a ResolvedPath, is_fine: impl Fn(&Path) -> bool) -> Option<&'a Path> {
        self.0.iter().find_map(|place| {
            let place = Self([place.clone()].into());
            let (link, names) = way.after(|link| place.holds(link))?;
            names.iter().any(|name| !place.holds(name) && !is_fine(name)).then_some(link)
        })
    }
}

/// The identity of a folder. That of a file soon belongs to another one, as when an editor saves it.
fn of_folder(path: &Path) -> Option<Identity> {
    identity(path).filter(|_| path.is_dir())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn what_a_process_can_change_and_replace_on_a_way_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        for folder in ["a/b/c", "other"] {
            fs::create_dir_all(dir.join(folder)).unwrap();
        }
        symlink("../other", dir.join("a/link")).unwrap();
        symlink("a", dir.join("to-a")).unwrap();
        let places = ChangeablePlaces::new([("code".to_owned(), dir.join("to-a"))]);
        for (path, changed, replaced) in [
            ("a", Some("a"), None),
            ("to-a", Some("a"), None),
            ("to-a/b/c", Some("a"), Some("a/b")),
            ("a/link", Some("a"), Some("a/link")),
            ("a/b/../../other", Some("a"), Some("a/b")),
            ("a/../other", Some("a"), None),
            ("a/none", Some("a"), Some("a/none")),
            ("other", None, None),
            ("abc", None, None),
        ] {
            let way = ResolvedPath::of(&dir.join(path));
            let found = |place: Option<(&str, &Path)>| {
                place.map(|(who, place)| (who.to_owned(), place.strip_prefix(&dir).unwrap().to_owned()))
            };
            let expected = |place: Option<&str>| place.map(|place| ("code".to_owned(), PathBuf::from(place)));
            assert_eq!(found(places.changed_in(&way)), expected(changed), "{path}");
            assert_eq!(found(places.replaced_in(&way)), expected(replaced), "{path}");
        }
    }

    #[test]
    fn a_place_whose_target_a_process_chose_is_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        fs::create_dir(dir.join("a")).unwrap();
        symlink("/", dir.join("a/all")).unwrap();
        let places = [("one", dir.join("a")), ("two", dir.join("a/all"))];
        let places = ChangeablePlaces::new(places.map(|(who, place)| (who.to_owned(), place)));
        assert_eq!(places.changer(&dir.join("a/x")), Some("one"));
        assert!(!places.holds(Path::new("/etc")));
    }
}
