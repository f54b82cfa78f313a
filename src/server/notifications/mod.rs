//! The notifications to the client: progress, live output, and changes that it has subscribed to.
//!
//! It answers no request.

pub(super) mod listeners;
pub(super) mod live_output;
pub(super) mod notify;
pub(super) mod progress;
