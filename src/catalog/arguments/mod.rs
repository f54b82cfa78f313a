//! Whether the arguments of a call fit what its server says of the tool, and what to say when they do not.
//!
//! It changes no argument and converts none. What it cannot judge may go out, unless a rule of the user's policy
//! depends on it: a schema that is broken, points elsewhere, or would take long.

mod check;
mod cost;
mod defaults;
mod messages;
mod names;

pub use check::{CheckedArguments, LiteralArguments, check_names, checked, implied, undeclared};
