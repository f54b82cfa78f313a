//! Logins at remote servers by OAuth 2.1: made by `belljar login`, used and renewed by the bridge.
//!
//! It asks nobody for a password: that is between the user's browser and the authorization server.

mod access;
mod asking;
mod callback;
mod grant;
mod login;
mod login_file;
mod logout;
mod probe;

pub(super) use access::Access;
pub use login::{Client, LoginError, LoginRequest, Started, begin};
pub(super) use login_file::Stamp;
pub use login_file::{LoginFile, LoginState};
pub use logout::{LoggedOut, log_out};
pub use probe::{Probed, probe};
