//! Makes logins from the responses of token endpoints, renews their tokens, and revokes them.

use belljar_base::clock;
use belljar_base::text;
use reqwest::header::HeaderValue;
use serde::Deserialize;
use url::Url;

use super::dpop::{DpopKey, Nonces};
use super::http_policy::{HttpPolicy, Prover};
use super::token_endpoint::{Authentication, Failure, TokenEndpoint};
use crate::login_file::{ClientRegistration, Grant, Login, SecretIn};

/// A token is renewed this many seconds before it ends, or in the last quarter of its life if that is shorter.
const MARGIN_S: u64 = 60;
/// The longest life of a token, in seconds. A longer life counts as this one.
const LIFE_MAX_S: u64 = 10 * 365 * 86_400;

/// The response of a token endpoint. It holds secrets, so it has no `Debug`.
#[derive(Deserialize)]
pub(super) struct TokenResponse {
    access_token: String,
    refresh_token: Option<String>,
    expires_in: Option<u64>,
    token_type: String,
    /// The scope of the token, if it differs from the requested one.
    scope: Option<String>,
}

/// The key that a token must be bound to, if any.
#[derive(Clone, Copy)]
pub(super) struct Binding<'a> {
    /// The key that signed the proof of the request.
    pub(super) key: Option<&'a DpopKey>,
    /// Whether a bearer token is refused.
    pub(super) is_required: bool,
}

/// The reason for which a token was not renewed.
pub(super) enum RenewalError {
    /// The authorization server no longer accepts the refresh token.
    Ended,
    /// The renewal failed, and may succeed later.
    Failed(String),
}

impl ClientRegistration {
    pub(super) fn authentication(&self) -> Authentication<'_> {
        match (&self.secret, self.secret_in) {
            (Some(secret), SecretIn::Header) => Authentication::Basic(&self.id, secret),
            (Some(secret), SecretIn::Body) => Authentication::Post(&self.id, secret),
            (None, _) => Authentication::Id(&self.id),
        }
    }
}

impl TokenResponse {
    /// Reads the response of a token endpoint.
    pub(super) fn read(body: &[u8]) -> Result<Self, String> {
        // serde's message would quote the response.
        serde_json::from_slice(body).map_err(|_| "the authorization server's answer was no token".into())
    }

    /// Makes a login of the response. Without a new refresh token, the earlier one (`before`) stays.
    pub(super) fn login(
        self,
        server: Url,
        mut grant: Grant,
        before: Option<String>,
        binding: Binding<'_>,
    ) -> Result<Login, String> {
        if let Some(scope) = &self.scope {
            grant.scopes = scope.split_whitespace().map(str::to_owned).collect();
        }
        let is = |kind: &str| self.token_type.eq_ignore_ascii_case(kind);
        let dpop_key = match binding {
            Binding { key: Some(key), .. } if is("dpop") => Some(key.stored().to_owned()),
            Binding { is_required: true, .. } if is("bearer") => {
                return Err(
                    "it gives bearer tokens only, where tokens bound to a key (DPoP) are required".into()
                );
            }
            _ if is("bearer") => None,
            _ => {
                let kind = text::inert_line(&self.token_type);
                return Err(format!("it gives tokens of the type {kind:?}, which belljar did not ask for"));
            }
        };
        if HeaderValue::from_str(&self.access_token).is_err() || self.access_token.is_empty() {
            return Err("it gives a token that no header can hold".into());
        }
        let life = self.expires_in.map(|life| life.min(LIFE_MAX_S));
        let (now, margin) = (clock::unix_seconds(), |life: u64| MARGIN_S.min(life / 4));
        Ok(Login {
            server,
            grant,
            access_token: self.access_token,
            refresh_token: self.refresh_token.filter(|token| !token.is_empty()).or(before),
            ends: life.map(|life| now + life),
            renew_from: life.map(|life| now + life - margin(life)),
            dpop_key,
            service: None,
        })
    }
}

/// Renews the login.
pub(super) async fn renewed(
    asking: &HttpPolicy,
    login: &Login,
    (key, nonces): (Option<&DpopKey>, &Nonces),
) -> Result<Login, RenewalError> {
    let Some(refresh) = &login.refresh_token else { return Err(RenewalError::Ended) };
    let mut form = vec![("grant_type", "refresh_token".into()), ("refresh_token", refresh.into())];
    form.extend(login.grant.resource.as_ref().map(|resource| ("resource", resource.into())));
    let prover = key.map(|key| Prover { key, nonces });
    let endpoint = TokenEndpoint { asking, url: &login.grant.token_endpoint, prover };
    match endpoint.ask(login.grant.client.authentication(), form).await {
        Ok(body) => {
            let response = TokenResponse::read(&body).map_err(RenewalError::Failed)?;
            let binding = Binding { key, is_required: key.is_some() };
            let next =
                response.login(login.server.clone(), login.grant.clone(), Some(refresh.clone()), binding);
            next.map_err(|reason| RenewalError::Failed(format!("of the authorization server: {reason}")))
        }
        Err(Failure::Refused { error: Some(error), .. })
            if matches!(error.as_str(), "invalid_grant" | "invalid_client") =>
        {
            Err(RenewalError::Ended)
        }
        Err(failure) => Err(RenewalError::Failed(failure.to_string())),
    }
}

/// Revokes the tokens. The error tells why the authorization server could not be notified.
pub(super) async fn revoked<'a>(
    asking: &HttpPolicy,
    login: &Login,
    authentication: impl Fn() -> Result<Authentication<'a>, String>,
) -> Result<(), String> {
    let Some(url) = &login.grant.revocation_endpoint else {
        return Err("it has no place to revoke it".into());
    };
    let refresh = login.refresh_token.iter().map(|token| (token.as_str(), "refresh_token"));
    let tokens = refresh.chain([(login.access_token.as_str(), "access_token")]);
    let mut told = Ok(());
    for (token, kind) in tokens {
        let form = vec![("token", token.into()), ("token_type_hint", kind.into())];
        let endpoint = TokenEndpoint { asking, url, prover: None };
        match endpoint.ask(authentication()?, form).await {
            Ok(_) => {}
            Err(Failure::Other(reason)) => return Err(reason),
            Err(Failure::Refused { status, .. }) => told = Err(format!("it answered HTTP {status}")),
        }
    }
    told
}
