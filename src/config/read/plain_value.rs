//! Decides which values of references are no secrets: those that only say where something is.
//!
//! Results of servers often contain such values, and code could not use them if they were redacted.

use std::path::Path;

use url::Url;

/// The longest part of an address that counts as a name, in bytes; a longer one may be a token.
const PART_BYTES_MAX: usize = 15;

/// Whether the value is an absolute path at which something exists.
pub(super) fn is_existing_path(value: &str) -> bool {
    value.starts_with('/') && !value.contains('\0') && Path::new(value).exists()
}

/// Whether the value is an address that contains no more than names.
pub(super) fn is_plain_address(value: &str) -> bool {
    let Ok(url) = Url::parse(value) else { return false };
    let is_bare = url.username().is_empty() && url.password().is_none();
    let is_plain = is_bare && url.query().is_none() && url.fragment().is_none();
    let mut parts = url.path_segments().into_iter().flatten();
    matches!(url.scheme(), "http" | "https") && is_plain && parts.all(|part| part.len() <= PART_BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_that_exist_and_plain_addresses_are_places() {
        let folder = tempfile::tempdir().unwrap();
        assert!(is_existing_path(folder.path().to_str().unwrap()));
        for address in ["https://x.example/api/v1", "http://localhost:8080"] {
            assert!(is_plain_address(address), "{address}");
        }
        for other in [
            "/no/such/path/of/mine",
            "relative",
            "hunter22",
            "https://ada:pw@x.example/",
            "https://ada@x.example/",
            "https://x.example/?key=1",
            "https://x.example/#key",
            "https://hooks.example/T0123456789abcdef",
            "ftp://x.example/",
            "mailto:ada@x.example",
        ] {
            assert!(!is_existing_path(other) && !is_plain_address(other), "{other}");
        }
    }
}
