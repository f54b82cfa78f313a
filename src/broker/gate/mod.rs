//! Decides whether a call is allowed: the policy, approvals, and pins of tools.
//!
//! It sends nothing.

pub(super) mod admission;
mod argument_text;
mod pin_files;
pub(super) mod pins;
pub(super) mod trust;
