//! Logins at remote servers by OAuth 2.1: made by `belljar login`, or by the bridge itself where the entry says so; used and
//! renewed by the bridge.
//!
//! It asks nobody for a password: that is between the user's browser and the authorization server.

mod access;
mod asking;
mod callback;
mod challenge;
mod discovery;
mod dpop;
mod grant;
mod login;
mod login_file;
mod logout;
mod probe;
mod service;
mod token_endpoint;

pub(super) use access::{Access, Token};
pub(super) use challenge::Challenge;
pub use login::{Client, LoginError, LoginRequest, Started, begin};
pub(super) use login_file::Stamp;
pub use login_file::{LoginFile, LoginState};
pub use logout::{LoggedOut, log_out};
pub use probe::{Probed, probe};
