//! Characters of which a reader sees nothing, or nobody knows what: one list for replies and for questions to the human.
//!
//! It does not judge white space other than line ends: what is between words is seen. Characters that Unicode has not assigned
//! yet are drawn as boxes, and may be assigned by the time that they are read.

use icu_properties::props::{DefaultIgnorableCodePoint, Emoji, GeneralCategory, PrependedConcatenationMark};
use icu_properties::{CodePointMapData, CodePointSetData};

/// Blank by their shape and not by their properties: the empty pattern of Braille, two blanks of hieroglyphs, the filler of
/// Khitan, and a note without a head.
const BLANKS: [char; 5] = ['\u{2800}', '\u{13441}', '\u{13442}', '\u{16fe4}', '\u{1d159}'];

/// Whether nothing is drawn for it, or what is drawn is not known.
#[must_use]
pub fn is_unseen(character: char) -> bool {
    if character.is_ascii() {
        return character.is_ascii_control();
    }
    !is_of_common_script(character) && is_unseen_by_properties(character)
}

/// Whether it is in a range of letters and signs that are all drawn, which is known without a look at any table.
fn is_of_common_script(character: char) -> bool {
    matches!(character, '\u{a0}'..='\u{ac}' | '\u{ae}'..='\u{34e}' | '\u{350}'..='\u{5ff}' | '\u{3000}'..='\u{3163}' | '\u{3165}'..='\u{d7ff}')
}

fn is_unseen_by_properties(character: char) -> bool {
    use GeneralCategory as Category;
    BLANKS.contains(&character)
        || CodePointSetData::new::<DefaultIgnorableCodePoint>().contains(character)
        || match CodePointMapData::<Category>::new().get(character) {
            Category::Control
            | Category::LineSeparator
            | Category::ParagraphSeparator
            | Category::PrivateUse => true,
            Category::Unassigned => is_noncharacter(character),
            // Signs around numbers are drawn.
            Category::Format => !CodePointSetData::new::<PrependedConcatenationMark>().contains(character),
            _ => false,
        }
}

/// Whether it will never be assigned.
fn is_noncharacter(character: char) -> bool {
    matches!(character, '\u{fdd0}'..='\u{fdef}') || u32::from(character) & 0xfffe == 0xfffe
}

/// Whether it is drawn upon the letter before it.
#[must_use]
pub fn is_mark(character: char) -> bool {
    matches!(
        CodePointMapData::<GeneralCategory>::new().get(character),
        GeneralCategory::NonspacingMark | GeneralCategory::EnclosingMark
    )
}

/// Whether it is drawn as an emoji, alone or with others.
pub(super) fn is_emoji(character: char) -> bool {
    CodePointSetData::new::<Emoji>().contains(character)
}

/// Whether nothing of a text is seen.
#[must_use]
pub fn says_nothing(text: &str) -> bool {
    text.chars().all(|character| character.is_whitespace() || is_unseen(character))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_scripts_have_no_unseen_character() {
        let common = (char::MIN..=char::MAX).filter(|character| is_of_common_script(*character));
        let unseen: Vec<char> = common.filter(|character| is_unseen_by_properties(*character)).collect();
        assert!(unseen.is_empty(), "{unseen:?}");
    }

    #[test]
    fn what_is_drawn_is_seen() {
        for character in "aé日א\u{5b0}\u{6dd}\u{600}€👍 \u{378}\u{a0}\u{3000}\u{301}".chars() {
            assert!(!is_unseen(character), "{character:?}");
        }
        for character in "\n\u{85}\u{ad}\u{200b}\u{2028}\u{fe0f}\u{e000}\u{fdd0}\u{1fffe}\u{10ffff}".chars() {
            assert!(is_unseen(character), "{character:?}");
        }
        assert!(says_nothing(" \u{200b}\u{2800}") && says_nothing("") && !says_nothing(" ."));
    }
}
