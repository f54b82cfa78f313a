//! Asks a remote server whether it wants a login.

use std::time::Duration;

use reqwest::StatusCode;
use reqwest::header::{ACCEPT, CONTENT_TYPE};
use serde_json::{Value, json};

use super::challenge::{Challenge, Scheme};
use crate::http_client::http_client;
use crate::web::{beginning_of, media_type, said};
use crate::{RemoteSpec, RemoteTransport};

/// The longest wait for the answer.
const PROBE: Duration = Duration::from_secs(10);

/// The largest answer that is read, in bytes.
const BODY_BYTES_MAX: usize = 1 << 20;

/// The answer of a server to a request without a login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProbeResult {
    /// The server answers in MCP, perhaps with an error.
    Open,
    /// The server answers something else.
    Other(String),
    /// The server requires credentials.
    Wants {
        /// The text of its challenge for tokens, if it has one.
        challenge: Option<String>,
        /// Whether the challenge wants tokens that are bound to a key (DPoP).
        is_bound: bool,
    },
}

/// Sends the first request of a session, without a login.
///
/// # Errors
/// The reason why there was no answer. It does not contain the address, which may hold a secret.
pub async fn probe(spec: &RemoteSpec) -> Result<ProbeResult, String> {
    let client = http_client(spec)?;
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
        let challenge = Challenge::all(response.headers(), response.url()).into_iter().next();
        let is_bound = challenge.as_ref().is_some_and(|challenge| challenge.scheme == Scheme::Dpop);
        return Ok(ProbeResult::Wants { challenge: challenge.map(|challenge| challenge.text), is_bound });
    }
    let (status, kind) = (response.status(), media_type(&response));
    let is_older = matches!(status.as_u16(), 400 | 404 | 405) && spec.transport.is_none();
    if let Some(session) = response.headers().get("mcp-session-id") {
        let ending = client.delete(spec.url.clone()).header("mcp-session-id", session.clone()).timeout(PROBE);
        if let Err(error) = ending.send().await {
            tracing::debug!(error = %error.without_url(), "the session of a probe could not be ended");
        }
    }
    let is_stream = status.is_success() && kind == "text/event-stream";
    let is_sse = spec.transport == Some(RemoteTransport::Sse);
    if is_stream || (!is_sse && is_json_rpc(&beginning_of(response, BODY_BYTES_MAX).await.0)) {
        return Ok(ProbeResult::Open);
    }
    if is_older {
        let spec = RemoteSpec { transport: Some(RemoteTransport::Sse), ..spec.clone() };
        let older = Box::pin(probe(&spec)).await;
        if !matches!(older, Ok(ProbeResult::Other(_)) | Err(_)) {
            return older;
        }
    }
    // Another type could repeat a credential of the request.
    let is_common = ["application/json", "text/html", "text/plain"].contains(&kind.as_str());
    let kind = if status.is_success() && is_common { format!(" with {kind}") } else { String::new() };
    Ok(ProbeResult::Other(format!("it answers HTTP {status}{kind}, not MCP")))
}

/// Whether the body is a JSON-RPC message. An error counts too: a server of MCP may not know `initialize`.
fn is_json_rpc(body: &[u8]) -> bool {
    serde_json::from_slice::<Value>(body).is_ok_and(|body| body["jsonrpc"] == "2.0")
}

fn beginning() -> String {
    let client = json!({"name": "belljar", "version": env!("CARGO_PKG_VERSION")});
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
    json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}).to_string()
}
