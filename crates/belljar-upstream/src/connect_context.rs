//! The state that new connections to one server use, and that outlives each of them.

use std::sync::{Arc, OnceLock};

use belljar_base::names::SessionId;
use tokio::sync::Semaphore;

use super::oauth::TokenCache;
use super::raw_results::Unread;
use super::redaction::Redaction;

/// The state that a connection uses and that outlives it.
pub(crate) struct ConnectContext {
    /// The login at a remote server, if its entry has one.
    pub(super) access: Option<Arc<TokenCache>>,
    /// The server's secrets.
    pub(super) redaction: Redaction,
    /// What could not be read of the server's messages.
    pub(super) unread: Unread,
    /// The session that a private server is for, once one has called it; `None` for a server of all sessions.
    pub(super) private_to: Option<Arc<OnceLock<SessionId>>>,
    /// Permits for large bodies; all remote servers share them.
    pub(super) large_bodies: Arc<Semaphore>,
}
