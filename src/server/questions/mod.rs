//! The questions of a run to its client: ours about calls, and those of servers; as requests, or as `input_required`.
//!
//! It decides nothing: what is asked, and what an answer is good for, is the broker's.

mod approvals;
pub(super) mod ask;
pub(super) mod forward;
pub(super) mod input_required;
