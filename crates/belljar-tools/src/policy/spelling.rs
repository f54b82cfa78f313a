//! Whether some server may read a value as one that a pattern names: servers convert, trim, decode and ignore case.
//!
//! It is only for rules that ask or deny. It is unknown what a particular server does.

use std::borrow::Cow;

use belljar_base::text;
use serde_json::Value;

use super::literal_meaning::number;
use super::pattern::Pattern;
use super::places::{HOST_BYTES_MAX, is_plain_host, places, unwrapped, web_host};
use super::readings::{DecodingDepth, decodings, inner};

/// What it costs to compare a value and all its readings with one pattern, in the time that a byte of an ASCII text takes.
/// Stops with a larger number once the cost is more than `max`.
pub(super) fn cost(value: &Value, max: usize) -> usize {
    fn spend(value: &Value, depth: DecodingDepth, left: &mut usize) -> Option<()> {
        let mut take = |cost: usize| left.checked_sub(cost).map(|rest| *left = rest);
        take(VALUE_COST)?;
        match value {
            Value::Array(items) => items.iter().try_for_each(|item| spend(item, depth, left)),
            Value::Object(members) => members.iter().try_for_each(|(name, member)| {
                *left = left.checked_sub(name_cost(name))?;
                spend(member, depth, left)
            }),
            Value::String(text) => {
                take(text_cost(text))?;
                decodings(text, depth)
                    .iter()
                    .try_for_each(|(decoded, _)| take(VALUE_COST + text_cost(decoded)))?;
                inner(text, depth).readings.iter().try_for_each(|(value, depth)| spend(value, *depth, left))
            }
            _ => Some(()),
        }
    }
    let mut left = max;
    if spend(value, DecodingDepth::OUTERMOST, &mut left).is_some() { max - left } else { max + 1 }
}

/// What it costs to compare a name with one of a rule, in the same unit.
pub(super) fn name_cost(name: &str) -> usize {
    let decoded = decodings(name, DecodingDepth::OUTERMOST);
    VALUE_COST + text_cost(name) + decoded.iter().map(|(name, _)| text_cost(name)).sum::<usize>()
}

/// What each value costs beside its text.
const VALUE_COST: usize = 32;

/// What a web address costs beside its text: it is parsed, and written in some hundred ways.
const ADDRESS_COST: usize = 2_000;

/// Texts with other characters than those of ASCII are folded, which takes several times as long. A path is written in several
/// ways, with a backslash in more. The time for the host of an address can grow with the square of its length.
fn text_cost(text: &str) -> usize {
    let ways = if text.contains('\\') {
        4
    } else if text.contains('/') {
        2
    } else {
        1
    };
    // Few characters before this one become much longer when they are folded. U+FDFA becomes 18 characters.
    if text.chars().all(|character| character < '\u{2000}') && !text.is_ascii() {
        return 4 * ways * text.len();
    }
    let folded = text::folded(text);
    if !text.is_ascii() {
        return 4 * ways * folded.len().max(text.len());
    }
    let host = web_host(unwrapped(&folded));
    let of_address = host.map_or(0, |_| ADDRESS_COST);
    let host = host.filter(|host| !is_plain_host(host)).unwrap_or_default();
    ways * text.len() + of_address + host.len().min(HOST_BYTES_MAX).pow(2) / 64
}

/// Whether the value matches in some spelling. In an array, any item may match.
pub(super) fn fits(value: &Value, pattern: &Pattern) -> bool {
    fits_within(value, pattern, DecodingDepth::OUTERMOST)
}

fn fits_within(value: &Value, pattern: &Pattern, depth: DecodingDepth) -> bool {
    if let Value::Array(items) = value {
        return items.iter().any(|item| fits_within(item, pattern, depth));
    }
    let text = match value {
        Value::String(text) => Cow::Borrowed(text.as_str()),
        other => Cow::Owned(other.to_string()),
    };
    let decoded_fits = |(text, _)| reads_as(&Value::String(String::clone(&text)), &text, pattern);
    if reads_as(value, &text, pattern) || decodings(&text, depth).into_iter().any(decoded_fits) {
        return true;
    }
    let Value::String(text) = value else { return false };
    let inner = inner(text, depth);
    inner.may_be_any_value()
        || inner.readings.iter().any(|(value, depth)| fits_within(value, pattern, *depth))
}

/// Whether the value matches as a number, as a boolean, as null, or as its text. A number that is too long to be written
/// without an exponent counts as matching a pattern for numbers of any length.
fn reads_as(value: &Value, text: &str, pattern: &Pattern) -> bool {
    pattern.named().is_some_and(|named| named.names(value))
        || text_fits(text, pattern)
        || number(value).is_some_and(|number| {
            let is_like = |plain: &str| pattern.matches(plain) == Some(true);
            let is_in_doubt = || pattern.may_be_long_number();
            number.plain().map_or_else(is_in_doubt, |plain| is_like(&plain))
                || (number.may_be_zero() && is_like("0"))
        })
}

/// Whether the text matches, with or without its invisible characters. A text that is too long to compare counts as
/// matching, and so does an address whose host is too long to be read, if the pattern can match an address.
fn text_fits(text: &str, pattern: &Pattern) -> bool {
    let is_like = |text: &str| pattern.matches_loosely(text) != Some(false);
    let fits = |text: &str| {
        let leads_there = || {
            let (places, is_unread) = places(text, true, HOST_BYTES_MAX);
            is_unread && pattern.may_be_address() || places.iter().any(|place| is_like(place))
        };
        is_like(text) || leads_there()
    };
    fits(text) || matches!(text::drawn(text), Cow::Owned(drawn) if fits(&drawn))
}

/// Whether a path contains `..` in any encoding, so that its beginning does not tell where it leads. In an address, a query,
/// fragment or parameter may follow it.
pub(super) fn climbs(text: &str) -> bool {
    let is_up = |text: &str| {
        let folded = text::folded(text);
        // Prose has these marks, too.
        let is_path = folded.contains(['/', '\\']);
        let ends = |one: char| matches!(one, '/' | '\\') || is_path && matches!(one, '?' | '#' | ';');
        folded.split(ends).any(|segment| segment.trim() == "..")
    };
    let goes_up = |text: &str| is_up(text) || matches!(text::drawn(text), Cow::Owned(drawn) if is_up(&drawn));
    goes_up(text) || decodings(text, DecodingDepth::OUTERMOST).iter().any(|(decoded, _)| goes_up(decoded))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Number, json};

    use super::*;
    use crate::policy::places::web_addresses;

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
            json!("0x٢a"),
            json!("٠x2a"),
            json!("4\u{7}2"),
            json!(format!("0x{}2a", "0".repeat(200))),
        ] {
            assert!(of("42", &value) && of("42.0", &value) && of("4?", &value), "{value}");
        }
        for value in [json!(43), json!(-42), json!(4.2), json!("42 or 43"), json!(null), json!(true)] {
            assert!(!of("42", &value), "{value}");
        }
        let long = json!(format!("0x{}", "f".repeat(400)));
        assert!(of("1e9999", &long) && of("9*", &long) && of("-*1", &json!("5e999")));
        assert!(!of("99", &long) && !of("9?", &long) && !of("/etc/*", &long) && !of("9*x", &long));
        assert!(of("0", &json!(-0.0)) && of("0", &json!("-0")));
        for text in ["1e-99999999999", "1e-400", "-1e-99999999999"] {
            assert!(of("0", &json!(text)) && of("0*", &json!(text)), "{text}: the double is 0");
            assert!(of("false", &json!(text)) && of("true", &json!(text)), "{text}");
        }
        assert!(of("true", &json!("1e99999999999")) && !of("0", &json!("1e99999999999")));
        let large = "18446744073709551617";
        assert!(of(large, &json!(large)) && of(large, &json!("18446744073709551617.0")));
        assert!(of(large, &serde_json::from_str(large).unwrap()));
        assert!(!of(large, &json!("18446744073709559999")));
        let huge = format!("1{}", "0".repeat(60));
        assert!(of(&huge, &json!("0x9f4f2726179a224501d762422c946590d91000000000000000")));
        assert!(of("8", &json!("0b1000")) && !of("8", &json!("0b102")) && !of("0", &json!("0x")));
    }

    #[test]
    fn a_web_address_fits_however_it_is_written() {
        for value in [
            "https://evil.example/x",
            "HTTPS://Evil.Example/x",
            "https:/evil.example/x",
            "https:evil.example/x",
            "https:////evil.example/x",
            r"https:\\evil.example\x",
            "https://u:p@evil.example/x",
            "https://evil.example:443/x",
            "https://evil.example./x",
            "https://ev\til.example/x#y",
            "https://evil%2eexample/x",
            " https://evil.example/a/../x",
        ] {
            for pattern in ["https://evil.example/*", "https://evil.example:443/*", "https://evil.example/x"]
            {
                assert!(of(pattern, &json!(value)), "{pattern} {value}");
            }
            assert!(!of("https://good.example/*", &json!(value)), "{value}");
        }
        // For Python the first host is the user, for the URL standard the second one is in the path.
        for value in [r"https://evil.example\@good.example/x", r"https://good.example\@evil.example/x"] {
            for pattern in ["https://evil.example/*", "https://good.example/*"] {
                assert!(of(pattern, &json!(value)), "{pattern} {value}");
            }
        }
        assert!(of("https://evil.example", &json!("https:/evil.example#x")));
        assert!(of("https://bücher.example/*", &json!("https://xn--bcher-kva.example/x")));
        assert!(
            of("http://127.0.0.1/*", &json!("http://0x7f.1/x"))
                && of("http://127.0.0.1:8080/*", &json!("http:/2130706433:8080/"))
        );
        assert!(!of("https://evil.example/*", &json!("https://evil.example:8443/x")));
        assert!(!of("https://evil.example/*", &json!("http://evil.example/x")));
    }

    #[test]
    fn a_long_host_is_read_only_where_that_takes_no_time() {
        let of_host = |host: &str| {
            let address = format!("https://{host}/x");
            let by_length =
                if address.is_ascii() { 2 * address.len() + ADDRESS_COST } else { 8 * address.len() };
            (
                web_addresses(&address, HOST_BYTES_MAX).is_some_and(|read| !read.is_empty()),
                text_cost(&address) > by_length,
            )
        };
        let long = "a".repeat(300);
        for (host, is_read, is_dear) in [
            ("xn--bcher-kva.example", true, true),
            ("0x7f.1", true, false),
            (&*format!("0x{}7f.1", "0".repeat(300)), true, false),
            (&*format!("user:{long}@xn--bcher-kva.example:443"), true, true),
            (&*format!("xn--{long}.example"), false, true),
            (&*format!("x\u{7}n--{long}.example"), false, true),
            (&*format!("%78n--{long}.example"), false, true),
            (&*format!("\t/xn--{long}.example"), false, true),
            (&*"\u{440}".repeat(200), false, false),
        ] {
            assert_eq!(of_host(host), (is_read, is_dear), "{host}");
        }
        // In doubt a rule that denies or asks matches: zeros of the port, and of a number, are part of the text too.
        let zeros = "0".repeat(300);
        for (address, rule) in [
            (format!("https://evil\u{3002}example:{zeros}443/x"), "https://evil.example/*"),
            (format!("http://0x{zeros}7f\u{3002}0\u{3002}0\u{3002}1/x"), "http://127.0.0.1/*"),
            (format!("ht\ntps://xn--bcher-kva.example:{zeros}443/x"), "https://xn--bcher-kva.example/*"),
            (format!("ftp://evil\u{3002}example:{zeros}21/x"), "*evil.example*"),
        ] {
            assert!(of(rule, &json!(address)), "{address}");
        }
        let prose = format!("https://good.example is a page about {}", "\u{440} ".repeat(2_000));
        for (pattern, text) in [
            ("https://evil.example/*", format!("a note: {}", "\u{440}".repeat(2_000))),
            ("*password*", prose.clone()),
            ("https://evil.example/*", prose),
            ("/etc/*", format!("https://xn--{}.example/x", "a".repeat(300))),
            ("bug", "type:bug".to_owned()),
            ("bug", "bug#12".to_owned()),
            ("latest", "redis:latest".to_owned()),
            ("git status", "git status;rm -rf /tmp/x".to_owned()),
        ] {
            assert!(!of(pattern, &json!(text)), "{pattern} {text:.60}");
        }
        // A host that is too long to be read takes no other reading away.
        for text in [
            format!("http:xn--{}/../../etc/passwd", "a".repeat(300)),
            "/a;b/../etc/passwd;x".to_owned(),
            "/%3F/%2e%2e/etc/passwd?x".to_owned(),
            "_x:///etc/passwd".to_owned(),
            ":///etc/passwd".to_owned(),
            "file: /etc/passwd".to_owned(),
            "/proc/self/root/etc/passwd".to_owned(),
            "/proc/1/task/1/root/etc/../etc/passwd".to_owned(),
            "/proc/self/root/proc/self/root/etc/passwd".to_owned(),
            "/proc/self/root/../etc/passwd".to_owned(),
            "x:file:///etc/passwd".to_owned(),
        ] {
            assert!(of("/etc/*", &json!(text)), "{text:.60}");
        }
        for (pattern, text) in [
            ("http://127.0.0.1:*/*", "http://localhost:18443/x"),
            ("http://localhost:*/*", "http://0x7f.1:18443/x"),
            ("http://127.0.0.1:*/*", "http://[::1]:18443/x"),
            ("http://127.0.0.1:18443/admin/*", "http://127.0.0.1:83979/%3F/%2e%2e/admin/x"),
            ("secrets/*", "/proc/self/cwd/secrets/k"),
            ("*.pem", "x:key.pem?a"),
        ] {
            assert!(of(pattern, &json!(text)), "{pattern} {text}");
        }
        // What servers undo themselves, also two differences at once.
        for (pattern, addresses) in [
            (
                "https://evil.example/\u{fc}ber/*",
                [
                    "https:/evil.example/\u{fc}ber/x",
                    "https://u@evil.example/%C3%BCber/x",
                    "https://evil.example./\u{dc}ber/x",
                ],
            ),
            (
                "*://evil.example/\u{fc}ber/*",
                [
                    "https:/evil.example/\u{fc}ber/x",
                    "https://u@evil.example/%C3%BCber/x",
                    "https://evil.example:443/\u{fc}ber/x",
                ],
            ),
            (
                "https://api.example/v1/delete*",
                [
                    "https://u@api.example/v1//delete",
                    "https:/api.example/x//../v1/delete",
                    "https://api.example./v1/./x/..//delete?a",
                ],
            ),
            (
                "*://api.example/v1/delete*",
                [
                    "https://api.example:443//v1/delete",
                    "https:\\\\u@api.example\\x\\\\..\\v1\\\\delete",
                    "https://u@api.example/v1%2f%2fdelete",
                ],
            ),
        ] {
            for address in addresses {
                assert!(of(pattern, &json!(address)), "{pattern} {address}");
            }
        }
        assert!(!of("https://api.example/v1/delete*", &json!("https://u@api.example/v1//list")));
        // The letters of a host and its punycode are the same host.
        for pattern in ["*b\u{fc}cher.example*", "*://b\u{fc}cher.example/*", "https://b\u{fc}*.example/*"] {
            for host in ["xn--bcher-kva.example", "B\u{dc}CHER.example", "bu\u{308}cher.example"] {
                assert!(of(pattern, &json!(format!("https://{host}/x"))), "{pattern} {host}");
            }
        }
        let zeros = format!("http://0x{}7f.1/x", "0".repeat(300));
        assert!(of("http://127.0.0.1/*", &json!(zeros)));
        let address = format!("https://xn--{long}.example/x");
        assert_eq!(text_cost(&address) - 2 * address.len() - ADDRESS_COST, 1_000);
        let (grows, stays) = ("\u{fdfa}".repeat(80), "\u{440}".repeat(120));
        assert!(text_cost(&grows) > 5 * text_cost(&stays), "{}", text_cost(&grows));
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
    fn every_reading_of_a_text_counts() {
        for (pattern, text) in [
            ("42", r#"["%22,42,%22"]"#),
            ("42", r#"["%2522,42,%2522"]"#),
            ("42", r#"["x", "[\"%22,42,%22\"]"]"#),
            // The decoded text cannot be parsed.
            ("42", r#"["%22,42,NaN,%22"]"#),
            ("42", r#"["", "%5B42]"]"#),
        ] {
            assert!(of(pattern, &json!(text)), "{text}");
        }
        for text in
            [r#"["%22,43,%22"]"#, r#"["say %22hi%22"]"#, r#"["https://example.com/?a=%26b&c=100%25"]"#]
        {
            assert!(!of("42", &json!(text)), "{text}");
        }
    }

    #[test]
    fn characters_that_are_not_drawn_hide_nothing() {
        for hidden in ['\u{7}', '\u{fff9}', '\u{2800}', '\u{e000}', '\u{fdd0}', '\u{85}', '\t', '\r', '\n'] {
            for (pattern, before, behind) in [
                ("delete", "del", "ete"),
                ("delete", "delete", ""),
                ("delete", "", "DELETE"),
                ("del*", "de", "lete"),
                ("delete", "d%6", "5lete"),
                ("true", "tr", "ue"),
                ("null", "nu", "ll"),
                ("42", "4", "2.0"),
                ("42", "[4", "2]"),
                ("file:///etc/*", "file:///e", "tc/passwd"),
                ("file:///etc/*", "fi", "le:///etc/passwd"),
                ("/etc/*", "/tmp/.", "./etc/x"),
            ] {
                let text = format!("{before}{hidden}{behind}");
                assert!(of(pattern, &json!(text)), "{pattern} {text:?}");
            }
            // Defaults that match count, too.
            assert!(of("a?b", &json!(format!("a{hidden}b"))) && of("a?c", &json!(format!("A{hidden}C"))));
            assert!(!of("delete", &json!(format!("del{hidden}eted"))));
            assert!(climbs(&format!("/data/.{hidden}./x")) && climbs(&format!("/data/.%2{hidden}e/x")));
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

    #[test]
    fn a_web_address_fits_whatever_number_leads_to_its_port_or_host() {
        // 18443 and 65536, of which the C library takes 16 bits, and addresses of IPv4 as those of IPv6.
        for address in [
            "http://127.0.0.1:83979/x",
            "http://127.0.0.1:000083979/x",
            "http://127.0.0.1:\u{661}\u{668}\u{664}\u{664}\u{663}/x",
            "http://127.0.0.1:4294_985_739/x",
            "http://[::ffff:127.0.0.1]:18443/x",
            "http://[::FFFF:7f00:1]:18443/x",
            "http://[0:0:0:0:0:ffff:7f00:1]:83979/x",
        ] {
            for pattern in ["http://127.0.0.1:18443/*", "http://[::ffff:7f00:1]:18443/*"] {
                assert!(of(pattern, &json!(address)), "{pattern} {address}");
            }
            assert!(!of("http://127.0.0.1:18444/*", &json!(address)), "{address}");
            assert!(!of("http://10.0.0.1:18443/*", &json!(address)), "{address}");
        }
        for address in [
            "http://0.0.0.0:80/x",
            "http://[::1]/x",
            "http://[::]/x",
            "http://[::ffff:0:0]/x",
            "http://127.1.2.3/x",
            "http://localhost/x",
            "http://a.localhost/x",
        ] {
            assert!(of("http://127.0.0.1/*", &json!(address)), "{address}");
            assert!(!of("http://10.0.0.1/*", &json!(address)), "{address}");
        }
        assert!(of("https://evil.example/*", &json!("https://evil.example:65979/x")));
    }

    #[test]
    fn a_path_in_the_folder_of_a_server_fits_behind_a_scheme() {
        for uri in ["x:secrets/k", "file:secrets/k", "x:./secrets/k", "x://h/secrets/k", "secrets/k?x"] {
            assert!(of("secrets/*", &json!(uri)), "{uri}");
            assert!(!of("public/*", &json!(uri)), "{uri}");
        }
        assert!(
            !of("secrets/*", &json!("https://h/secrets/k")) && !of("secrets/*", &json!("note: secrets/k"))
        );
    }

    #[test]
    fn a_segment_that_leads_up_counts_before_a_query_too() {
        for text in [
            "/a/..",
            "https://h/a/..?b=c",
            "https://h/a/..#b",
            "/a/..;b",
            "file:///a/%2e%2e?b",
            "https://h/a/%2E.%3Fx",
        ] {
            assert!(climbs(text), "{text}");
        }
        for text in [
            "/a/..b",
            "https://h/a?b=..c",
            "https://h/a..?b",
            "/a/...",
            "/a;b=c",
            "note: what?..",
            "note: a;..;b",
        ] {
            assert!(!climbs(text), "{text}");
        }
    }

    #[test]
    fn a_file_uri_fits_however_its_path_is_written() {
        let uris = [
            "file:///etc/passwd",
            "file:/etc/passwd",
            "file:etc/passwd",
            "file://etc/passwd",
            "file://127.0.0.1/etc/passwd",
            "file://x/etc/passwd",
            "file://[::1]/etc/passwd",
            "file://LOCALHOST:80/etc/passwd",
            "file://user@localhost/etc/passwd",
            "file://user:pw%40@host/etc/passwd",
            "file:////etc//passwd",
            "file://///etc/./passwd",
            "file:\\\\\\etc\\passwd",
            "file:\\/x\\etc/passwd",
            "fIlE:/\t/\n/etc/passwd",
            "file://x/tmp/../etc/passwd",
            "file://x%2Fetc%2fpasswd",
            "file:%2F%2F%2Fetc/passwd",
            "file%3A///%2565tc/passwd",
            "file:///etc/passwd?x=/tmp",
            "file:///etc/passwd#x",
            // A server that does not look at the scheme opens the path.
            "x:///etc/passwd",
            "x-y://host/etc/passwd",
            "x:/etc/passwd",
            "//host/etc/passwd",
            "x:%2f%2fhost/etc/passwd",
            "x:a/../../etc/passwd",
            "http:/etc/passwd",
            "https:///etc/passwd",
            "http://:80/etc/passwd",
            "http://u@/etc/passwd",
            "/etc/passwd?x",
            "/etc/passwd;x",
            "sftp:///etc/passwd;x",
            "//h/etc/passwd;x",
        ];
        for uri in uris {
            for pattern in
                ["file:///etc/*", "file:///etc/passwd", "/etc/*", "file:/etc/*", "file://localhost/etc/pass*"]
            {
                assert!(of(pattern, &json!(uri)), "{pattern} {uri}");
            }
            assert!(!of("file:///data/*", &json!(uri)), "{uri}");
            // A rule for addresses of a scheme means no path.
            assert!(!of("s3://secret/*", &json!(uri)), "{uri}");
        }
        for path in ["/etc/passwd", "//etc/passwd", "/tmp/../etc/passwd", "/%65tc/passwd"] {
            for pattern in ["file:///etc/*", "file:/etc/passwd", "file://localhost/etc/*"] {
                assert!(of(pattern, &json!(path)), "{pattern} {path}");
                assert!(!of(pattern, &json!(format!("/data{path}"))), "{pattern} {path}");
            }
        }
        assert!(!of("file:///etc/*", &json!("file:///data/etc/x")));
        assert!(!of("file:///etc/*", &json!("https://x/etc/passwd")));
        assert!(!of("file:///etc/*", &json!("a file: /etc/x")));
    }

    #[test]
    fn what_marks_a_text_as_an_address_hides_nothing() {
        for (pattern, address) in [
            ("file:///etc/*", "file:///etc/x"),
            ("/etc/*", "file:/etc/x"),
            ("/etc/*", "/tmp/../etc/x"),
            ("https://evil.example/*", "https://evil.example/x"),
            ("https://evil.example/*", "HTTPS:/u@evil.example/x"),
        ] {
            for (before, behind) in [
                ("<", ">"),
                ("< ", " >"),
                ("URL:", ""),
                ("url: ", ""),
                ("<URL:", ">"),
                ("URL:<", ">"),
                ("<URL:URL:", ""),
                ("view-source:", ""),
                ("%3CURL%3A", "%3E"),
            ] {
                let text = format!("{before}{address}{behind}");
                assert!(of(pattern, &json!(text)), "{pattern} {text}");
            }
            assert!(!of(pattern, &json!(format!("curl {address}"))) && !of(pattern, &json!("<URL:>")));
        }
    }

    #[test]
    fn parts_of_a_path_are_told_apart_in_each_way_that_a_server_may() {
        for path in [
            "/x/a\u{ff0f}b/../../etc/passwd",
            "/x/a\u{2100}b/../../etc/passwd",
            "file:///x/a\u{ff0f}b/../../etc/passwd",
            "file:///etc/\u{2025}/../passwd",
            "/./etc/\u{2025}/../passwd",
            r"/x/a\b/../../etc/passwd",
            r"/./etc/..\../../passwd",
            r"/x/../etc/..\y/../passwd",
            r"file:///x/a\b/../../etc/passwd",
            r"\x\..\etc\passwd",
            "/./etc/.\u{ad}./../passwd",
            "/x://../../etc/passwd",
            "/x/y://../../../etc/passwd",
            "/x://y/../../../etc/passwd",
            "x://../../../../etc/passwd",
        ] {
            assert!(of("/etc/*", &json!(path)), "{path}");
            assert!(!of("/data/*", &json!(path)), "{path}");
        }
        assert!(of("~/.ssh/*", &json!("~/x\u{ff0f}y/../.ssh/id")));
        for uri in [
            "file:///home/u//../.ssh/id",
            "file:///home/u/x//../../.ssh/id",
            "file:///home/u/x%2fy/%2e%2e/.ssh/id",
            "file:///home/u/x/\u{200b}/.\t./../.ssh/id",
            "fi\tle:///home/u/\u{200b}/../.ssh/id",
        ] {
            assert!(of("/home/u/.ssh/*", &json!(uri)) && of("file:///home/u/.ssh/*", &json!(uri)), "{uri}");
        }
        for uri in ["notes://vault/w//../private/x", "notes://vault/w/x%2fy/%2e%2e/private/x"] {
            assert!(of("notes://vault/w/private/*", &json!(uri)), "{uri}");
        }
        for path in [" /../secrets/x", "</../secrets/x", "url:/../secrets/x"] {
            assert!(of("secrets/*", &json!(path)), "{path}");
        }
        assert!(of("ftp://*.evil.example/*", &json!("ftp://xn--a.evil.example:21/x")));
        assert!(of("http://[::1]/*", &json!("http://[::1%25lo]/x")));
        for address in [
            "https://u\u{ff0f}@evil.example/x",
            "https://u\u{ff1f}@evil.example/x",
            "https://u\u{ff03}@evil.example/x",
            "https://u\u{2100}@evil.example/x",
            "https://evil.example/x?",
        ] {
            assert!(of("https://evil.example/*", &json!(address)), "{address}");
            assert!(of("https://evil.example/x", &json!(address)), "{address}");
        }
        for address in [
            "https://xn--a.evil.example./x",
            "https:/xn--zz--.evil.example/x",
            "https://xn--a.evil.example:443/x",
            "https://xn--a.evil\u{3002}example/x",
            "https://a|b.evil.example./x",
            "https://a^b.evil.example:443/x",
        ] {
            assert!(of("https://*.evil.example/*", &json!(address)), "{address}");
        }
    }

    #[test]
    fn a_host_ends_and_a_port_reads_as_some_client_has_it() {
        for address in [
            "https://evil.example:+443/x",
            "https://evil.example:4_4_3/x",
            "https://evil.example:%20443/x",
            "https://evil.example: 443/x",
            "https://[evil.example]/x",
            "https://evil.example\"/x",
            "https://evil.example^/x",
            "https://evil.example{x}/x",
        ] {
            assert!(of("https://evil.example/*", &json!(address)), "{address}");
            assert!(!of("https://good.example/*", &json!(address)), "{address}");
        }
        for address in ["http://127.0.0.1:+8080/x", "http://127.0.0.1:8_080/x", "http://127.0.0.1:%208080/x"]
        {
            assert!(of("http://127.0.0.1:8080/*", &json!(address)), "{address}");
            assert!(!of("http://127.0.0.1:8081/*", &json!(address)), "{address}");
        }
    }

    #[test]
    fn a_rule_matches_however_it_is_written_itself() {
        for (rule, texts) in [
            (
                "file:///home/u/My%20Docs/*",
                &["file:///home/u/My Docs/x", "/home/u/My Docs/x", "file:///home/u/%4dy%20Docs/x"][..],
            ),
            (
                "/data/private/",
                &["/data/private/", "/data//private/", "/data/x/../private/", "/data/private/."],
            ),
            ("./secrets/*", &["secrets/x", "././secrets/x", ".//secrets/x", "x/../secrets/x"]),
            ("/data//private/*", &["/data/private/x"]),
            ("/data/private/*", &["/data//private/"]),
            ("*/private/", &["/data/private//", "/data/private/./"]),
            ("https://evil.example/private/*", &["https://evil.example//private/"]),
            (
                r"C:\Users\me\secret\*",
                &[
                    r"C:\Users\me\x\..\secret\x",
                    r"C:\Users\me\\secret\x",
                    "C:/Users/me/secret/x",
                    "file:///C:/Users/me/secret/x",
                ],
            ),
        ] {
            for text in texts {
                assert!(of(rule, &json!(text)), "{rule} {text}");
            }
            assert!(!of(rule, &json!("/data/other/x")) && !of(rule, &json!("https://evil.example/other")));
        }
    }

    #[test]
    fn a_path_that_leads_above_its_beginning_may_lead_to_the_root() {
        for up in ["../", "../../../../", "a/../../", "./..//..\\", "%2e%2e/", "<../", "..\u{200b}/"] {
            for pattern in ["/etc/*", "/etc/x", "file:///etc/*"] {
                assert!(of(pattern, &json!(format!("{up}etc/x"))), "{pattern} {up}");
                assert!(!of(pattern, &json!(format!("{up}data/etc/x"))), "{pattern} {up}");
            }
        }
        for below in ["etc/x", "./etc/x", "a/../etc/x", "..etc/x", ".../etc/x"] {
            assert!(!of("/etc/*", &json!(below)), "{below}");
        }
    }

    /// An integer of up to 40 digits times a power of ten, in spellings of JSON numbers and texts.
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
                    // The call is sent with the number that serde_json reads.
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
