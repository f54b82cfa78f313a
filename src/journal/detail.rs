//! The detail with which a session is recorded.

use serde::{Deserialize, Serialize};

/// The detail with which a session is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JournalDetail {
    /// Nothing is recorded.
    Off,
    /// Code, outcomes and the beginning of outputs; of calls the names, and sizes and hashes of arguments and results.
    Calls,
    /// The same with the arguments and results of calls: what a replay answers calls from.
    Full,
}
