//! Which variables of the bridge's environment a server inherits: a default set, and those that its entry names.
//!
//! A server gets its own credentials by `env`; other variables of belljar's environment are not passed on.

use std::ffi::OsString;

use super::env_pattern::{EnvPattern, matches};
use super::transport::Launch;
use crate::config::read::environment::Environment;

/// The variables that every server inherits: those that programs need to find the user's files, the network and the right
/// language, and those that npx and uvx need to find packages.
const DEFAULTS: [&str; 39] = [
    // The user and the terminal.
    "HOME",
    "LOGNAME",
    "PATH",
    "SHELL",
    "TERM",
    "TMPDIR",
    "USER",
    "XDG_*",
    // Language and time.
    "LANG",
    "LANGUAGE",
    "LC_*",
    "TZ",
    // The network.
    "ALL_PROXY",
    "FTP_PROXY",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "all_proxy",
    "ftp_proxy",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "CURL_CA_BUNDLE",
    "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    // Packages, and the folders of version managers whose shims are on PATH.
    "ASDF_DATA_DIR",
    "ASDF_DIR",
    "MISE_DATA_DIR",
    "NPM_CONFIG_*",
    "NVM_BIN",
    "NVM_DIR",
    "PIP_*",
    "PYENV_ROOT",
    "UV_*",
    "VOLTA_HOME",
    "npm_config_*",
    // The encoding of text on macOS.
    "__CF_USER_TEXT_ENCODING",
];

/// Variables that shells keep for themselves. A server's words hold them by chance.
const OF_SHELLS: [&str; 4] = ["OLDPWD", "PWD", "SHLVL", "_"];

/// What a server has of the bridge's environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inherited {
    /// The variables that it inherits.
    pub variables: Vec<(OsString, OsString)>,
    /// The names of the variables that it does not have, though the bridge does.
    pub withheld: Vec<String>,
}

impl Environment {
    /// What a server that is started in this way inherits.
    #[must_use]
    pub fn inherited(&self, launch: &Launch) -> Inherited {
        let is_inherited = |name: &str| {
            DEFAULTS.iter().any(|default| matches(default, name))
                || launch.env_inherit.iter().any(|pattern| pattern.matches(name))
        };
        let (variables, others): (Vec<_>, Vec<_>) =
            self.variables.iter().partition(|(name, _)| is_inherited(&name.to_string_lossy()));
        let names = others.into_iter().filter_map(|(name, _)| name.to_str());
        let withheld = names.filter(|name| {
            let is_own = launch.env.iter().any(|(own, _)| own == *name);
            !is_own && !OF_SHELLS.contains(name) && self.variable(name).is_some()
        });
        Inherited {
            withheld: withheld.map(str::to_owned).collect(),
            variables: variables.into_iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
        }
    }

    /// The variables that these patterns bring beside the default ones, by their names.
    #[must_use]
    pub fn inherited_by(&self, patterns: &[EnvPattern]) -> Vec<&str> {
        let names = self.variables.keys().filter_map(|name| name.to_str());
        names.filter(|name| patterns.iter().any(|pattern| pattern.matches(name))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::transport::NamedSecrets;
    use super::*;

    const BRIDGE: [(&str, &str); 12] = [
        ("PATH", "/bin"),
        ("LC_ALL", "C"),
        ("https_proxy", "http://proxy"),
        ("npm_config_registry", "https://npm.example"),
        ("UV_INDEX_URL", "https://uv.example"),
        ("AWS_PROFILE", "work"),
        ("AWS_REGION", "eu"),
        ("GITHUB_TOKEN", "ghp"),
        ("PYTHONPATH", "/lib"),
        ("PWD", "/"),
        ("BLANK", " "),
        ("OWN", "1"),
    ];

    fn inherited(patterns: &[&str]) -> (String, String) {
        let environment = Environment {
            variables: BRIDGE.iter().map(|(name, value)| (name.into(), value.into())).collect(),
            home: None,
            uid: 0,
            cwd: None,
            executable: None,
        };
        let launch = Launch {
            program: "c".into(),
            args: vec![],
            env: NamedSecrets::new(vec![("OWN".into(), "2".into())]),
            env_inherit: patterns.iter().map(|pattern| EnvPattern::new(pattern).unwrap()).collect(),
            cwd: None,
        };
        let Inherited { variables, withheld } = environment.inherited(&launch);
        let names: Vec<_> = variables.iter().map(|(name, _)| name.to_str().unwrap()).collect();
        (names.join(" "), withheld.join(" "))
    }

    const USUAL: &str = "LC_ALL PATH UV_INDEX_URL https_proxy npm_config_registry";

    #[test]
    fn a_server_inherits_the_default_set_and_what_its_entry_names() {
        let of = |names: &str, withheld: &str| (names.to_owned(), withheld.to_owned());
        assert_eq!(inherited(&[]), of(USUAL, "AWS_PROFILE AWS_REGION GITHUB_TOKEN PYTHONPATH"));
        assert_eq!(
            inherited(&["AWS_*"]),
            of(&format!("AWS_PROFILE AWS_REGION {USUAL}"), "GITHUB_TOKEN PYTHONPATH")
        );
        assert_eq!(
            inherited(&["AWS_PROFILE", "GITHUB"]),
            of(&format!("AWS_PROFILE {USUAL}"), "AWS_REGION GITHUB_TOKEN PYTHONPATH"),
            "a pattern without '*' is a whole name"
        );
        let (all, none) = inherited(&["*"]);
        assert_eq!((all.split(' ').count(), none.as_str()), (BRIDGE.len(), ""));
    }
}
