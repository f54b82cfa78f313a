//! HTTP out of the bridge: one way of trust, of redirects and of saying what went wrong, for all who ask somebody there.
//!
//! It sends nothing itself, and repeats no address, which may hold a secret.

use std::net::IpAddr;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use reqwest::header::CONTENT_TYPE;
use reqwest::redirect::Attempt;
use reqwest::{Client, ClientBuilder, Response, StatusCode};
use rustls::ClientConfig;
use rustls_platform_verifier::BuilderVerifierExt;
use url::{Host, Url};

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(10);
/// Redirects that are followed, all within the origin.
const REDIRECTS_MAX: usize = 3;

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

/// What every client for an address has.
///
/// # Errors
/// When the system has no certificates.
pub fn builder(url: &Url) -> Result<ClientBuilder, String> {
    let builder = Client::builder()
        .user_agent(concat!("belljar/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT)
        .tls_backend_preconfigured(TLS.clone()?);
    // A proxy would be told the secrets of what runs on this machine, and could not reach it.
    Ok(if is_loopback(url) { builder.no_proxy() } else { builder })
}

/// The methods and bodies stay only with 307 and 308; the headers are for the origin only.
pub fn followed(attempt: Attempt<'_>) -> reqwest::redirect::Action {
    let keeps_body =
        matches!(attempt.status(), StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT);
    let within = attempt.previous().first().is_some_and(|first| first.origin() == attempt.url().origin());
    if keeps_body && within && attempt.previous().len() <= REDIRECTS_MAX {
        attempt.follow()
    } else {
        attempt.stop()
    }
}

/// A reply's body up to some bytes, and whether that is all.
pub async fn beginning_of(mut response: Response, bytes_max: usize) -> (Vec<u8>, bool) {
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

/// The media type of a response in lower case, without parameters; empty if it has none.
pub fn media_type(response: &Response) -> String {
    written_type(response).split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// The media type as the server has written it, for an error: credentials in it can still be recognised.
pub fn written_type(response: &Response) -> String {
    let named = response.headers().get(CONTENT_TYPE).and_then(|named| named.to_str().ok());
    named.unwrap_or_default().to_owned()
}

/// Its words with those of its causes, without the address, which may hold a secret.
pub fn said(error: reqwest::Error) -> String {
    with_causes(&error.without_url())
}

/// The words of an error with those of its causes.
pub fn with_causes(error: &dyn std::error::Error) -> String {
    let mut said = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        said = format!("{said}: {error}");
        cause = error.source();
    }
    said
}

/// Whether the address is one of this machine.
pub fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => {
            let name = name.strip_suffix('.').unwrap_or(name);
            name == "localhost" || name.ends_with(".localhost")
        }
        Some(Host::Ipv4(address)) => is_of_here(address.into()),
        Some(Host::Ipv6(address)) => is_of_here(address.to_canonical()),
        None => false,
    }
}

/// The address that stands for all of a machine leads to this one, when it is connected to.
fn is_of_here(address: IpAddr) -> bool {
    address.is_loopback() || address.is_unspecified()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_this_machine_is_known() {
        for host in [
            "127.0.0.1",
            "127.1",
            "2130706433",
            "0.0.0.0",
            "0",
            "localhost",
            "localhost.",
            "a.LOCALHOST",
            "[::1]",
            "[::]",
            "[::ffff:127.0.0.1]",
            "[::ffff:0.0.0.0]",
        ] {
            assert!(is_loopback(&Url::parse(&format!("https://{host}:8/x")).unwrap()), "{host}");
        }
        for host in ["example.com", "localhost.example.com", "128.0.0.1", "[::2]", "[::ffff:8.8.8.8]"] {
            assert!(!is_loopback(&Url::parse(&format!("https://{host}:8/x")).unwrap()), "{host}");
        }
    }
}
