//! The facts about earlier sessions, and about earlier interpreters of this session, that resuming needs.
//!
//! It runs nothing; `replay` does.

use std::collections::HashSet;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use belljar_base::run::{FreshReason, ToolFault};
use parking_lot::{Mutex, MutexGuard};

use crate::journal::RecordedSession;

/// An earlier session whose runs are run again when this session begins.
pub struct ResumedSession {
    /// The session and its last run that is run again, or the reason for which it cannot be read.
    pub(super) from: Result<(RecordedSession, u64), ToolFault>,
    /// Whether the files that its runs wrote are there already.
    pub(super) has_files: bool,
    /// Whether some of the runs have been run, but not all.
    pub(super) is_begun: AtomicBool,
    /// Whether the code of a run requests it, and not the user.
    pub(super) is_of_code: bool,
    /// Whether it is the session itself, whose interpreter was stopped or lost.
    pub(super) is_own: bool,
    /// Whether the session begins without the runs if they cannot be run again.
    pub(super) is_optional: bool,
    /// The result, after all runs have been run again.
    pub(super) made: OnceLock<Result<(), ToolFault>>,
}

impl ResumedSession {
    /// A session, up to this run, and whether the workspace has files of before; or why it cannot be had, which each run is told then.
    #[must_use]
    pub fn new(from: Result<(RecordedSession, u64), ToolFault>, has_files: bool) -> Self {
        Self {
            from,
            has_files,
            is_begun: AtomicBool::new(false),
            is_of_code: false,
            is_own: false,
            is_optional: false,
            made: OnceLock::new(),
        }
    }

    /// The same, where the session begins without the runs if they cannot be run again, and says so.
    #[must_use]
    pub fn or_afresh(self) -> Self {
        Self { is_optional: true, ..self }
    }

    /// Whether its runs have not all been made.
    pub(super) fn is_due(&self) -> bool {
        match self.made.get() {
            None => true,
            Some(made) => made.is_err() && !self.is_optional,
        }
    }

    /// Whether the runs cannot be run again, and the session begins without them.
    pub(super) fn is_given_up(&self) -> bool {
        self.is_optional && self.made.get().is_some_and(Result::is_err)
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

/// The last session of the same client before this one.
pub(super) struct EarlierSession {
    /// All words of its code.
    pub(super) words: HashSet<String>,
    /// The run that is left out when its variables are made again, if one is, or why they cannot be.
    pub(super) way: Result<Option<String>, String>,
}

/// The last loss of an interpreter in this session, until the variables are back.
#[derive(Debug, Default)]
pub(super) struct LastLoss(Mutex<Option<InterpreterLoss>>);

/// The loss of an interpreter with its variables.
#[derive(Debug, Clone)]
pub(super) struct InterpreterLoss {
    pub(super) reason: FreshReason,
    /// All words of the code that the lost interpreter ran. It is `None` without a journal.
    pub(super) words: Option<Arc<HashSet<String>>>,
    /// The sentence on how to get the variables back, or on why that is not possible.
    pub(super) remedy: String,
}

impl LastLoss {
    /// The variables are back, or were given up.
    pub(super) fn forget(&self) {
        *self.last() = None;
    }

    pub(super) fn last(&self) -> MutexGuard<'_, Option<InterpreterLoss>> {
        self.0.lock()
    }
}
