//! What a session knows of earlier sessions, and of its own earlier interpreters.
//!
//! It makes no run; `replay` does.

use std::collections::HashSet;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::journal::RecordedSession;
use crate::run::{FreshReason, ToolFault};

/// The session whose runs another one begins with.
pub struct Resumed {
    /// It and the last run of it that is made, or why it cannot be had.
    pub(super) from: Result<(RecordedSession, u64), ToolFault>,
    /// Whether the files that its runs wrote are there already.
    pub(super) has_files: bool,
    /// Whether some have been made that did not come to their end.
    pub(super) is_begun: AtomicBool,
    /// Whether the code of a run asks for it, and not the user.
    pub(super) is_of_code: bool,
    /// Whether it is the session itself, whose interpreter was stopped or lost.
    pub(super) is_own: bool,
    /// That all were made, or why they cannot be.
    pub(super) made: OnceLock<Result<(), ToolFault>>,
}

impl Resumed {
    /// A session, up to this run, and whether the workspace has files of before; or why it cannot be had, which each run is told then.
    #[must_use]
    pub fn new(from: Result<(RecordedSession, u64), ToolFault>, has_files: bool) -> Self {
        Self {
            from,
            has_files,
            is_begun: AtomicBool::new(false),
            is_of_code: false,
            is_own: false,
            made: OnceLock::new(),
        }
    }

    /// Whether its runs have not all been made.
    pub(super) fn is_due(&self) -> bool {
        !matches!(self.made.get(), Some(Ok(())))
    }

    /// The same, in a session that has run already: its interpreter gives way to a new one.
    pub(super) fn within(from: (RecordedSession, u64), has_files: bool) -> Self {
        Self { is_begun: AtomicBool::new(true), is_of_code: true, ..Self::new(Ok(from), has_files) }
    }

    /// Runs of the session itself. Its files are those of before.
    pub(super) fn of_itself(from: (RecordedSession, u64)) -> Self {
        Self { is_own: true, ..Self::within(from, true) }
    }
}

/// The last session of the client, before this one.
pub(super) struct Earlier {
    /// All words of its code.
    pub(super) words: HashSet<String>,
    pub(super) can_be_resumed: bool,
}

/// The last loss of an interpreter in a session.
#[derive(Debug, Default)]
pub(super) struct Losses(Mutex<Option<Loss>>);

#[derive(Debug, Clone)]
pub(super) struct Loss {
    pub(super) reason: FreshReason,
    /// All words of the code that the lost interpreter ran. `None` without a journal.
    pub(super) words: Option<Arc<HashSet<String>>>,
    /// What brings the variables back, or why nothing does.
    pub(super) remedy: String,
}

impl Losses {
    /// The variables are back, or were given up.
    pub(super) fn forget(&self) {
        *self.last() = None;
    }

    pub(super) fn last(&self) -> MutexGuard<'_, Option<Loss>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
