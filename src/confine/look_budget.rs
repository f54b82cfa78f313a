//! A bound on the file-system operations that text of others can cause: paths of packages, and paths in errors of servers.
//!
//! It counts only. Whoever runs out treats what is left as not there.

use std::cell::Cell;

/// File-system operations that may still be done: a part of a path, or a name of a folder, is one.
#[derive(Debug)]
pub struct LookBudget(Cell<usize>);

impl LookBudget {
    /// That many.
    #[must_use]
    pub fn new(looks: usize) -> Self {
        Self(Cell::new(looks))
    }

    /// Takes one, unless none is left.
    #[must_use]
    pub fn take(&self) -> bool {
        let left = self.0.get().checked_sub(1);
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
        let looks = LookBudget::new(2);
        assert_eq!([looks.take(), looks.take(), looks.take(), looks.take()], [true, true, false, false]);
        assert_eq!(looks.left(), 0);
    }
}
