//! Text within a question to the human: every character that could change the order of others, or be overlooked, is written out
//! as an escape.
//!
//! Text for a model keeps letters that are written from right to left; see `inert`.

use std::borrow::Cow;

use icu_properties::CodePointMapData;
use icu_properties::props::{BidiClass, GeneralCategory};

use super::escape;
use super::unseen::{is_mark, is_unseen};

/// Marks that one letter may carry: Vietnamese needs two, Tibetan and Thai up to four.
const MARKS_MAX: usize = 4;

/// The text with escapes such as `\x1b`, `\u05d0` or `\U000e0041` for what [`inert`](super::inert) writes out, and besides for
/// letters and digits that are written from right to left, unusual white space, unassigned characters, and marks beyond the
/// fourth on one letter or without a letter. Line feeds stay.
#[must_use]
pub fn for_human(text: &str) -> Cow<'_, str> {
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\n')) {
        return Cow::Borrowed(text);
    }
    let text = super::inert(text);
    let mut shown = String::with_capacity(text.len() + 16);
    let mut marks = 0;
    // Marks behind an escape would be drawn upon it.
    let mut carries_marks = false;
    for character in text.chars() {
        if is_mark(character) {
            marks += 1;
            if !carries_marks || marks > MARKS_MAX {
                carries_marks = false;
                escape(&mut shown, character);
                continue;
            }
        } else {
            marks = 0;
            carries_marks = character.is_alphanumeric();
        }
        match character {
            '\n' => shown.push(character),
            _ if misleads(character) || super::is_joiner(character) => {
                carries_marks = false;
                escape(&mut shown, character);
            }
            _ => shown.push(character),
        }
    }
    Cow::Owned(shown)
}

/// As [`for_human`], in one line of at most `chars_max` characters.
#[must_use]
pub fn for_human_excerpt(text: &str, chars_max: usize) -> String {
    let line = super::inert_excerpt(text, chars_max);
    super::bounded(&for_human(&line), chars_max).into_owned()
}

/// Whether a text that stands by itself, such as the label of a choice, can be shown as it is: it has nothing to write out, or
/// it is only words that are written from right to left, which no other text can be mixed up with.
#[must_use]
pub fn stands_alone(text: &str) -> bool {
    if for_human(text) == text {
        return true;
    }
    let is_right_to_left = |character: char| {
        matches!(bidi(character), BidiClass::RightToLeft | BidiClass::ArabicLetter) && !is_hidden(character)
    };
    super::inert_line(text) == text
        && text.chars().all(|character| is_right_to_left(character) || character == ' ')
}

fn misleads(character: char) -> bool {
    is_hidden(character)
        || matches!(
            bidi(character),
            BidiClass::RightToLeft | BidiClass::ArabicLetter | BidiClass::ArabicNumber
        )
}

/// Whether it is not seen, or is white space that is unusual, or not assigned.
fn is_hidden(character: char) -> bool {
    use GeneralCategory as Category;
    let category = CodePointMapData::<Category>::new().get(character);
    let is_odd = matches!(category, Category::SpaceSeparator | Category::Unassigned);
    is_unseen(character) || (is_odd && character != ' ')
}

fn bidi(character: char) -> BidiClass {
    CodePointMapData::<BidiClass>::new().get(character)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_reorders_or_hides_is_written_out() {
        for (text, shown) in [
            ("a\u{202e}b", r"a\u202eb"),
            ("pay 1 \u{5d0}\u{5d1} 2", r"pay 1 \u05d0\u05d1 2"),
            ("\u{627}\u{661}", r"\u0627\u0661"),
            ("a\u{2800}b", r"a\u2800b"),
            ("\u{115f}\u{1160}\u{3164}\u{ffa0}", r"\u115f\u1160\u3164\uffa0"),
            ("a\u{a0}b\u{2003}c\u{3000}d", r"a\xa0b\u2003c\u3000d"),
            ("\u{2028}\u{2029}\u{e0041}", r"\u2028\u2029\U000e0041"),
            ("\u{2764}\u{fe0f}\u{fe0e}", "\u{2764}\\ufe0f\\ufe0e"),
            ("\u{e000}\u{378}", r"\ue000\u0378"),
            ("\u{5d0}\u{5b0}", r"\u05d0\u05b0"),
            ("\"\u{301}", "\"\\u0301"),
            ("a\tb\r\nc", "a\\x09b\nc"),
        ] {
            assert_eq!(for_human(text), shown, "{text:?}");
        }
        let stacked = format!("e{}", "\u{301}".repeat(9));
        assert_eq!(for_human(&stacked), format!("e{}{}", "\u{301}".repeat(4), r"\u0301".repeat(5)));
    }

    #[test]
    fn ordinary_text_from_left_to_right_stays() {
        for text in [
            "na\u{ef}ve",
            "日本語のテキスト",
            "Привет, мир",
            "Việt Nam",
            "हिन्दी",
            "ภาษาไทยที่",
            "€ 5 – 6 “x” …",
            "👍🎉",
        ] {
            assert_eq!(for_human(text), text);
        }
    }

    #[test]
    fn words_of_one_direction_stand_alone_and_a_mixture_does_not() {
        for text in ["yes", "שלום", "שלום עולם", "نعم"] {
            assert!(stands_alone(text), "{text}");
        }
        for text in ["שלום a", "5 שלום", "נעם\u{200f}", "\u{661}", "a\u{2800}", "a\u{202e}b", " שלום"]
        {
            assert!(!stands_alone(text), "{text}");
        }
    }

    #[test]
    fn an_excerpt_is_bounded_with_its_escapes() {
        assert_eq!(for_human_excerpt("a\n\u{5d0}", 20), r"a \u05d0");
        assert_eq!(for_human_excerpt(&"\u{5d0}".repeat(100), 20).chars().count(), 20);
    }
}
