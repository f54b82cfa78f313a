//! The notes for the reader of a report: bounded, and without repetitions.

use crate::text;

/// Longest note, in characters.
pub(super) const CHARS_MAX: usize = 1000;
/// The largest number of notes that one report has from the sandbox, and about it.
pub(super) const COUNT_MAX: usize = 20;

/// The notes of one report.
#[derive(Debug, Default)]
pub(super) struct Notes(Vec<String>);

impl Notes {
    /// Adds a note, unless there are too many or it repeats the last one, so that a flood of equal notes becomes one
    /// note.
    pub(super) fn push(&mut self, note: &str) {
        let note = text::bounded(note, CHARS_MAX).into_owned();
        if self.0.len() < COUNT_MAX && self.0.last() != Some(&note) {
            self.0.push(note);
        }
    }

    /// Adds notes that were bounded before.
    pub(super) fn extend(&mut self, notes: impl IntoIterator<Item = String>) {
        self.0.extend(notes);
    }

    pub(super) fn into_vec(self) -> Vec<String> {
        self.0
    }
}
