//! Describes in words why a request was not sent, or was refused.
//!
//! It reads a bounded part of a response.

use std::time::Duration;

use belljar_base::{clock, text};
use reqwest::header::{LOCATION, RETRY_AFTER, WWW_AUTHENTICATE};
use reqwest::{Response, StatusCode};
use serde_json::Value;
use url::Url;

use crate::no_response::NoResponse;
use crate::redaction::Redaction;
use crate::web::{beginning_of, said};

/// The number of bytes that are read of a refusal's body.
const REFUSAL_BYTES_MAX: usize = 8 * 1024;
/// The longest text of a refusal that is repeated, in characters.
const SAID_CHARS_MAX: usize = 1_000;
/// The longest wait for the body of a refusal.
const REFUSAL: Duration = Duration::from_secs(5);

/// The reason why a request has no response.
pub(super) fn not_sent(error: reqwest::Error) -> NoResponse {
    if error.is_connect() || error.is_builder() {
        NoResponse::NotReached(said(error))
    } else {
        NoResponse::Broken(said(error))
    }
}

/// The reason that an unsuccessful response gives, with its text. Secrets are removed before the text is cut.
pub(super) async fn refusal(response: Response, redaction: &Redaction) -> NoResponse {
    let status = response.status();
    if status.is_redirection() {
        let to = response.headers().get(LOCATION);
        let to = to.and_then(|to| to.to_str().ok()).and_then(|to| response.url().join(to).ok());
        let to = to.map(|to| shown(redaction, without_secrets(to).into()));
        let status = status.as_u16();
        return NoResponse::NotReached(match to {
            Some(to) => format!(
                "it redirects to {to} (HTTP {status}), which is not followed; if it has moved there, write that address \
                 into its entry"
            ),
            None => format!("it redirects (HTTP {status}) without an address"),
        });
    }
    let header = |name| response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let challenge = header(WWW_AUTHENTICATE).filter(|challenge| challenge.contains("error_description"));
    let again = header(RETRY_AFTER);
    let (body, is_whole) =
        tokio::time::timeout(REFUSAL, beginning_of(response, REFUSAL_BYTES_MAX)).await.unwrap_or_default();
    let json = serde_json::from_slice::<Value>(&body);
    let is_error = json.is_ok_and(|value| value.get("error").is_some_and(Value::is_object));
    let challenge = challenge.map(|challenge| format!(": {}", shown(redaction, challenge)));
    let said = said_in((&body, is_whole), redaction);
    let reason = format!("HTTP {status}{said}{}", challenge.unwrap_or_default());
    match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => NoResponse::NotAllowed(reason),
        StatusCode::TOO_MANY_REQUESTS => busy(reason, again, redaction, true),
        StatusCode::SERVICE_UNAVAILABLE if again.is_some() => busy(reason, again, redaction, false),
        status if status.is_client_error() => {
            NoResponse::Refused { status: status.as_u16(), reason, error: is_error.then_some(body) }
        }
        _ => NoResponse::Broken(reason),
    }
}

/// The words in a body that is no answer, to follow an error's text. Only its beginning is read.
pub(super) fn said_in((body, is_whole): (&[u8], bool), redaction: &Redaction) -> String {
    let beginning = &body[..body.len().min(REFUSAL_BYTES_MAX)];
    let said = match serde_json::from_slice(beginning) {
        Ok(value) => words(&value, redaction),
        Err(_) => Some(without_tags(match is_whole && beginning.len() == body.len() {
            true => String::from_utf8_lossy(beginning).into_owned(),
            false => redaction.beginning(beginning),
        })),
    };
    let said = said.map(|said| shown(redaction, said)).filter(|said| !said.is_empty());
    said.map(|said| format!(": {said}")).unwrap_or_default()
}

/// The words of a page in HTML or XML; any other text as it is.
fn without_tags(text: String) -> String {
    if !text.trim_start().starts_with('<') {
        return text;
    }
    let (mut words, mut unread) = (String::new(), text.as_str());
    while let Some((before, tag)) = unread.split_once('<') {
        words.extend([before, " "]);
        let begins = |name: &&str| tag.get(..name.len()).is_some_and(|tag| tag.eq_ignore_ascii_case(name));
        let end = match ["script", "style"].into_iter().find(begins) {
            Some(name) => tag.to_ascii_lowercase().find(&format!("</{name}")).map_or(tag.len(), |at| at + 1),
            None => 0,
        };
        unread = tag[end..].split_once('>').map_or("", |(_, after)| after);
    }
    words.push_str(unread);
    words.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The refusal of a server that has no time now. `again`: its `Retry-After`, in seconds or as a date.
fn busy(reason: String, again: Option<String>, redaction: &Redaction, was_refused: bool) -> NoResponse {
    let after = again.as_deref().and_then(|again| match again.trim().parse() {
        Ok(seconds) => Duration::try_from_secs_f64(seconds).ok(),
        Err(_) => clock::time_until(again),
    });
    let reason = match (after, again) {
        (Some(after), _) => format!("{reason}; it can be asked again in {} s", after.as_secs_f64()),
        (None, Some(again)) => format!("{reason}; it can be asked again after {}", shown(redaction, again)),
        (None, None) => reason,
    };
    NoResponse::Busy { reason, after, was_refused }
}

/// The words of a server in JSON: the message and data of a JSON-RPC error, a text, or the whole value.
fn words(value: &Value, redaction: &Redaction) -> Option<String> {
    let clean = |value: &Value| {
        let json = value.to_string();
        redaction.json(&json).unwrap_or(json)
    };
    let members = value.as_object().map(|members| members.values().collect::<Vec<_>>());
    let message = value.pointer("/error/message").and_then(Value::as_str);
    match (message, members.as_deref()) {
        (Some(message), _) => Some(match value.pointer("/error/data") {
            Some(data) => format!("{message}; data: {}", clean(data)),
            None => message.to_owned(),
        }),
        (None, Some([Value::String(only)])) => Some(only.clone()),
        (None, Some([])) => None,
        (None, _) => match value {
            Value::Null => None,
            Value::String(text) => Some(text.clone()),
            value => Some(clean(value)),
        },
    }
}

/// An address without the parts that may hold a secret.
fn without_secrets(mut url: Url) -> Url {
    url.set_query(None);
    url.set_fragment(None);
    // An address without a host has no user.
    let _ = (url.set_username(""), url.set_password(None));
    url
}

/// A text of the server, without secrets, on one line and bounded.
fn shown(redaction: &Redaction, text: String) -> String {
    text::inert_line(&text::bounded(redaction.text(text).trim(), SAID_CHARS_MAX))
}
