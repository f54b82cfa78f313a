//! Checks whether the arguments of a call fit the schema that the server publishes for the tool, and describes the
//! problems.
//!
//! It adds and converts no argument. If a schema is broken, points elsewhere, or would take long, the call may be sent
//! unchecked, unless a rule of the user's policy depends on the check.

mod check;
mod cost;
mod defaults;
mod messages;
mod names;

pub use check::{CheckedArguments, LiteralArguments, check_names, checked, implied, undeclared};
