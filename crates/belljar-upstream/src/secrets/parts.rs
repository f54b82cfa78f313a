//! Finds the credentials within a configured value: the password of an address, the values of pairs such as
//! `password=...`, and the members of JSON whose names or values look like those of secrets.
//!
//! It removes nothing.

use serde_json::Value;
use url::form_urlencoded;

use super::is_credential;

/// The longest value that is searched, in bytes.
const VALUE_BYTES_MAX: usize = 256 << 10;
/// The shortest member of JSON that counts as a credential whatever its name is, in bytes.
const TOKEN_BYTES_MIN: usize = 16;

/// The credentials within the value.
pub(super) fn of(value: &str) -> Vec<String> {
    let mut parts = Vec::new();
    if value.len() <= VALUE_BYTES_MAX {
        of_text(value, &mut parts);
        if value.trim_start().starts_with(['{', '['])
            && let Ok(json) = serde_json::from_str(value)
        {
            of_json("", &json, &mut parts);
        }
    }
    parts.sort_unstable();
    parts.dedup();
    parts
}

fn of_text(text: &str, parts: &mut Vec<String>) {
    for (at, sign) in text.match_indices("://") {
        let authority = &text[at + sign.len()..];
        let end = authority.find(|one: char| one.is_whitespace() || "/?#\"'".contains(one));
        let authority = &authority[..end.unwrap_or(authority.len())];
        let Some((user, _host)) = authority.rsplit_once('@') else { continue };
        let Some((_, password)) = user.split_once(':') else { continue };
        parts.push(password.to_owned());
        // Only percent-encodings are decoded.
        let encoded = format!("password={}", password.replace('+', "%2B").replace('&', "%26"));
        parts.extend(form_urlencoded::parse(encoded.as_bytes()).map(|(_, decoded)| decoded.into_owned()));
    }
    for pair in text.split(|one: char| one.is_whitespace() || "&;?,".contains(one)) {
        let Some((name, value)) = pair.split_once('=') else { continue };
        let value = value.trim_matches(['"', '\'']);
        if is_secret(name, value) {
            parts.push(value.to_owned());
        }
    }
}

/// `name`: the name of the member, or of that which the list is.
fn of_json(name: &str, json: &Value, parts: &mut Vec<String>) {
    match json {
        Value::Object(members) => members.iter().for_each(|(name, member)| of_json(name, member, parts)),
        Value::Array(items) => items.iter().for_each(|item| of_json(name, item, parts)),
        Value::String(text) if is_secret(name, text) || is_token(text) => parts.push(text.clone()),
        Value::String(text) => of_text(text, parts),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Whether the name is that of a password, or name and value are those of a credential.
pub(super) fn is_secret(name: &str, value: &str) -> bool {
    let lower = name.to_lowercase();
    let is_password = ["password", "passwd", "pwd", "passphrase"].iter().any(|word| lower.contains(word))
        || lower.split(|one: char| !one.is_alphanumeric()).any(|word| ["pass", "sshpass"].contains(&word));
    !value.contains("://") && (is_password || is_credential(name, value))
}

/// Whether the value looks like a token: one long word of capitals, other characters and digits, or of hexadecimal
/// digits.
pub(super) fn is_token(value: &str) -> bool {
    let has = |is: fn(&u8) -> bool| value.bytes().any(|byte| is(&byte));
    let is_word = value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.+=".contains(&byte));
    let is_hash = value.len() >= 2 * TOKEN_BYTES_MIN && value.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_mixed = has(u8::is_ascii_uppercase) && has(u8::is_ascii_digit);
    value.len() >= TOKEN_BYTES_MIN && is_word && (is_mixed || is_hash)
}
