//! What happens to a call, and what doubt is worth to a rule.

use serde::Deserialize;

/// The decision on a call, from the loosest to the strictest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// It passes.
    Allow,
    /// It passes, and the reply says so.
    Warn,
    /// The human is asked.
    Ask,
    /// It is refused.
    Deny,
}

/// The effect of a rule on a call that it fits, which decides what a doubt means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    /// It lets the call pass: in doubt it does not fit.
    Loosens,
    /// It asks or denies: in doubt it fits.
    Tightens,
}
