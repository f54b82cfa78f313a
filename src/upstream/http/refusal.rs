//! Describes in words why a request was not sent, or was refused.
//!
//! It reads a bounded part of a response.

use std::time::Duration;

use reqwest::{Response, StatusCode};

use crate::text;
use crate::upstream::no_response::NoResponse;
use crate::upstream::redaction::Redaction;
use crate::web::{beginning_of, said};

/// The number of bytes that are read of a refusal's body.
const REFUSAL_BYTES_MAX: usize = 8 * 1024;
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
        let to = response.headers().get(reqwest::header::LOCATION);
        let to = to.and_then(|to| to.to_str().ok()).and_then(|to| response.url().join(to).ok());
        let to = to.map_or_else(String::new, |to| format!(" to {}", to.origin().ascii_serialization()));
        return NoResponse::NotReached(format!(
            "it redirects{to} (HTTP {}), which is not followed; write its present address into the entry",
            status.as_u16()
        ));
    }
    let (body, is_whole) =
        tokio::time::timeout(REFUSAL, beginning_of(response, REFUSAL_BYTES_MAX)).await.unwrap_or_default();
    let json = serde_json::from_slice::<serde_json::Value>(&body);
    let is_error =
        json.as_ref().is_ok_and(|value| value.get("error").is_some_and(serde_json::Value::is_object));
    let said = match json {
        Ok(value) => value.pointer("/error/message").and_then(|message| message.as_str()).map(str::to_owned),
        Err(_) if body.trim_ascii_start().starts_with(b"<") => None,
        Err(_) if is_whole => Some(String::from_utf8_lossy(&body).into_owned()),
        Err(_) => Some(redaction.beginning(&body)),
    };
    let said = said.map(|said| redaction.text(said));
    let said = said.map(|said| text::inert_line(&text::bounded(said.trim(), 300)));
    let said = said.filter(|said| !said.is_empty()).map_or_else(String::new, |said| format!(": {said}"));
    let reason = format!("HTTP {status}{said}");
    match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => NoResponse::NotAllowed(reason),
        status if status.is_client_error() => {
            NoResponse::Refused { status: status.as_u16(), reason, error: is_error.then_some(body) }
        }
        _ => NoResponse::Broken(reason),
    }
}
