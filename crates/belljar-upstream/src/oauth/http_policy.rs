//! Requests to authorization servers and for their metadata: bounded, and only to allowed addresses.
//!
//! The metadata of a server are not trusted: they must not make this machine send requests to its own services, or send
//! anything unencrypted.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use reqwest::redirect::Policy;
use rmcp::transport::auth::{
    OAuthHttpClient, OAuthHttpClientFuture, OAuthHttpRedirectPolicy, OAuthHttpRequest,
};
use serde::Deserialize;
use url::Url;

use super::dpop::{DpopKey, Nonces};
use crate::web::{builder, followed, is_loopback, said, written_type};

/// The largest response, in bytes.
const ANSWER_BYTES_MAX: usize = 256 * 1024;
/// The longest time for one request.
const REQUEST: Duration = Duration::from_secs(15);

/// Sends requests on behalf of one server.
#[derive(Clone)]
pub(super) struct HttpPolicy {
    /// Whether the server is on this machine. Only then may it name other servers on this machine.
    is_here: bool,
    /// The address at which rmcp's requests carry proofs.
    dpop_address: Arc<OnceLock<DpopAddress>>,
}

/// An address whose requests carry DPoP proofs.
struct DpopAddress {
    url: Url,
    key: Arc<DpopKey>,
    nonces: Arc<Nonces>,
}

/// The key and the nonces that proofs are made of.
#[derive(Clone, Copy)]
pub(super) struct Prover<'a> {
    pub(super) key: &'a DpopKey,
    pub(super) nonces: &'a Nonces,
}

#[derive(Deserialize)]
struct Refusal {
    error: String,
}

/// The treatment of redirects.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Redirects {
    /// A redirect is a response like any other.
    Stay,
    /// A redirect is followed within its origin.
    WithinOrigin,
}

impl HttpPolicy {
    pub(super) fn of(server: &Url) -> Self {
        Self { is_here: is_loopback(server), dpop_address: Arc::default() }
    }

    /// Makes rmcp's requests to this address carry proofs.
    pub(super) fn prove_at(&self, url: Url, key: Arc<DpopKey>, nonces: Arc<Nonces>) {
        self.dpop_address.get_or_init(|| DpopAddress { url, key, nonces });
    }

    /// Checks whether requests may be sent to the address, or the user's browser opened there.
    pub(super) fn check(&self, url: &Url) -> Result<(), String> {
        let origin = url.origin().ascii_serialization();
        match url.scheme() {
            "http" | "https" if is_loopback(url) && !self.is_here => {
                Err(format!("{origin} is an address of this machine, which only a server on it may name"))
            }
            "https" => Ok(()),
            "http" if is_loopback(url) => Ok(()),
            "http" => Err(format!("{origin} is http, not https: whoever is on the way could take the login")),
            scheme => Err(format!("an address must be https, not {scheme}")),
        }
    }

    /// Sends a request as [`Self::ask`] does, with a proof if there is a key. It is sent once more if the server only
    /// wants a nonce in the proof.
    pub(super) async fn ask_proving(
        &self,
        mut request: reqwest::Request,
        prover: Option<Prover<'_>>,
    ) -> Result<http::Response<Vec<u8>>, String> {
        let Some(Prover { key, nonces }) = prover else { return self.ask(request, Redirects::Stay).await };
        let (url, again) = (request.url().clone(), request.try_clone());
        let used = key.prove(&mut request, nonces, None)?;
        let response = self.ask(request, Redirects::Stay).await?;
        nonces.note(&url, response.headers());
        let wants_nonce = || {
            serde_json::from_slice(response.body()).is_ok_and(|Refusal { error }| error == "use_dpop_nonce")
        };
        match again {
            Some(mut again)
                if !response.status().is_success() && wants_nonce() && nonces.of(&url) != used =>
            {
                key.prove(&mut again, nonces, None)?;
                let response = self.ask(again, Redirects::Stay).await?;
                nonces.note(&url, response.headers());
                Ok(response)
            }
            _ => Ok(response),
        }
    }

    /// Sends a request, and returns the whole response.
    pub(super) async fn ask(
        &self,
        request: reqwest::Request,
        redirects: Redirects,
    ) -> Result<http::Response<Vec<u8>>, String> {
        self.check(request.url())?;
        let policy = match redirects {
            Redirects::Stay => Policy::none(),
            Redirects::WithinOrigin => Policy::custom(followed),
        };
        let client = builder(request.url())?.redirect(policy).timeout(REQUEST).build().map_err(said)?;
        let mut response = client.execute(request).await.map_err(said)?;
        let mut whole = http::Response::builder().status(response.status());
        for (name, value) in response.headers() {
            whole = whole.header(name, value);
        }
        let mut body = Vec::new();
        // An MCP server that is asked at its own address may begin an endless stream, so the body of a stream is not
        // read.
        if !written_type(&response).starts_with("text/event-stream") {
            while let Some(chunk) = response.chunk().await.map_err(said)? {
                if body.len() + chunk.len() > ANSWER_BYTES_MAX {
                    return Err(format!("its answer has more than {ANSWER_BYTES_MAX} bytes"));
                }
                body.extend_from_slice(&chunk);
            }
        }
        whole.body(body).map_err(|error| error.to_string())
    }
}

impl OAuthHttpClient for HttpPolicy {
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        Box::pin(async move {
            let redirects = match request.redirect_policy {
                OAuthHttpRedirectPolicy::Follow => Redirects::WithinOrigin,
                _ => Redirects::Stay,
            };
            let request = reqwest::Request::try_from(request.request)?;
            match self.dpop_address.get() {
                Some(DpopAddress { url, key, nonces }) if url == request.url() => {
                    Ok(self.ask_proving(request, Some(Prover { key, nonces })).await?)
                }
                _ => Ok(self.ask(request, redirects).await?),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_names_is_asked_over_https_and_this_machine_only_for_a_server_on_it() {
        let verdict = |server: &str, named: &str| {
            HttpPolicy::of(&server.parse().unwrap()).check(&named.parse().unwrap()).err().unwrap_or_default()
        };
        let (far, here) = ("https://mcp.test/mcp", "http://127.0.0.1:8000/mcp");
        assert_eq!(verdict(far, "https://auth.test/token"), "");
        assert_eq!(verdict(here, "http://localhost:9000/token"), "");
        assert_eq!(verdict(here, "https://auth.test/token"), "");
        for named in
            ["http://127.0.0.1:6379/", "https://[::1]/token", "http://localhost/", "https://127.0.0.1"]
        {
            assert!(verdict(far, named).contains("is an address of this machine"), "{named}");
        }
        for server in [far, here] {
            assert!(verdict(server, "http://auth.test/token").contains("is http, not https"));
            assert_eq!(verdict(server, "file:///etc/passwd"), "an address must be https, not file");
            assert_eq!(verdict(server, "javascript:alert(1)"), "an address must be https, not javascript");
        }
    }
}
