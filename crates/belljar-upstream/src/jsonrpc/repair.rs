//! Makes JSON of text that some programs write for JSON: half a surrogate pair, NaN, a control character in a string.
//!
//! It changes nothing in text that is JSON and has only whole characters.

use std::borrow::Cow;

/// What Python and others write for numbers that JSON does not have.
const NO_NUMBERS: [&str; 3] = ["NaN", "-Infinity", "Infinity"];

/// The text with U+FFFD for each half of a surrogate pair, null for each number that JSON does not have, and a blank for
/// each control character in a string.
#[must_use]
pub fn repaired(json: &str) -> Cow<'_, str> {
    let (mut repaired, mut kept, mut at, mut is_in_string) = (String::new(), 0, 0, false);
    while let Some(byte) = json.as_bytes().get(at) {
        let (bytes, instead) = match byte {
            b'"' => {
                is_in_string = !is_in_string;
                (1, None)
            }
            b'\\' if is_in_string => escape(&json.as_bytes()[at..]),
            0..0x20 if is_in_string => (1, Some(" ")),
            b'N' | b'I' | b'-' if !is_in_string => {
                let found = NO_NUMBERS.iter().find(|word| json[at..].starts_with(**word));
                (found.map_or(1, |word| word.len()), found.map(|_| "null"))
            }
            _ => (1, None),
        };
        if let Some(instead) = instead {
            repaired.push_str(&json[kept..at]);
            repaired.push_str(instead);
            kept = at + bytes;
        }
        at += bytes;
    }
    if kept == 0 {
        return json.into();
    }
    repaired.push_str(&json[kept..]);
    repaired.into()
}

/// The number of bytes of an escape, and what stands for it if it is half a surrogate pair.
fn escape(text: &[u8]) -> (usize, Option<&'static str>) {
    match (unit(text), text.get(6..).and_then(unit)) {
        (Some(0xd800..0xdc00), Some(0xdc00..0xe000)) => (12, None),
        (Some(0xd800..0xe000), _) => (6, Some("\\ufffd")),
        _ => (2, None),
    }
}

/// The code unit of an escape of the form `\uXXXX`.
fn unit(text: &[u8]) -> Option<u32> {
    let digits = text.strip_prefix(b"\\u")?.get(..4)?;
    let is_hex = digits.iter().all(u8::is_ascii_hexdigit);
    u32::from_str_radix(std::str::from_utf8(digits).ok().filter(|_| is_hex)?, 16).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_what_json_does_not_have_is_replaced() {
        for (given, expected) in [
            (r#"{"a":"\ud83d"}"#, r#"{"a":"\ufffd"}"#),
            (r#"{"a":"\ud83d\ude00 \ude00\ud83dx"}"#, r#"{"a":"\ud83d\ude00 \ufffd\ufffdx"}"#),
            (r#"{"a":"\\ud83d"}"#, r#"{"a":"\\ud83d"}"#),
            (r#"{"a":NaN,"b":[-Infinity,Infinity,-1]}"#, r#"{"a":null,"b":[null,null,-1]}"#),
            (r#"{"a":"NaN \" Infinity"}"#, r#"{"a":"NaN \" Infinity"}"#),
            ("{\"a\":\"x\ty\u{1}\"\t}", "{\"a\":\"x y \"\t}"),
            (r#"{"a":"\ud83"#, r#"{"a":"\ud83"#),
            ("\"\u{e4}\\", "\"\u{e4}\\"),
        ] {
            assert_eq!(repaired(given), expected);
        }
    }

    proptest! {
        #[test]
        fn json_stays_as_it_is(text in ".{0,40}", number in any::<f64>()) {
            let json = serde_json::json!({text.clone(): [number, text]}).to_string();
            prop_assert!(matches!(repaired(&json), Cow::Borrowed(_)));
        }

        #[test]
        fn any_text_is_survived(text in "[\\\\ud8cNaI\"\\-]{0,24}") {
            prop_assert!(repaired(&text).len() <= 2 * text.len() + 4);
        }
    }
}
