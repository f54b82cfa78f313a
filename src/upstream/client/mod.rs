//! One MCP client of one server: how its connection begins, its requests, and the requests and notifications of the server.
//!
//! It starts no server again; the server's task does.

pub(super) mod connect;
pub(super) mod connection;
pub(super) mod handler;
mod input;
pub(super) mod listeners;
pub(super) mod listing;
mod subscription;
