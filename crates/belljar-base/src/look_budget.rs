//! A bound on the file-system operations that paths from others can cause: paths in packages, and paths in error
//! messages of servers.
//!
//! It only counts. A caller whose budget is used up treats all further paths as missing.

use std::cell::Cell;

/// The file-system operations that may still be done. Each part of a path or of a symlink's target, and each name in a
/// folder, counts as one.
#[derive(Debug)]
pub struct LookBudget(Cell<usize>);

impl LookBudget {
    /// A budget of this many operations.
    #[must_use]
    pub fn new(looks: usize) -> Self {
        Self(Cell::new(looks))
    }

    /// Takes this many operations from the budget. If fewer are left, takes all of them and returns `false`.
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
