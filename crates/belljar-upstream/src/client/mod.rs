//! One MCP client of one server: its handshake, its requests, and the requests and notifications of the server.
//!
//! It does not restart a server; the server's task does.

pub(super) mod call_timeout;
pub(super) mod connect;
pub(super) mod connection;
pub(super) mod handler;
mod input;
pub(super) mod listeners;
pub(super) mod listing;
mod subscription;
mod tasks;
