//! Files that the configuration names by references and that others may be able to change, with all places on the way there.
//!
//! It judges nothing: who can change what is known when all entries have been read.

use crate::confine::ResolvedPath;

/// A file that the configuration names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::config) struct NamedFile {
    /// As it is written, for the user.
    pub(in crate::config) shown: String,
    /// Where it leads.
    pub(in crate::config) way: ResolvedPath,
    pub(in crate::config) read: ReadTime,
}

/// Who reads a file, and with that what can go wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::config) enum ReadTime {
    /// It was read, and nothing else than where its way led: only the links of the way count.
    Now,
    /// It is opened or run later, when the way may have been changed.
    Later,
}
