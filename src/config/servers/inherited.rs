//! The variables of the bridge's environment that a server inherits: a default set, and those that its entry names.
//!
//! A server gets its own credentials by `env`; other variables of belljar's environment are not passed on.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use belljar_base::resolved_path::ResolvedPath;
use belljar_confine::{Network, ServerSandbox};
use belljar_upstream::Inherited;

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

/// Variables of the default set that may hold credentials for package registries. A confined server inherits only the
/// exceptions in [`PLACES`].
const OF_REGISTRIES: [&str; 4] = ["NPM_CONFIG_*", "npm_config_*", "PIP_*", "UV_*"];
const PLACES: [&str; 6] = [
    "NPM_CONFIG_CACHE",
    "npm_config_cache",
    "PIP_CACHE_DIR",
    "UV_CACHE_DIR",
    "UV_PYTHON_INSTALL_DIR",
    "UV_TOOL_DIR",
];
/// Variables of the default set that may hold credentials for proxies. A confined server inherits them only with
/// network.
const PROXIES: [&str; 8] = [
    "ALL_PROXY",
    "FTP_PROXY",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "all_proxy",
    "ftp_proxy",
    "http_proxy",
    "https_proxy",
];

/// Variables by which npm, yarn and pnpm mark what they start.
const BY_NPM: [&str; 4] = ["npm_command", "npm_config_user_agent", "npm_execpath", "npm_lifecycle_event"];

/// Variables that shells keep for themselves. They are not reported as withheld.
const OF_SHELLS: [&str; 4] = ["OLDPWD", "PWD", "SHLVL", "_"];

impl Environment {
    /// The variables that a server inherits if it is started in this way. A confined one inherits fewer of the default
    /// set.
    #[must_use]
    pub fn inherited(&self, launch: &Launch, sandbox: Option<&ServerSandbox>) -> Inherited {
        let is_default = |name: &str| {
            let is_in = |set: &[&str]| set.iter().any(|default| matches(default, name));
            is_in(&DEFAULTS)
                && sandbox.is_none_or(|sandbox| {
                    let is_withheld = is_in(&OF_REGISTRIES) && !PLACES.contains(&name);
                    !is_withheld && (sandbox.network == Network::Host || !is_in(&PROXIES))
                })
        };
        // npm passes on its own settings, among them those that a project's .npmrc has.
        let is_of_npm = BY_NPM.iter().any(|name| self.variables.contains_key(OsStr::new(name)));
        let is_default = |name: &str| is_default(name) && !(is_of_npm && name.starts_with("npm_config_"));
        // Another server than the project's own loads no code of the project that is open.
        let projects = self.projects();
        let is_of_project =
            launch.cwd.as_ref().is_some_and(|cwd| projects.iter().any(|project| cwd.starts_with(project)));
        let leads_into_project = |value: &OsString| {
            let paths = std::env::split_paths(value).filter(|path| path.is_absolute());
            let ways = paths.map(|path| ResolvedPath::of(&path).passed).collect::<Vec<_>>();
            let is_passed = |project: &PathBuf| ways.iter().flatten().any(|place| place.starts_with(project));
            !is_of_project && projects.iter().any(is_passed)
        };
        let is_inherited = |name: &str, value: &OsString| {
            is_default(name) && !leads_into_project(value)
                || launch.env_inherit.iter().any(|pattern| pattern.matches(name))
        };
        let (variables, others): (Vec<_>, Vec<_>) =
            self.variables.iter().partition(|(name, value)| is_inherited(&name.to_string_lossy(), value));
        let names = others.into_iter().filter_map(|(name, _)| name.to_str());
        let withheld = names.filter(|name| {
            let is_own = launch.env.iter().any(|(own, _)| own == *name);
            !is_own && !OF_SHELLS.contains(name) && self.variable(name).is_some()
        });
        Inherited::Only {
            withheld: withheld.map(str::to_owned).collect(),
            variables: variables.into_iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
        }
    }

    /// The names of the bridge's variables that match these patterns.
    #[must_use]
    pub fn inherited_by(&self, patterns: &[EnvPattern]) -> Vec<&str> {
        let names = self.variables.keys().filter_map(|name| name.to_str());
        names.filter(|name| patterns.iter().any(|pattern| pattern.matches(name))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::transport::{NamedSecrets, SandboxChoice};
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
        inherited_in(patterns, None)
    }

    fn inherited_in(patterns: &[&str], sandbox: Option<ServerSandbox>) -> (String, String) {
        let environment = Environment {
            variables: BRIDGE.iter().map(|(name, value)| (name.into(), value.into())).collect(),
            home: None,
            uid: 0,
            cwd: None,
            executable: None,
            owner: None,
        };
        let launch = Launch {
            program: "c".into(),
            args: vec![],
            env: NamedSecrets::new(vec![("OWN".into(), "2".into())]),
            env_inherit: patterns.iter().map(|pattern| EnvPattern::new(pattern).unwrap()).collect(),
            cwd: None,
            sandbox: SandboxChoice::Default,
            projects: vec![],
        };
        let Inherited::Only { variables, withheld } = environment.inherited(&launch, sandbox.as_ref()) else {
            panic!("every variable is inherited");
        };
        let names: Vec<_> = variables.iter().map(|(name, _)| name.to_str().unwrap()).collect();
        (names.join(" "), withheld.join(" "))
    }

    const USUAL: &str = "LC_ALL PATH UV_INDEX_URL https_proxy npm_config_registry";

    #[test]
    fn what_npm_passes_on_of_a_projects_settings_is_not_inherited() {
        let named = |names: &[&str]| {
            let variables = names.iter().map(|name| (name.into(), "x".into())).collect();
            let environment =
                Environment { variables, home: None, uid: 0, cwd: None, executable: None, owner: None };
            let launch = Launch {
                program: "c".into(),
                args: vec![],
                env: NamedSecrets::new(vec![]),
                env_inherit: vec![],
                cwd: None,
                sandbox: SandboxChoice::Default,
                projects: vec![],
            };
            let Inherited::Only { variables, .. } = environment.inherited(&launch, None) else { panic!() };
            variables.len()
        };
        assert_eq!(named(&["npm_config_registry", "NPM_CONFIG_REGISTRY"]), 2);
        for mark in BY_NPM {
            assert_eq!(named(&["npm_config_registry", "NPM_CONFIG_REGISTRY", mark]), 1, "{mark}");
        }
    }

    #[test]
    fn variables_that_lead_into_the_open_project_are_for_its_own_servers_only() {
        let project = tempfile::tempdir().unwrap();
        let project = project.path().canonicalize().unwrap();
        let names = |cwd: Option<PathBuf>| {
            let inside = project.join(".tools").into_os_string();
            let variables = [("UV_TOOL_DIR", inside), ("UV_CACHE_DIR", "/var/cache/uv".into())];
            let environment = Environment {
                variables: variables.into_iter().map(|(name, value)| (name.into(), value)).collect(),
                home: None,
                uid: 0,
                cwd: Some(project.clone()),
                executable: None,
                owner: None,
            };
            let launch = Launch {
                program: "c".into(),
                args: vec![],
                env: NamedSecrets::new(vec![]),
                env_inherit: vec![],
                cwd,
                sandbox: SandboxChoice::Default,
                projects: vec![],
            };
            let Inherited::Only { variables, .. } = environment.inherited(&launch, None) else { panic!() };
            variables.into_iter().map(|(name, _)| name.into_string().unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(names(None), ["UV_CACHE_DIR"]);
        assert_eq!(names(Some(project.clone())), ["UV_CACHE_DIR", "UV_TOOL_DIR"]);
    }

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
        let confined = |network| {
            let sandbox = ServerSandbox { network, ..ServerSandbox::default() };
            inherited_in(&["UV_*"], Some(sandbox)).0
        };
        assert_eq!(confined(Network::None), "LC_ALL PATH UV_INDEX_URL");
        assert_eq!(confined(Network::Host), "LC_ALL PATH UV_INDEX_URL https_proxy");
        let (all, none) = inherited(&["*"]);
        assert_eq!((all.split(' ').count(), none.as_str()), (BRIDGE.len(), ""));
    }
}
