//! Fetches the metadata that a login without a user needs: those of the MCP server, which name the authorization server
//! (RFC 9728), and those of the authorization server (RFC 8414, OpenID Connect Discovery).
//!
//! It also fetches the keys with which an authorization server signs its tokens (RFC 7517). It checks no token.
//!
//! Logins of users use rmcp for this, and this module to confirm an issuer's token endpoint. rmcp requires an authorization
//! endpoint, which an authorization server without logins of users need not have.

use belljar_base::text;
use reqwest::{Method, Request, StatusCode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use url::Url;

use super::http_policy::{HttpPolicy, Redirects};
use crate::jose::Algorithm;

/// The largest number of keys of an authorization server.
const KEYS_MAX: usize = 64;

/// The metadata of an MCP server about its tokens.
#[derive(Deserialize)]
pub(super) struct ResourceMetadata {
    /// The resource that its tokens are for.
    pub(super) resource: String,
    #[serde(default)]
    pub(super) authorization_servers: Vec<String>,
    #[serde(default)]
    pub(super) scopes_supported: Vec<String>,
    #[serde(default)]
    pub(super) dpop_bound_access_tokens_required: bool,
}

/// The metadata of an authorization server that are used here. A missing member is unknown.
#[derive(Default, Deserialize)]
pub(super) struct ServerMetadata {
    pub(super) issuer: String,
    pub(super) token_endpoint: Option<Url>,
    pub(super) revocation_endpoint: Option<Url>,
    jwks_uri: Option<Url>,
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
    token_endpoint_auth_signing_alg_values_supported: Option<Vec<String>>,
    dpop_signing_alg_values_supported: Option<Vec<String>>,
}

/// The keys that an authorization server publishes.
#[derive(Deserialize)]
struct KeySet {
    keys: Vec<Value>,
}

/// Fetches the keys with which this authorization server signs its tokens, as JSON Web Keys.
///
/// # Errors
/// The reason why its metadata or keys cannot be used. Its metadata must name exactly this issuer.
pub async fn published_keys(issuer: &str) -> Result<Vec<Value>, String> {
    let url = Url::parse(issuer).map_err(|error| format!("its address cannot be read: {error}"))?;
    let asking = HttpPolicy::of(&url);
    let metadata = ServerMetadata::of(&asking, issuer).await?;
    if metadata.issuer != issuer {
        let named = text::inert_line(&metadata.issuer);
        return Err(format!("its metadata name {named}, which differs in the slash at the end"));
    }
    let place = metadata.jwks_uri.ok_or("its metadata name no jwks_uri")?;
    let set = fetched::<KeySet>(&asking, place).await?.ok_or("there is no key set at its jwks_uri")?;
    if set.keys.len() > KEYS_MAX {
        return Err(format!("it publishes more than {KEYS_MAX} keys"));
    }
    Ok(set.keys)
}

impl ResourceMetadata {
    /// Fetches the server's metadata; `None`: it publishes none.
    pub(super) async fn of(
        asking: &HttpPolicy,
        server: &Url,
        advertised: Option<Url>,
    ) -> Result<Option<Self>, String> {
        let path = server.path().trim_end_matches('/');
        let well_known = |path: &str| at(server, &format!("/.well-known/oauth-protected-resource{path}"));
        let own = (!path.is_empty()).then(|| well_known(path));
        for place in advertised.into_iter().chain(own).chain([well_known("")]) {
            let Some(found) = fetched::<Self>(asking, place).await? else { continue };
            if !found.is_for(server) {
                let named = text::inert_line(&found.resource);
                return Err(format!("its metadata are those of another server ({named})"));
            }
            return Ok(Some(found));
        }
        Ok(None)
    }

    /// Whether the tokens are for this server: for its address, or for one with a parent of its path.
    fn is_for(&self, server: &Url) -> bool {
        let Ok(resource) = Url::parse(&self.resource) else { return false };
        let below = server.path().strip_prefix(resource.path().trim_end_matches('/'));
        resource.origin() == server.origin()
            && resource.fragment().is_none()
            && below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

impl ServerMetadata {
    /// The metadata of an authorization server if they are not fetched: only the issuer is known.
    pub(super) fn unread(issuer: String) -> Self {
        Self { issuer, ..Self::default() }
    }

    /// Fetches the metadata of the authorization server with this name.
    pub(super) async fn of(asking: &HttpPolicy, issuer: &str) -> Result<Self, String> {
        let shown = text::inert_line(issuer);
        let url =
            Url::parse(issuer).map_err(|_| format!("{shown} is no address of an authorization server"))?;
        let path = url.path().trim_end_matches('/');
        let mut places = ["oauth-authorization-server", "openid-configuration"]
            .map(|document| at(&url, &format!("/.well-known/{document}{path}")))
            .to_vec();
        if !path.is_empty() {
            places.push(at(&url, &format!("{path}/.well-known/openid-configuration")));
        }
        for place in places {
            let Some(found) = fetched::<Self>(asking, place).await? else { continue };
            // People often leave out the slash at the end.
            if found.issuer.trim_end_matches('/') != issuer.trim_end_matches('/') {
                let named = text::inert_line(&found.issuer);
                return Err(format!("the authorization server {shown} calls itself {named}"));
            }
            return Ok(found);
        }
        Err(format!("the authorization server {shown} publishes no metadata"))
    }

    /// The token endpoint. It must have the issuer's own origin, since another origin would get the credentials.
    pub(super) fn checked_token_endpoint(&self, asking: &HttpPolicy) -> Result<Url, String> {
        let endpoint = self.token_endpoint.clone();
        let endpoint = endpoint.ok_or("its authorization server names no token endpoint")?;
        asking.check(&endpoint).map_err(|why| {
            format!("the token endpoint that its authorization server names cannot be used: {why}")
        })?;
        let is_own = Url::parse(&self.issuer).is_ok_and(|issuer| issuer.origin() == endpoint.origin());
        if !is_own {
            return Err(format!(
                "its authorization server {} names a token endpoint at {}, another origin; if that is right, write it into \
                 the entry as login.token_endpoint, beside login.issuer",
                text::inert_line(&self.issuer),
                endpoint.origin().ascii_serialization()
            ));
        }
        Ok(endpoint)
    }

    /// The revocation endpoint, if it has the origin of the token endpoint: it gets the credentials too.
    pub(super) fn checked_revocation_endpoint(
        &self,
        asking: &HttpPolicy,
        token_endpoint: &Url,
    ) -> Option<Url> {
        let is_beside = |endpoint: &Url| endpoint.origin() == token_endpoint.origin();
        self.revocation_endpoint
            .clone()
            .filter(|endpoint| is_beside(endpoint) && asking.check(endpoint).is_ok())
    }

    /// Whether clients may authenticate by this method.
    pub(super) fn takes(&self, method: &str) -> bool {
        self.token_endpoint_auth_methods_supported
            .as_ref()
            .is_none_or(|all| all.iter().any(|one| one == method))
    }

    /// The first of these algorithms that the server accepts for signatures of clients.
    pub(super) fn algorithm(&self, of_key: &[Algorithm]) -> Option<Algorithm> {
        let listed = self.token_endpoint_auth_signing_alg_values_supported.as_ref();
        let is_taken = |one: &&Algorithm| listed.is_none_or(|all| all.iter().any(|name| name == one.name()));
        of_key.iter().find(is_taken).copied()
    }

    /// Whether the server accepts proofs with this algorithm.
    pub(super) fn takes_proofs(&self, algorithm: Algorithm) -> bool {
        self.dpop_signing_alg_values_supported
            .as_ref()
            .is_none_or(|all| all.iter().any(|name| name == algorithm.name()))
    }
}

/// Fetches the document at an address; `None`: there is no document of this form.
async fn fetched<T: DeserializeOwned>(asking: &HttpPolicy, place: Url) -> Result<Option<T>, String> {
    let response = asking.ask(Request::new(Method::GET, place), Redirects::WithinOrigin).await?;
    if response.status() != StatusCode::OK {
        return Ok(None);
    }
    Ok(serde_json::from_slice(response.body()).ok())
}

fn at(url: &Url, path: &str) -> Url {
    let mut at = url.clone();
    at.set_query(None);
    at.set_fragment(None);
    at.set_path(path);
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_are_taken_for_the_server_they_name_only() {
        let server: Url = "https://a.test/team/mcp".parse().unwrap();
        let is_for = |resource: &str| {
            let metadata = serde_json::json!({"resource": resource});
            serde_json::from_value::<ResourceMetadata>(metadata).unwrap().is_for(&server)
        };
        for resource in
            ["https://a.test/team/mcp", "https://a.test/team/", "https://a.test", "https://a.test:443/team"]
        {
            assert!(is_for(resource), "{resource}");
        }
        for resource in [
            "https://b.test/team/mcp",
            "http://a.test/team/mcp",
            "https://a.test/tea",
            "https://a.test/team/mcp/x",
            "x",
        ] {
            assert!(!is_for(resource), "{resource}");
        }
    }
}
