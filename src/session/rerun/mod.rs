//! Runs that are made once more: a replay, a session that is resumed, and a checkpoint that was lost.
//!
//! Who answers their calls is the broker's matter.

pub(super) mod earlier;
mod own_runs;
pub(super) mod rebuild;
pub(super) mod replay;
mod run_diff;
