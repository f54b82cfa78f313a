//! Asking an authorization server at its token endpoint: for the next token, and to revoke one.
//!
//! The first token is none of its business; `login` gets that.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use reqwest::{Method, StatusCode};
use serde::{Deserialize, Serialize};
use url::{Url, form_urlencoded};

use super::asking::Asking;
use super::login_file::{Login, now};
use crate::text;

/// A token is renewed so many seconds before it ends, or in the last quarter of a shorter life.
const MARGIN_S: u64 = 60;
/// Longest life of a token that is believed.
const LIFE_MAX_S: u64 = 10 * 365 * 86_400;

/// By whom, to whom and for what a token was given. Holds a secret, so it has no `Debug`.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Grant {
    /// The authorization server, as it names itself.
    pub(super) issuer: Option<String>,
    pub(super) token_endpoint: Url,
    pub(super) revocation_endpoint: Option<Url>,
    /// What the token is for, in the server's own words.
    pub(super) resource: Option<String>,
    /// What the token allows, as far as that is known.
    #[serde(default)]
    pub(super) scopes: Vec<String>,
    pub(super) client: Registered,
}

/// What we are to the authorization server.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Registered {
    pub(super) id: String,
    pub(super) secret: Option<String>,
    /// Where the secret goes.
    pub(super) secret_in: SecretIn,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum SecretIn {
    Header,
    Body,
}

/// What a token endpoint answers. Holds secrets, so it has no `Debug`.
#[derive(Deserialize)]
pub(super) struct Granted {
    access_token: String,
    refresh_token: Option<String>,
    expires_in: Option<u64>,
    token_type: String,
    /// What it allows, where that is not what was asked for.
    scope: Option<String>,
}

#[derive(Deserialize)]
struct Declined {
    error: String,
}

/// Why there is no next token.
pub(super) enum NotRenewed {
    /// The authorization server takes the refresh token no more.
    Ended,
    /// It may work later.
    Failed(String),
}

impl Granted {
    /// The token as it is kept; a refresh token that is not replaced goes on.
    pub(super) fn login(
        self,
        server: Url,
        mut grant: Grant,
        before: Option<String>,
    ) -> Result<Login, String> {
        if let Some(scope) = &self.scope {
            grant.scopes = scope.split_whitespace().map(str::to_owned).collect();
        }
        if !self.token_type.eq_ignore_ascii_case("bearer") {
            let kind = text::inert_excerpt(&self.token_type, 40);
            return Err(format!("it gives tokens of the type {kind:?}, not bearer tokens"));
        }
        if HeaderValue::from_str(&self.access_token).is_err() || self.access_token.is_empty() {
            return Err("it gives a token that no header can hold".into());
        }
        let life = self.expires_in.map(|life| life.min(LIFE_MAX_S));
        let (now, margin) = (now(), |life: u64| MARGIN_S.min(life / 4));
        Ok(Login {
            server,
            grant,
            access_token: self.access_token,
            refresh_token: self.refresh_token.filter(|token| !token.is_empty()).or(before),
            ends: life.map(|life| now + life),
            renew_from: life.map(|life| now + life - margin(life)),
        })
    }
}

/// The login after this one.
pub(super) async fn renewed(asking: &Asking, login: &Login) -> Result<Login, NotRenewed> {
    let Some(refresh) = &login.refresh_token else { return Err(NotRenewed::Ended) };
    let mut form = vec![("grant_type", "refresh_token"), ("refresh_token", refresh)];
    form.extend(login.grant.resource.as_deref().map(|resource| ("resource", resource)));
    let asked = ask(asking, &login.grant.token_endpoint, &login.grant.client, form).await;
    let (status, body) = asked.map_err(NotRenewed::Failed)?;
    if status.is_success() {
        let granted: Granted = serde_json::from_slice(&body)
            .map_err(|_| NotRenewed::Failed("the authorization server's answer was no token".into()))?;
        let next = granted.login(login.server.clone(), login.grant.clone(), Some(refresh.clone()));
        return next.map_err(|reason| NotRenewed::Failed(format!("of the authorization server: {reason}")));
    }
    let declined: Option<Declined> = serde_json::from_slice(&body).ok();
    match declined {
        Some(Declined { error }) if matches!(error.as_str(), "invalid_grant" | "invalid_client") => {
            Err(NotRenewed::Ended)
        }
        _ => Err(NotRenewed::Failed(format!("the authorization server answered HTTP {status}"))),
    }
}

/// Has the authorization server forget the tokens; says whether it could be told.
pub(super) async fn revoked(asking: &Asking, login: &Login) -> Result<(), String> {
    let Some(endpoint) = &login.grant.revocation_endpoint else {
        return Err("it has no place to revoke it".into());
    };
    let refresh = login.refresh_token.iter().map(|token| (token.as_str(), "refresh_token"));
    let tokens = refresh.chain([(login.access_token.as_str(), "access_token")]);
    let mut told = Ok(());
    for (token, kind) in tokens {
        let form = vec![("token", token), ("token_type_hint", kind)];
        let (status, _) = ask(asking, endpoint, &login.grant.client, form).await?;
        if !status.is_success() {
            told = Err(format!("it answered HTTP {status}"));
        }
    }
    told
}

async fn ask(
    asking: &Asking,
    endpoint: &Url,
    client: &Registered,
    mut form: Vec<(&str, &str)>,
) -> Result<(StatusCode, Vec<u8>), String> {
    let mut authorization = None;
    match (&client.secret, client.secret_in) {
        (Some(secret), SecretIn::Header) => {
            let coded = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
            let basic = STANDARD.encode(format!("{}:{}", coded(&client.id), coded(secret)));
            authorization = HeaderValue::from_str(&format!("Basic {basic}")).ok();
        }
        (Some(secret), SecretIn::Body) => {
            form.extend([("client_id", client.id.as_str()), ("client_secret", secret)])
        }
        (None, _) => form.push(("client_id", &client.id)),
    }
    let mut request = reqwest::Request::new(Method::POST, endpoint.clone());
    let kind = HeaderValue::from_static("application/x-www-form-urlencoded");
    request.headers_mut().insert(CONTENT_TYPE, kind);
    // Some answer with a form unless they are asked for JSON.
    request.headers_mut().insert(ACCEPT, HeaderValue::from_static("application/json"));
    if let Some(mut basic) = authorization {
        basic.set_sensitive(true);
        request.headers_mut().insert(AUTHORIZATION, basic);
    }
    let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish();
    *request.body_mut() = Some(body.into());
    let response = asking.ask(request, super::asking::Redirects::Stay).await?;
    Ok((response.status(), response.into_body()))
}
