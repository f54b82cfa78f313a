//! One login of the user: finds the authorization server, has the user's browser log in there, and stores the result.
//!
//! rmcp implements the RFCs for discovery, registration, PKCE and issuers. This module calls it, and checks everything
//! that it finds.

use std::sync::Arc;
use std::time::Duration;

use belljar_base::secret::{Secret, replaced_in};
use belljar_base::text;
use rmcp::transport::auth::{AuthError, AuthorizationManager, AuthorizationMetadata, OAuthClientConfig};
use url::Url;

use super::callback::{Callback, of};
use super::discovery::ServerMetadata;
use super::dpop::{DpopKey, Nonces};
use super::grant::{Binding, TokenResponse};
use super::http_policy::HttpPolicy;
use super::probe::{ProbeResult, probe};
use super::token_endpoint::spellings;
use crate::login_file::{ClientRegistration, Grant, LoginFile, SecretIn};
use crate::secrets::Secrets;
use crate::web::{is_loopback, with_causes};
use crate::{RemoteSpec, ServerTransport};

/// The time that the user has to log in.
const USER: Duration = Duration::from_secs(5 * 60);
/// The longest time to find the authorization server.
const DISCOVERY: Duration = Duration::from_secs(60);
/// The longest text of a server that is repeated, in characters.
const SAID_CHARS_MAX: usize = 300;

/// A client that was registered by hand. It holds a secret, so it has no `Debug`.
pub struct Client {
    /// Its id at the authorization server.
    pub id: String,
    /// Its secret, if it has one.
    pub secret: Option<String>,
}

/// A request for a login. It may hold secrets, so it has no `Debug`.
pub struct LoginRequest {
    /// The server.
    pub remote: RemoteSpec,
    /// Further values to redact, each with the name that replaces it.
    pub secrets: Vec<(String, String)>,
    /// The file for the login.
    pub file: LoginFile,
    /// Scopes to request in addition to those of the present login; empty: those that the server names.
    pub scopes: Vec<String>,
    /// The client; `None`: one is registered.
    pub client: Option<Client>,
    /// The token endpoint that the user has named, if any.
    pub token_endpoint: Option<String>,
    /// Whether a token that is bound to no key is refused.
    pub requires_dpop: bool,
}

/// A login that waits for the user.
pub struct PendingLogin {
    manager: AuthorizationManager,
    callback: Callback,
    address: Url,
    state: String,
    file: LoginFile,
    grant: Grant,
    /// The key that the token is bound to.
    key: Option<Arc<DpopKey>>,
    requires_dpop: bool,
    confidence: Confidence,
}

/// What is sent in confidence, and may be repeated. This type has no `Debug`.
#[derive(Clone, Default)]
struct Confidence(Arc<Secrets>);

/// The reason why a login failed.
#[derive(Debug, thiserror::Error)]
pub enum LoginError {
    /// Tokens must not be sent to the server's address.
    #[error(
        "its address is http, not https, and not on this machine: whoever is on the way could take the login"
    )]
    InTheClear,
    /// The server does not answer.
    #[error("it cannot be asked: {reason}")]
    NotReached {
        /// The reason.
        reason: String,
    },
    /// No metadata name an authorization server.
    #[error("it names no authorization server{}", if *.asks { ", though it wants credentials: write them into its headers" } else { ", and wants no login" })]
    NoAuthorizationServer {
        /// Whether the server wants credentials at all.
        asks: bool,
    },
    /// The metadata of the authorization server cannot be used, or it refuses.
    #[error("{reason}")]
    Refused {
        /// The reason, on one line and without secrets.
        reason: String,
    },
    /// The authorization server registers no clients.
    #[error(
        "its authorization server registers no clients by itself: register one there, and give its id with --client-id"
    )]
    NoRegistration,
    /// The user has not returned in time.
    #[error("nobody has logged in within {} minutes", USER.as_secs() / 60)]
    TooLate,
    /// The system has failed.
    #[error("{what}: {source}")]
    System {
        /// The operation that failed.
        what: &'static str,
        /// The system's error.
        source: std::io::Error,
    },
}

/// Prepares a login, up to the address that the user opens.
///
/// # Errors
/// See [`LoginError`].
pub async fn begin(request: LoginRequest) -> Result<PendingLogin, LoginError> {
    let url = request.remote.url.clone();
    if url.scheme() != "https" && !is_loopback(&url) {
        return Err(LoginError::InTheClear);
    }
    let confidence = Confidence::of(&request);
    let beginning = tokio::time::timeout(DISCOVERY, begun(request, confidence.clone()));
    let late = || LoginError::NotReached { reason: format!("no answer within {} s", DISCOVERY.as_secs()) };
    beginning.await.map_err(|_| late())?.map_err(|error| error.shown(&confidence))
}

async fn begun(request: LoginRequest, confidence: Confidence) -> Result<PendingLogin, LoginError> {
    let LoginRequest { remote, secrets: _, file, scopes, client, token_endpoint, requires_dpop } = request;
    let probed = probe(&remote).await.map_err(|reason| LoginError::NotReached { reason })?;
    let asking = HttpPolicy::of(&remote.url);
    let asked = Arc::new(asking.clone());
    let manager = AuthorizationManager::new_with_oauth_http_client(remote.url.clone(), asked);
    let mut manager = manager.await.map_err(refused)?;
    let challenge = match &probed {
        ProbeResult::Wants { challenge, .. } => challenge.as_deref(),
        ProbeResult::Open | ProbeResult::Other(_) => None,
    };
    let is_bound = requires_dpop || matches!(probed, ProbeResult::Wants { is_bound: true, .. });
    let found = manager.resolve_metadata_from_challenge(challenge).await.map_err(refused)?;
    if !found.source.is_discovered() {
        return Err(match probed {
            ProbeResult::Other(reason) => LoginError::Refused { reason },
            probed => LoginError::NoAuthorizationServer { asks: probed != ProbeResult::Open },
        });
    }
    let metadata = found.metadata;
    let endpoints = Endpoints::of(&metadata, &asking)?;
    endpoints.check_owner(&metadata, token_endpoint.as_deref(), &asking).await?;
    let key = is_bound.then(|| bound_to(&metadata, &endpoints.token, &asking)).transpose()?;
    manager.set_metadata(metadata.clone());
    let scopes = match scopes.is_empty() {
        true => manager.select_initial_scopes(&[]).await,
        false => with_granted(scopes, &file),
    };
    let scopes: Vec<&str> = scopes.iter().map(String::as_str).collect();
    let callback = Callback::listen().await;
    let callback =
        callback.map_err(|source| LoginError::System { what: "cannot listen for the browser", source })?;
    let config = match client {
        Some(Client { id, secret }) => {
            let config = OAuthClientConfig::new(id, callback.address.as_str());
            let config = match secret {
                Some(secret) => config.with_client_secret(secret),
                None => config,
            };
            manager.configure_client(config.clone()).map_err(refused)?;
            config
        }
        None if metadata.registration_endpoint.is_none() => return Err(LoginError::NoRegistration),
        None => {
            manager.register_client("belljar", callback.address.as_str(), &scopes).await.map_err(refused)?
        }
    };
    if let Some(secret) = &config.client_secret {
        let spellings = spellings(&config.client_id, secret).map(|value| ("client_secret".to_owned(), value));
        confidence.add(&remote, &spellings);
    }
    let address = manager.get_authorization_url(&scopes).await.map_err(refused)?;
    let address = Url::parse(&address).map_err(|error| refused(error.into()))?;
    asking.check(&address).map_err(|reason| LoginError::Refused { reason })?;
    let with_pair = |text, (name, value)| format!("{text} {name} {value}");
    let shown = address.query_pairs().fold(address.to_string(), with_pair);
    if confidence.has_credential(&shown, remote.url.as_str()) {
        return Err(said("the address for your browser would show a credential of the server's entry"));
    }
    let state = of(&address, "state").unwrap_or_default();
    let grant = Grant {
        issuer: metadata.issuer.clone(),
        token_endpoint: endpoints.token,
        revocation_endpoint: endpoints.revocation,
        resource: of(&address, "resource"),
        scopes: scopes.iter().map(|scope| (*scope).to_owned()).collect(),
        client: ClientRegistration {
            id: config.client_id,
            secret: config.client_secret,
            secret_in: secret_in(&metadata),
        },
    };
    Ok(PendingLogin { manager, callback, address, state, file, grant, key, requires_dpop, confidence })
}

impl PendingLogin {
    /// The address that the user opens in a browser: https, or on this machine.
    #[must_use]
    pub fn address(&self) -> &Url {
        &self.address
    }

    /// Waits for the browser, and stores the login.
    ///
    /// # Errors
    /// See [`LoginError`]. A stored login is unchanged then.
    pub async fn finish(self) -> Result<(), LoginError> {
        let confidence = self.confidence.clone();
        self.finished().await.map_err(|error| error.shown(&confidence))
    }

    async fn finished(self) -> Result<(), LoginError> {
        let answer = tokio::time::timeout(USER, self.callback.answer(&self.state)).await;
        let answer = answer.map_err(|_| LoginError::TooLate)?;
        let answer =
            answer.map_err(|source| LoginError::System { what: "cannot hear the browser", source })?;
        let issuer = of(&answer, "iss");
        if let Some(error) = of(&answer, "error") {
            if issuer.is_some() && issuer != self.grant.issuer {
                return Err(said(
                    "the answer is of another authorization server than the one that was asked",
                ));
            }
            let why = of(&answer, "error_description").map(|why| format!(": {why}")).unwrap_or_default();
            return Err(said(&format!("the authorization server refused: {error}{why}")));
        }
        let code = of(&answer, "code").unwrap_or_default();
        let exchanged =
            self.manager.exchange_code_for_token_with_issuer(&code, &self.state, issuer.as_deref()).await;
        let token = exchanged.map_err(refused)?;
        let unusable = |_| said("the authorization server's answer is no token");
        let token = serde_json::to_value(token).map_err(unusable)?;
        let response: TokenResponse = serde_json::from_value(token).map_err(unusable)?;
        let binding = Binding { key: self.key.as_deref(), is_required: self.requires_dpop };
        let login = response.login(self.file.url().clone(), self.grant, None, binding);
        let login = login.map_err(|reason| said(&format!("of the authorization server: {reason}")))?;
        let kept = async {
            let _lock = self.file.lock().await?;
            self.file.write(&login)
        };
        kept.await.map_err(|source| LoginError::System { what: "the login cannot be kept", source })
    }
}

impl Confidence {
    fn of(request: &LoginRequest) -> Self {
        let confidence = Self::default();
        let present = request.file.kept().ok().flatten();
        let tokens = present.iter().flat_map(|login| login.secrets());
        let tokens = tokens.map(|token| ("login".to_owned(), token.to_owned()));
        let further: Vec<_> = request.secrets.iter().cloned().chain(tokens).collect();
        confidence.add(&request.remote, &further);
        confidence
    }

    /// Adds secrets, also in lower case: in an address they can stand as the name of a host.
    fn add(&self, remote: &RemoteSpec, further: &[(String, String)]) {
        for spelled in [str::to_ascii_lowercase, str::to_owned] {
            let pairs = |pairs: &[(String, String)]| -> Vec<(String, String)> {
                pairs.iter().map(|(name, value)| (name.clone(), spelled(value))).collect()
            };
            let remote = RemoteSpec { headers: pairs(&remote.headers), ..remote.clone() };
            self.0.add(&ServerTransport::Remote(remote), &pairs(further));
        }
    }

    /// The text with each secret replaced by its name.
    fn text(&self, text: String) -> String {
        let secrets = self.0.all();
        replaced_in(text, &secrets.iter().map(|secret| &**secret).collect::<Vec<_>>())
    }

    /// Whether the text has a credential that the other text does not have.
    fn has_credential(&self, text: &str, other: &str) -> bool {
        let has = |text: &str, secret: &Secret| replaced_in(text.to_owned(), &[secret]) != text;
        self.0.credentials().iter().any(|secret| has(text, secret) && !has(other, secret))
    }
}

/// Adds the scopes of the present login: a login for one more scope must not remove the others.
fn with_granted(scopes: Vec<String>, file: &LoginFile) -> Vec<String> {
    let granted = file.read().ok().flatten().map(|login| login.grant.scopes);
    let mut all: Vec<String> =
        scopes.iter().flat_map(|scope| scope.split_whitespace()).map(str::to_owned).collect();
    for scope in granted.into_iter().flatten() {
        if !all.contains(&scope) {
            all.push(scope);
        }
    }
    all
}

/// The addresses of the endpoints, checked.
struct Endpoints {
    authorization: Url,
    token: Url,
    revocation: Option<Url>,
}

impl Endpoints {
    fn of(metadata: &AuthorizationMetadata, asking: &HttpPolicy) -> Result<Self, LoginError> {
        let checked = |what: &str, text: &str| {
            let url = Url::parse(text).map_err(|error| error.to_string());
            let url = url.and_then(|url| asking.check(&url).map(|()| url));
            url.map_err(|why| {
                said(&format!("the {what} that its authorization server names cannot be used: {why}"))
            })
        };
        let authorization = checked("authorization endpoint", &metadata.authorization_endpoint)?;
        let token = checked("token endpoint", &metadata.token_endpoint)?;
        if let Some(registration) = &metadata.registration_endpoint {
            checked("registration endpoint", registration)?;
        }
        let revocation =
            metadata.additional_fields.get("revocation_endpoint").and_then(|value| value.as_str());
        let revocation = revocation.map(|url| checked("revocation endpoint", url)).transpose()?;
        // It gets the tokens.
        let is_beside =
            |url: &Url| [&authorization, &token].iter().any(|beside| beside.origin() == url.origin());
        let revocation = revocation.filter(is_beside);
        Ok(Self { authorization, token, revocation })
    }

    /// Checks that the token endpoint belongs to the service at which the user logs in. A server could otherwise name the
    /// login page of another service together with a token endpoint of its own, which would get the code of that service
    /// and the client's secret (RFC 9700, section 4.4). The token endpoint belongs to the service if it has the origin of
    /// the page, if the issuer has this origin and its own document names the endpoint, or if the user names it.
    async fn check_owner(
        &self,
        metadata: &AuthorizationMetadata,
        named: Option<&str>,
        asking: &HttpPolicy,
    ) -> Result<(), LoginError> {
        if let Some(named) = named {
            return match Url::parse(named).as_ref() == Ok(&self.token) {
                true => Ok(()),
                false => {
                    Err(said(&format!("the token endpoint is {}, not the one that you named", self.token)))
                }
            };
        }
        if self.token.origin() == self.authorization.origin() {
            return Ok(());
        }
        let issuer = metadata.issuer.as_deref().unwrap_or_default();
        if Url::parse(issuer).is_ok_and(|issuer| issuer.origin() == self.authorization.origin()) {
            let own = ServerMetadata::of(asking, issuer).await.map_err(|reason| said(&reason))?;
            if own.token_endpoint.as_ref() == Some(&self.token) {
                return Ok(());
            }
        }
        Err(said(&format!(
            "you would log in at {}, but the answer would go to {}, which may be somebody else's; if both are of one \
             service, add --token-endpoint {}",
            self.authorization.origin().ascii_serialization(),
            self.token.origin().ascii_serialization(),
            self.token
        )))
    }
}

/// Generates the key that the token will be bound to. From now on, requests to the token endpoint carry its proofs.
fn bound_to(
    metadata: &AuthorizationMetadata,
    token_endpoint: &Url,
    asking: &HttpPolicy,
) -> Result<Arc<DpopKey>, LoginError> {
    let algorithm = DpopKey::ALGORITHM.name();
    let listed = metadata.additional_fields.get("dpop_signing_alg_values_supported");
    let listed = listed.and_then(|listed| listed.as_array());
    if listed.is_some_and(|all| !all.iter().any(|one| one == algorithm)) {
        return Err(said(&format!(
            "its authorization server takes no proofs (DPoP) that are signed with {algorithm}"
        )));
    }
    let key = Arc::new(DpopKey::generate().map_err(said)?);
    asking.prove_at(token_endpoint.clone(), Arc::clone(&key), Arc::new(Nonces::default()));
    Ok(key)
}

/// The part of a request for the client's secret: the header, unless the authorization server accepts only the body.
fn secret_in(metadata: &AuthorizationMetadata) -> SecretIn {
    let methods = metadata.additional_fields.get("token_endpoint_auth_methods_supported");
    let takes = |method: &str| {
        methods.and_then(|methods| methods.as_array()).is_some_and(|all| all.iter().any(|one| one == method))
    };
    match takes("client_secret_post") && !takes("client_secret_basic") {
        true => SecretIn::Body,
        false => SecretIn::Header,
    }
}

fn refused(error: AuthError) -> LoginError {
    said(&with_causes(&error))
}

fn said(text: &str) -> LoginError {
    LoginError::Refused { reason: text.to_owned() }
}

impl LoginError {
    /// The error as the user sees it: without the secrets of the login, and then on one line and cut.
    fn shown(self, confidence: &Confidence) -> Self {
        let shown = |reason| text::inert_excerpt(&confidence.text(reason), SAID_CHARS_MAX);
        match self {
            Self::Refused { reason } => Self::Refused { reason: shown(reason) },
            Self::NotReached { reason } => Self::NotReached { reason: shown(reason) },
            error => error,
        }
    }
}

#[cfg(test)]
mod tests {
    use belljar_base::names::ServerName;

    use super::*;
    use crate::LoginState;
    use crate::service_login::LoginSettings;

    // The test's clock is paused, and advances by itself when nothing else can happen.
    #[tokio::test(start_paused = true)]
    async fn a_browser_that_does_not_come_back_is_waited_for_five_minutes() {
        let (dir, url) = (tempfile::tempdir().unwrap(), Url::parse("https://a.test/mcp").unwrap());
        let asking = Arc::new(HttpPolicy::of(&url));
        let file = LoginFile::new(dir.path().into(), &ServerName::new("far").unwrap(), url.clone());
        let started = PendingLogin {
            manager: AuthorizationManager::new_with_oauth_http_client(url.clone(), asking).await.unwrap(),
            callback: Callback::listen().await.unwrap(),
            address: url.clone(),
            state: "s".into(),
            file: file.clone(),
            grant: Grant {
                issuer: None,
                token_endpoint: url,
                revocation_endpoint: None,
                resource: None,
                scopes: vec![],
                client: ClientRegistration { id: "x".into(), secret: None, secret_in: SecretIn::Header },
            },
            key: None,
            requires_dpop: false,
            confidence: Confidence::default(),
        };
        let began = tokio::time::Instant::now();
        assert_eq!(started.finish().await.unwrap_err().to_string(), "nobody has logged in within 5 minutes");
        assert_eq!(began.elapsed().as_secs(), 300);
        assert_eq!(file.state(&LoginSettings::default()), LoginState::None);
    }
}
