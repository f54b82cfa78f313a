//! Addresses of files in a workspace, as MCP clients see them.

use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};

use super::FilePath;

/// What they begin with; the path follows.
const BEGINNING: &str = "workspace:///";
/// What cannot stand as itself in the path of a URI (RFC 3986, section 3.3).
const ESCAPED: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'[')
    .add(b'\\')
    .add(b']')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// The address of this file.
#[must_use]
pub fn uri(path: &FilePath) -> String {
    format!("{BEGINNING}{}", utf8_percent_encode(path.as_str(), ESCAPED))
}

/// The file that has this address; nothing if the address is not that of a file in a workspace.
#[must_use]
pub fn path_of(uri: &str) -> Option<FilePath> {
    let path = percent_decode_str(uri.strip_prefix(BEGINNING)?).decode_utf8().ok()?;
    FilePath::new(&path).ok()
}

/// What a file is, by its name.
#[must_use]
pub fn mime_type(path: &FilePath) -> String {
    mime_guess::from_path(path.as_str()).first_or_octet_stream().essence_str().to_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn addresses_name_files_of_the_workspace_and_nothing_else() {
        let path = FilePath::new("out/fig 1 – é%.png").unwrap();
        assert_eq!(uri(&path), "workspace:///out/fig%201%20%E2%80%93%20%C3%A9%25.png");
        assert_eq!(mime_type(&path), "image/png");
        assert_eq!(mime_type(&FilePath::new("data").unwrap()), "application/octet-stream");
        for wrong in [
            "workspace:///",
            "workspace:///../x",
            "workspace:///a%2F..%2Fb",
            "workspace://host/x",
            "file:///x",
        ] {
            assert_eq!(path_of(wrong), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn an_address_leads_back_to_its_file(text in "\\PC{1,40}(/\\PC{1,10})?") {
            if let Ok(path) = FilePath::new(&text) {
                prop_assert_eq!(path_of(&uri(&path)), Some(path));
            }
        }
    }
}
