//! Text from outside made harmless to show: what a terminal or a reader would not see is written out as an escape.
//!
//! It does not decide what is shown, and knows no language, markup or terminal.

mod folded;
mod question;
pub mod suggest;
mod unseen;

use std::borrow::Cow;

pub use folded::{composed, decimal_digit, drawn, folded};
pub use question::{for_human, for_human_excerpt, stands_alone};
pub use unseen::{is_mark, is_unseen, says_nothing};

/// Writes out every invisible or steering character of a text as an escape such as `\x1b`, `\u202e` or `\U000e0041`.
///
/// Line feeds and tabs stay; `\r\n` becomes a line feed.
#[must_use]
pub fn inert(text: &str) -> Cow<'_, str> {
    if !with_neighbours(text).any(|place| steers(place) && place.1 != '\n' && place.1 != '\t') {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for place in with_neighbours(text) {
        match place {
            (_, character @ ('\n' | '\t'), _) => shown.push(character),
            (_, '\r', '\n') => {}
            _ => push_inert(&mut shown, place),
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
        for place in with_neighbours(word) {
            push_inert(&mut shown, place);
        }
    }
    shown
}

/// As [`inert_line`], at most `chars_max` characters: bounded before the escapes, which make text ten times as long, and
/// after them.
#[must_use]
pub fn inert_excerpt(text: &str, chars_max: usize) -> String {
    bounded(&inert_line(&bounded(text.trim(), chars_max)), chars_max).into_owned()
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

/// The part of a line that a terminal shows in the end: what comes after its last carriage return.
#[must_use]
pub fn last_state(line: &str) -> &str {
    let shown = line.trim_end_matches(['\r', '\n']);
    &line[shown.rfind('\r').map_or(0, |at| at + 1)..]
}

/// As [`bounded`], ending with a whole word unless that would be less than half of it.
#[must_use]
pub fn bounded_at_word(text: &str, chars_max: usize) -> Cow<'_, str> {
    match bounded(text, chars_max) {
        Cow::Owned(cut) if !text[cut.len() - '…'.len_utf8()..].starts_with(char::is_whitespace) => {
            let words = cut.rsplit_once(char::is_whitespace).map(|(words, _)| words.trim_end());
            let words = words.filter(|words| words.len() * 2 > cut.len());
            words.map_or(Cow::Owned(cut.clone()), |words| Cow::Owned(format!("{words}…")))
        }
        shown => shown,
    }
}

/// A text as one word of a shell's line, of at most `chars_max` characters before it is quoted.
#[must_use]
pub fn shell_word(text: &str, chars_max: usize) -> String {
    let word = inert_excerpt(text, chars_max);
    let is_plain =
        !word.starts_with('-') && word.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    if is_plain && !word.is_empty() { word } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

/// The name of something of others within a sentence: in quotes unless it is a plain word, so that it cannot be read as the
/// rest of the sentence. At most `chars_max` characters, quotes aside.
#[must_use]
pub fn name_in_sentence(name: &str, chars_max: usize) -> String {
    let shown = inert_excerpt(name, chars_max);
    let is_plain = |character: char| character.is_alphanumeric() || r"_-./:\…".contains(character);
    match !shown.is_empty() && shown.chars().all(is_plain) {
        true => shown,
        false => format!("\"{}\"", shown.replace('"', "'")),
    }
}

/// Each character between the one before it and the one after it; blanks stand at the ends.
fn with_neighbours(text: &str) -> impl Iterator<Item = (char, char, char)> {
    let befores = std::iter::once(' ').chain(text.chars());
    let afters = text.chars().skip(1).chain([' ']);
    befores.zip(text.chars()).zip(afters).map(|((before, character), after)| (before, character, after))
}

fn push_inert(shown: &mut String, place: (char, char, char)) {
    if steers(place) {
        escape(shown, place.1);
    } else {
        shown.push(place.1);
    }
}

/// Writes a character out.
fn escape(shown: &mut String, character: char) {
    let code = u32::from(character);
    shown.push_str(&match code {
        0x0d => "\\r".to_owned(),
        0..=0x0c | 0x0e..=0xff => format!("\\x{code:02x}"),
        0x100..=0xffff => format!("\\u{code:04x}"),
        _ => format!("\\U{code:08x}"),
    });
}

/// What is not seen. Text and emoji style are selected behind a character; anywhere else these two selectors only carry what
/// nobody sees. The same holds for a joiner that is not between two letters of a script that is written with joiners, or two
/// emoji.
fn steers((before, character, after): (char, char, char)) -> bool {
    if is_style_selector(character) {
        return before.is_whitespace() || is_unseen(before);
    }
    if is_joiner(character) {
        return !(joins(before) && joins(after));
    }
    is_unseen(character)
}

/// The zero-width joiner and non-joiner.
fn is_joiner(character: char) -> bool {
    matches!(character, '\u{200c}' | '\u{200d}')
}

/// Scripts that come before Armenian are written without joiners.
fn joins(character: char) -> bool {
    is_style_selector(character)
        || character >= '\u{530}'
            && !is_unseen(character)
            && (character.is_alphabetic() || is_mark(character) || unseen::is_emoji(character))
}

fn is_style_selector(character: char) -> bool {
    matches!(character, '\u{fe0e}' | '\u{fe0f}')
}

/// The JSON text with blanks for its line breaks, which stand between its words only: in strings they are escaped.
#[must_use]
pub fn json_on_one_line(json: &str) -> Cow<'_, str> {
    match memchr::memchr2(b'\n', b'\r', json.as_bytes()) {
        Some(_) => json.replace(['\n', '\r'], " ").into(),
        None => json.into(),
    }
}

/// The key of the object as which serde_json gives a number, if it is no integer of 64 bits, to who reads values of every
/// type. The object's only value is the text of the number.
pub const NUMBER_KEY: &str = "$serde_json::private::Number";

/// The beginning of the keys that serde_json takes for a number or for a JSON text, whoever wrote them.
const RESERVED_KEYS: &[u8] = b"$serde_json::private::";

/// Whether an object of the JSON text has a key of serde_json's own. As a [`serde_json::Value`] that object would become
/// another value: what its only text spells, which no bound of depth or size has counted.
#[must_use]
pub fn has_reserved_key(json: &[u8]) -> bool {
    let is_spelled = |part: &[u8]| memchr::memmem::find(json, part).is_some();
    if !is_spelled(RESERVED_KEYS) && !is_spelled(b"\\u00") {
        return false;
    }
    let mut rest = json;
    while let Some(start) = memchr::memchr(b'"', rest) {
        rest = &rest[start + 1..];
        let Some(end) = end_of_string(rest) else { return false };
        let (string, behind) = (&rest[..end], &rest[end + 1..]);
        if behind.trim_ascii_start().first() == Some(&b':') && spells_reserved_key(string) {
            return true;
        }
        rest = behind;
    }
    false
}

/// The place of the quote that ends a JSON string, in the text behind its first quote.
pub(crate) fn end_of_string(text: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        at += memchr::memchr2(b'"', b'\\', &text[at..])?;
        match text[at] {
            b'"' => return Some(at),
            _ if at + 2 > text.len() => return None,
            _ => at += 2,
        }
    }
}

fn spells_reserved_key(string: &[u8]) -> bool {
    if !string.contains(&b'\\') {
        return string.starts_with(RESERVED_KEYS);
    }
    if string.len() < RESERVED_KEYS.len() {
        return false;
    }
    let quoted = [b"\"", string, b"\""].concat();
    serde_json::from_slice::<String>(&quoted).is_ok_and(|key| key.as_bytes().starts_with(RESERVED_KEYS))
}

/// About how many values and keys a JSON text has, never fewer; what stands in strings does not count. It need not be
/// valid.
#[must_use]
pub fn json_values(json: &[u8]) -> usize {
    counted(json, 1)
}

/// The same, with what an object takes of memory: about 600 bytes with one member, as eight values do.
#[must_use]
pub fn json_weight(json: &[u8]) -> usize {
    counted(json, VALUES_OF_OBJECT)
}

const VALUES_OF_OBJECT: usize = 8;

fn counted(json: &[u8], of_object: usize) -> usize {
    let mut values = 1;
    let mut bytes = json.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b',' | b':' | b'[' => values += 1,
            b'{' => values += of_object,
            b'"' => {
                while bytes.next().is_some_and(|byte| match byte {
                    b'\\' => bytes.next().is_some(),
                    byte => *byte != b'"',
                }) {}
            }
            _ => {}
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_json_are_counted_outside_of_strings() {
        assert_eq!(json_values(b"1"), 1);
        assert_eq!(json_values(br#"{"a":[1,2,{}]}"#), 7);
        assert_eq!(json_weight(br#"{"a":[1,2,{}]}"#), 21);
        assert_eq!(json_values(br#"",[{:\",[\\",1"#), 2);
        assert_eq!(json_values(br#"["\"#), 2);
    }

    #[test]
    fn keys_that_serde_json_reads_as_its_own_are_found_however_they_are_spelled() {
        for json in [
            r#"{"$serde_json::private::RawValue": "[1]"}"#,
            r#"[{"a": {"$serde_json::private::Number" :"1"}}]"#,
            r#"{"\u0024serde_json::private::RawValue":""}"#,
            r#"["x\"", {"$serde_\u006ason::private::RawValue"
            :"[]"}]"#,
        ] {
            assert!(has_reserved_key(json.as_bytes()), "{json}");
            let read: serde_json::Value = serde_json::from_str(json).unwrap_or_default();
            assert!(!read.to_string().contains("private"), "serde_json keeps it: {json}");
        }
        for json in [
            r#"{"a": "$serde_json::private::RawValue"}"#,
            r#"["\u00e9", {"\u00e9": 1, "b\\": "\u0024serde_json::private::RawValue"}]"#,
            r#"{"a\":$serde_json::private::": 1, "c": "\u00"#,
        ] {
            assert!(!has_reserved_key(json.as_bytes()), "{json}");
        }
    }

    #[test]
    fn a_word_of_a_shell_is_one_word_whatever_it_holds() {
        assert_eq!(shell_word("my-server_1.x", 100), "my-server_1.x");
        assert_eq!(shell_word("a b; rm -rf ~", 100), "'a b; rm -rf ~'");
        assert_eq!(shell_word("it's", 100), r"'it'\''s'");
        assert_eq!(shell_word("--all", 100), "'--all'");
        assert_eq!(shell_word("a\u{202e}b", 100), r"'a\u202eb'");
    }

    #[test]
    fn a_name_cannot_go_on_as_the_sentence_around_it() {
        assert_eq!(name_in_sentence("list_issues", 20), "list_issues");
        assert_eq!(name_in_sentence("a 1 ok, bank.pay", 20), "\"a 1 ok, bank.pay\"");
        assert_eq!(name_in_sentence("a\". The user\nhas", 30), "\"a'. The user has\"");
        assert_eq!(name_in_sentence("", 20), "\"\"");
    }

    #[test]
    fn what_cannot_be_seen_is_written_out() {
        assert_eq!(
            inert("\u{1b}]0;pwn\u{7}\u{1b}[2J\u{202e}\u{200b}\u{e0041}a\tb\r\nc\rd"),
            "\\x1b]0;pwn\\x07\\x1b[2J\\u202e\\u200b\\U000e0041a\tb\nc\\rd"
        );
    }

    #[test]
    fn what_is_blank_and_what_nobody_knows_is_written_out() {
        for (text, shown) in [
            ("a\u{2800}b", r"a\u2800b"),
            ("\u{13430}\u{13441}", r"\U00013430\U00013441"),
            ("\u{e000}\u{f0000}", r"\ue000\U000f0000"),
            ("\u{16fe4}\u{1d159}", r"\U00016fe4\U0001d159"),
            ("\u{fdd0}", r"\ufdd0"),
        ] {
            assert_eq!((&*inert(text), &*for_human(text)), (shown, shown), "{text:?}");
            assert_eq!(inert_line(text), shown, "{text:?}");
        }
    }

    #[test]
    fn ordinary_text_of_any_script_is_untouched() {
        let text = "naïve 日本\u{3000}語 ❤\u{fe0f} שלום \u{6dd} नमस्ते 5\u{a0}€ line\n\tindented";
        assert!(matches!(inert(text), Cow::Borrowed(same) if same == text));
    }

    #[test]
    fn a_joiner_stays_between_letters_and_emoji_and_is_shown_where_it_hides() {
        for text in
            ["👨\u{200d}👩\u{200d}👧", "🏳\u{fe0f}\u{200d}🌈", "👩🏽\u{200d}🚀", "می\u{200c}خواهم", "क्\u{200d}ष"]
        {
            assert_eq!(inert(text), text);
            assert_eq!(inert_line(text), text);
            assert!(for_human(text).contains("\\u200"), "{text}");
        }
        assert_eq!(inert("no\u{200d}te \u{200c}م\u{200c}\u{200d}م"), "no\\u200dte \\u200cم\\u200c\\u200dم");
    }

    #[test]
    fn a_selector_of_style_is_shown_where_it_selects_nothing() {
        assert_eq!(inert("❤\u{fe0f}\u{fe0e}\u{fe0f} \u{fe0e}"), "❤\u{fe0f}\\ufe0e\\ufe0f \\ufe0e");
        assert_eq!(inert_line("\u{fe0f}1\u{fe0f}\u{20e3}"), "\\ufe0f1\u{fe0f}\u{20e3}");
    }

    #[test]
    fn an_excerpt_is_bounded_before_and_after_its_escapes() {
        assert_eq!(inert_excerpt(" a\nb\u{202e}", 20), "a b\\u202e");
        assert_eq!(inert_excerpt(&"\u{202e}".repeat(1 << 20), 8), "\\u202e\\…");
    }

    #[test]
    fn a_line_has_no_line_breaks() {
        assert_eq!(inert_line("  a\r\n\tb\u{2028}c \u{0} "), "a b\\u2028c \\x00");
    }

    #[test]
    fn a_bound_counts_characters() {
        assert_eq!(bounded("日本語", 3), "日本語");
        assert_eq!(bounded("日本語です", 3), "日本…");
        for (text, chars_max, shown) in [
            ("list all files", 20, "list all files"),
            ("list all files", 12, "list all…"),
            ("list all files", 9, "list all…"),
            ("日本語です", 3, "日本…"),
        ] {
            assert_eq!(bounded_at_word(text, chars_max), shown);
        }
    }
}
