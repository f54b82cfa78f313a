//! The tools of MCP servers as a model sees them, and the rules for their calls: Python signatures, documentation, search,
//! the check of arguments, and the policy.
//!
//! It has no input and no output: `belljar-upstream` calls servers, and the program reads the policy's file.

pub mod catalog;
pub mod policy;
