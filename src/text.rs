//! Text from outside made harmless to show: what a terminal or a reader would not see is written out as an escape.
//!
//! It does not decide what is shown, and knows no language, markup or terminal.

use std::borrow::Cow;

/// Writes out every invisible or steering character of a text as an escape such as `\x1b`, `\u202e` or `\U000e0041`.
///
/// Line feeds and tabs stay; `\r\n` becomes a line feed.
#[must_use]
pub fn inert(text: &str) -> Cow<'_, str> {
    if !text.chars().any(|c| steers(c) && c != '\n' && c != '\t') {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\n' | '\t' => shown.push(character),
            '\r' if characters.peek() == Some(&'\n') => {}
            _ => push_inert(&mut shown, character),
        }
    }
    Cow::Owned(shown)
}

/// As [`inert`], on one line: every stretch of white space becomes one space, and the ends are trimmed.
#[must_use]
pub fn inert_line(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for word in text.split([' ', '\n', '\t', '\r']).filter(|word| !word.is_empty()) {
        if !shown.is_empty() {
            shown.push(' ');
        }
        for character in word.chars() {
            push_inert(&mut shown, character);
        }
    }
    shown
}

/// The text, or its first `chars_max - 1` characters and an ellipsis.
#[must_use]
pub fn bounded(text: &str, chars_max: usize) -> Cow<'_, str> {
    if text.len() <= chars_max || text.chars().nth(chars_max).is_none() {
        return Cow::Borrowed(text);
    }
    let mut shown: String = text.chars().take(chars_max.saturating_sub(1)).collect();
    shown.push('…');
    Cow::Owned(shown)
}

fn push_inert(shown: &mut String, character: char) {
    if !steers(character) {
        shown.push(character);
        return;
    }
    let code = u32::from(character);
    shown.push_str(&match code {
        0x0d => "\\r".to_owned(),
        0..=0x0c | 0x0e..=0xff => format!("\\x{code:02x}"),
        0x100..=0xffff => format!("\\u{code:04x}"),
        _ => format!("\\U{code:08x}"),
    });
}

/// Controls, direction marks, zero-width and filler characters, tags, and the selectors that text was smuggled in.
fn steers(character: char) -> bool {
    matches!(
        character,
        '\u{0}'..='\u{1f}'
            | '\u{7f}'..='\u{9f}'
            | '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{115f}'..='\u{1160}'
            | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{3164}'
            | '\u{fe00}'..='\u{fe0d}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_seen_is_written_out() {
        assert_eq!(
            inert("\u{1b}]0;pwn\u{7}\u{1b}[2J\u{202e}\u{200b}\u{e0041}a\tb\r\nc\rd"),
            "\\x1b]0;pwn\\x07\\x1b[2J\\u202e\\u200b\\U000e0041a\tb\nc\\rd"
        );
    }

    #[test]
    fn ordinary_text_of_any_script_is_untouched() {
        let text = "naïve 日本 ❤\u{fe0f} line\n\tindented";
        assert!(matches!(inert(text), Cow::Borrowed(same) if same == text));
    }

    #[test]
    fn a_line_has_no_line_breaks() {
        assert_eq!(inert_line("  a\r\n\tb\u{2028}c \u{0} "), "a b\\u2028c \\x00");
    }

    #[test]
    fn a_bound_counts_characters() {
        assert_eq!(bounded("日本語", 3), "日本語");
        assert_eq!(bounded("日本語です", 3), "日本…");
    }
}
