//! The OAuth issuer of `belljar serve --http`: its access tokens let in whoever the issuer says, and belljar says where to get
//! one (RFC 9728).
//!
//! belljar issues no tokens. Nothing here depends on what a request says of its host.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use belljar_base::{clock, digest};
use belljar_upstream::web::is_loopback;
use serde_json::json;
use url::Url;

use super::access_token::{Expected, Refusal, Unverified};
use super::issuer_keys::{Bounds, IssuerKeys};
use super::tokens::{OAUTH_PREFIX, Token};
use crate::cli;

/// The path of the metadata, behind which the path of the resource may stand.
const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";
/// The digits of an owner's name.
const NAME_DIGITS: usize = 32;
/// The longest time that a token is taken to last.
const LASTS_MAX: Duration = Duration::from_secs(30 * 86_400);

/// What the command line says of the issuer.
#[derive(Debug, Clone)]
pub(crate) struct OAuthOptions {
    issuer: String,
    /// The address of MCP as clients write it; `None`: the address that belljar listens at.
    resource: Option<Url>,
    audience: Option<String>,
    scopes: Vec<String>,
    policy: Option<String>,
}

/// The issuer, and what its tokens must have.
pub(super) struct OAuth {
    keys: Arc<IssuerKeys>,
    options: OAuthOptions,
    /// The address of MCP as clients write it.
    resource: Url,
    audience: String,
}

impl OAuthOptions {
    /// Reads the options; `None`: there is no issuer.
    ///
    /// # Errors
    /// What is wrong with them.
    pub(crate) fn read(serve: &cli::Serve, address: SocketAddr) -> Result<Option<Self>, String> {
        let cli::OAuth { issuer, resource, audience, scopes, policy } = &serve.oauth;
        let Some(issuer) = issuer.clone() else { return Ok(None) };
        checked("--oauth-issuer", &issuer)?;
        let is_scope = |text: &str| {
            !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"\\".contains(&byte))
        };
        if !scopes.iter().all(|scope| is_scope(scope)) {
            return Err(
                "--oauth-scope takes one scope, without blanks, quotes and backslashes; repeat it for several"
                    .into(),
            );
        }
        let resource = resource.clone().or_else(|| public_address(serve, address));
        let resource = resource.map(|resource| checked("--oauth-resource", &resource)).transpose()?;
        if resource.is_none() && !(address.ip().is_loopback() && serve.allowed_hosts.is_empty()) {
            return Err("--oauth-issuer needs --oauth-resource here: the address of MCP as clients write it, such as \
                        https://bridge.example.com/mcp, does not follow from --allow-host"
                .into());
        }
        if resource.as_ref().is_some_and(|resource| !resource.path().ends_with("/mcp")) {
            return Err("--oauth-resource must end with /mcp".into());
        }
        let (audience, scopes, policy) = (audience.clone(), scopes.clone(), policy.clone());
        Ok(Some(Self { issuer, resource, audience, scopes, policy }))
    }
}

impl OAuth {
    /// For a bridge that listens at this address of MCP.
    ///
    /// # Errors
    /// The address cannot be read.
    pub(super) fn new(options: OAuthOptions, own: &str) -> Result<Self, String> {
        let resource = options.resource.clone().map_or_else(|| checked("--http", own), Ok)?;
        let audience = options.audience.clone().unwrap_or_else(|| resource.to_string());
        let keys = IssuerKeys::new(options.issuer.clone(), Bounds::default());
        Ok(Self { keys, options, resource, audience })
    }

    /// Whom this access token lets in, and until when.
    ///
    /// # Errors
    /// The reason why it lets nobody in.
    pub(super) async fn admitted(&self, text: &str) -> Result<(Token, Instant), Refusal> {
        let token = Unverified::read(text)?;
        let key = self.keys.key(token.key_id.as_deref(), token.algorithm).await?;
        let options = &self.options;
        let expected =
            Expected { issuer: &options.issuer, audience: &self.audience, scopes: &options.scopes };
        let verified = token.verified(&key, expected, clock::unix_seconds() as f64)?;
        let lasts = Duration::try_from_secs_f64(verified.lasts_s).unwrap_or(LASTS_MAX).min(LASTS_MAX);
        Ok((self.owner(&verified.subject), Instant::now() + lasts))
    }

    /// The owner of a subject's sessions. It is the same for each token of this subject.
    fn owner(&self, subject: &str) -> Token {
        let identity = digest::sha256(format!("{}\0{subject}", self.options.issuer).as_bytes());
        Token {
            name: format!("{OAUTH_PREFIX}{}", &identity[..NAME_DIGITS]),
            created: identity,
            expires: None,
            policy: self.options.policy.clone(),
            servers: None,
            metrics: false,
        }
    }

    /// The owner whom a refusal concerns, if it is known.
    pub(super) fn refused_owner(&self, refusal: &Refusal) -> Option<String> {
        match refusal {
            Refusal::Scope { subject, .. } => Some(self.owner(subject).name),
            _ => None,
        }
    }

    /// The metadata of the resource, if they are at this path.
    pub(super) fn metadata(&self, path: &str) -> Option<String> {
        let below = path.strip_prefix(WELL_KNOWN)?;
        if !["", "/mcp", self.resource.path()].contains(&below) {
            return None;
        }
        let mut metadata = json!({
            "resource": self.resource,
            "authorization_servers": [self.options.issuer],
            "bearer_methods_supported": ["header"],
        });
        if !self.options.scopes.is_empty() {
            metadata["scopes_supported"] = json!(self.options.scopes);
        }
        Some(metadata.to_string())
    }

    /// What follows the realm in the challenge of a refusal: the needed scopes, and the address of the metadata.
    pub(super) fn challenge(&self) -> String {
        let scopes = self.options.scopes.join(" ");
        let scope = if scopes.is_empty() { String::new() } else { format!(", scope=\"{scopes}\"") };
        let origin = self.resource.origin().ascii_serialization();
        format!("{scope}, resource_metadata=\"{origin}{WELL_KNOWN}{}\"", self.resource.path())
    }
}

/// What the user reads when HTTP is served.
impl fmt::Display for OAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "access tokens of {} need the audience {}", self.options.issuer, self.audience)
    }
}

/// The address of MCP as clients write it, if it follows from the single host name that they may use.
fn public_address(serve: &cli::Serve, address: SocketAddr) -> Option<String> {
    let [host] = &serve.allowed_hosts[..] else { return None };
    let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let has_tls = serve.tls_certificate.is_some();
    if serve.behind_proxy || (has_tls && has_port) {
        Some(format!("https://{host}/mcp"))
    } else if has_tls && address.port() != 0 {
        Some(format!("https://{host}:{}/mcp", address.port()))
    } else {
        None
    }
}

/// An address that belljar or a client may send a login to.
fn checked(option: &str, text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| format!("{option} {text:?} is no address: {error}"))?;
    let is_safe = url.scheme() == "https" || (url.scheme() == "http" && is_loopback(&url));
    let is_plain = url.query().is_none()
        && url.fragment().is_none()
        && url.username().is_empty()
        && url.password().is_none();
    if !is_safe || !is_plain {
        return Err(format!(
            "{option} {text:?} must be an https address without a user, a query and a fragment; http is only for this machine"
        ));
    }
    Ok(url)
}
