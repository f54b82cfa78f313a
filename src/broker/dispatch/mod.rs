//! The stages of a call: it is resolved, checked, admitted and sent, and its answer or failure is interpreted.
//!
//! It opens no connection; `upstream` does.

mod answer;
mod failures;
mod forward;
mod handle_calls;
mod journalling;
mod literal_calls;
