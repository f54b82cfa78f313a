//! Reads from the environment where packages come from, for the builds of images.
//!
//! The values can contain passwords, so they are never shown.

use std::collections::HashMap;
use std::path::PathBuf;

use crate::config::read::environment::Environment;

/// Variables that a build gets unchanged.
const PASSED_ON: [&str; 8] = [
    "PIP_INDEX_URL",
    "PIP_DEFAULT_TIMEOUT",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
];
/// Variables that may name a file of the certificates that pip trusts; the first one that is set counts.
const CERTIFICATES: [&str; 3] = ["PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"];

/// The sources of packages.
pub struct PackageSources {
    /// Variables of the build by their names.
    pub variables: HashMap<String, String>,
    /// A file of certificates.
    pub certificates: Option<PathBuf>,
}

impl Environment {
    /// The sources of packages that the environment names.
    #[must_use]
    pub fn package_sources(&self) -> PackageSources {
        let text = |name: &&str| Some(((*name).to_owned(), self.variable(name)?.to_str()?.to_owned()));
        let file = |name: &&str| self.variable(name).map(PathBuf::from).filter(|path| path.is_file());
        PackageSources {
            variables: PASSED_ON.iter().filter_map(text).collect(),
            certificates: CERTIFICATES.iter().find_map(file),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_build_is_given_the_index_and_the_first_bundle_that_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let bundle = dir.path().join("ca.pem");
        std::fs::write(&bundle, "x").unwrap();
        let variables = [
            ("PIP_INDEX_URL", "https://me:secret@index.example/simple"),
            ("PIP_CERT", "/nowhere/ca.pem"),
            ("SSL_CERT_FILE", bundle.to_str().unwrap()),
            ("PIP_TRUSTED_HOST", "x"),
            ("https_proxy", ""),
        ];
        let environment = Environment {
            variables: BTreeMap::from(variables.map(|(name, value)| (name.into(), value.into()))),
            home: None,
            uid: 0,
            cwd: None,
            executable: None,
            owner: None,
        };
        let sources = environment.package_sources();
        let expected = [("PIP_INDEX_URL".to_owned(), "https://me:secret@index.example/simple".to_owned())];
        assert_eq!(sources.variables, HashMap::from(expected));
        assert_eq!(sources.certificates, Some(bundle));
    }
}
