//! The questions of a run to its client: belljar's about calls, and those of servers; as requests, or as
//! `input_required`.
//!
//! It decides nothing: the broker decides what is asked, and what an answer allows.

mod approvals;
pub(super) mod ask;
pub(super) mod forward;
pub(super) mod input_required;
