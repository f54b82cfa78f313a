//! The mark that a bridge's own processes carry in their environment, by which its guardian finds them.
//!
//! It grants nothing, and is no secret from those who carry it.

use std::hash::{BuildHasher, Hasher, RandomState};

/// The variable with the mark: a bridge that sees it was started by another one.
pub const PARENT_VARIABLE: &str = "BELLJAR_PARENT";

/// One bridge's mark; no two bridges have the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark(String);

impl Mark {
    /// A new one.
    #[must_use]
    pub fn new() -> Self {
        // Each state has keys of its own, the first of them from the system's source of randomness.
        let word = || RandomState::new().build_hasher().finish();
        Self(format!("{:016x}{:016x}", word(), word()))
    }

    /// As text: hexadecimal digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for Mark {
    fn default() -> Self {
        Self::new()
    }
}

impl From<String> for Mark {
    fn from(text: String) -> Self {
        Self(text)
    }
}
