//! MCP over HTTP. Messages are lines for `jsonrpc`, so that the same bounds and guarantees hold as over stdio.
//!
//! It does not parse messages: it only finds the request that an answer belongs to.

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
