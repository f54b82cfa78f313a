//! Patterns of names and values: `*` stands for any text, `?` for one character.

use std::collections::BTreeSet;
use std::fmt;

use belljar_base::text;
use serde::{Deserialize, Deserializer};
use url::{Position, Url};
use wildmatch::WildMatch;

use super::literal_meaning::LiteralMeaning;

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
    /// The readings of the folded pattern as a file URI, with the paths of these, or as a web address.
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
        Self {
            text: text.to_owned(),
            compiled: WildMatch::new(text),
            folded: WildMatch::new(&folded),
            places: [text, &*folded]
                .into_iter()
                .flat_map(|text| {
                    let web = web_addresses(text, usize::MAX).unwrap_or_default();
                    file_places(text).into_iter().chain(web)
                })
                .map(|place| text::folded(&place).into_owned())
                .collect::<BTreeSet<_>>()
                .iter()
                .map(|place| WildMatch::new(place))
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

/// All readings of a file URI in the forms `file:///path` and `/path`; none if the text is no file URI.
pub(super) fn file_places(text: &str) -> Vec<String> {
    let Some(rest) = text.get(..5).filter(|scheme| scheme.eq_ignore_ascii_case("file:")).map(|_| &text[5..])
    else {
        return vec![];
    };
    let rest = rest.trim_start_matches(['\t', '\r', '\n']);
    // On some systems a backslash is part of a name.
    let slashes = rest.replace('\\', "/");
    let mut paths = vec![rest, &slashes];
    // A parser may read a host behind two slashes, or a path all the same.
    for path in [rest, &slashes] {
        let behind_host = path.strip_prefix("//").and_then(|rest| rest.split_once('/'));
        paths.extend(behind_host.map(|(_host, path)| path));
    }
    let mut readings: Vec<String> = Vec::new();
    for path in paths {
        for path in [path, path.split(['?', '#']).next().unwrap_or(path)] {
            for path in plain_paths(&format!("/{path}")) {
                if !readings.contains(&path) {
                    readings.extend([format!("file://{path}"), path]);
                }
            }
        }
    }
    readings
}

/// The readings of a web address as parsers of the URL standard have it, which ignore how it is written: with and without
/// the usual port and a last slash, always without user and fragment. For other parsers a backslash ends no host. The list
/// is empty if the text is no web address, and `None` if its host is longer than `host_bytes_max` and cannot be read in a
/// short time.
pub(super) fn web_addresses(text: &str, host_bytes_max: usize) -> Option<Vec<String>> {
    let mut addresses = standard_addresses(text, host_bytes_max)?;
    if text.contains('\\') {
        addresses.extend(standard_addresses(&text.replace('\\', "%5c"), host_bytes_max)?);
    }
    Some(addresses)
}

/// The longest host of a web address that is read if it has other characters than those of ASCII, or punycode, in bytes with
/// its port. The time grows with the square of its length.
pub(super) const HOST_BYTES_MAX: usize = 253;
/// The schemes of web addresses. Only these ignore how many slashes there are, and in which direction.
const WEB_SCHEMES: [&str; 5] = ["http", "https", "ws", "wss", "ftp"];

/// The host of a web address as parsers of the URL standard find it, with its port.
pub(super) fn web_host(text: &str) -> Option<&str> {
    host_and_rest(text).map(|(host, _)| host)
}

/// The host of a web address with its port, and what follows.
fn host_and_rest(text: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = text.split_once(':')?;
    // These parsers ignore tabs and line ends, and blanks and control characters before the scheme.
    let scheme = scheme.trim_start_matches(|before: char| before <= ' ').chars();
    let scheme: String = scheme.filter(|of| !matches!(of, '\t' | '\r' | '\n')).take(6).collect();
    if !WEB_SCHEMES.iter().any(|web| scheme.eq_ignore_ascii_case(web)) {
        return None;
    }
    let rest = rest.trim_start_matches(['/', '\\', '\t', '\r', '\n']);
    let (authority, rest) = rest.split_at(rest.find(['/', '\\', '?', '#']).unwrap_or(rest.len()));
    Some((authority.rsplit_once('@').map_or(authority, |(_user, host)| host), rest))
}

/// Whether the host is read in a time that only grows with its length.
pub(super) fn is_plain_host(host: &str) -> bool {
    host.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'%') && !host.contains("xn--")
}

/// Whether no parser of the URL standard takes this for a host: prose, for example, has blanks.
fn is_no_host(host: &str) -> bool {
    let left_out = |byte: &u8| matches!(byte, b'\t' | b'\r' | b'\n');
    let is_forbidden = |byte: u8| byte <= b' ' || byte == 0x7f || b"<>^|".contains(&byte);
    percent_encoding::percent_decode_str(host).filter(|byte| !left_out(byte)).any(is_forbidden)
}

fn standard_addresses(text: &str, host_bytes_max: usize) -> Option<Vec<String>> {
    let Some((host, written)) = host_and_rest(text).filter(|(host, _)| !is_no_host(host)) else {
        return Some(vec![]);
    };
    if host.len() > host_bytes_max && !is_plain_host(host) {
        return None;
    }
    let Ok(url) = Url::parse(text) else { return Some(taken_apart(text, host, written)) };
    let (Some(host), Some(port)) = (url.host_str(), url.port_or_known_default()) else { return Some(vec![]) };
    let host = host.trim_end_matches('.');
    // A rule may have the letters of the host, the text its punycode, or the other way round.
    let (letters, _) = idna::domain_to_unicode(host);
    let letters = Some(text::folded(&letters).into_owned()).filter(|letters| letters != host);
    let hosts = [Some(host.to_owned()), letters].into_iter().flatten();
    let places: Vec<String> = hosts
        .map(|host| format!("{}://{host}", url.scheme()))
        .flat_map(|host| [url.port().is_none().then(|| host.clone()), Some(format!("{host}:{port}"))])
        .flatten()
        .collect();
    let rest = url[Position::BeforePath..Position::AfterQuery].trim_end_matches('?');
    let decoded = |text: &str| percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned();
    let query = url.query().filter(|query| !query.is_empty());
    let query = query.map(|query| format!("?{}", decoded(query))).unwrap_or_default();
    // Servers ignore empty segments, some before they follow `..`, and decode what the parser has encoded.
    let written = written.split(['?', '#']).next().unwrap_or(written);
    let mut rests = vec![rest.to_owned()];
    for path in [url.path(), written].into_iter().flat_map(|path| plain_paths(&decoded(path))) {
        let plain = text::folded(&format!("{path}{query}")).into_owned();
        if !rests.contains(&plain) {
            rests.push(plain);
        }
    }
    rests.extend((rest == "/").then(String::new));
    let addresses = places.iter().flat_map(|place| rests.iter().map(move |rest| format!("{place}{rest}")));
    Some(addresses.collect())
}

/// The readings of an address whose host is not what the URL standard wants, such as one with `xn--` that is no punycode. Some
/// clients look it up all the same.
fn taken_apart(text: &str, host: &str, written: &str) -> Vec<String> {
    let scheme = text.split(':').next().unwrap_or_default().trim().to_ascii_lowercase();
    let usual = if ["https", "wss"].contains(&scheme.as_str()) { "443" } else { "80" };
    let (host, port) = host.rsplit_once(':').unwrap_or((host, usual));
    let host = text::folded(host.trim_end_matches('.')).into_owned();
    let port = port.trim_start_matches('0');
    let path = written.split(['?', '#']).next().unwrap_or(written);
    let paths = plain_paths(path).into_iter().chain([written.to_owned()]);
    let of_path = |path: String| {
        let without = (port == usual).then(|| format!("{scheme}://{host}{path}"));
        [Some(format!("{scheme}://{host}:{port}{path}")), without]
    };
    paths.flat_map(of_path).flatten().collect()
}

/// The path without `.`, `..` and empty segments, as read where a backslash is part of a name, and where it ends one.
pub(super) fn plain_paths(path: &str) -> Vec<String> {
    let mut paths = vec![plain_path(path, &['/'])];
    if path.contains('\\') {
        paths.push(plain_path(path, &['/', '\\']));
    }
    paths
}

fn plain_path(path: &str, separators: &[char]) -> String {
    let mut segments: Vec<&str> = Vec::new();
    for segment in path.split(separators) {
        match segment {
            "" | "." => {}
            ".." if segments.last().is_some_and(|last| *last != "..") => drop(segments.pop()),
            segment => segments.push(segment),
        }
    }
    let is_absolute = path.starts_with(separators);
    let above = segments.iter().take_while(|segment| is_absolute && **segment == "..").count();
    let root = if is_absolute { "/" } else { "" };
    format!("{root}{}", segments[above..].join("/"))
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
