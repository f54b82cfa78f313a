//! Sends requests to one remote server with its login, which is renewed once if the server refuses it.

use std::sync::Arc;

use reqwest::header::{AUTHORIZATION, HeaderValue};
use reqwest::{Client, Method, Request, RequestBuilder, Response, StatusCode};
use url::Url;

use super::refusal::{not_sent, refusal, said_in};
use crate::no_response::NoResponse;
use crate::oauth::{Challenge, Token, TokenCache};
use crate::redaction::Redaction;

/// The longest scope that is requested, in bytes.
const SCOPE_BYTES_MAX: usize = 200;

/// Sends requests to one origin.
pub(super) struct Requests {
    client: Client,
    /// The login; `None` if the user has configured credentials.
    access: Option<Arc<TokenCache>>,
    redaction: Redaction,
}

impl Requests {
    pub(super) fn new(client: Client, access: Option<Arc<TokenCache>>, redaction: Redaction) -> Self {
        Self { client, access, redaction }
    }

    /// The words of a server in a body that is no answer, to follow an error's text.
    pub(super) fn said_in(&self, body: &[u8]) -> String {
        said_in((body, true), &self.redaction)
    }

    pub(super) fn to(&self, method: Method, url: Url) -> RequestBuilder {
        self.client.request(method, url)
    }

    /// Sends a request. The outer error: there is no response. The inner error: the response is a refusal. A request
    /// that was refused for its token had no effect, so it is sent once more with a newer token.
    pub(super) async fn send(
        &self,
        request: RequestBuilder,
    ) -> Result<Result<Response, NoResponse>, NoResponse> {
        let Some(access) = &self.access else {
            let response = request.send().await.map_err(not_sent)?;
            return Ok(if response.status().is_success() {
                Ok(response)
            } else {
                Err(refusal(response, &self.redaction).await)
            });
        };
        let request = request.build().map_err(not_sent)?;
        let again = request.try_clone();
        let mut token = access.token().await;
        let mut response = self.sent(access, request, token.as_ref()).await?;
        if response.status() == StatusCode::UNAUTHORIZED
            && let Some(again) = again
        {
            let challenge = Challenge::all(response.headers(), response.url()).into_iter().next();
            let refused = token.as_ref().map(|token| token.text.as_str());
            if let Some(newer) = access.after_refusal(refused, challenge).await {
                response = self.sent(access, again, Some(&newer)).await?;
                token = Some(newer);
            }
        }
        if response.status().is_success() {
            return Ok(Ok(response));
        }
        let wants_login = wants_login(&response, token.is_some() || access.is_service());
        // A scope that contains a secret is not shown.
        let is_clean = |scope: &String| self.redaction.text(scope.clone()) == *scope;
        let wants_login = wants_login.map(|scope| scope.filter(is_clean));
        let is_forbidden = response.status() == StatusCode::FORBIDDEN;
        Ok(Err(match (refusal(response, &self.redaction).await, wants_login) {
            (NoResponse::NotAllowed(said), Some(scope)) if access.is_service() => {
                NoResponse::LoginFailed(match (is_forbidden, scope) {
                    (true, Some(scope)) => {
                        format!("its token lacks the scope {scope}, for login.scopes: {said}")
                    }
                    (true, None) => format!("its token lacks a scope: {said}"),
                    (false, _) => format!("{}: {said}", access.not_served()),
                })
            }
            (NoResponse::NotAllowed(said), Some(scope)) => {
                let reason = match token {
                    Some(_) => format!("{}: {said}", access.not_renewed()),
                    None => format!("{}: {said}", access.missing()),
                };
                NoResponse::NeedsLogin { reason, scope }
            }
            (lost, _) => lost,
        }))
    }

    /// Sends a request with this token, and once more if the server wants its own nonce in the proof.
    async fn sent(
        &self,
        access: &TokenCache,
        mut request: Request,
        token: Option<&Token>,
    ) -> Result<Response, NoResponse> {
        let Some(token) = token else { return self.client.execute(request).await.map_err(not_sent) };
        let header = HeaderValue::from_str(&format!("{} {}", token.scheme().name(), token.text));
        let mut header = header.map_err(|_| NoResponse::NotReached("its token is no header".into()))?;
        header.set_sensitive(true);
        request.headers_mut().insert(AUTHORIZATION, header);
        let Some(key) = &token.key else { return self.client.execute(request).await.map_err(not_sent) };
        let again = request.try_clone();
        let (nonces, unproved) = (access.nonces(), |why: &str| NoResponse::NotReached(why.to_owned()));
        let used = key.prove(&mut request, nonces, Some(&token.text)).map_err(unproved)?;
        let response = self.client.execute(request).await.map_err(not_sent)?;
        nonces.note(response.url(), response.headers());
        let wants_nonce = || {
            let challenges = Challenge::all(response.headers(), response.url());
            challenges.iter().any(Challenge::wants_nonce) && nonces.of(response.url()) != used
        };
        match again {
            Some(mut again) if response.status() == StatusCode::UNAUTHORIZED && wants_nonce() => {
                key.prove(&mut again, nonces, Some(&token.text)).map_err(unproved)?;
                let response = self.client.execute(again).await.map_err(not_sent)?;
                nonces.note(response.url(), response.headers());
                Ok(response)
            }
            _ => Ok(response),
        }
    }
}

/// `Some` if a login would help, with the scope that the login must have if the server names one.
fn wants_login(response: &Response, has_login: bool) -> Option<Option<String>> {
    let challenges = Challenge::all(response.headers(), response.url());
    let scope = |challenge: Challenge| challenge.scope.filter(|scope| is_plain(scope));
    match response.status() {
        StatusCode::UNAUTHORIZED => match challenges.into_iter().next() {
            Some(challenge) => Some(scope(challenge)),
            None => has_login.then_some(None),
        },
        StatusCode::FORBIDDEN => challenges.into_iter().find(Challenge::is_insufficient_scope).map(scope),
        _ => None,
    }
}

/// Whether the scope may become part of a command for the user.
fn is_plain(scope: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b":/._- ".contains(&byte);
    scope.len() <= SCOPE_BYTES_MAX
        && scope.bytes().all(is_plain)
        && !scope.starts_with('-')
        && !scope.contains(" -")
}
