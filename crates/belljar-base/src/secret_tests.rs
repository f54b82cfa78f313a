//! Tests of the search for secrets and of their replacement.

use proptest::prelude::*;

use super::*;

fn secret(value: &str) -> Secret {
    Secret::new("KEY".into(), value).unwrap()
}

fn replaced_json(value: &str, json: &str) -> String {
    replaced_in_json(json, &[&secret(value)]).unwrap_or_else(|| json.to_owned())
}

fn replaced_text(value: &str, text: &str) -> String {
    replaced_in(text.to_owned(), &[&secret(value)])
}

#[test]
fn a_secret_is_found_in_json_however_it_is_escaped() {
    for (value, json) in [
        ("tok-12345", r#"{"a":"tok-12345"}"#),
        ("pass\"word/1", r#"{"a":"pass\"word/1"}"#),
        ("pass\"word/1", r#"{"a":"pass\"word\/1"}"#),
        ("pass\"word/1", r#"{"a":"pass\u0022word\u002f1"}"#),
        ("a<b>c&d", r#"{"a":"a\u003cb\u003ec\u0026d"}"#),
        ("päßwörd-1", r#"{"a":"päßwörd-1"}"#),
        ("päßwörd-1", r#"{"a":"p\u00E4\u00dfw\u00f6rd-1"}"#),
        ("密碼密碼", r#"{"a":"\u5bc6\u78bc密碼"}"#),
        ("🔑🔑🔑", r#"{"a":"\ud83d\udd11🔑\uD83D\uDD11"}"#),
        // An escape in JSON within the text, whose letter is written as an escape itself.
        ("ab\ncdefg", r#"{"a":"ab\\\u006ecdefg"}"#),
        ("ab\tcdefg", r#"{"a":"ab\\\u0074cdefg"}"#),
        // As .NET writes it by default, and as a writer that escapes letters.
        ("abc+def/ghi=", r#"{"a":"abc\u002Bdef/ghi="}"#),
        ("abc+def/ghi=", r#"{"a":"abc\u002bdef\/ghi\u003D"}"#),
        ("tok-12345", r#"{"a":"\u0074\u006F\u006b\u002d\u0031\u0032\u0033\u0034\u0035"}"#),
        ("line\nline\t\\", r#"{"a":"line\nl\u0069ne\u0009\\"}"#),
        // Within a text that is JSON itself.
        ("pass\"word/1", r#"{"a":"pass\\\"word\\/1"}"#),
        ("päßwörd-1", r#"{"a":"p\\u00e4\\u00dfw\\u00f6rd-1"}"#),
        ("abc+def", r#"{"a":"abc\\u002Bdef"}"#),
        ("abc+def", r#"{"a":"abc\u005cu002Bdef"}"#),
        ("abc+def", r#"{"a":"abc\u005c\u0075\u0030\u0030\u0032\u0042def"}"#),
        ("abc+def", r#"{"a":"abc\\\\u002Bdef"}"#),
        ("abc+def", r#"{"a":"abc\\\\\\\\u002Bdef"}"#),
    ] {
        assert_eq!(replaced_json(value, json), r#"{"a":"[KEY]"}"#, "{value} in {json}");
        assert_eq!(replaced_text(value, json), r#"{"a":"[KEY]"}"#, "{value} in {json}");
    }
}

#[test]
fn all_but_the_secret_stays_to_the_byte() {
    let json = r#" {"tok-12345" : [1e400, 12345678901234567890.10 ,"x\/\u00e4", "\ud800", "\/ä\u00e4 tok\u002d12345\n"], "\"":"" } "#;
    let kept = r#" {"[KEY]" : [1e400, 12345678901234567890.10 ,"x\/\u00e4", "\ud800", "\/ä\u00e4 [KEY]\n"], "\"":"" } "#;
    assert_eq!(replaced_json("tok-12345", json), kept);
    for (odd, kept) in [
        (r#"["\ud800 tok-12345"]"#, r#"["\ud800 [KEY]"]"#),
        (r#"["\ud800tok\u002D12345\udc00"]"#, r#"["\ud800[KEY]\udc00"]"#),
        (r#"["\q tok-12345 \u00"]"#, r#"["\q [KEY] \u00"]"#),
        (r#""tok-12345"#, r#""[KEY]"#),
        (r#""tok-12345\"#, r#""[KEY]\"#),
    ] {
        assert_eq!(replaced_json("tok-12345", odd), kept);
    }
    for odd in ["", "\"", "\"\\", "[1]", "\"\\\""] {
        assert_eq!(replaced_json("tok-12345", odd), odd);
    }
}

#[test]
fn an_escape_is_never_cut_in_two() {
    // As characters of the source this text holds the value; as JSON it does not.
    let json = r#"["\nabcdefg", "\u00e4bcdefgh", "\\u00e4bcdefgh"]"#;
    assert_eq!(replaced_json("nabcdefg", json), json);
    assert_eq!(replaced_json("e4bcdefgh", json), r#"["\nabcdefg", "\u00e4bcdefgh", "\\u00[KEY]"]"#);
    assert_eq!(replaced_json("äbcdefgh", json), r#"["\nabcdefg", "[KEY]", "[KEY]"]"#);
    assert_eq!(replaced_text("nabcdefg", "C:\\nabcdefg"), "C:\\[KEY]");
}

#[test]
fn json_stays_json_whatever_a_secret_or_its_name_is() {
    let secret = Secret::new("a\"\\b".into(), "\",\"x\":\"").unwrap();
    let json = r#"{"a":"b","x":"c","d":"\",\"x\":\""}"#;
    let replaced = replaced_in_json(json, &[&secret]).unwrap();
    assert_eq!(replaced, r#"{"a":"b","x":"c","d":"[a\"\\b]"}"#);
}

#[test]
fn the_longer_of_two_secrets_stands_for_both() {
    let long = Secret::new("LONG".into(), "abcdef+ghi").unwrap();
    let short = Secret::new("SHORT".into(), "abcdef").unwrap();
    let json = r#"["abcdef\u002Bghi", "abcd\u0065f abcdef+ghi"]"#;
    for secrets in [[&long, &short], [&short, &long]] {
        assert_eq!(replaced_in_json(json, &secrets).unwrap(), r#"["[LONG]", "[SHORT] [LONG]"]"#);
    }
}

#[test]
fn secrets_that_overlap_are_hidden_whole() {
    let first = Secret::new("A".into(), "abcdefgh-12345678").unwrap();
    let second = Secret::new("B".into(), "12345678-zyxwvuts").unwrap();
    let inner = Secret::new("C".into(), "gh-1234").unwrap();
    let json = r#"["abcdefgh-12345678-zyxwvuts", "x\u0061bcdefgh-\u0031234567\u0038-zyxwvuts!"]"#;
    for secrets in [[&first, &second, &inner], [&inner, &second, &first], [&second, &first, &inner]] {
        assert_eq!(replaced_in_json(json, &secrets).unwrap(), r#"["[A][B]", "x[A][B]!"]"#);
        let text = "(abcdefgh-12345678-zyxwvuts) 12345678-zyxwvuts";
        assert_eq!(replaced_in(text.to_owned(), &secrets), "([A][B]) [B]");
    }
}

#[test]
fn blanks_at_the_ends_of_a_value_do_not_belong_to_the_secret() {
    for value in ["tok-12345 ", "\ttok-12345\n\n", "\u{feff}tok-12345\r", "\u{a0}tok-12345\u{1c}"] {
        assert_eq!(replaced_text(value, "x tok-12345 y"), "x [KEY] y", "{value:?}");
        assert!(secret(value).is_value(value) && secret(value).is_value("tok-12345"));
        let json = serde_json::json!([value]).to_string();
        assert!(!replaced_json(value, &json).contains("tok-12345"), "{value:?}");
    }
    // Too short to be recognised without them.
    assert_eq!(replaced_text("tok   ", "a tok b tok   "), "a tok b [KEY]");
    assert!(Secret::new("KEY".into(), "tok ").is_none());
}

#[test]
fn a_text_without_the_secret_is_left_alone() {
    assert_eq!(replaced_in_json(r#"{"a":"tok-1234"}"#, &[&secret("tok-12345")]), None);
    assert_eq!(replaced_in_json("{\"a\":\"碼\\u5bc6\"}", &[&secret("密碼密碼")]), None);
    assert!(Secret::new("KEY".into(), "short").is_none());
}

#[test]
fn a_secret_is_found_at_every_place_of_a_large_text() {
    let value = "abc+def/0123456789";
    for escaped in [r"abc\u002Bdef\/0123456789", r"abc\\u002Bdef/012345678\\u0039"] {
        for behind in [0, 1, 5, 11, 12, 17, 30, 70_000] {
            let filler = "\\n12345678".repeat(BLOCK_BYTES * 2 / 10);
            let filler = &filler[..filler.len() - behind % 10];
            let behind = "y".repeat(behind);
            let json = format!("[\"{}{escaped}{behind}{filler}\"]", filler.trim_end_matches('\\'));
            assert_eq!(replaced_json(value, &json), json.replace(escaped, "[KEY]"));
        }
    }
}

/// The value as a JSON writer may write it: each character as it is, in a short escape, or by its number.
fn spelled(value: &str, choices: &[u8]) -> String {
    let mut choices = choices.iter().copied().cycle();
    let mut spelled = String::new();
    for character in value.chars() {
        let choice = choices.next().unwrap_or_default();
        let short = SHORT_ESCAPES.into_iter().find(|(of, _)| char::from(*of) == character);
        match (choice % 4, short) {
            (0, None) if !character.is_control() => spelled.push(character),
            (0 | 1, Some((_, letter))) => spelled.extend(['\\', char::from(letter)]),
            (digits, _) => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    spelled.push_str(&match digits {
                        3 => format!("\\u{unit:04X}"),
                        _ => format!("\\u{unit:04x}"),
                    });
                }
            }
        }
    }
    spelled
}

proptest! {
    #[test]
    fn no_spelling_hides_a_secret(
        value in r#"[a-z0-9+/="\\ äß密🔑\n\t<>]{6,20}"#,
        before in r#"[A-Z\\"/ö🔒\n]{0,6}"#,
        behind in r#"[A-Z\\"/ö🔒\n]{0,6}"#,
        choices in proptest::collection::vec(any::<u8>(), 1..60),
        levels in 1_usize..=3,
        is_key in any::<bool>(),
    ) {
        let plain = format!("{before}{value}{behind}");
        let spell = |text: String, level: usize| spelled(&text, &choices[level % choices.len()..]);
        let text = (0..levels).fold(plain.clone(), spell);
        let json = if is_key { format!("{{\"{text}\":1}}") } else { format!("[\"{text}\"]") };
        let replaced = replaced_json(&value, &json);
        let tree: serde_json::Value = serde_json::from_str(&replaced).unwrap();
        let mut left = match &tree {
            serde_json::Value::Object(fields) => fields.keys().next().unwrap().clone(),
            other => other[0].as_str().unwrap().to_owned(),
        };
        for _ in 1..levels {
            prop_assert!(!left.contains(&value), "{left}");
            left = serde_json::from_str(&format!("\"{left}\"")).unwrap();
        }
        prop_assert!(!left.contains(&value), "{left}");
        // With a backslash it may stand there once more, at a deeper level.
        if !plain.contains('\\') {
            prop_assert_eq!(left, plain.replace(without_blank_ends(&value), "[KEY]"));
        }
        let as_text = replaced_text(&value, &text);
        prop_assert!(as_text.contains("[KEY]"), "{as_text}");
    }

    #[test]
    fn any_text_is_survived(text in r#"([\\ud8-9a-f"0]|\\u00|\\u005c|🔑){0,60}"#) {
        let secret = secret("d800dc00");
        let replaced = replaced_in(text.clone(), &[&secret]);
        prop_assert!(replaced.len() <= text.len());
        replaced_in_json(&text, &[&secret]);
    }
}
