//! Keeps MCP clients of the configured servers: starts servers at their first use, keeps them running, and restarts
//! dead ones.
//!
//! It applies no policy: any caller may send any request.

mod client;
mod commands;
mod confinement;
mod connect_context;
mod error;
mod http;
mod http_client;
mod login_file;
mod no_response;
mod oauth;
mod process;
mod raw_results;
mod redaction;
mod registry;
mod secrets;
mod server;
mod spec;

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
};
pub use raw_results::{PendingResult, RawResult, RawResults};
pub use redaction::Redacted;
pub use registry::Upstream;
pub use spec::{
    CallBounds, DeferredTransport, Inherited, LoginSpec, ProcessSpec, RemoteSpec, RemoteTransport,
    ServerSpec, ServerTransport, TransportResolver,
};
