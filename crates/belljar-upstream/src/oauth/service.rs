//! Logins without a user: client credentials (RFC 6749, section 4.4), workload identity (RFC 7523, section 2.1), and
//! enterprise-managed authorization (an assertion as for workload identity, from a token exchange of RFC 8693 at the
//! company's identity provider).
//!
//! Each type of login has one way to a token. If that is refused, no other way is tried.

use std::borrow::Cow;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use belljar_base::clock;
use belljar_base::text;
use nix::fcntl::OFlag;
use serde::Deserialize;
use serde_json::json;
use url::Url;

use super::challenge::{Challenge, Scheme};
use super::discovery::{ResourceMetadata, ServerMetadata};
use super::dpop::{DpopKey, Nonces};
use super::grant::{Binding, TokenResponse};
use super::http_policy::{HttpPolicy, Prover};
use super::token_endpoint::{Authentication, TokenEndpoint};
use crate::jose::{SigningKey, unique_id};
use crate::login_file::{ClientRegistration, Grant, Login, SecretIn};
use crate::service_login::{
    Assertion, ClientAuthentication, IdentityProvider, ServiceClient, ServiceGrant, ServiceLogin,
};

const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
const TOKEN_EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
const ID_TOKEN: &str = "urn:ietf:params:oauth:token-type:id_token";
/// The grant that an identity provider gives for an ID token.
const ID_JAG: &str = "urn:ietf:params:oauth:token-type:id-jag";
/// The lifetime of a signed assertion, in seconds.
const ASSERTION_S: u64 = 300;
/// Largest file with an assertion, in bytes.
const ASSERTION_BYTES_MAX: u64 = 64 * 1024;

/// The parts that a login without a user needs.
pub(super) struct Service<'a> {
    pub(super) asking: &'a HttpPolicy,
    /// The address of the MCP server.
    pub(super) server: &'a Url,
    pub(super) login: &'a ServiceLogin,
    pub(super) requires_dpop: bool,
    pub(super) nonces: &'a Nonces,
}

/// The response of an identity provider to a token exchange.
#[derive(Deserialize)]
struct ExchangeResponse {
    access_token: String,
    issued_token_type: String,
}

/// The fields of a form, which are sent URL-encoded.
type FormFields<'f> = Vec<(&'f str, Cow<'f, str>)>;

impl Service<'_> {
    /// Gets a new token. `challenge` is from the server's refusal, and may name its metadata. `before` is the last
    /// login of this kind; the authorization server must be the same.
    ///
    /// # Errors
    /// The reason why there is no token, without secrets.
    pub(super) async fn obtained(
        &self,
        challenge: Option<&Challenge>,
        before: Option<&Login>,
        secrets: &mut Vec<String>,
    ) -> Result<Login, String> {
        let advertised = challenge.and_then(|challenge| challenge.resource_metadata.clone());
        let challenged = challenge.and_then(|challenge| challenge.scope.as_deref());
        let published = ResourceMetadata::of(self.asking, self.server, advertised).await?;
        let metadata = self.authorization_server(published.as_ref(), before).await?;
        let token_endpoint = match &self.login.token_endpoint {
            Some(configured) => configured.clone(),
            None => metadata.checked_token_endpoint(self.asking)?,
        };
        let resource =
            published.as_ref().map_or_else(|| self.own_resource(), |published| published.resource.clone());
        let scopes = match (&self.login.scopes[..], challenged, before) {
            (configured @ [_, ..], ..) => configured.to_vec(),
            ([], Some(scope), _) => scope.split_whitespace().map(str::to_owned).collect(),
            ([], None, Some(before)) => before.grant.scopes.clone(),
            ([], None, None) => {
                published.as_ref().map(|one| one.scopes_supported.clone()).unwrap_or_default()
            }
        };
        let is_bound = self.requires_dpop
            || before.is_some_and(|before| before.dpop_key.is_some())
            || challenge.is_some_and(|challenge| challenge.scheme == Scheme::Dpop)
            || published.is_some_and(|published| published.dpop_bound_access_tokens_required);
        let key = is_bound.then(DpopKey::generate).transpose()?;
        if is_bound && !metadata.takes_proofs(DpopKey::ALGORITHM) {
            let algorithm = DpopKey::ALGORITHM.name();
            return Err(format!(
                "its authorization server takes no proofs (DPoP) that are signed with {algorithm}"
            ));
        }
        let scope = scopes.join(" ");
        let mut form = self.grant_form(&metadata.issuer, &resource, &scope, secrets).await?;
        form.push(("resource", resource.as_str().into()));
        if !scope.is_empty() {
            form.push(("scope", scope.as_str().into()));
        }
        let prover = key.as_ref().map(|key| Prover { key, nonces: self.nonces });
        let endpoint = TokenEndpoint { asking: self.asking, url: &token_endpoint, prover };
        let client = self.login.client.as_ref();
        let body = endpoint
            .ask(authentication(client, &metadata)?, form)
            .await
            .map_err(|failure| failure.to_string())?;
        let registration = ClientRegistration {
            id: client.map_or_else(String::new, |client| client.id.clone()),
            secret: None,
            secret_in: SecretIn::Header,
        };
        let grant = Grant {
            revocation_endpoint: metadata.checked_revocation_endpoint(self.asking, &token_endpoint),
            issuer: Some(metadata.issuer),
            token_endpoint: token_endpoint.clone(),
            resource: Some(resource.clone()),
            scopes,
            client: registration,
        };
        let binding = Binding { key: key.as_ref(), is_required: is_bound };
        let login = TokenResponse::read(&body)?.login(self.server.clone(), grant, None, binding);
        let login = login.map_err(|reason| format!("of the authorization server: {reason}"))?;
        // The credentials are used again for the next token, so no refresh token is stored.
        Ok(Login { refresh_token: None, service: Some(self.login.identity()), ..login })
    }

    /// The metadata of the authorization server.
    async fn authorization_server(
        &self,
        published: Option<&ResourceMetadata>,
        before: Option<&Login>,
    ) -> Result<ServerMetadata, String> {
        if let (Some(issuer), Some(_)) = (&self.login.issuer, &self.login.token_endpoint) {
            return Ok(ServerMetadata::unread(issuer.clone()));
        }
        if let Some(issuer) = &self.login.issuer {
            return ServerMetadata::of(self.asking, issuer).await;
        }
        let named = published.and_then(|published| published.authorization_servers.first().cloned());
        let issuer = named.unwrap_or_else(|| self.server.origin().ascii_serialization());
        // The credentials go there, so a server that suddenly names another authorization server must not get them.
        if let Some(known) = before.and_then(|before| before.grant.issuer.as_ref())
            && known.trim_end_matches('/') != issuer.trim_end_matches('/')
        {
            let [known, issuer] = [known, &issuer].map(|name| text::inert_line(name));
            return Err(format!(
                "its authorization server was {known} and is now said to be {issuer}; if that is right, write it into the entry \
                 as login.issuer"
            ));
        }
        ServerMetadata::of(self.asking, &issuer).await
    }

    /// The resource that the token is for, if the server publishes none.
    fn own_resource(&self) -> String {
        let mut resource = self.server.clone();
        resource.set_query(None);
        resource.into()
    }

    /// The fields of the token request that contain the grant.
    async fn grant_form(
        &self,
        issuer: &str,
        resource: &str,
        scope: &str,
        secrets: &mut Vec<String>,
    ) -> Result<FormFields<'_>, String> {
        match &self.login.grant {
            ServiceGrant::ClientCredentials => Ok(vec![("grant_type", "client_credentials".into())]),
            ServiceGrant::WorkloadIdentity { assertion } => {
                let assertion = read("assertion", assertion, secrets)?;
                Ok(vec![("grant_type", JWT_BEARER.into()), ("assertion", assertion)])
            }
            ServiceGrant::Enterprise { id_token, identity_provider } => {
                let id_token = read("id_token", id_token, secrets)?;
                let grant = self.exchanged(identity_provider, &id_token, (issuer, resource, scope)).await;
                let grant = grant.map_err(|reason| format!("of the identity provider: {reason}"))?;
                secrets.push(grant.clone());
                Ok(vec![("grant_type", JWT_BEARER.into()), ("assertion", grant.into())])
            }
        }
    }

    /// Exchanges an ID token at the identity provider for a grant at the authorization server.
    async fn exchanged(
        &self,
        provider: &IdentityProvider,
        id_token: &str,
        (issuer, resource, scope): (&str, &str, &str),
    ) -> Result<String, String> {
        let metadata = match &provider.token_endpoint {
            Some(_) => ServerMetadata::unread(provider.issuer.clone()),
            None => ServerMetadata::of(self.asking, &provider.issuer).await?,
        };
        let url = match &provider.token_endpoint {
            Some(configured) => configured.clone(),
            None => metadata.checked_token_endpoint(self.asking)?,
        };
        let mut form: FormFields<'_> = vec![
            ("grant_type", TOKEN_EXCHANGE.into()),
            ("requested_token_type", ID_JAG.into()),
            ("audience", issuer.into()),
            ("resource", resource.into()),
            ("subject_token", id_token.into()),
            ("subject_token_type", ID_TOKEN.into()),
        ];
        if !scope.is_empty() {
            form.push(("scope", scope.into()));
        }
        let endpoint = TokenEndpoint { asking: self.asking, url: &url, prover: None };
        let authentication = authentication(Some(&provider.client), &metadata)?;
        let body = endpoint.ask(authentication, form).await.map_err(|failure| failure.to_string())?;
        let response: ExchangeResponse = serde_json::from_slice(&body)
            .map_err(|_| "its answer was no grant for the authorization server")?;
        if response.issued_token_type != ID_JAG {
            let kind = text::inert_line(&response.issued_token_type);
            return Err(format!("it gives {kind:?} instead of a grant for the authorization server"));
        }
        Ok(response.access_token)
    }
}

/// The client's authentication, by a method that the authorization server accepts.
pub(super) fn authentication<'c>(
    client: Option<&'c ServiceClient>,
    metadata: &ServerMetadata,
) -> Result<Authentication<'c>, String> {
    let Some(ServiceClient { id, authentication }) = client else { return Ok(Authentication::Anonymous) };
    match authentication {
        ClientAuthentication::None => Ok(Authentication::Id(id)),
        ClientAuthentication::Secret(secret) => {
            match (metadata.takes("client_secret_basic"), metadata.takes("client_secret_post")) {
                (true, _) => Ok(Authentication::Basic(id, secret)),
                (false, true) => Ok(Authentication::Post(id, secret)),
                (false, false) => Err("its authorization server takes no client secrets".into()),
            }
        }
        ClientAuthentication::PrivateKey { pem, key_id, audience } => {
            if !metadata.takes("private_key_jwt") {
                return Err(
                    "its authorization server takes no signed client assertions (private_key_jwt)".into()
                );
            }
            let key =
                SigningKey::from_pem(pem).map_err(|why| format!("the private_key of its entry {why}"))?;
            let algorithm = metadata.algorithm(key.algorithms()).ok_or_else(|| {
                let names: Vec<&str> = key.algorithms().iter().map(|algorithm| algorithm.name()).collect();
                format!(
                    "its authorization server takes no signatures of this kind of key ({})",
                    names.join(", ")
                )
            })?;
            let mut header = json!({"typ": "JWT"});
            if let Some(key_id) = key_id {
                header["kid"] = json!(key_id);
            }
            let (audience, now) = (audience.as_deref().unwrap_or(&metadata.issuer), clock::unix_seconds());
            let claims = json!({"iss": id, "sub": id, "aud": audience, "jti": unique_id()?, "iat": now,
                "exp": now + ASSERTION_S});
            Ok(Authentication::Signed(key.sign(algorithm, header, &claims)?))
        }
    }
}

/// Reads the assertion of an entry, from the entry or from its file.
fn read<'a>(
    name: &'static str,
    assertion: &'a Assertion,
    secrets: &mut Vec<String>,
) -> Result<Cow<'a, str>, String> {
    match assertion {
        Assertion::Text(text) => Ok(text.trim().into()),
        Assertion::File(path) => {
            let text = file(path).map_err(|why| format!("the {name}_file {} {why}", path.display()))?;
            secrets.push(text.clone());
            Ok(text.into())
        }
    }
}

/// The content of a file. Symlinks and other owners are accepted, since platforms own such files and put them in place
/// by symlinks.
fn file(path: &Path) -> Result<String, String> {
    let said = |error: std::io::Error| format!("cannot be read: {error}");
    // The open does not block on a pipe.
    let file = File::options().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path).map_err(said)?;
    let about = file.metadata().map_err(said)?;
    if !about.is_file() {
        return Err("is no file".into());
    }
    if about.mode() & 0o002 != 0 {
        return Err("can be written by every user, so it is not trusted".into());
    }
    let mut text = String::new();
    file.take(ASSERTION_BYTES_MAX + 1).read_to_string(&mut text).map_err(said)?;
    match text.trim() {
        "" => Err("is empty".into()),
        token if token.len() as u64 > ASSERTION_BYTES_MAX => Err("is too large for a token".into()),
        token => Ok(token.to_owned()),
    }
}
