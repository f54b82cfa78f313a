//! Keeps MCP clients to the configured servers: starts them at first use, keeps them warm, restarts dead ones.
//!
//! It knows no runs and no policy; whoever asks is allowed to ask.

mod answers;
mod commands;
mod connection;
mod error;
mod face;
mod http;
mod input;
mod listeners;
mod listing;
mod oauth;
mod opening;
mod process;
mod redaction;
mod registry;
mod secrets;
mod server;
mod spec;
mod subscription;

pub use answers::{Answer, Answers, Awaited};
pub use commands::printed;
pub use connection::{Clock, Connection, Request};
pub use error::{LastWords, UpstreamError};
pub use face::Advance;
pub use http::Lost;
pub use listeners::{Asked, Asks, Heard, NotAnswered, Said};
pub use listing::Listed;
pub use oauth::{
    Client, LoggedOut, LoginError, LoginFile, LoginRequest, LoginState, Probed, Started, begin, log_out,
    probe,
};
pub use registry::Upstream;
pub use spec::{
    CallBounds, FoundBy, Inherited, Later, LoginSpec, ProcessSpec, RemoteSpec, RemoteTransport, ServerSpec,
    Way,
};
