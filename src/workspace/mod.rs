//! The files of `/workspace`, as they are kept on the host between sandboxes and, under a name, between sessions.
//!
//! It takes what a sandbox claims of its files, in pieces, and gives them back as pieces for the next one. A file is there
//! whole or as it was before. It knows nothing of sandboxes; what it is given may have been made up by user code, and never
//! leads out of its folder: names are checked, and nothing that it makes is a link.

mod file_path;
mod folder;
mod outbox;
mod pieces;
mod uri;

pub use file_path::{FilePath, FilePathError};
pub use folder::{StoredFile, View, Workspace, WorkspaceError, WorkspaceLocation, names, sweep};
pub use outbox::{Outbox, SessionOutbox};
pub use pieces::Piece;
pub use uri::{mime_type, path_of, uri};
