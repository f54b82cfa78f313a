//! MCP over HTTP. Messages are passed to `jsonrpc` as lines, so that the same bounds and guarantees hold as over stdio.
//!
//! It parses only the parts of messages that HTTP needs, such as ids, versions, and arguments that become headers.

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
