//! Why a request over HTTP has no response.
//!
//! It decides nothing: whether something is sent again is up to the caller.

/// The reason for which a request has no response. It also says whether the server may have worked on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoResponse {
    /// The server was not reached: nothing was done.
    NotReached(String),
    /// It asks for credentials, or for others: nothing was done.
    NotAllowed(String),
    /// It asks for a login: nothing was done.
    NeedsLogin {
        /// Why there is none that it takes.
        reason: String,
        /// What the login has to ask for, where it must ask for more.
        scope: Option<String>,
    },
    /// It asks for a login, and the one that the bridge makes by itself has not helped: nothing was done.
    LoginFailed(String),
    /// It did not take the request: nothing was done.
    Refused {
        /// The status of HTTP.
        status: u16,
        /// What it said.
        reason: String,
        /// Its body, where that is a JSON-RPC error as a whole.
        error: Option<Vec<u8>>,
    },
    /// It may have worked on the request.
    Broken(String),
}

impl NoResponse {
    /// What happened.
    pub(super) fn reason(&self) -> &str {
        match self {
            Self::NotReached(reason) | Self::NotAllowed(reason) | Self::Broken(reason) => reason,
            Self::LoginFailed(reason) => reason,
            Self::Refused { reason, .. } | Self::NeedsLogin { reason, .. } => reason,
        }
    }
}
