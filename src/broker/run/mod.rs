//! A run as a value: the servers that it may reach, its human, and the record of what has happened.
//!
//! It decides nothing; code that acts for a run gets its context.

pub(super) mod call_record;
pub(super) mod context;
pub(super) mod record;
