//! The owner of a session, and the places of all that belongs to one: what code saves, journals, pins, logins.

use std::path::PathBuf;

/// The person for whom sessions run. Today each process has one: the user who has started it. Sessions of one owner share
/// what is stored here, and no other module composes these paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// The folder of what code saves; the user may choose it. It may also be the folder of server entries, so no file at
    /// its top may end in `.json`.
    pub(super) saved: PathBuf,
    /// The folder of journals; `None`: the user has no home.
    pub(super) journals: Option<PathBuf>,
    /// The folder of what belljar itself remembers of servers; `None`: the user has no home.
    pub(super) remembered: Option<PathBuf>,
    /// The folder of what can be made again; `None`: the user has no home.
    pub(super) cache: Option<PathBuf>,
}

impl Owner {
    /// The folder of skills. It keeps its original name.
    #[must_use]
    pub fn skills(&self) -> PathBuf {
        self.saved.join("tools")
    }

    /// The folder of named workspaces.
    #[must_use]
    pub fn workspaces(&self) -> PathBuf {
        self.saved.join("workspaces")
    }

    /// The folder of files that sessions hand over.
    #[must_use]
    pub fn outbox(&self) -> PathBuf {
        self.saved.join("outbox")
    }

    /// The folder of journals; `None`: there is no such folder, since the user has no home.
    #[must_use]
    pub fn journals(&self) -> Option<PathBuf> {
        self.journals.clone()
    }

    /// The folder of the pins of tools; `None`: tools are not pinned.
    #[must_use]
    pub fn pins(&self) -> Option<PathBuf> {
        self.remembered.as_ref().map(|dir| dir.join("pins"))
    }

    /// The folder of logins at remote servers.
    #[must_use]
    pub fn logins(&self) -> Option<PathBuf> {
        self.remembered.as_ref().map(|dir| dir.join("oauth"))
    }

    /// The folder of the servers' own messages.
    #[must_use]
    pub fn server_log(&self) -> Option<PathBuf> {
        self.remembered.as_ref().map(|dir| dir.join("servers"))
    }

    /// The folder of the shapes of tools' results.
    #[must_use]
    pub fn shapes(&self) -> Option<PathBuf> {
        self.cache.as_ref().map(|dir| dir.join("learned"))
    }

    /// The folder of the cached lists of tools, which depend on the owner's accounts.
    #[must_use]
    pub fn catalog(&self) -> Option<PathBuf> {
        self.cache.as_ref().map(|dir| dir.join("catalog"))
    }
}
