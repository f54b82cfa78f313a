//! The paths that confined servers can change, and the symlinks there, whose targets a server could have chosen.

use std::path::{Path, PathBuf};

use super::resolve::resolve;
use crate::confine::ResolvedPath;

/// Real files and folders that confined servers of the configuration can change.
#[derive(Debug, Default)]
pub(super) struct ChangeablePaths(Vec<PathBuf>);

impl ChangeablePaths {
    /// Resolves the paths that entries name. A path through a symlink that a server can change is left out: the server
    /// could have chosen its target. The folder of the symlink is in the list by itself.
    pub(super) fn new<'a>(named: impl IntoIterator<Item = &'a PathBuf>) -> Self {
        let ways = named.into_iter().filter_map(|path| resolve(path).ok());
        let (direct, linked): (Vec<_>, Vec<_>) = ways.partition(|way| way.links.is_empty());
        let mut all = Self(direct.into_iter().map(|way| way.end).collect());
        let linked: Vec<_> = linked.into_iter().filter(|way| all.link_in(way).is_none()).collect();
        all.0.extend(linked.into_iter().map(|way| way.end));
        all
    }

    /// Whether a server can change this real path.
    pub(super) fn holds(&self, real: &Path) -> bool {
        self.0.iter().any(|root| real.starts_with(root))
    }

    /// The first symlink on the way that a server can change.
    pub(super) fn link_in<'a>(&self, way: &'a ResolvedPath) -> Option<&'a Path> {
        way.links.iter().map(|(link, _)| link.as_path()).find(|link| self.holds(link))
    }

    /// Whether a server could have chosen the target of the path, and the target lies outside of the paths that it can
    /// change.
    pub(super) fn leads_out(&self, way: &ResolvedPath) -> bool {
        let leads_out = |root: &PathBuf| {
            !way.end.starts_with(root) && way.links.iter().any(|(link, _)| link.starts_with(root))
        };
        self.0.iter().any(leads_out)
    }
}
