//! The HTTP client of one remote server, and what is read of its replies.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::redirect::{Attempt, Policy};
use reqwest::{Client, ClientBuilder, Response, StatusCode};
use rustls::ClientConfig;
use rustls_platform_verifier::BuilderVerifierExt;
use url::{Host, Url};

use super::lines::Lost;
use crate::text;
use crate::upstream::RemoteSpec;
use crate::upstream::redaction::Redaction;

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(10);
/// Redirects that are followed, all within the origin.
const REDIRECTS_MAX: usize = 3;
/// Bytes of a refusal's body that are read.
const REFUSAL_BYTES_MAX: usize = 8 * 1024;
/// How long the body of a refusal is waited for.
const REFUSAL: Duration = Duration::from_secs(5);

/// How servers are trusted: as the system does. It is made once, since the system's certificates are many: a client each
/// that reads them would hold up the servers that are reached at the same time.
static TLS: LazyLock<Result<ClientConfig, String>> = LazyLock::new(|| {
    let cryptography = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(cryptography)
        .with_safe_default_protocol_versions()
        .and_then(BuilderVerifierExt::with_platform_verifier)
        .map_err(|error| format!("no certificates of the system can be used: {error}"))?;
    Ok(config.with_no_client_auth())
});

/// A client that sends the configured headers to the configured origin, and to no other.
pub(in crate::upstream) fn client(spec: &RemoteSpec) -> Result<Client, String> {
    let mut headers = HeaderMap::new();
    for (name, value) in &spec.headers {
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|error| error.to_string())?;
        let mut value = HeaderValue::from_str(value).map_err(|error| error.to_string())?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    builder(&spec.url)?.default_headers(headers).redirect(Policy::custom(followed)).build().map_err(said)
}

/// What every client for an address has.
///
/// # Errors
/// When the system has no certificates.
pub(in crate::upstream) fn builder(url: &Url) -> Result<ClientBuilder, String> {
    let builder = Client::builder()
        .user_agent(concat!("hotcell/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT)
        .tls_backend_preconfigured(TLS.clone()?);
    // A proxy would be told the secrets of what runs on this machine, and could not reach it.
    Ok(if is_loopback(url) { builder.no_proxy() } else { builder })
}

/// The methods and bodies stay only with 307 and 308; the headers are for the origin only.
pub(in crate::upstream) fn followed(attempt: Attempt<'_>) -> reqwest::redirect::Action {
    let keeps_body =
        matches!(attempt.status(), StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT);
    let within = attempt.previous().first().is_some_and(|first| first.origin() == attempt.url().origin());
    if keeps_body && within && attempt.previous().len() <= REDIRECTS_MAX {
        attempt.follow()
    } else {
        attempt.stop()
    }
}

/// Why a request that was sent has no reply.
pub(super) fn not_sent(error: reqwest::Error) -> Lost {
    if error.is_connect() || error.is_builder() {
        Lost::NotReached(said(error))
    } else {
        Lost::Broken(said(error))
    }
}

/// The reply as a refusal, with what it says; without secrets, which are taken out before anything is cut off.
pub(super) async fn refusal(response: Response, redaction: &Redaction) -> Lost {
    let status = response.status();
    if status.is_redirection() {
        let to = response.headers().get(reqwest::header::LOCATION);
        let to = to.and_then(|to| to.to_str().ok()).and_then(|to| response.url().join(to).ok());
        let to = to.map_or_else(String::new, |to| format!(" to {}", to.origin().ascii_serialization()));
        return Lost::NotReached(format!(
            "it redirects{to} (HTTP {}), which is not followed; write its present address into the entry",
            status.as_u16()
        ));
    }
    let (body, is_whole) =
        tokio::time::timeout(REFUSAL, beginning_of(response, REFUSAL_BYTES_MAX)).await.unwrap_or_default();
    let said = match serde_json::from_slice::<serde_json::Value>(&body) {
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
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Lost::NotAllowed(reason),
        status if status.is_client_error() => Lost::Refused { status: status.as_u16(), reason },
        _ => Lost::Broken(reason),
    }
}

/// A reply's body up to some bytes, and whether that is all.
pub(in crate::upstream) async fn beginning_of(mut response: Response, bytes_max: usize) -> (Vec<u8>, bool) {
    let mut body = Vec::new();
    while body.len() < bytes_max {
        match response.chunk().await {
            Ok(Some(chunk)) => {
                body.extend_from_slice(&chunk[..chunk.len().min(bytes_max)]);
            }
            Ok(None) => return (body, true),
            Err(_) => break,
        }
    }
    (body, false)
}

/// Its words with those of its causes, without the address, which may hold a secret.
pub(in crate::upstream) fn said(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut said = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(error) = cause {
        said = format!("{said}: {error}");
        cause = error.source();
    }
    said
}

/// Whether the address is one of this machine.
pub(in crate::upstream) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}
