//! Logins at remote servers by OAuth 2.1: made by `belljar login`, or by the bridge itself if the entry says so. The
//! bridge uses and renews them.
//!
//! It never asks for a password: only the user's browser and the authorization server see one.

mod callback;
mod challenge;
mod discovery;
mod dpop;
mod grant;
mod http_policy;
mod login;
mod logout;
mod probe;
mod service;
mod token_cache;
mod token_endpoint;

pub(super) use challenge::Challenge;
pub use discovery::published_keys;
pub use login::{Client, LoginError, LoginRequest, PendingLogin, begin};
pub use logout::{LogoutOutcome, log_out};
pub use probe::{ProbeResult, probe};
pub(super) use token_cache::{Token, TokenCache};
