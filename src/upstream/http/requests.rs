//! Requests to one remote server with the login that there is for it, renewed once when the server refuses it.

use std::sync::Arc;

use reqwest::header::{AUTHORIZATION, HeaderValue, WWW_AUTHENTICATE};
use reqwest::{Client, Method, RequestBuilder, Response, StatusCode};
use rmcp::transport::auth::WWWAuthenticateParams;
use url::Url;

use super::client::{not_sent, refusal};
use super::lines::Lost;
use crate::upstream::oauth::Access;
use crate::upstream::redaction::Redaction;

/// Longest scope that is asked for.
const SCOPE_BYTES_MAX: usize = 200;

/// Sends to one origin.
pub(super) struct Requests {
    client: Client,
    /// Nothing where the user has configured credentials.
    access: Option<Arc<Access>>,
    redaction: Redaction,
}

impl Requests {
    pub(super) fn new(client: Client, access: Option<Arc<Access>>, redaction: Redaction) -> Self {
        Self { client, access, redaction }
    }

    pub(super) fn to(&self, method: Method, url: Url) -> RequestBuilder {
        self.client.request(method, url)
    }

    /// The reply, or the refusal that it is; or why there is none. A request that was refused for its token is sent once
    /// more with a newer one: it was not worked on.
    pub(super) async fn send(&self, request: RequestBuilder) -> Result<Result<Response, Lost>, Lost> {
        let Some(access) = &self.access else {
            let response = request.send().await.map_err(not_sent)?;
            return Ok(if response.status().is_success() {
                Ok(response)
            } else {
                Err(refusal(response, &self.redaction).await)
            });
        };
        let again = request.try_clone();
        let token = access.token().await;
        let mut response = with(request, token.as_deref()).send().await.map_err(not_sent)?;
        if response.status() == StatusCode::UNAUTHORIZED
            && let (Some(refused), Some(again)) = (&token, again)
            && let Some(newer) = access.after_refusal(refused).await
        {
            response = with(again, Some(&newer)).send().await.map_err(not_sent)?;
        }
        if response.status().is_success() {
            return Ok(Ok(response));
        }
        let wants_login = wants_login(&response, token.is_some());
        Ok(Err(match (refusal(response, &self.redaction).await, wants_login) {
            (Lost::NotAllowed(said), Some(scope)) => {
                let reason = match token {
                    Some(_) => format!("{}: {said}", access.not_renewed()),
                    None => format!("{}: {said}", access.missing()),
                };
                Lost::NeedsLogin { reason, scope }
            }
            (lost, _) => lost,
        }))
    }
}

fn with(request: RequestBuilder, token: Option<&str>) -> RequestBuilder {
    let header = token.and_then(|token| HeaderValue::from_str(&format!("Bearer {token}")).ok());
    match header {
        Some(mut header) => {
            header.set_sensitive(true);
            request.header(AUTHORIZATION, header)
        }
        None => request,
    }
}

/// Whether a login would help, and the scope that it has to ask for when it must be another one.
fn wants_login(response: &Response, had_token: bool) -> Option<Option<String>> {
    let challenges =
        response.headers().get_all(WWW_AUTHENTICATE).iter().filter_map(|value| value.to_str().ok());
    let mut challenges = challenges
        .filter(|challenge| challenge.get(..6).is_some_and(|scheme| scheme.eq_ignore_ascii_case("bearer")));
    let parsed = |challenge: &str| WWWAuthenticateParams::parse(challenge, response.url());
    let scope = |challenge: WWWAuthenticateParams| challenge.scope.filter(|scope| is_plain(scope));
    match response.status() {
        StatusCode::UNAUTHORIZED => match challenges.next() {
            Some(challenge) => Some(scope(parsed(challenge))),
            None => had_token.then_some(None),
        },
        StatusCode::FORBIDDEN => {
            challenges.map(parsed).find(WWWAuthenticateParams::is_insufficient_scope).map(scope)
        }
        _ => None,
    }
}

/// It becomes part of a command that the user is to run.
fn is_plain(scope: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b":/._- ".contains(&byte);
    scope.len() <= SCOPE_BYTES_MAX
        && scope.bytes().all(is_plain)
        && !scope.starts_with('-')
        && !scope.contains(" -")
}
