//! The folders that confined servers and sandboxed code can change, and a check of named files against them: a process
//! that can replace a file by a link chooses what belljar reads.
//!
//! It reads no file.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::named_file::{NamedFile, ReadTime};
use crate::confine::ResolvedPath;
use crate::text;

/// How much of a path is shown, in characters.
const SHOWN_CHARS_MAX: usize = 200;

/// Folders, each with a description of the process that can change it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::config) struct ChangeableFolders(Arc<[(String, PathBuf)]>);

impl ChangeableFolders {
    /// The folders, each with a description of the process that can change it.
    pub(in crate::config) fn new(folders: impl Iterator<Item = (String, PathBuf)>) -> Self {
        Self(folders.map(|(who, folder)| (who, ResolvedPath::of(&folder).end)).collect())
    }

    /// The message and hint for a named file whose path leads through a folder that others can change; `None`: there is
    /// no such folder.
    pub(in crate::config) fn misleads(&self, file: &NamedFile) -> Option<(String, &'static str)> {
        let NamedFile { shown, way, read } = file;
        let places: Vec<&PathBuf> = match read {
            ReadTime::Now => way.links.iter().map(|(link, _)| link).collect(),
            ReadTime::Later => way.passed.iter().collect(),
        };
        let (who, place) = places.into_iter().find_map(|place| Some((self.who(place)?, place)))?;
        let place = text::inert_excerpt(&place.display().to_string(), SHOWN_CHARS_MAX);
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

    fn who(&self, place: &Path) -> Option<&str> {
        self.0.iter().find(|(_, folder)| place.starts_with(folder)).map(|(who, _)| who.as_str())
    }
}
