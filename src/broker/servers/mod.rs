//! The configured servers of a session, and their requests and reports during a call.
//!
//! It connects to none of them.

pub(super) mod active_config;
mod request_text;
pub(super) mod server_progress;
pub(super) mod server_requests;
