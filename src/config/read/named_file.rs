//! Files that the configuration names by references and that others may be able to change, with all folders and links
//! on the path.
//!
//! It judges nothing: who can change a file is known only when all entries have been read.

use crate::confine::ResolvedPath;

/// A file that the configuration names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::config) struct NamedFile {
    /// The reference as the user wrote it.
    pub(in crate::config) shown: String,
    /// The resolved path, with all links and folders on the way.
    pub(in crate::config) way: ResolvedPath,
    pub(in crate::config) read: ReadTime,
}

/// When a file is read, which decides what could be changed before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::config) enum ReadTime {
    /// The file was already read at the end of its resolved path, so only the links on the path count.
    Now,
    /// The file is opened or run later, when any part of the path may have been changed.
    Later,
}
