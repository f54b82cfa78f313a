//! The reasons why a request over HTTP has no response.
//!
//! It decides nothing: whether something is sent again is up to the caller.

/// The reason for which a request has no response. It also says whether the server may have worked on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoResponse {
    /// The server was not reached, so nothing was done.
    NotReached(String),
    /// The server wants credentials, or other ones. Nothing was done.
    NotAllowed(String),
    /// The server wants a login. Nothing was done.
    NeedsLogin {
        /// The reason why there is no usable login.
        reason: String,
        /// The scope that the login needs, if it needs another one.
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
        /// The body, if all of it is a JSON-RPC error.
        error: Option<Vec<u8>>,
    },
    /// The server may have acted on the request.
    Broken(String),
}

impl NoResponse {
    /// The reason in words.
    pub(super) fn reason(&self) -> &str {
        match self {
            Self::NotReached(reason) | Self::NotAllowed(reason) | Self::Broken(reason) => reason,
            Self::LoginFailed(reason) => reason,
            Self::Refused { reason, .. } | Self::NeedsLogin { reason, .. } => reason,
        }
    }
}
