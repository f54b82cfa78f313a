//! The HTTP client of one remote server.
//!
//! This module only builds the client. It sends no request.

use reqwest::Client;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::redirect::Policy;

use super::spec::RemoteSpec;
use crate::web::{builder, followed, said};

/// A client that sends the configured headers to the configured origin, and to no other.
pub(super) fn http_client(spec: &RemoteSpec) -> Result<Client, String> {
    let mut headers = HeaderMap::new();
    for (name, value) in &spec.headers {
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|error| error.to_string())?;
        let mut value = HeaderValue::from_str(value).map_err(|error| error.to_string())?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    builder(&spec.url)?.default_headers(headers).redirect(Policy::custom(followed)).build().map_err(said)
}
