//! The challenges of a refusal, which tell the credentials that a server wants (RFC 6750, RFC 9449, RFC 9728).

use reqwest::header::{HeaderMap, WWW_AUTHENTICATE};
use rmcp::transport::auth::WWWAuthenticateParams;
use url::Url;

/// The scheme by which a token is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scheme {
    Bearer,
    /// DPoP: the token comes with a proof that the client has its key.
    Dpop,
}

/// A challenge for tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Challenge {
    pub(crate) scheme: Scheme,
    /// The text of the challenge.
    pub(super) text: String,
    /// The address of the server's metadata.
    pub(super) resource_metadata: Option<Url>,
    /// The scope that a token needs.
    pub(crate) scope: Option<String>,
    /// The code of the reason why the token was refused.
    error: Option<String>,
}

impl Scheme {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Bearer => "Bearer",
            Self::Dpop => "DPoP",
        }
    }
}

impl Challenge {
    /// All challenges of a response from this address, those for DPoP first.
    pub(crate) fn all(headers: &HeaderMap, url: &Url) -> Vec<Self> {
        let texts = headers.get_all(WWW_AUTHENTICATE).iter().filter_map(|value| value.to_str().ok());
        let mut all: Vec<Self> = texts.filter_map(|text| Self::read(text, url)).collect();
        all.sort_by_key(|challenge| challenge.scheme == Scheme::Bearer);
        all
    }

    fn read(text: &str, url: &Url) -> Option<Self> {
        let name = text.split([' ', ',']).next()?;
        let schemes = [Scheme::Dpop, Scheme::Bearer];
        let scheme = schemes.into_iter().find(|scheme| scheme.name().eq_ignore_ascii_case(name))?;
        let said = WWWAuthenticateParams::parse(text, url);
        Some(Self {
            scheme,
            text: text.to_owned(),
            resource_metadata: said.resource_metadata_url,
            scope: said.scope,
            error: said.error,
        })
    }

    /// Whether the token is valid, but lacks a scope.
    pub(crate) fn is_insufficient_scope(&self) -> bool {
        self.error.as_deref() == Some("insufficient_scope")
    }

    /// Whether the proof needs a nonce of the server (RFC 9449, section 9).
    pub(crate) fn wants_nonce(&self) -> bool {
        self.scheme == Scheme::Dpop && self.error.as_deref() == Some("use_dpop_nonce")
    }
}

#[cfg(test)]
mod tests {
    use reqwest::header::HeaderValue;

    use super::*;

    #[test]
    fn challenges_for_tokens_are_read_and_those_with_a_proof_come_first() {
        let mut headers = HeaderMap::new();
        for text in [
            "Basic realm=\"x\"",
            "bearer error=\"insufficient_scope\", scope=\"a b\"",
            "DPoP error=\"use_dpop_nonce\", resource_metadata=\"https://a.test/m\"",
        ] {
            headers.append(WWW_AUTHENTICATE, HeaderValue::from_static(text));
        }
        let [dpop, bearer] =
            Challenge::all(&headers, &"https://a.test/mcp".parse().unwrap()).try_into().unwrap();
        assert_eq!((dpop.scheme, bearer.scheme), (Scheme::Dpop, Scheme::Bearer));
        assert!(dpop.wants_nonce() && !bearer.wants_nonce());
        assert!(!dpop.is_insufficient_scope() && bearer.is_insufficient_scope());
        assert_eq!(dpop.resource_metadata.unwrap().as_str(), "https://a.test/m");
        assert_eq!(bearer.scope.as_deref(), Some("a b"));
    }
}
