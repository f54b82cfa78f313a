//! Asking a remote server whether it wants a login.

use std::time::Duration;

use reqwest::header::{ACCEPT, CONTENT_TYPE, WWW_AUTHENTICATE};
use reqwest::{Response, StatusCode};
use serde_json::json;

use crate::upstream::http::{client, said};
use crate::upstream::{RemoteSpec, RemoteTransport};

/// How long it may take to answer.
const PROBE: Duration = Duration::from_secs(10);

/// What a server makes of a request without a login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Probed {
    /// It takes it, or refuses it for something else.
    Open,
    /// It wants credentials.
    Wants {
        /// How it says so, where it names the scheme of tokens.
        challenge: Option<String>,
    },
}

/// Sends the beginning of a session, without a login.
///
/// # Errors
/// Why it was not answered; without the address, which may hold a secret.
pub async fn probe(spec: &RemoteSpec) -> Result<Probed, String> {
    let client = client(spec)?;
    let request = match spec.transport {
        Some(RemoteTransport::Sse) => client.get(spec.url.clone()).header(ACCEPT, "text/event-stream"),
        Some(RemoteTransport::Streamable) | None => client
            .post(spec.url.clone())
            .header(ACCEPT, "application/json, text/event-stream")
            .header(CONTENT_TYPE, "application/json")
            .body(beginning()),
    };
    let response = request.timeout(PROBE).send().await.map_err(said)?;
    if response.status() == StatusCode::UNAUTHORIZED {
        return Ok(Probed::Wants { challenge: bearer(&response) });
    }
    let older = matches!(response.status().as_u16(), 400 | 404 | 405);
    if older && spec.transport.is_none() {
        let spec = RemoteSpec { transport: Some(RemoteTransport::Sse), ..spec.clone() };
        return Box::pin(probe(&spec)).await;
    }
    if let Some(session) = response.headers().get("mcp-session-id") {
        let ending = client.delete(spec.url.clone()).header("mcp-session-id", session.clone()).timeout(PROBE);
        if let Err(error) = ending.send().await {
            tracing::debug!(error = %error.without_url(), "the session of a probe could not be ended");
        }
    }
    Ok(Probed::Open)
}

fn beginning() -> String {
    let client = json!({"name": "hotcell", "version": env!("CARGO_PKG_VERSION")});
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
    json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}).to_string()
}

fn bearer(response: &Response) -> Option<String> {
    let challenges =
        response.headers().get_all(WWW_AUTHENTICATE).iter().filter_map(|value| value.to_str().ok());
    let is_bearer =
        |challenge: &&str| challenge.get(..6).is_some_and(|scheme| scheme.eq_ignore_ascii_case("bearer"));
    challenges.filter(is_bearer).map(str::to_owned).next()
}
