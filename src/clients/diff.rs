//! Shows the change of a file as a diff without control characters, which could steer a terminal.

use similar::TextDiff;

use crate::text;

/// The longest diff that is shown, in characters. The end of a longer one is replaced by a mark.
const CHARS_MAX: usize = 64 * 1024;

/// The changed lines with `around` unchanged ones on each side, bounded and harmless to show; empty if nothing changes.
#[must_use]
pub fn diff(before: &str, after: &str, around: usize) -> String {
    compared(before, after, around).text
}

/// The text of a diff.
#[derive(Debug)]
pub(super) struct DiffText {
    pub(super) text: String,
    /// Whether the text is the whole diff.
    pub(super) is_whole: bool,
}

/// The diff as [`diff`] returns it, with the information whether it is whole.
pub(super) fn compared(before: &str, after: &str, around: usize) -> DiffText {
    let diff = TextDiff::from_lines(before, after);
    let shown = diff.unified_diff().context_radius(around).missing_newline_hint(false).to_string();
    let whole = text::inert(&shown);
    let text = text::bounded(&whole, CHARS_MAX).into_owned();
    DiffText { is_whole: text == whole, text }
}
