//! One bridge for all clients of a user: `belljar serve`, and the relay that a client starts in its place.
//!
//! A relay passes its environment on, so that each session has the configuration that it would have alone. Sessions whose
//! configurations are equal share their servers.

mod bridges;
mod hello;
mod listen;
mod place;
mod relay;

pub(super) use listen::{ask, detach, serve_all};
pub(super) use relay::relay;
