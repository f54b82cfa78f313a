//! Finds secret values in texts and puts their names in their place.
//!
//! JSON has many spellings for one string: a writer may escape any character, and a string may itself hold JSON, whose
//! strings have escapes of their own. A text is therefore compared as it is, and decoded as often as it has escapes, up to
//! `ESCAPE_LEVELS_MAX` times. This module does not know who owns a secret, nor which texts are searched.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::ops::Range;

use memchr::memchr;
use memchr::memmem::{self, Finder};

use crate::text;

/// Shorter values are words like any other, and replacing them would make texts unreadable.
pub const SECRET_BYTES_MIN: usize = 6;
/// How often a text is decoded: JSON in a string of JSON has two levels of escapes.
const ESCAPE_LEVELS_MAX: usize = 4;
/// Bytes of text that are decoded at once, so that a search of a large text needs little memory.
const BLOCK_BYTES: usize = 64 * 1024;
/// The most bytes with which JSON spells one byte of a text: `\u0061`.
const SPELLED_BYTES_MAX: usize = 6;

/// Characters that have a short escape, and its letter.
const SHORT_ESCAPES: [(u8, u8); 8] = [
    (b'"', b'"'),
    (b'\\', b'\\'),
    (b'/', b'/'),
    (b'\n', b'n'),
    (b'\r', b'r'),
    (b'\t', b't'),
    (8, b'b'),
    (12, b'f'),
];

/// A secret value and its name. It has no `Debug`, so that the value reaches no log.
pub struct Secret {
    /// What replaces the value, in brackets.
    pub name: String,
    value: Finder<'static>,
    characters: Characters,
}

/// A set of characters. Those beyond ASCII are not told apart.
#[derive(Clone, Copy, Default)]
struct Characters {
    ascii: u128,
    has_others: bool,
}

/// The content of a text in which secrets are replaced.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Content {
    Text,
    /// What stands between the quotes of a JSON string.
    JsonString,
}

/// The escape that begins at a backslash.
enum Escape {
    /// This character, in so many bytes.
    Of(char, usize),
    /// A backslash that begins no escape.
    Literal,
    /// The text ends before the escape does.
    Truncated,
}

/// A text that is decoded block by block, after a number of decodings.
#[derive(Default)]
struct Level {
    /// The part of it that is still needed.
    text: Vec<u8>,
    /// How much of `text` the next level has received. `None` while the text had no backslash, and the next level is equal.
    passed_on: Option<usize>,
}

impl Secret {
    /// Returns `None` for a value of fewer than [`SECRET_BYTES_MIN`] bytes. Blanks at its ends do not belong to the secret, as
    /// whoever uses it may trim them, unless it is too short without them.
    pub fn new(name: String, value: &str) -> Option<Self> {
        let value = without_blank_ends(value);
        if value.len() < SECRET_BYTES_MIN {
            return None;
        }
        let characters = value.chars().map(u32::from).fold(Characters::default(), Characters::with);
        Some(Self { name, value: Finder::new(value).into_owned(), characters })
    }

    /// Length of the secret in bytes.
    pub fn bytes(&self) -> usize {
        self.value.needle().len()
    }

    /// Whether the secret has this value.
    #[must_use]
    pub fn is_value(&self, value: &str) -> bool {
        self.value.needle() == without_blank_ends(value).as_bytes()
    }

    /// How many bytes at the cut of a truncated text may be a part of the value, in any usual spelling. It depends on the
    /// value's length only: if what is removed depended on what matches, whoever can have texts cut could find out the
    /// value piece by piece.
    pub fn bytes_at_cut(&self) -> usize {
        self.value.needle().len().saturating_sub(1) * SPELLED_BYTES_MAX
    }

    /// Where the value stands in the text, in any spelling; sorted and apart from each other. In the content of a JSON string
    /// a place begins and ends between escapes.
    fn places(&self, text: &str, content: Content) -> Vec<Range<usize>> {
        let levels = levels(text.as_bytes());
        let is_escaped = levels.len() > 1;
        let mut places: Vec<Range<usize>> = Vec::new();
        for (level, text) in levels.iter().enumerate() {
            if level == 0 && content == Content::JsonString && is_escaped {
                continue;
            }
            let bounds = self.value.find_iter(text).flat_map(|at| [at, at + self.bytes()]).collect();
            let bounds = origins(&levels[..level], bounds);
            places.extend(bounds.chunks_exact(2).map(|place| place[0]..place[1]));
        }
        places.sort_by_key(|place| place.start);
        places.dedup_by(|next, place| {
            let overlaps = next.start < place.end;
            if overlaps {
                place.end = place.end.max(next.end);
            }
            overlaps
        });
        places
    }
}

impl Characters {
    const ALL: Self = Self { ascii: u128::MAX, has_others: true };

    /// Those of `wanted`, and possibly more, that the text has as escapes, at any level.
    fn escaped_in(text: &[u8], wanted: Self) -> Self {
        let mut escaped = Self::default();
        for (character, letter) in SHORT_ESCAPES {
            let character = Self::default().with(character.into());
            if wanted.shares(character) && memmem::find(text, &[b'\\', letter]).is_some() {
                escaped.ascii |= character.ascii;
            }
        }
        for at in memmem::find_iter(text, b"\\u") {
            let Some(code) = text.get(at + 2..at + 6).and_then(hexadecimal) else { continue };
            // A character that is a part of escapes hides those of the next level; b and f are hexadecimal digits, too.
            let is_part = |byte: u8| b"\\unrt".contains(&byte) || byte.is_ascii_hexdigit();
            if u8::try_from(code).is_ok_and(is_part) {
                return Self::ALL;
            }
            escaped = escaped.with(code);
        }
        escaped
    }

    fn with(mut self, character: u32) -> Self {
        match 1_u128.checked_shl(character) {
            Some(bit) => self.ascii |= bit,
            None => self.has_others = true,
        }
        self
    }

    fn shares(self, other: Self) -> bool {
        self.ascii & other.ascii != 0 || self.has_others && other.has_others
    }
}

/// The text with each secret replaced by its name. Where one contains another, the longer one's name stands for both; where two
/// overlap, both names do.
pub fn replaced_in(text: String, secrets: &[&Secret]) -> String {
    let found = found_in(&text, secrets);
    if found.is_empty() { text } else { replaced(&text, &found, Content::Text) }
}

/// The JSON text with each secret replaced by its name in strings and keys; all else is unchanged, to the byte. Returns `None`
/// when there is nothing to replace. Otherwise it does as [`replaced_in`].
///
/// A text without escapes is searched at the speed of memory; one with escapes is decoded block by block.
pub fn replaced_in_json(json: &str, secrets: &[&Secret]) -> Option<String> {
    let secrets = found_in(json, secrets);
    if secrets.is_empty() {
        return None;
    }
    let mut written = String::with_capacity(json.len());
    let mut rest = json;
    while let Some(begin) = memchr(b'"', rest.as_bytes()) {
        let (before, from_string) = rest.split_at(begin + 1);
        let (string, behind) =
            from_string.split_at(text::end_of_string(from_string.as_bytes()).unwrap_or(from_string.len()));
        written.push_str(before);
        let found = found_in(string, &secrets);
        match found.is_empty() {
            true => written.push_str(string),
            false => written.push_str(&replaced(string, &found, Content::JsonString)),
        }
        // The quote that ends it begins no string.
        let end = usize::from(behind.starts_with('"'));
        written.push_str(&behind[..end]);
        rest = &behind[end..];
    }
    Some(written + rest)
}

/// All places are found before anything is replaced, so that no secret hides a part of another.
fn replaced(text: &str, secrets: &[&Secret], content: Content) -> String {
    let of_secret = |secret: &&Secret| {
        let name = match content {
            Content::Text => format!("[{}]", secret.name),
            Content::JsonString => {
                let name = serde_json::Value::from(format!("[{}]", secret.name)).to_string();
                name[1..name.len() - 1].to_owned()
            }
        };
        secret.places(text, content).into_iter().map(move |place| (place, name.clone()))
    };
    let mut places: Vec<(Range<usize>, String)> = secrets.iter().flat_map(of_secret).collect();
    places.sort_by_key(|(place, _)| (place.start, Reverse(place.end)));
    let mut written = String::with_capacity(text.len());
    let mut end = 0;
    for (place, name) in places {
        if place.start >= end {
            written.push_str(&text[end..place.start]);
        }
        if place.end > end {
            written.push_str(&name);
            end = place.end;
        }
    }
    written + &text[end..]
}

/// The value without white space, controls and byte order marks at its ends; as it is where too little is left.
fn without_blank_ends(value: &str) -> &str {
    let is_blank = |one: char| one.is_whitespace() || one.is_control() || one == '\u{feff}';
    Some(value.trim_matches(is_blank)).filter(|trimmed| trimmed.len() >= SECRET_BYTES_MIN).unwrap_or(value)
}

/// Those secrets that stand in the text, in any spelling.
fn found_in<'s>(text: &str, secrets: &[&'s Secret]) -> Vec<&'s Secret> {
    if secrets.is_empty() {
        return Vec::new();
    }
    let text = text.as_bytes();
    let mut found: Vec<bool> = secrets.iter().map(|secret| secret.value.find(text).is_some()).collect();
    let wanted = secrets.iter().fold(Characters::default(), |wanted, secret| Characters {
        ascii: wanted.ascii | secret.characters.ascii,
        has_others: wanted.has_others || secret.characters.has_others,
    });
    let escaped = Characters::escaped_in(text, wanted);
    let may_be_escaped = |(secret, found): (&&Secret, &bool)| !found && escaped.shares(secret.characters);
    if secrets.iter().zip(&found).any(may_be_escaped) {
        search_decoded(text, secrets, &mut found);
    }
    secrets.iter().zip(found).filter_map(|(secret, found)| found.then_some(*secret)).collect()
}

/// Marks those secrets that stand in the decoded text, at any level.
fn search_decoded(text: &[u8], secrets: &[&Secret], found: &mut [bool]) {
    let longest = secrets.iter().map(|secret| secret.bytes()).max().unwrap_or_default();
    let mut levels: [Level; ESCAPE_LEVELS_MAX] = Default::default();
    let mut rest = text;
    while !rest.is_empty() {
        let block = &rest[..rest.len().min(BLOCK_BYTES.max(longest))];
        let is_last = block.len() == rest.len();
        rest = &rest[decode(block, is_last, &mut levels[0].text)..];
        search_levels(&mut levels, is_last, longest, secrets, found);
    }
}

/// Searches what a block has added to the first of these levels, and decodes it for the next one.
fn search_levels(
    levels: &mut [Level],
    is_last: bool,
    longest: usize,
    secrets: &[&Secret],
    found: &mut [bool],
) {
    let Some((level, deeper)) = levels.split_first_mut() else { return };
    for (secret, found) in secrets.iter().zip(&mut *found) {
        *found = *found || secret.value.find(&level.text).is_some();
    }
    if let Some(next) = deeper.first_mut()
        && (level.passed_on.is_some() || memchr(b'\\', &level.text).is_some())
    {
        let passed_on = level.passed_on.unwrap_or_default();
        let read = decode(&level.text[passed_on..], is_last, &mut next.text);
        level.passed_on = Some(passed_on + read);
        search_levels(deeper, is_last, longest, secrets, found);
    }
    // A secret may begin in one block and end in the next.
    let searched = level.text.len().saturating_sub(longest);
    let unneeded = level.passed_on.map_or(searched, |passed_on| passed_on.min(searched));
    level.text.drain(..unneeded);
    level.passed_on = level.passed_on.map(|passed_on| passed_on - unneeded);
}

/// The text, and what it reads after each decoding, as long as one changes anything.
fn levels(text: &[u8]) -> Vec<Cow<'_, [u8]>> {
    let mut levels = vec![Cow::Borrowed(text)];
    while levels.len() <= ESCAPE_LEVELS_MAX
        && let Some(last) = levels.last()
        && memchr(b'\\', last).is_some()
    {
        let mut next = Vec::with_capacity(last.len());
        decode(last, true, &mut next);
        let is_same = next.len() == last.len();
        levels.push(Cow::Owned(next));
        if is_same {
            break;
        }
    }
    levels
}

/// Appends the text with its escapes decoded. Returns how many bytes were read: fewer than all if an escape may go on behind
/// a text that `is_last` does not say to end there.
fn decode(text: &[u8], is_last: bool, decoded: &mut Vec<u8>) -> usize {
    let mut at = 0;
    while let Some(plain) = memchr(b'\\', &text[at..]) {
        decoded.extend_from_slice(&text[at..at + plain]);
        at += plain;
        match escape(&text[at..]) {
            Escape::Of(character, bytes) => {
                decoded.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                at += bytes;
            }
            Escape::Truncated if !is_last => return at,
            Escape::Truncated | Escape::Literal => {
                decoded.push(b'\\');
                at += 1;
            }
        }
    }
    decoded.extend_from_slice(&text[at..]);
    text.len()
}

/// Where ascending offsets of a decoded text lie in the first of the texts from which it was decoded, one after the other.
fn origins(levels: &[Cow<'_, [u8]>], offsets: Vec<usize>) -> Vec<usize> {
    levels.iter().rev().fold(offsets, |offsets, text| {
        let (mut at, mut decoded) = (0, 0);
        let mut origin = |offset: usize| {
            while let Some(plain) = memchr(b'\\', &text[at..]).filter(|plain| decoded + plain < offset) {
                let (bytes, decoded_bytes) = match escape(&text[at + plain..]) {
                    Escape::Of(character, bytes) => (bytes, character.len_utf8()),
                    Escape::Literal | Escape::Truncated => (1, 1),
                };
                at += plain + bytes;
                decoded += plain + decoded_bytes;
            }
            at + (offset - decoded)
        };
        offsets.into_iter().map(&mut origin).collect()
    })
}

/// What the backslash begins with which the text begins.
fn escape(text: &[u8]) -> Escape {
    match text.get(1) {
        None => Escape::Truncated,
        Some(b'u') => unicode_escape(text),
        Some(letter) => {
            let short = SHORT_ESCAPES.iter().find(|(_, of)| of == letter);
            short.map_or(Escape::Literal, |(character, _)| Escape::Of((*character).into(), 2))
        }
    }
}

fn unicode_escape(text: &[u8]) -> Escape {
    let Some(digits) = text.get(2..6) else { return Escape::Truncated };
    let Some(unit) = hexadecimal(digits) else { return Escape::Literal };
    if let Some(character) = char::from_u32(unit) {
        return Escape::Of(character, 6);
    }
    // Half of a pair; alone it is no character.
    let is_first = unit < 0xDC00;
    match text.get(6..12) {
        None if is_first => Escape::Truncated,
        Some([b'\\', b'u', digits @ ..]) if is_first => match hexadecimal(digits) {
            Some(second @ 0xDC00..=0xDFFF) => {
                let code = 0x10000 + ((unit - 0xD800) << 10) + (second - 0xDC00);
                Escape::Of(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER), 12)
            }
            _ => Escape::Of(char::REPLACEMENT_CHARACTER, 6),
        },
        _ => Escape::Of(char::REPLACEMENT_CHARACTER, 6),
    }
}

fn hexadecimal(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0, |number, digit| Some(number * 16 + char::from(*digit).to_digit(16)?))
}

#[cfg(test)]
#[path = "secret_tests.rs"]
mod tests;
