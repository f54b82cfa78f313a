//! A bound on the file-system operations that text of others can cause: paths of packages, and paths in errors of servers.
//!
//! It counts only. Whoever runs out treats what is left as not there.

use std::cell::Cell;

/// File-system operations that may still be done. A part of a path or of a symlink's target, and a name of a folder, is one.
#[derive(Debug)]
pub struct LookBudget(Cell<usize>);

impl LookBudget {
    /// That many.
    #[must_use]
    pub fn new(looks: usize) -> Self {
        Self(Cell::new(looks))
    }

    /// Takes so many, or what is left if that does not suffice.
    #[must_use]
    pub fn take(&self, looks: usize) -> bool {
        let left = self.0.get().checked_sub(looks);
        self.0.set(left.unwrap_or_default());
        left.is_some()
    }

    /// How many are left.
    #[must_use]
    pub fn left(&self) -> usize {
        self.0.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_looks_are_taken_than_there_are() {
        let looks = LookBudget::new(4);
        assert!(looks.take(1) && looks.take(2));
        assert_eq!(looks.left(), 1);
        assert!(!looks.take(2) && !looks.take(1));
        assert_eq!(looks.left(), 0);
    }
}
