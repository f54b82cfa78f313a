//! Text the way lenient servers compare it: normalised, without case, invisible characters and surrounding white space.
//!
//! It is for decisions in which a false match is safer than a missed one. Nothing folded is shown or sent.

use std::borrow::Cow;

use icu_normalizer::ComposingNormalizerBorrowed;
use icu_properties::props::{DefaultIgnorableCodePoint, GeneralCategory};
use icu_properties::{CodePointMapData, CodePointSetData};

use super::unseen::is_unseen;

/// The text in Unicode's normal form KC, in lower case, without characters that are never drawn, and without white space and
/// controls at its ends.
#[must_use]
pub fn folded(text: &str) -> Cow<'_, str> {
    let trimmed = text.trim_matches(is_blank);
    if trimmed.is_ascii() {
        let is_folded = !trimmed.bytes().any(|byte| byte.is_ascii_uppercase());
        return if is_folded { Cow::Borrowed(trimmed) } else { Cow::Owned(trimmed.to_ascii_lowercase()) };
    }
    let ignored = CodePointSetData::new::<DefaultIgnorableCodePoint>();
    let normalizer = ComposingNormalizerBorrowed::new_nfkc();
    let visible: String = text.chars().filter(|character| !ignored.contains(*character)).collect();
    // Twice: a capital letter may become letters that compose, and sharp s has no capital of its own.
    let lower = normalizer.normalize(&visible).to_uppercase().to_lowercase();
    Cow::Owned(normalizer.normalize(&lower).trim_matches(is_blank).to_owned())
}

/// More than a name can be longer in one normal form than in another: U+FDFA is 3 bytes, and 33 as KC. A name of 7 MB that
/// code had chosen was normalised for each tool of a server, and the bridge stood still meanwhile.
const FORMS_BYTES_MAX: usize = 16;

/// Whether two names are spelled alike but for composed and decomposed characters, as Python compares names in code.
#[must_use]
pub fn is_same_name(one: &str, other: &str) -> bool {
    let (short, long) = (one.len().min(other.len()), one.len().max(other.len()));
    if long > short.saturating_mul(FORMS_BYTES_MAX) {
        return false;
    }
    if one.is_ascii() && other.is_ascii() {
        return one == other;
    }
    let normalizer = ComposingNormalizerBorrowed::new_nfkc();
    normalizer.normalize(one) == normalizer.normalize(other)
}

/// The text without the characters of which a reader sees nothing, tabs and line ends among them.
#[must_use]
pub fn drawn(text: &str) -> Cow<'_, str> {
    let is_plain = text.is_ascii() && !text.bytes().any(|byte| byte.is_ascii_control());
    if is_plain || !text.chars().any(is_unseen) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().filter(|character| !is_unseen(*character)).collect())
}

/// The value of a decimal digit of any script, as Python's `int` reads it.
#[must_use]
pub fn decimal_digit(character: char) -> Option<u8> {
    if character.is_ascii() {
        return character.to_digit(10).and_then(|digit| u8::try_from(digit).ok());
    }
    let categories = CodePointMapData::<GeneralCategory>::new();
    let is_digit = |code: u32| categories.get32(code) == GeneralCategory::DecimalNumber;
    let code = u32::from(character);
    if !is_digit(code) {
        return None;
    }
    // Unicode assigns the digits of a script in one run that begins with its zero.
    let before = (0..code).rev().take_while(|before| is_digit(*before)).count();
    u8::try_from(before % 10).ok()
}

fn is_blank(character: char) -> bool {
    character.is_whitespace() || character.is_control()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_that_servers_take_for_one_fold_to_one() {
        for spelling in
            ["delete", " Delete\n", "DELETE\0", "ｄｅｌｅｔｅ", "de\u{200b}lete", "\u{feff}delete", "𝐝𝐞𝐥𝐞𝐭𝐞"]
        {
            assert_eq!(folded(spelling), "delete", "{spelling:?}");
        }
        assert_eq!(folded("Stra\u{df}e"), folded("STRASSE"));
        assert_eq!(folded("cafe\u{301}"), folded("CAF\u{c9}"));
        assert_ne!(folded("delete"), folded("deletes"));
    }

    #[test]
    fn a_name_is_the_same_however_its_characters_are_composed() {
        assert!(is_same_name("\u{e9}te", "e\u{301}te") && is_same_name("\u{b5}", "\u{3bc}"));
        assert!(!is_same_name("\u{e9}te", "ete") && !is_same_name("A", "a"));
        // The form of this one character is longest.
        assert!(is_same_name("\u{fdfa}", "صلى الله عليه وسلم"));
        // A name that code sends to be compared with each of ten thousand tools.
        let long = "\u{e9}".repeat(8 << 20);
        assert!((0..10_000).all(|_| !is_same_name("tool", &long)));
    }

    #[test]
    fn what_is_not_drawn_is_left_out() {
        assert_eq!(drawn("d\te\u{7}l\u{fff9}e\u{2800}t\u{e000}e\n"), "delete");
        assert!(matches!(drawn("a b\u{a0}\u{e9}"), Cow::Borrowed(_)));
    }

    #[test]
    fn digits_of_every_script_have_their_value() {
        for (text, expected) in [("09", [0, 9]), ("٤٢", [4, 2]), ("४२", [4, 2]), ("４２", [4, 2])] {
            let digits: Vec<_> = text.chars().map(decimal_digit).collect();
            assert_eq!(digits, expected.map(Some), "{text}");
        }
        assert_eq!(['x', '½', '①', '四'].map(decimal_digit), [None; 4]);
    }

    #[test]
    fn runs_of_digits_begin_with_a_zero() {
        let is_digit = |code: u32| char::from_u32(code).is_some_and(|one| decimal_digit(one).is_some());
        let starts = (0x80..0x0011_0000_u32).filter(|code| is_digit(*code) && !is_digit(*code - 1));
        for start in starts {
            let run = (start..).take_while(|code| is_digit(*code)).count();
            assert_eq!(run % 10, 0, "U+{start:04X}");
        }
    }
}
