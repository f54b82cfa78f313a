//! The questions of a run to its client: belljar's questions about calls, and questions of servers. They are sent as
//! requests, or as results of the kind `input_required`.
//!
//! It decides nothing: the broker decides what is asked, and what an answer allows.

mod approvals;
pub(super) mod ask;
pub(super) mod forward;
pub(super) mod input_required;
