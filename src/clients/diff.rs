//! Shows what a file will be beside what it is, as lines that no terminal takes for orders.

use similar::TextDiff;

use crate::text;

/// Longest diff that is shown, in characters; a longer one ends in a mark.
const CHARS_MAX: usize = 64 * 1024;

/// The changed lines with so many others around them; empty when nothing changes.
pub(super) fn diff(before: &str, after: &str, around: usize) -> String {
    let diff = TextDiff::from_lines(before, after);
    let shown = diff.unified_diff().context_radius(around).missing_newline_hint(false).to_string();
    text::bounded(&text::inert(&shown), CHARS_MAX).into_owned()
}
