//! Checks an address of the configuration.
//!
//! It connects to nothing and looks up no name.

use url::Url;

/// An address that HTTP requests can be sent to, or what is wrong with it. The message repeats nothing of the text, which
/// may contain a secret.
pub(crate) fn http_url(text: &str) -> Result<Url, &'static str> {
    let url = Url::parse(text.trim()).map_err(|_| "is no address; write https://HOST/PATH")?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err("must begin with https:// or http://");
    }
    if url.host().is_none() {
        return Err("names no host");
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("holds a user or a password; send them as a header");
    }
    if url.fragment().is_some() {
        return Err("holds a fragment (#), which no server sees");
    }
    Ok(url)
}
