//! The owner of a session, and the places of all that belongs to one: what code saves, journals, pins, logins.

use std::path::PathBuf;

/// The person for whom sessions run: the user, or whoever has a token for `belljar serve`. Sessions of one owner share what is
/// stored here, and no other module composes these paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// The name of the token; `None`: the user.
    pub(super) name: Option<String>,
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
    /// The owner with this name, which can name folders: all is in folders of that name below those of the user.
    #[must_use]
    pub(super) fn named(self, name: &str) -> Self {
        let own = |dir: PathBuf| dir.join("owners").join(name);
        // Journals have a folder of their own in the state folder, beside which the owners' are.
        let journals = self.journals.map(|dir| match dir.parent() {
            Some(state) => own(state.to_owned()).join("sessions"),
            None => own(dir),
        });
        let (remembered, cache) = (self.remembered.map(own), self.cache.map(own));
        Self { name: Some(name.to_owned()), saved: own(self.saved), journals, remembered, cache }
    }

    /// The folder of what code saves in sessions of the user and of all owners.
    #[must_use]
    pub(super) fn saved_of_all(&self) -> PathBuf {
        let of_all = self.name.as_ref().and_then(|_| self.saved.parent()?.parent());
        of_all.unwrap_or(&self.saved).to_owned()
    }

    /// The name; `None`: the user.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

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

    /// The folder of the sessions over HTTP that clients may come back to.
    #[must_use]
    pub fn open_sessions(&self) -> Option<PathBuf> {
        self.remembered.as_ref().map(|dir| dir.join("open"))
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
