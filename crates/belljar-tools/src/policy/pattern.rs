//! Patterns of names and values: `*` stands for any text, `?` for one character.

use std::fmt;

use belljar_base::text;
use serde::{Deserialize, Deserializer};
use wildmatch::WildMatch;

use super::literal_meaning::LiteralMeaning;
use super::places::{WEB_SCHEMES, places};

/// The longest pattern, in characters.
const PATTERN_CHARS_MAX: usize = 200;
/// The longest text that is compared, in bytes: the time of a comparison grows with the product of both lengths.
const TEXT_BYTES_MAX: usize = 64 * 1024;

/// A pattern that matches whole texts.
#[derive(Debug, Clone, PartialEq)]
pub struct Pattern {
    text: String,
    compiled: WildMatch,
    /// The pattern after [`text::folded`].
    folded: WildMatch,
    /// The places to which the pattern may lead.
    places: Vec<WildMatch>,
    /// The values that it means, if it has no wildcards.
    named: Option<LiteralMeaning>,
}

impl Pattern {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// It is empty or longer than 200 characters.
    pub fn new(text: &str) -> Result<Self, String> {
        if text.is_empty() || text.chars().count() > PATTERN_CHARS_MAX {
            return Err(format!("a pattern has 1 to {PATTERN_CHARS_MAX} characters"));
        }
        Ok(Self::compiled(text))
    }

    /// The pattern that matches every text.
    #[must_use]
    pub fn any() -> Self {
        Self::compiled("*")
    }

    fn compiled(text: &str) -> Self {
        let folded = text::folded(text);
        // A rule may have the address that a server shows.
        let decoded = percent_encoding::percent_decode_str(text).decode_utf8_lossy();
        Self {
            text: text.to_owned(),
            compiled: WildMatch::new(text),
            folded: WildMatch::new(&folded),
            places: [text, &*decoded]
                .into_iter()
                .flat_map(|text| places(text, false, usize::MAX).0)
                .map(|place| WildMatch::new(&place))
                .collect(),
            named: (!text.contains(['*', '?'])).then(|| LiteralMeaning::of(text)),
        }
    }

    /// Whether it can match a web address: it begins with a wildcard, or as one does.
    pub(super) fn may_be_address(&self) -> bool {
        let folded = text::folded(&self.text);
        let begins = folded.split(['*', '?']).next().unwrap_or_default();
        WEB_SCHEMES.iter().any(|scheme| {
            begins.starts_with(&format!("{scheme}:")) || format!("{scheme}://").starts_with(begins)
        })
    }

    /// Whether it is the pattern that matches every text.
    #[must_use]
    pub fn is_any(&self) -> bool {
        self.text == "*"
    }

    /// Whether the text matches, with upper and lower case distinguished; `None` if the text is too long to compare.
    #[must_use]
    pub fn matches(&self, text: &str) -> Option<bool> {
        if self.is_any() {
            return Some(true);
        }
        (text.len() <= TEXT_BYTES_MAX).then(|| self.compiled.matches(text))
    }

    /// Whether the text matches as written or [folded](text::folded); `None` if it is too long to compare.
    pub(super) fn matches_loosely(&self, text: &str) -> Option<bool> {
        let is_like =
            |text: &str| self.folded.matches(text) || self.places.iter().any(|place| place.matches(text));
        Some(self.matches(text)? || is_like(&text::folded(text)))
    }

    /// Whether it can match a number of any length.
    pub(super) fn may_be_long_number(&self) -> bool {
        let of_number = |one: char| one.is_ascii_digit() || "*?+-.".contains(one);
        self.text.contains('*') && self.text.chars().all(of_number)
    }

    /// The values that it means; `None`: it has wildcards.
    pub(super) fn named(&self) -> Option<&LiteralMeaning> {
        self.named.as_ref()
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for Pattern {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(&String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_matches_whole_texts_and_says_when_it_cannot_tell() {
        let matches = |pattern: &str, text: &str| Pattern::new(pattern).unwrap().matches(text);
        for (pattern, text, expected) in [
            ("list_*", "list_issues", true),
            ("list_*", "relist_issues", false),
            ("*", "", true),
            ("get_?", "get_a", true),
            ("get_?", "get_", false),
            ("Get", "get", false),
            ("a.c", "abc", false),
            ("[ab]", "a", false),
        ] {
            assert_eq!(matches(pattern, text), Some(expected), "{pattern} {text}");
        }
        assert_eq!(matches("x*", &"x".repeat(TEXT_BYTES_MAX + 1)), None);
        assert_eq!(matches("*", &"x".repeat(TEXT_BYTES_MAX + 1)), Some(true));
        assert!(Pattern::new("").is_err() && Pattern::new(&"x".repeat(201)).is_err());
    }
}
