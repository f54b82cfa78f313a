//! The reasons why a request over HTTP has no response.
//!
//! This module decides nothing: the caller decides whether a request is sent again.

use std::time::Duration;

/// The reason why a request has no response. Each variant also tells whether the server may have acted on the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoResponse {
    /// The server was not reached, so nothing was done.
    NotReached(String),
    /// The server requires credentials, or rejects those that were sent. Nothing was done.
    NotAllowed(String),
    /// The server wants a login. Nothing was done.
    NeedsLogin {
        /// The reason why there is no usable login.
        reason: String,
        /// The scope that the login must have, if the server names one.
        scope: Option<String>,
    },
    /// The server wants a login, and the bridge's own login has not helped. Nothing was done.
    LoginFailed(String),
    /// The server refused the request. Nothing was done.
    Refused {
        /// The HTTP status.
        status: u16,
        /// The server's words.
        reason: String,
        /// The body, if it is a complete JSON-RPC error.
        error: Option<Vec<u8>>,
    },
    /// The server has no time for the request now.
    Busy {
        /// The server's words, and the time that it names.
        reason: String,
        /// The time after which the request may be sent again, if the server names it in seconds.
        after: Option<Duration>,
        /// Whether nothing was done. Otherwise the server may have acted on the request.
        was_refused: bool,
    },
    /// The server no longer knew the session that the request named. Nothing was done, and there is a new session.
    SessionLost(String),
    /// The server may have acted on the request.
    Broken(String),
}

impl NoResponse {
    /// The reason in words.
    pub(super) fn reason(&self) -> &str {
        match self {
            Self::NotReached(reason) | Self::NotAllowed(reason) | Self::Broken(reason) => reason,
            Self::LoginFailed(reason) | Self::SessionLost(reason) => reason,
            Self::Refused { reason, .. } | Self::NeedsLogin { reason, .. } | Self::Busy { reason, .. } => {
                reason
            }
        }
    }
}
