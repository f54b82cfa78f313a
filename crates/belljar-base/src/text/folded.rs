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

/// The longest name that is composed, in bytes. Code chooses names of 16 MB, and the bridge would stand still meanwhile.
const COMPOSED_BYTES_MAX: usize = 1024;

/// The one form of names that are spelled alike but for composed and decomposed characters, as Python compares names in
/// code. A very long name is its only form.
#[must_use]
pub fn composed(name: &str) -> Cow<'_, str> {
    match name.len() > COMPOSED_BYTES_MAX || name.is_ascii() {
        true => Cow::Borrowed(name),
        false => ComposingNormalizerBorrowed::new_nfkc().normalize(name),
    }
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
        for (one, other, is_same) in [
            ("\u{e9}te", "e\u{301}te", true),
            ("\u{b5}", "\u{3bc}", true),
            ("\u{fdfa}", "صلى الله عليه وسلم", true),
            ("\u{e9}te", "ete", false),
            ("A", "a", false),
        ] {
            assert_eq!(composed(one) == composed(other), is_same, "{one} {other}");
        }
        assert!(matches!(composed(&"e\u{301}".repeat(8 << 20)), Cow::Borrowed(_)));
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
