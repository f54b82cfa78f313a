//! The records of calls: the audit log, and the comparison of a replay with its journal.
//!
//! It makes no call.

pub(super) mod audit;
pub(super) mod journal_form;
pub(super) mod replay;
mod replay_text;
