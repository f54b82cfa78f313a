//! What is wrong with files whose path leads through a place that confined servers or sandboxed code can change: such a
//! process chooses what belljar reads or runs.
//!
//! It reads no file.

use std::path::Path;

use crate::confine::{ChangeablePlaces, ResolvedPath};
use crate::problem::Problem;
use crate::text;

/// How much of a path is shown, in characters.
const SHOWN_CHARS_MAX: usize = 200;

/// The message and hint for a named file that others can replace; `None`: nobody can.
pub(crate) fn misled(places: &ChangeablePlaces, file: &NamedFile) -> Option<(String, &'static str)> {
    let NamedFile { shown, way, read } = file;
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
}

/// When a file is read, which decides what could be changed before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadTime {
    /// The file was already read at the end of its resolved path, so only the links on the path count.
    Now,
    /// The file is opened or run later, when any part of the path may have been changed.
    Later,
}
