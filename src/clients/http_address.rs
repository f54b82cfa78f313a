//! The address at which a client reaches belljar over HTTP, and the name of the variable that has the token.
//!
//! It knows neither the token nor the value of a variable.

use belljar_upstream::web::is_loopback;
use url::{Host, Url};

use super::translate::references::is_variable;

/// The last part of the path at which `belljar serve --http` has MCP.
const PATH: &str = "/mcp";
/// What every token begins with.
const TOKEN_PREFIX: &str = "belljar_";

/// The address at which a client reaches belljar, and the variable that has the token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpAddress {
    url: Url,
    variable: String,
}

/// The reason why an address is written into no client's file.
#[derive(Debug, thiserror::Error)]
pub enum HttpAddressError {
    /// It is no address.
    #[error("--http: {0}; write it like http://127.0.0.1:8765/mcp")]
    Unread(#[from] url::ParseError),
    /// It is an address of something else.
    #[error(
        "--http: the address must begin with http:// or https:// and end with /mcp, without user, password and query"
    )]
    Other,
    /// The token would be sent unencrypted to another machine.
    #[error(
        "--http: without TLS, the token can be read on its way to {0:?}; use https:// (`belljar serve` has it with \
         --tls-certificate, or with a proxy in front of it)"
    )]
    Readable(String),
    /// The name, or the address that stands for all, leads to several addresses of this machine, and another program may listen
    /// on one of them.
    #[error(
        "--http: {0:?} can lead to another program, which would get the token; write the address that `belljar serve --http` \
         has, such as 127.0.0.1"
    )]
    Named(String),
    /// The name cannot be one of a variable.
    #[error(
        "--token-variable: it must be the name of a variable, and not the token itself, which belongs in no file"
    )]
    Variable,
}

impl HttpAddress {
    /// The address and the name of the variable, if both can be written into files.
    ///
    /// # Errors
    /// The reason why they cannot.
    pub fn new(url: &str, variable: &str) -> Result<Self, HttpAddressError> {
        let url = Url::parse(url)?;
        if !is_of_belljar(&url) {
            return Err(HttpAddressError::Other);
        }
        if url.scheme() == "http" && !is_loopback(&url) {
            return Err(HttpAddressError::Readable(url.host_str().unwrap_or_default().to_owned()));
        }
        let leads_anywhere = match url.host() {
            Some(Host::Ipv4(address)) => address.is_unspecified(),
            Some(Host::Ipv6(address)) => address.to_canonical().is_unspecified(),
            Some(Host::Domain(_)) | None => true,
        };
        if url.scheme() == "http" && leads_anywhere {
            return Err(HttpAddressError::Named(url.host_str().unwrap_or_default().to_owned()));
        }
        if !is_variable(variable) || variable.starts_with(TOKEN_PREFIX) {
            return Err(HttpAddressError::Variable);
        }
        Ok(Self { url, variable: variable.to_owned() })
    }

    /// The address.
    #[must_use]
    pub fn url(&self) -> &str {
        self.url.as_str()
    }

    /// The name of the variable that has the token.
    #[must_use]
    pub fn variable(&self) -> &str {
        &self.variable
    }
}

/// Whether this may be an address of `belljar serve --http`.
pub(super) fn is_of_belljar(url: &Url) -> bool {
    ["http", "https"].contains(&url.scheme())
        && url.path().ends_with(PATH)
        && (url.username(), url.password(), url.query(), url.fragment()) == ("", None, None, None)
}
