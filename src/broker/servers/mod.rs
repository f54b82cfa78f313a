//! The configured servers of a session, and what they ask for or report during a call.
//!
//! It connects to none of them.

pub(super) mod active_config;
mod request_text;
pub(super) mod server_progress;
pub(super) mod server_requests;
