//! Connects to the user's MCP servers over stdio and HTTP, starts, confines, restarts and ends them, and logs in to remote
//! ones.
//!
//! It does not decide whether a call is made, and it knows nothing of the sandbox.

mod client;
mod commands;
mod confinement;
mod connect_context;
mod error;
mod http;
mod http_client;
pub mod jose;
pub mod jsonrpc;
mod login_file;
mod no_response;
mod oauth;
mod process;
mod raw_results;
mod redaction;
mod registry;
mod secrets;
mod server;
pub mod service_login;
mod spec;
pub mod web;

pub use client::call_timeout::Clock;
pub use client::connection::{Connection, Request};
pub use client::handler::ProgressUpdate;
pub use client::listeners::{QuestionError, QuestionKind, ServerChannels, ServerMessage, ServerQuestion};
pub use client::listing::ListKind;
pub use commands::printed;
pub use confinement::{Lack, in_words};
pub use error::{StderrSummary, UpstreamError};
pub use login_file::{LoginFile, LoginState};
pub use no_response::NoResponse;
pub use oauth::{
    Client, LoginError, LoginRequest, LogoutOutcome, PendingLogin, ProbeResult, begin, log_out, probe,
    published_keys,
};
pub use raw_results::{PendingResult, RawResult, RawResults};
pub use redaction::Redacted;
pub use registry::Upstream;
pub use spec::{
    CallBounds, DeferredTransport, Inherited, LoginSpec, PlacesNow, ProcessSpec, RemoteSpec, RemoteTransport,
    ServerSpec, ServerTransport, TransportResolver,
};
