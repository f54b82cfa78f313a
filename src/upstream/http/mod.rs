//! MCP over HTTP: what goes and comes as lines for `jsonrpc`, so that the same bounds and guarantees hold as over stdio.
//!
//! It reads no bodies of messages: it finds out only which request an answer belongs to.

mod events;
mod legacy;
mod lines;
mod parameter_headers;
mod refusal;
mod remote;
mod requests;
mod streamable;

pub(super) use parameter_headers::ParameterHeaders;
pub(super) use remote::Remote;
