//! Checks whether the arguments of a call fit the schema that the server publishes for the tool, and describes the
//! problems.
//!
//! It adds and converts no argument. If a schema is broken, refers to another document, or would take too long to
//! check, the call may be sent without a full check, unless a rule of the user's policy depends on the check.

mod check;
mod cost;
mod defaults;
mod messages;
mod names;

pub use check::{CheckedArguments, LiteralArguments, check_names, checked, find_defaults, undeclared};
