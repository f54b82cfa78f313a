//! Which values of an entry may be secrets, and how an entry is shown without them.

use serde_json::{Map, Value};

/// Stands for a value that is not shown.
const HIDDEN: &str = "…";
/// The same, where another one stood before.
const HIDDEN_CHANGED: &str = "… (another than before)";
/// A word at least this long with letters and digits is taken for a key.
const RANDOM_CHARS_MIN: usize = 20;

/// Whether a variable, header or option of this name mostly holds a secret.
pub(super) fn names_secret(name: &str) -> bool {
    let upper = name.to_uppercase();
    let words = ["TOKEN", "SECRET", "PASS", "PWD", "KEY", "CREDENTIAL", "AUTH", "COOKIE", "DSN", "BEARER"];
    words.iter().any(|word| upper.contains(word)) || upper.ends_with("_PAT") || upper == "PAT"
}

/// Whether an argument holds a secret itself: behind such an option, or by its looks.
pub(super) fn is_secret_argument(before: Option<&str>, argument: &str) -> bool {
    let is_option =
        |before: &str| before.starts_with('-') && !before.contains('=') && is_secret_option(before);
    let is_value = before.is_some_and(is_option) && !argument.starts_with('-');
    is_value || shown_argument(argument) != argument
}

/// A file of servers as it may be shown, beside what it was before.
pub(super) fn shown_file(file: &Value, before: Option<&Value>) -> Value {
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

/// An entry of hotcell's form.
fn shown_entry(entry: &Value, before: Option<&Value>) -> Value {
    let Value::Object(members) = entry else { return hidden(entry, before) };
    let mut shown = Map::new();
    for (key, value) in members {
        let before = before.and_then(|before| before.get(key));
        let value = match (key.as_str(), value) {
            ("command" | "cwd" | "type" | "description" | "disabled" | "timeout" | "allow" | "deny", _) => {
                value.clone()
            }
            ("url", Value::String(url)) => changed(shown_url(url), url, before),
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
                let masked = shown_argument(text);
                let masked = if masked == text { HIDDEN.to_owned() } else { masked };
                changed(masked, text, before)
            }
            Some(text) => Value::from(text),
            None => hidden(argument, before),
        });
        option = text;
    }
    shown
}

/// Every value of it hidden, names kept.
fn hidden(value: &Value, before: Option<&Value>) -> Value {
    match value {
        Value::Object(members) => {
            let members = members.iter().map(|(name, value)| {
                (name.clone(), hidden(value, before.and_then(|before| before.get(name))))
            });
            Value::Object(members.collect())
        }
        Value::Null | Value::Bool(_) => value.clone(),
        _ => match before {
            Some(before) if before != value => HIDDEN_CHANGED.into(),
            _ => HIDDEN.into(),
        },
    }
}

/// A masked text, with a word when what it masks is not what it was.
fn changed(masked: String, text: &str, before: Option<&Value>) -> Value {
    let before = before.and_then(Value::as_str);
    match before {
        Some(before) if masked != text && before != text => format!("{masked} {HIDDEN_CHANGED}").into(),
        _ => masked.into(),
    }
}

/// An address without its query, and without what looks like a key in its path.
pub(super) fn shown_url(url: &str) -> String {
    let (place, query) = url.split_once('?').map_or((url, false), |(place, _)| (place, true));
    let shown = without_random(&without_user(place));
    if query { format!("{shown}?{HIDDEN}") } else { shown }
}

/// An argument without the secret in it, if it holds one.
fn shown_argument(argument: &str) -> String {
    if let Some((option, _)) = argument.split_once('=').filter(|(option, _)| is_secret_option(option)) {
        return format!("{option}={HIDDEN}");
    }
    if let Some((header, _)) = argument.split_once(':').filter(|(header, _)| is_secret_header(header)) {
        return format!("{header}: {HIDDEN}");
    }
    if argument.contains("://") { shown_url(argument) } else { without_random(argument) }
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

/// The text with a mark for every long word of letters and digits.
fn without_random(text: &str) -> String {
    let is_of_word = |c: char| c.is_ascii_alphanumeric() || "-_.~+".contains(c);
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(|c| !is_of_word(c)).unwrap_or(rest.len());
        let word = &rest[..end];
        let has = |kind: fn(&char) -> bool| word.chars().any(|c| kind(&c));
        let is_random =
            word.len() >= RANDOM_CHARS_MIN && has(char::is_ascii_digit) && has(char::is_ascii_alphabetic);
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
        // The same before and after looks the same; another one is told of.
        assert_eq!(shown_file(&entry, Some(&entry)), shown);
        let before = json!({"mcpServers": {"b": {"headers": {"X-Y": "other"}}}});
        assert_eq!(
            shown_file(&entry, Some(&before))["mcpServers"]["b"]["headers"]["X-Y"],
            "… (another than before)"
        );
    }
}
