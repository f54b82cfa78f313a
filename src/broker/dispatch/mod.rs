//! The stages of a call: resolved, checked, admitted, sent, and its answer or failure.
//!
//! It opens no connection; `upstream` does.

mod answer;
mod failures;
mod forward;
mod handle_calls;
mod journalling;
mod literal_calls;
