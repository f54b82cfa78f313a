//! Belljar's own entry for clients that reach it over HTTP, in the form that each client needs.
//!
//! It never has the token: it refers to the variable that has it.

use serde_json::{Value, json};
use url::Url;

use super::http_address::{HttpAddress, is_of_belljar};
use super::own_entry::Parts;
use super::translate::references::is_variable;

/// The form of an entry that reaches belljar over HTTP.
#[derive(Debug)]
pub(super) struct HttpForm {
    /// The key of the address.
    address: &'static str,
    /// The keys on the path to the text that names the variable with the token.
    token: &'static [&'static str],
    /// What is before and after the variable's name in that text.
    reference: (&'static str, &'static str),
    /// The key of a list of the variables that the entry refers to.
    listed: Option<&'static str>,
    /// Makes the other keys.
    others: fn(&Parts<'_>) -> Value,
}

const AUTHORIZATION: &[&str] = &["headers", "Authorization"];

impl HttpForm {
    pub(super) fn entry(&self, parts: &Parts<'_>, address: &HttpAddress) -> Value {
        let mut entry = (self.others)(parts);
        let (before, after) = self.reference;
        entry[self.address] = address.url().into();
        let token = self.token.iter().fold(&mut entry, |inner, key| &mut inner[*key]);
        *token = format!("{before}{}{after}", address.variable()).into();
        if let Some(key) = self.listed {
            entry[key] = json!([address.variable()]);
        }
        entry
    }

    /// Whether the entry for HTTP has this key.
    pub(super) fn has_key(&self, parts: &Parts<'_>, key: &str) -> bool {
        [self.address, self.token[0], self.listed.unwrap_or_default()].contains(&key)
            || (self.others)(parts).get(key).is_some()
    }

    /// Whether an entry may be belljar's own: its address ends like belljar's, and its token is a reference to a variable.
    pub(super) fn is_own(&self, entry: &Value) -> bool {
        let (before, after) = self.reference;
        let address = entry.get(self.address).and_then(Value::as_str).and_then(|url| Url::parse(url).ok());
        let token = self.token.iter().try_fold(entry, |inner, key| inner.get(key)).and_then(Value::as_str);
        let name = token.and_then(|token| token.strip_prefix(before)?.strip_suffix(after));
        address.is_some_and(|url| is_of_belljar(&url)) && name.is_some_and(is_variable)
    }
}

const USUAL: HttpForm = HttpForm {
    address: "url",
    token: AUTHORIZATION,
    reference: ("Bearer ${", "}"),
    listed: None,
    others: |_| json!({"type": "http"}),
};

pub(super) const CLAUDE_CODE: HttpForm =
    HttpForm { others: |_| json!({"type": "http", "alwaysLoad": true}), ..USUAL };

pub(super) const CURSOR: HttpForm =
    HttpForm { reference: ("Bearer ${env:", "}"), others: |_| json!({}), ..USUAL };

pub(super) const VSCODE: HttpForm = HttpForm { reference: ("Bearer ${env:", "}"), ..USUAL };

pub(super) const WINDSURF: HttpForm = HttpForm { address: "serverUrl", ..CURSOR };

pub(super) const GEMINI: HttpForm =
    HttpForm { address: "httpUrl", others: |parts| json!({"timeout": parts.reply_s * 1000}), ..USUAL };

pub(super) const CODEX: HttpForm = HttpForm {
    token: &["bearer_token_env_var"],
    reference: ("", ""),
    others: |parts| json!({"startup_timeout_sec": parts.start_s, "tool_timeout_sec": parts.reply_s}),
    ..USUAL
};

pub(super) const OPENCODE: HttpForm = HttpForm {
    reference: ("Bearer {env:", "}"),
    others: |parts| json!({"type": "remote", "oauth": false, "enabled": true, "timeout": parts.reply_s * 1000}),
    ..USUAL
};

/// The form for OpenCode 2, which has no `enabled`.
pub(super) const OPENCODE_2: HttpForm =
    HttpForm { others: |_| json!({"type": "remote", "oauth": false}), ..OPENCODE };

pub(super) const COPILOT: HttpForm = HttpForm {
    others: |parts| json!({"type": "http", "tools": ["*"], "timeout": parts.reply_s * 1000}),
    ..USUAL
};

pub(super) const VIBE: HttpForm = HttpForm {
    token: &["api_key_env"],
    reference: ("", ""),
    others: |parts| {
        json!({
            "name": parts.name,
            "transport": "streamable-http",
            "startup_timeout_sec": parts.start_s,
            "tool_timeout_sec": parts.reply_s,
        })
    },
    ..USUAL
};

pub(super) const CONTINUE: HttpForm = HttpForm {
    token: &["requestOptions", "headers", "Authorization"],
    reference: ("Bearer ${{ secrets.", " }}"),
    others: |parts| json!({"name": parts.name, "type": "streamable-http", "connectionTimeout": parts.reply_s * 1000}),
    ..USUAL
};

/// The form for Goose, which replaces only variables that the entry lists.
pub(super) const GOOSE: HttpForm = HttpForm {
    address: "uri",
    listed: Some("env_keys"),
    others: |parts| {
        json!({
            "name": parts.name,
            "description": "Python with your MCP servers as functions",
            "type": "streamable_http",
            "enabled": true,
            "timeout": parts.reply_s,
        })
    },
    ..USUAL
};
