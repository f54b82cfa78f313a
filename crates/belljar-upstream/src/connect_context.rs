//! The state that new connections to one server use, and that outlives each of them.

use std::sync::Arc;

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
    /// Permits for large bodies; all remote servers share them.
    pub(super) large_bodies: Arc<Semaphore>,
}
