//! Whether text can steer whoever shows it, by lists of our own: those of the product could be wrong.

// Each oracle uses its own part of this.
#![allow(dead_code)]

/// What Unicode calls default ignorable, since nothing is shown for it, but the two selectors of text and emoji style;
/// the marks of annotations; what is blank or steers without being called so; and what is for private use.
const IGNORABLE: [(u32, u32); 23] = [
    (0xad, 0xad),
    (0x34f, 0x34f),
    (0x61c, 0x61c),
    (0x115f, 0x1160),
    (0x17b4, 0x17b5),
    (0x180b, 0x180f),
    (0x200b, 0x200f),
    (0x202a, 0x202e),
    (0x2060, 0x206f),
    (0x2800, 0x2800),
    (0x3164, 0x3164),
    (0xe000, 0xf8ff),
    (0xfe00, 0xfe0d),
    (0xfeff, 0xfeff),
    (0xffa0, 0xffa0),
    (0xfff0, 0xfffb),
    (0x13430, 0x1343f),
    (0x13441, 0x13442),
    (0x16fe4, 0x16fe4),
    (0x1bca0, 0x1bca3),
    (0x1d159, 0x1d159),
    (0x1d173, 0x1d17a),
    (0xf0000, 0x10ffff),
];

/// Whether all of it can be seen, apart from line feeds and tabs.
pub fn is_inert(text: &str) -> bool {
    text.lines().all(|line| is_inert_line(&line.replace('\t', " "))) && !text.contains('\r')
}

/// The same for one line. A selector of style is wanted behind a character, and anywhere else is not seen.
pub fn is_inert_line(line: &str) -> bool {
    let is_selector = |character: char| matches!(character, '\u{fe0e}' | '\u{fe0f}');
    let mut before = ' ';
    line.chars().all(|character| {
        let selects = !before.is_whitespace() && !is_selector(before);
        before = character;
        is_seen(character) && (selects || !is_selector(character))
    })
}

fn is_seen(character: char) -> bool {
    let code = u32::from(character);
    let is_ignorable = IGNORABLE.iter().any(|(first, last)| (first..=last).contains(&&code));
    let is_tag_or_selector = (0xe0000..=0xe0fff).contains(&code);
    let is_no_character = (0xfdd0..=0xfdef).contains(&code) || code & 0xfffe == 0xfffe;
    let ends_lines = matches!(character, '\u{2028}' | '\u{2029}');
    !character.is_control() && !is_ignorable && !is_tag_or_selector && !is_no_character && !ends_lines
}
