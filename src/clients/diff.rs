//! Shows what a file will be beside what it is, as lines that no terminal takes for orders.

use similar::TextDiff;

use crate::text;

/// Longest diff that is shown, in characters; a longer one ends in a mark.
const CHARS_MAX: usize = 64 * 1024;

/// The changed lines with so many others around them, harmless to show and bounded; empty when nothing changes.
#[must_use]
pub fn diff(before: &str, after: &str, around: usize) -> String {
    compared(before, after, around).text
}

/// The text of a diff.
#[derive(Debug)]
pub(super) struct DiffText {
    pub(super) text: String,
    /// Whether that is all of it.
    pub(super) is_whole: bool,
}

/// The same, saying whether that is all of it.
pub(super) fn compared(before: &str, after: &str, around: usize) -> DiffText {
    let diff = TextDiff::from_lines(before, after);
    let shown = diff.unified_diff().context_radius(around).missing_newline_hint(false).to_string();
    let whole = text::inert(&shown);
    let text = text::bounded(&whole, CHARS_MAX).into_owned();
    DiffText { is_whole: text == whole, text }
}
