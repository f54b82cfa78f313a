//! The decision on a call, and the meaning of doubt for a rule.

use serde::Deserialize;

/// The decision on a call, from the loosest to the strictest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The call is allowed.
    Allow,
    /// The call is allowed, and the reply mentions it.
    Warn,
    /// The human is asked about the call.
    Ask,
    /// The call is denied.
    Deny,
}

/// The effect of a rule on a call that it matches, which decides the meaning of a doubt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    /// The rule lets the call pass. In doubt it does not match.
    Loosens,
    /// The rule asks or denies. In doubt it matches.
    Tightens,
}
