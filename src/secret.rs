//! One value that is kept out of texts, in each form in which a server may repeat it.
//!
//! It does not know whose it is, nor which texts are looked through.

use memchr::{memchr, memchr2, memmem};

/// Shorter values are words as any other, and taking them out would make texts unreadable.
pub const SECRET_BYTES_MIN: usize = 6;
/// Shorter stretches stand in every text.
const STRETCH_BYTES_MIN: usize = 4;
/// What stands for a string that cannot be read and may hold a secret.
const UNREADABLE: &str = "[unreadable, and may hold a secret]";

/// A secret value and its name; has no `Debug`.
pub struct Secret {
    /// What is written for it.
    pub name: String,
    /// As it is, and as texts within texts have it: escaped for JSON, in the ways of several writers.
    forms: Vec<String>,
    trace: Trace,
}

/// What stands in every JSON text that holds the value, however it is escaped there.
enum Trace {
    /// A stretch of it that no writer escapes.
    Stretch(String),
    /// There is none: the value itself, or anything that is escaped.
    Escape,
}

impl Secret {
    /// Nothing for a value that is too short to be told from words.
    pub fn new(name: String, value: &str) -> Option<Self> {
        if value.len() < SECRET_BYTES_MIN {
            return None;
        }
        let escaped = serde_json::Value::from(value).to_string();
        let escaped = escaped[1..escaped.len() - 1].to_owned();
        let mut forms = vec![value.to_owned(), ascii(&escaped), escaped.replace('/', "\\/")];
        forms.extend([ascii(&forms[2]), escaped]);
        // One that contains another goes first.
        forms.sort_by_key(|form| std::cmp::Reverse(form.len()));
        forms.dedup();
        let stretches = value.split(|c: char| !c.is_ascii_graphic() || "\"\\/<>&'".contains(c));
        let trace = match stretches.max_by_key(|stretch| stretch.len()) {
            Some(stretch) if stretch.len() >= STRETCH_BYTES_MIN => Trace::Stretch(stretch.to_owned()),
            _ => Trace::Escape,
        };
        Some(Self { name, forms, trace })
    }

    /// Bytes of its longest form.
    pub fn bytes(&self) -> usize {
        self.forms[0].len()
    }

    /// Whether this is the value, in any form.
    #[must_use]
    pub fn is_value(&self, value: &str) -> bool {
        self.forms.iter().any(|form| form == value)
    }

    /// Whether it stands in the text, in any form.
    pub fn is_in(&self, text: &str) -> bool {
        self.forms.iter().any(|form| memmem::find(text.as_bytes(), form.as_bytes()).is_some())
    }

    /// The text with the name in the place of each form.
    pub fn replaced_in(&self, text: String) -> String {
        let told = |text: &str, form: &str| memmem::find(text.as_bytes(), form.as_bytes()).is_some();
        self.forms.iter().fold(text, |text, form| match told(&text, form) {
            true => text.replace(form.as_str(), &format!("[{}]", self.name)),
            false => text,
        })
    }

    /// How much of the text's beginning is the end of a form that was cut in two.
    pub fn rest_bytes(&self, text: &str) -> usize {
        let of = |form: &String| {
            (STRETCH_BYTES_MIN..form.len())
                .rev()
                .find(|rest| text.as_bytes().starts_with(&form.as_bytes()[form.len() - rest..]))
        };
        self.forms.iter().filter_map(of).max().unwrap_or_default()
    }

    /// How much of the text's end is the beginning of a form that was cut in two.
    pub fn begun_bytes(&self, text: &str) -> usize {
        let of = |form: &String| {
            (STRETCH_BYTES_MIN..form.len())
                .rev()
                .find(|begun| text.as_bytes().ends_with(&form.as_bytes()[..*begun]))
        };
        self.forms.iter().filter_map(of).max().unwrap_or_default()
    }

    /// Whether it may stand in the JSON text. Quick, also over many megabytes; seldom so where it does not stand there.
    pub fn may_be_in_json(&self, json: &[u8]) -> bool {
        match &self.trace {
            Trace::Stretch(stretch) => memmem::find(json, stretch.as_bytes()).is_some(),
            Trace::Escape => {
                memchr(b'\\', json).is_some()
                    || self.forms.iter().any(|form| memmem::find(json, form.as_bytes()).is_some())
            }
        }
    }
}

/// A JSON text whose strings, keys among them, have names in the place of these secrets; all else is as it was, to the byte.
pub fn replaced_in_json(json: &str, secrets: &[&Secret]) -> String {
    let mut replaced = String::with_capacity(json.len());
    let mut rest = json;
    while let Some(begin) = memchr(b'"', rest.as_bytes()) {
        let end = begin + string_bytes(&rest.as_bytes()[begin..]);
        let (before, string) = (&rest[..begin], &rest[begin..end]);
        replaced.push_str(before);
        let told: Vec<&Secret> =
            secrets.iter().copied().filter(|secret| secret.may_be_in_json(string.as_bytes())).collect();
        if told.is_empty() {
            replaced.push_str(string);
        } else {
            replaced.push_str(&without(string, &told));
        }
        rest = &rest[end..];
    }
    replaced + rest
}

/// A JSON string with names in the place of the secrets.
fn without(string: &str, secrets: &[&Secret]) -> String {
    let Ok(text) = serde_json::from_str::<String>(string) else {
        return serde_json::Value::from(UNREADABLE).to_string();
    };
    if !secrets.iter().any(|secret| secret.is_in(&text)) {
        return string.to_owned();
    }
    let text = secrets.iter().fold(text, |text, secret| secret.replaced_in(text));
    serde_json::Value::from(text).to_string()
}

/// Bytes of the JSON string that begins here, with its quotes.
fn string_bytes(json: &[u8]) -> usize {
    let mut at = 1;
    while let Some(next) = memchr2(b'"', b'\\', json.get(at..).unwrap_or_default()) {
        at += next;
        if json[at] == b'"' {
            return at + 1;
        }
        at += 2;
    }
    json.len()
}

/// The text with everything beyond ASCII written as JSON escapes.
fn ascii(text: &str) -> String {
    let mut written = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_ascii() {
            written.push(character);
        } else {
            let units = character
                .encode_utf16(&mut [0; 2])
                .iter()
                .map(|unit| format!("\\u{unit:04x}"))
                .collect::<String>();
            written.push_str(&units);
        }
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(value: &str) -> Secret {
        Secret::new("KEY".into(), value).unwrap()
    }

    fn replaced(value: &str, json: &str) -> String {
        let secret = secret(value);
        assert!(secret.may_be_in_json(json.as_bytes()), "{json}");
        replaced_in_json(json, &[&secret])
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
            // Within a text that is JSON itself.
            ("pass\"word/1", r#"{"a":"pass\\\"word\\/1"}"#),
            ("päßwörd-1", r#"{"a":"p\\u00e4\\u00dfw\\u00f6rd-1"}"#),
        ] {
            assert_eq!(replaced(value, json), r#"{"a":"[KEY]"}"#, "{value} in {json}");
        }
    }

    #[test]
    fn all_but_the_secret_stays_to_the_byte() {
        let json = r#" {"tok-12345" : [1e400, 12345678901234567890.10 ,"x\/\u00e4", "\ud800", "a tok-12345\n"], "\"":"" } "#;
        let kept =
            r#" {"[KEY]" : [1e400, 12345678901234567890.10 ,"x\/\u00e4", "\ud800", "a [KEY]\n"], "\"":"" } "#;
        assert_eq!(replaced("tok-12345", json), kept);
        let broken = r#"["\ud800 tok-12345"]"#;
        assert_eq!(replaced("tok-12345", broken), format!("[\"{UNREADABLE}\"]"));
        for odd in ["", "\"", "\"\\", "[1]", "\"\\\"", "\"tok-12345"] {
            assert!(!replaced_in_json(odd, &[&secret("tok-12345")]).contains("tok-12345"));
        }
    }

    #[test]
    fn a_text_without_the_secret_is_not_read() {
        assert!(!secret("tok-12345").may_be_in_json(br#"{"a":"tok-1234"}"#));
        assert!(!secret("密碼密碼").may_be_in_json("{\"a\":\"碼\"}".as_bytes()));
        assert!(Secret::new("KEY".into(), "short").is_none());
    }
}
