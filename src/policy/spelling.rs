//! Whether some server takes a value for one that a pattern names: servers convert, trim, decode and ignore case.
//!
//! For rules that ask or deny only. What a particular server does is not known.

use std::borrow::Cow;

use serde_json::Value;

use super::number::Decimal;
use super::pattern::Pattern;
use crate::text;

/// JSON within a text within JSON: so many levels are read.
const NESTED_MAX: usize = 3;
/// Percent-encodings within each other that are decoded.
const DECODED_MAX: usize = 3;
/// Longest text that is read as JSON, in bytes.
const JSON_BYTES_MAX: usize = 64 * 1024;

const TRUE: [&str; 5] = ["true", "t", "yes", "y", "on"];
const FALSE: [&str; 5] = ["false", "f", "no", "n", "off"];
const NOTHING: [&str; 4] = ["null", "none", "nil", "undefined"];
/// Words that stand for values in JSON or in what lenient readers take for it.
const JSON_WORDS: [&str; 9] = ["true", "false", "null", "none", "nil", "undefined", "nan", "inf", "infinity"];

/// What a pattern without wildcards names besides its text.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Named {
    number: Option<Decimal>,
    truth: Option<bool>,
    is_nothing: bool,
}

impl Named {
    /// What the text names, as a server could convert it.
    pub(super) fn of(text: &str) -> Self {
        let (word, number) = (text::folded(text), Decimal::read(text));
        let is = |words: &[&str]| words.contains(&&*word);
        let is_nothing = is(&NOTHING);
        let truth = match &number {
            Some(number) if number.is_zero() => Some(false),
            Some(number) if number.plain().as_deref() == Some("1") => Some(true),
            _ if is(&TRUE) => Some(true),
            _ if is(&FALSE) => Some(false),
            _ => None,
        };
        Self { number, truth, is_nothing }
    }

    /// Whether leaving the argument out may mean this.
    pub(super) fn is_nothing(&self) -> bool {
        self.is_nothing || (self.truth == Some(false) && self.number.is_none())
    }

    fn names(&self, value: &Value) -> bool {
        let is_empty = value.is_null() || value.as_str().is_some_and(text::says_nothing);
        let text = value.as_str().map(text::folded);
        let is = |words: &[&str]| text.as_ref().is_some_and(|text| words.contains(&&**text));
        if self.is_nothing && (is_empty || is(&NOTHING)) {
            return true;
        }
        let number = number(value);
        if let (Some(named), Some(number)) = (&self.number, &number) {
            return named.may_equal(number);
        }
        let truth = match (value, &number) {
            (Value::Bool(truth), _) => Some(*truth),
            (_, Some(number)) => Some(!number.is_zero()),
            _ if is(&TRUE) => Some(true),
            _ if is_empty || is(&FALSE) || is(&NOTHING) => Some(false),
            _ => None,
        };
        self.truth.is_some() && self.truth == truth
    }
}

/// Whether the value fits in some spelling; of an array any item counts.
pub(super) fn fits(value: &Value, pattern: &Pattern) -> bool {
    fits_within(value, pattern, NESTED_MAX)
}

fn fits_within(value: &Value, pattern: &Pattern, levels: usize) -> bool {
    if let Value::Array(items) = value {
        return items.iter().any(|item| fits_within(item, pattern, levels));
    }
    let text = match value {
        Value::String(text) => Cow::Borrowed(text.as_str()),
        other => Cow::Owned(other.to_string()),
    };
    reads_as(value, &text, pattern)
        || decodings(&text).into_iter().any(|text| reads_as(&Value::String(text.clone()), &text, pattern))
        || match inner(value, levels) {
            Inner::Nothing => false,
            Inner::Read(inner) => fits_within(&inner, pattern, levels - 1),
            Inner::Unreadable { is_like_json } => is_like_json,
        }
}

/// Whether the value fits as a number, a truth value, nothing, or its text.
fn reads_as(value: &Value, text: &str, pattern: &Pattern) -> bool {
    pattern.named().is_some_and(|named| named.names(value))
        || text_fits(text, pattern)
        || number(value)
            .and_then(|number| number.plain())
            .is_some_and(|plain| pattern.matches(&plain) == Some(true))
}

/// What stands in a text for a server that reads JSON in texts.
pub(super) enum Inner {
    /// Nothing: it does not begin as JSON does.
    Nothing,
    /// This.
    Read(Value),
    /// It begins as JSON does and is too long, too deep or not JSON for us: some server may read it all the same.
    Unreadable {
        /// Whether it is made of nothing but what JSON is made of, by a lenient reader's measure.
        is_like_json: bool,
    },
}

/// What a server that reads JSON in texts finds in this one, percent-encoded or not.
pub(super) fn inner(value: &Value, levels: usize) -> Inner {
    let written = value.as_str().unwrap_or_default();
    let decodings = decodings(written);
    let mut found = Inner::Nothing;
    for text in std::iter::once(written).chain(decodings.iter().map(String::as_str)) {
        let text = text.trim_matches(|one: char| one.is_whitespace() || text::is_unseen(one));
        if !text.starts_with(['{', '[', '"']) {
            continue;
        }
        if levels > 0
            && text.len() <= JSON_BYTES_MAX
            && let Ok(inner) = serde_json::from_str(text)
        {
            return Inner::Read(inner);
        }
        let was_like_json = matches!(found, Inner::Unreadable { is_like_json: true });
        found = Inner::Unreadable { is_like_json: was_like_json || is_like_json(text) };
    }
    found
}

/// Whether a text is made of brackets, commas, colons, comments, texts in quotes, numbers, words for values, and names before
/// a colon only: so JSON5, Python's and JavaScript's values, and JSON lines are.
fn is_like_json(text: &str) -> bool {
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches(|one: char| {
            one.is_whitespace() || text::is_unseen(one) || "[]{},:".contains(one)
        });
        let length = match rest.chars().next() {
            None => return true,
            Some(quote @ ('"' | '\'')) => quoted_length(rest, quote),
            Some('/') => comment_length(rest),
            Some(_) => word_length(rest),
        };
        let Some(length) = length else { return false };
        rest = &rest[length..];
    }
}

/// How long the text in quotes is with which this begins; `None` if it does not end.
fn quoted_length(text: &str, quote: char) -> Option<usize> {
    let mut characters = text.char_indices().skip(1);
    while let Some((at, character)) = characters.next() {
        if character == quote {
            return Some(at + 1);
        }
        if character == '\\' {
            characters.next();
        }
    }
    None
}

fn comment_length(text: &str) -> Option<usize> {
    if text.starts_with("//") {
        return Some(text.find('\n').unwrap_or(text.len()));
    }
    Some(text.strip_prefix("/*")?.find("*/")? + 4)
}

/// How long the number, word for a value or name before a colon is with which this begins; `None` if it is another word.
fn word_length(text: &str) -> Option<usize> {
    let is_end = |one: char| one.is_whitespace() || "[]{},:\"'/".contains(one);
    let length = text.find(is_end).unwrap_or(text.len());
    let (word, behind) = text.split_at(length);
    let unsigned = word.trim_start_matches(['+', '-', '.']);
    let is_value = unsigned.starts_with(|one: char| one.is_ascii_digit())
        || JSON_WORDS.contains(&&*unsigned.to_ascii_lowercase());
    (is_value || behind.trim_start().starts_with(':')).then_some(length)
}

/// Texts that are read as JSON below one path.
pub(super) fn levels_max() -> usize {
    NESTED_MAX
}

fn number(value: &Value) -> Option<Decimal> {
    match value {
        Value::Number(number) => Decimal::read(&number.to_string()),
        Value::String(text) => Decimal::read(text),
        _ => None,
    }
}

/// In doubt, which is when the text is too long to be compared, it fits.
fn text_fits(text: &str, pattern: &Pattern) -> bool {
    let is_like = |text: &str| pattern.matches_loosely(text) != Some(false);
    is_like(text) || plain_path(text).is_some_and(|path| is_like(&path))
}

/// Whether a path goes up anywhere, in any encoding: then its beginning does not say where it leads.
pub(super) fn climbs(text: &str) -> bool {
    let goes_up = |text: &str| text::folded(text).split(['/', '\\']).any(|segment| segment.trim() == "..");
    goes_up(text) || decodings(text).iter().any(|decoded| goes_up(decoded))
}

/// What percent-decoding makes of a text, once and again.
fn decodings(text: &str) -> Vec<String> {
    let mut decodings: Vec<String> = Vec::new();
    for _ in 0..DECODED_MAX {
        let last = decodings.last().map_or(text, String::as_str);
        if !last.contains('%') {
            break;
        }
        let decoded = percent_encoding::percent_decode_str(last).decode_utf8_lossy().into_owned();
        if decoded == last {
            break;
        }
        decodings.push(decoded);
    }
    decodings
}

/// Where a path or URI leads that goes up, stays, or has empty segments on its way; `None`: it says so itself.
fn plain_path(text: &str) -> Option<String> {
    let folded = text::folded(text);
    let (before, path) = match folded.strip_prefix("file:") {
        Some(path) => ("file://".to_owned(), path.strip_prefix("//localhost").unwrap_or(path)),
        None => match folded.split_once("://") {
            Some((scheme, path)) => (format!("{scheme}://"), path),
            None => (String::new(), &folded[..]),
        },
    };
    let mut segments: Vec<&str> = Vec::new();
    for segment in path.split(['/', '\\']) {
        match segment {
            "" | "." => {}
            ".." if segments.last().is_some_and(|last| *last != "..") => drop(segments.pop()),
            segment => segments.push(segment),
        }
    }
    let is_absolute = path.starts_with(['/', '\\']);
    let above = segments.iter().take_while(|segment| is_absolute && **segment == "..").count();
    let root = if is_absolute { "/" } else { "" };
    let plain = format!("{before}{root}{}", segments[above..].join("/"));
    (plain != folded).then_some(plain)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Number, json};

    use super::*;

    fn of(pattern: &str, value: &Value) -> bool {
        fits(value, &Pattern::new(pattern).unwrap())
    }

    #[test]
    fn a_number_fits_in_every_spelling_of_its_value() {
        for value in [
            json!(42),
            json!(42.0),
            json!(4.2e1),
            json!("42"),
            json!("42.0"),
            json!(" +42 "),
            json!("4.2e1"),
            json!("0x2A"),
            json!("٤٢"),
            json!(["42.00"]),
            json!("[42.0]"),
            json!("\"42\""),
        ] {
            assert!(of("42", &value) && of("42.0", &value) && of("4?", &value), "{value}");
        }
        for value in [json!(43), json!(-42), json!(4.2), json!("42 or 43"), json!(null), json!(true)] {
            assert!(!of("42", &value), "{value}");
        }
        assert!(of("0", &json!(-0.0)) && of("0", &json!("-0")));
        let large = "18446744073709551617";
        assert!(of(large, &json!(large)) && of(large, &json!("18446744073709551617.0")));
        assert!(of(large, &serde_json::from_str(large).unwrap()), "read as a double");
        assert!(!of(large, &json!("18446744073709559999")));
    }

    #[test]
    fn truth_fits_in_every_spelling() {
        for value in
            [json!(true), json!(1), json!(1.0), json!("1"), json!("True"), json!("YES"), json!(" on ")]
        {
            assert!(of("true", &value) && of("1", &value), "{value}");
            assert!(!of("false", &value), "{value}");
        }
        for value in [json!(false), json!(0), json!(-0.0), json!("0"), json!("No"), json!("off"), json!("")] {
            assert!(of("false", &value), "{value}");
            assert!(!of("true", &value), "{value}");
        }
        assert!(of("true", &json!(2)) && !of("1", &json!(2)));
        assert!(!of("true", &json!("truest")) && !of("true", &json!({})));
        assert!(of("null", &json!(null)) && of("null", &json!("None")) && of("None", &json!("")));
        assert!(!of("null", &json!(0)) && !of("null", &json!("x")));
    }

    #[test]
    fn json_in_a_text_that_cannot_be_read_is_in_doubt() {
        let deep = format!("{}42{}", "[".repeat(130), "]".repeat(130));
        let quoted = (0..4).fold("42".to_owned(), |text, _| json!(text).to_string());
        for text in [
            "[42, NaN]",
            "[42, 1e999]",
            "[42, 1e9999999999]",
            r#"[42, "\ud800"]"#,
            "[42,]",
            "['42', None]",
            "[42 /* x */, // y\n]",
            "[42]\n[43]",
            "\u{feff}[42]",
            r#"{id: 42, "x": -Infinity}"#,
            "\"42\n\"",
            "%5B42, NaN%5D",
            &deep,
            &quoted,
        ] {
            assert!(of("42", &json!(text)), "{text}");
            assert!(of("42", &json!([text])), "{text}");
        }
        assert!(of("/etc/*", &json!(r#"["/etc/x", NaN]"#)) && of("true", &json!("[true,NaN]")));
        for text in [
            "[DRAFT] fix it",
            "[DRAFT]",
            "[see 42](https://example.com)",
            "[1] First, [2] second",
            "[12:30:05] started",
            "{name} is here",
            "{name}",
            "{{ name }}",
            "\"Yes,\" he said, \"no\"",
            "\"unclosed",
            "[43, 44]",
            "[it's 42]",
        ] {
            assert!(!of("42", &json!(text)), "{text}");
        }
    }

    #[test]
    fn percent_encoding_combines_with_every_other_reading() {
        for (pattern, text) in [
            ("42", "4%32.0"),
            ("42", "42%2e0"),
            ("42", "42%252e0"),
            ("4?", "%34%32.0"),
            ("true", "%31"),
            ("false", "n%6f"),
            ("null", "%6eull"),
            ("null", "%E2%80%8B"),
            ("42", "%5B42%5D"),
            ("42", "[\"4%32\"]"),
        ] {
            assert!(of(pattern, &json!(text)), "{pattern} {text}");
        }
        assert!(!of("42", &json!("4%33.0")) && !of("true", &json!("%30")));
    }

    #[test]
    fn a_text_in_which_nothing_can_be_seen_is_nothing() {
        for text in ["", " ", "\u{200b}", "\u{2800}\u{a0}", "\u{feff}\n"] {
            assert!(of("null", &json!(text)) && of("false", &json!(text)), "{text:?}");
        }
    }

    #[test]
    fn text_fits_in_every_spelling() {
        for text in [
            "delete",
            " delete\n",
            "DELETE",
            "ｄｅｌｅｔｅ",
            "de\u{ad}lete",
            "d%65lete",
            "%64%2565lete",
            "[\"delete\"]",
        ] {
            assert!(of("delete", &json!(text)), "{text}");
            assert!(of("del*", &json!(text)), "{text}");
        }
        for text in [
            "/etc/passwd",
            "/ETC/passwd",
            "/%65tc/passwd",
            "/%2565tc/x",
            "/tmp/%2e%2e/etc/x",
            "／etc／passwd",
        ] {
            assert!(of("/etc/*", &json!(text)), "{text}");
        }
        for uri in [
            "file:///etc/x",
            "FILE:///etc/x",
            "file:/etc/x",
            "file://localhost/etc/x",
            "file:///tmp/%2E./etc/x",
        ] {
            assert!(of("file:///etc/*", &json!(uri)), "{uri}");
        }
        assert!(!of("delete", &json!("deleted")) && !of("/etc/*", &json!("/tmp/etc/x")));
    }

    /// A whole number of up to 40 digits times a power of ten, as JSON numbers and texts spell it.
    fn spellings() -> impl Strategy<Value = (String, Vec<String>)> {
        let number = ("-?[1-9][0-9]{0,39}", 0..5_usize, 1..30_i64, "0{0,3}", "[ \\t\\n]{0,2}");
        number.prop_map(|(number, zeros, shift, leading, blank)| {
            let (sign, digits) = number.split_at(usize::from(number.starts_with('-')));
            let fraction = "0".repeat(zeros);
            let spellings = vec![
                number.clone(),
                format!("{number}.0{fraction}"),
                format!("{number}e0"),
                format!("{number}{}e-{shift}", "0".repeat(usize::try_from(shift).unwrap())),
                format!("{sign}{leading}{digits}"),
                format!("{sign}0.{digits}E+{}", digits.len()),
                format!("{blank}{number}{blank}"),
                format!(
                    "{sign}{}",
                    digits.chars().map(|one| format!("_{one}")).collect::<String>().trim_start_matches('_')
                ),
            ];
            (number, spellings)
        })
    }

    proptest! {
        #[test]
        fn equal_numbers_fit_whoever_spells_them((number, spellings) in spellings()) {
            for pattern in &spellings {
                let Ok(pattern) = Pattern::new(pattern) else { continue };
                for spelling in &spellings {
                    prop_assert!(fits(&json!(spelling), &pattern), "{pattern} {spelling}");
                    // What serde_json reads of it is what is sent.
                    if let Ok(value) = serde_json::from_str::<Number>(spelling.trim())
                        && number.len() <= 15
                    {
                        prop_assert!(fits(&Value::Number(value.clone()), &pattern), "{pattern} {value}");
                    }
                }
                let others = ["7", "x"].map(|more| json!(format!("{number}{more}")));
                prop_assert!(!others.iter().any(|other| fits(other, &pattern)));
            }
        }

        #[test]
        fn different_numbers_do_not_fit(one in -9_000_000_000_000_i64..9_000_000_000_000, other in -9_000_000_000_000_i64..9_000_000_000_000) {
            let pattern = Pattern::new(&one.to_string()).unwrap();
            prop_assert_eq!(fits(&json!(other), &pattern), one == other);
            prop_assert_eq!(fits(&json!(other.to_string()), &pattern), one == other);
        }
    }
}
