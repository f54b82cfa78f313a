//! Which values are no secrets although a reference has brought them: those that only say where something is.
//!
//! Results of servers are full of such values, and code could not use what stands in their place.

use std::path::Path;

use url::Url;

use super::references::Files;

/// Longer parts of an address may be what gives access to it.
const PART_BYTES_MAX: usize = 15;

/// Whether the value is the path of something that is there, or an address that holds no more than names.
pub(super) fn is_place(value: &str, files: Files) -> bool {
    is_path(value, files) || is_plain_address(value)
}

fn is_path(value: &str, files: Files) -> bool {
    files == Files::Read && value.starts_with('/') && !value.contains('\0') && Path::new(value).exists()
}

fn is_plain_address(value: &str) -> bool {
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
    fn a_path_that_is_there_and_an_address_of_names_are_places_and_nothing_else_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_str().unwrap();
        for place in [path, "https://x.example/api/v1", "http://localhost:8080"] {
            assert!(is_place(place, Files::Read), "{place}");
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
            assert!(!is_place(other, Files::Read), "{other}");
        }
        assert!(!is_place(path, Files::Closed), "nothing is looked at");
    }
}
