//! How much of a session is kept.

use serde::{Deserialize, Serialize};

/// How much of a session is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Keep {
    /// Nothing.
    Off,
    /// Code, outcomes and the beginning of outputs; of calls the names, and sizes and hashes of arguments and results.
    Calls,
    /// The same with the arguments and results of calls: what a replay answers calls from.
    Full,
}
