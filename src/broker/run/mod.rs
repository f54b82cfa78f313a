//! A run as a value: what it may reach, who is behind it, and what has happened in it.
//!
//! It decides nothing; whoever acts for a run is given its context.

pub(super) mod call_record;
pub(super) mod context;
pub(super) mod record;
