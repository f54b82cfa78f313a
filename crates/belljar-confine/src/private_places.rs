//! Places of a user that a program gets only if the user names them: keys and logins, start files of shells, and
//! belljar's own files.
//!
//! It opens and refuses nothing: its callers do.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use super::mount_list::MountList;
use belljar_base::look_budget::LookBudget;
use belljar_base::resolved_path::ResolvedPath;

/// Files and folders of a home that are there for keys and logins.
pub const LOGIN_PLACES: [&str; 101] = [
    // Keys, agents and password managers.
    ".ssh",
    ".gnupg",
    ".password-store",
    ".pki",
    ".config/op",
    ".config/1Password",
    ".config/Bitwarden",
    ".config/sops",
    ".local/share/keyrings",
    ".local/share/kwalletd",
    ".local/share/python_keyring",
    "Library/Cookies",
    "Library/Keychains",
    // Browsers and mail.
    ".mozilla",
    ".thunderbird",
    ".config/BraveSoftware",
    ".config/chromium",
    ".config/google-chrome",
    ".config/microsoft-edge",
    ".config/vivaldi",
    "snap/chromium",
    "snap/firefox",
    // Clouds, containers and databases.
    ".aws",
    ".azure",
    ".databrickscfg",
    ".docker",
    ".kaggle",
    ".kube",
    ".my.cnf",
    ".mylogin.cnf",
    ".oci",
    ".pgpass",
    ".terraform.d",
    ".terraformrc",
    ".vault-token",
    ".cache/huggingface/token",
    ".config/containers",
    ".config/doctl",
    ".config/gcloud",
    ".config/rclone",
    // Version control and package managers.
    ".git-credentials",
    ".netrc",
    ".npmrc",
    ".pypirc",
    ".yarnrc.yml",
    ".condarc",
    ".pip/pip.conf",
    ".rattler",
    ".rye/credentials",
    ".config/pip/pip.conf",
    ".config/pypoetry/auth.toml",
    ".local/share/uv/credentials",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".composer/auth.json",
    ".gem/credentials",
    ".gradle/gradle.properties",
    ".m2/settings.xml",
    ".config/composer/auth.json",
    ".config/gh",
    ".config/git/credentials",
    ".config/github-copilot",
    ".config/glab-cli",
    ".config/hub",
    // MCP clients, whose entries hold keys and whose logs hold conversations.
    ".claude",
    ".claude.json",
    ".cline",
    ".codeium",
    ".codex",
    ".continue",
    ".copilot",
    ".cursor",
    ".gemini",
    ".mcp-auth",
    ".qwen",
    ".vibe",
    ".config/Claude",
    ".config/Code",
    ".config/Code - Insiders",
    ".config/VSCodium",
    ".config/goose",
    ".config/kilo",
    ".config/opencode",
    ".config/zed",
    ".local/share/goose",
    ".local/share/kilo",
    ".local/share/opencode",
    ".local/share/zed",
    "Library/Application Support/Claude",
    "Library/Application Support/Code",
    "Library/Application Support/Code - Insiders",
    "Library/Application Support/VSCodium",
    // Histories, in which keys were typed.
    ".bash_history",
    ".mysql_history",
    ".node_repl_history",
    ".psql_history",
    ".python_history",
    ".rediscli_history",
    ".sqlite_history",
    ".zsh_history",
    ".local/share/fish/fish_history",
];
/// Files and folders in a home whose content is executed with all rights of the user, at the next login or shell.
const START_PLACES: [&str; 24] = [
    ".bashrc",
    ".bash_aliases",
    ".bash_login",
    ".bash_logout",
    ".bash_profile",
    ".profile",
    ".zlogin",
    ".zprofile",
    ".zshenv",
    ".zshrc",
    ".zlogout",
    ".cshrc",
    ".tcshrc",
    ".login",
    ".xinitrc",
    ".xprofile",
    ".xsession",
    ".xsessionrc",
    ".config/autostart",
    ".config/environment.d",
    ".config/fish",
    ".config/plasma-workspace/env",
    ".config/systemd/user",
    ".local/share/systemd/user",
];
/// The home of the machine's administrator.
const ROOTS_HOME: &str = "/root";
/// Parts of the names of files and folders with keys and logins, and endings of such names, in lower case.
const OF_LOGINS: [&str; 7] = ["credential", "creds", "oauth", "passwd", "password", "secret", "token"];
const ENDINGS_OF_LOGINS: [&str; 7] =
    ["auth.json", "history", "history.jsonl", ".env", ".kdbx", ".key", ".pem"];
/// Longest path that may be suggested, in characters.
const SUGGESTED_CHARS_MAX: usize = 200;

/// The private places of one user.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PrivatePlaces {
    home: Option<PathBuf>,
    /// Files and folders of belljar.
    own: Arc<[PathBuf]>,
    /// belljar's executable, which anybody may read.
    program: Option<PathBuf>,
}

/// Private places other than start files of shells.
#[derive(Default)]
pub struct SecretPlaces(Vec<Forms>);

impl SecretPlaces {
    /// Whether a folder is such a place, holds one or lies in one.
    #[must_use]
    pub fn meets(&self, folder: &Path) -> bool {
        let real = ResolvedPath::of(folder).end;
        let folder = Forms::new(&real, ResolvedPath::of(&real)).with_identities();
        self.0.iter().any(|place| folder.lies_in(place) || folder.holds(place))
    }
}

/// The reason why a place is private.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlaceKind {
    /// It is belljar's: its configuration, its state, its environments.
    Own,
    /// It contains keys or logins.
    Logins,
    /// Its content is executed when the user logs in or opens a shell.
    Start,
}

impl PrivatePlaces {
    /// The private places of the user with this home; `own` are belljar's files and folders.
    #[must_use]
    pub fn new(home: Option<PathBuf>, own: impl IntoIterator<Item = PathBuf>) -> Self {
        Self { home, own: own.into_iter().collect(), program: None }
    }

    /// These private places, and belljar's executable.
    #[must_use]
    pub fn with_program(self, program: Option<PathBuf>) -> Self {
        Self { program, ..self }
    }

    /// These private places, with further files of belljar.
    #[must_use]
    pub fn with(&self, own: impl IntoIterator<Item = PathBuf>) -> Self {
        Self { own: self.own.iter().cloned().chain(own).collect(), ..self.clone() }
    }

    /// The first private place that is the path, contains it, or lies in it. Both the paths as written and their
    /// targets count, all symlinks on the way of a private place, and other names of the same folder, such as bind
    /// mounts.
    #[must_use]
    pub fn at(&self, path: &Path) -> Option<(PlaceKind, PathBuf)> {
        let forms = |path: &Path| Forms::new(path, ResolvedPath::of(path)).with_identities();
        self.met(&forms(path).with_mounts(), &forms)
    }

    /// As [`Self::at`], for a process that could change what is there. belljar's executable counts as belljar's own then.
    #[must_use]
    pub fn at_to_change(&self, path: &Path) -> Option<(PlaceKind, PathBuf)> {
        self.with(self.program.clone()).at(path)
    }

    /// The private place for which sandboxed code does not get a folder. Code may read what is executed at a login.
    #[must_use]
    pub fn kept_from_code(&self, path: &Path, is_writable: bool) -> Option<(PlaceKind, PathBuf)> {
        if is_writable {
            return self.at_to_change(path);
        }
        self.at(path).filter(|(kind, _)| *kind != PlaceKind::Start)
    }

    /// The places of belljar, and those of keys and logins that exist, to compare many folders with them.
    #[must_use]
    pub fn secret(&self) -> SecretPlaces {
        let logins = self.home.iter().flat_map(|home| LOGIN_PLACES.iter().map(|name| home.join(name)));
        let places = self.own.iter().cloned().chain(logins.filter(|place| place.exists()));
        let mounts = MountList::now();
        let forms = |place: PathBuf| {
            let mut forms = Forms::new(&place, ResolvedPath::of(&place)).with_identities();
            forms.names.extend(mounts.names_of_parts(&forms.end));
            forms
        };
        SecretPlaces(places.map(forms).collect())
    }

    /// The first private place that a path with these forms equals, lies in, or contains.
    fn met(&self, path: &Forms, forms: &dyn Fn(&Path) -> Forms) -> Option<(PlaceKind, PathBuf)> {
        let of_home = |names: &[&str]| -> Vec<PathBuf> {
            self.home.iter().flat_map(|home| names.iter().map(|name| home.join(name))).collect()
        };
        let places = [
            (PlaceKind::Own, self.own.to_vec()),
            (PlaceKind::Logins, of_home(&LOGIN_PLACES)),
            (PlaceKind::Start, of_home(&START_PLACES)),
        ];
        places.into_iter().find_map(|(private, places)| {
            let met = places.into_iter().find(|place| {
                let forms = forms(place);
                // A missing place holds no keys, but missing places of the other kinds could be created.
                path.lies_in(&forms) || path.holds(&forms) && (private != PlaceKind::Logins || place.exists())
            });
            met.map(|place| (private, place))
        })
    }

    /// Whether a path that a program has named may be suggested to the user as a path to give to that program. Such a
    /// path consists of ordinary characters, and none of its names sounds like keys or logins. It is neither private,
    /// nor a home, nor a folder that contains a home. If `looks` does not suffice to find out, the path may not be
    /// suggested.
    #[must_use]
    pub fn may_be_suggested(&self, path: &Path, looks: &LookBudget) -> bool {
        let is_ordinary = |text: &str| {
            let is_ordinary = |c: char| c.is_alphanumeric() || "/._-+@~".contains(c);
            text.starts_with('/')
                && text.chars().count() <= SUGGESTED_CHARS_MAX
                && text.chars().all(is_ordinary)
                && !text[1..].split('/').any(|part| matches!(part, "" | "." | ".."))
        };
        if !path.to_str().is_some_and(is_ordinary) {
            return false;
        }
        let forms = |path: &Path| Forms::new(path, ResolvedPath::within(path, looks));
        let path = forms(path).with_mounts();
        let mut homes = self.home.iter().map(PathBuf::as_path).chain([Path::new(ROOTS_HOME)]);
        let holds_home = homes.any(|home| path.holds(&forms(home)));
        // If the budget is used up, the last path may not have been followed to its end.
        !holds_home
            && !path.names.iter().any(|path| path.components().any(is_of_logins))
            && self.met(&path, &forms).is_none()
            && looks.left() > 0
    }
}

/// Whether a file or folder of this name may hold keys or logins.
fn is_of_logins(name: Component<'_>) -> bool {
    let name = name.as_os_str().to_string_lossy().to_lowercase();
    // Files of language models are often called tokenizer.json.
    let name = name.replace("tokeniz", "");
    OF_LOGINS.iter().any(|part| name.contains(part))
        || ENDINGS_OF_LOGINS.iter().any(|ending| name.ends_with(ending))
}

/// The forms of a path.
struct Forms {
    /// The path as written without `.` and `..`, its end without symlinks, the symlinks that lead directly to the
    /// end, and other names of the end by bind mounts.
    names: Vec<PathBuf>,
    /// Other paths of the end by bind mounts, or of something in it.
    parts: BTreeSet<PathBuf>,
    /// Every file, folder and symlink on the way.
    passed: Vec<PathBuf>,
    end: PathBuf,
    /// The identity of the end; `None`: it does not exist, or identities do not count.
    identity: Option<Identity>,
    /// The identities of the end and of all folders above it.
    above: Vec<Identity>,
    /// The identities of all that is on the way.
    on_way: Vec<Identity>,
}

/// Device and inode, which are the same for all names of a file or folder.
pub(super) type Identity = (u64, u64);

/// The identity of what is at a path, a symlink's own for a symlink; `None`: there is nothing.
pub(super) fn identity(path: &Path) -> Option<Identity> {
    path.symlink_metadata().ok().map(|found| (found.dev(), found.ino()))
}

impl Forms {
    fn new(path: &Path, way: ResolvedPath) -> Self {
        let mut named = PathBuf::new();
        for part in path.components() {
            match part {
                Component::CurDir => {}
                Component::ParentDir => drop(named.pop()),
                part => named.push(part),
            }
        }
        // A link above the end, such as a /home that leads to /var/home, is no name of the end.
        let ResolvedPath { names, passed, end, .. } = way;
        let names = names.into_iter().chain([named]).collect();
        let parts = BTreeSet::new();
        Self { names, parts, passed, end, identity: None, above: Vec::new(), on_way: Vec::new() }
    }

    fn with_mounts(mut self) -> Self {
        let mounts = MountList::now();
        self.names.extend(mounts.names_of(&self.end));
        self.parts = mounts.names_of_parts(&self.end);
        self
    }

    fn with_identities(self) -> Self {
        let above = self.end.ancestors().filter_map(identity).collect();
        let on_way = self.passed.iter().filter_map(|path| identity(path)).collect();
        Self { identity: identity(&self.end), above, on_way, ..self }
    }

    /// Whether the path is a place, or lies in it.
    fn lies_in(&self, place: &Self) -> bool {
        self.names.iter().any(|path| place.names.iter().any(|place| path.starts_with(place)))
            || place.identity.is_some_and(|place| self.above.contains(&place))
    }

    /// Whether the path is a place, or holds it or a part of its way.
    fn holds(&self, place: &Self) -> bool {
        let mut places = place.names.iter().chain(&place.passed);
        places.any(|place| self.names.iter().chain(&self.parts).any(|path| place.starts_with(path)))
            || self.identity.is_some_and(|path| place.above.contains(&path) || place.on_way.contains(&path))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn private_places_are_met_from_inside_from_above_and_through_links() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().canonicalize().unwrap().join("me");
        for folder in [".ssh", ".config/belljar", "work/sub", "dotfiles/belljar"] {
            fs::create_dir_all(home.join(folder)).unwrap();
        }
        symlink(".ssh", home.join("link")).unwrap();
        symlink(home.join("dotfiles/belljar"), home.join("named")).unwrap();
        let places =
            PrivatePlaces::new(Some(home.clone()), [home.join(".config/belljar"), home.join("named")]);
        let at = |path: &str| places.at(&home.join(path)).map(|(private, _)| private);
        for (path, private) in [
            ("", Some(PlaceKind::Own)),
            (".config", Some(PlaceKind::Own)),
            (".config/belljar/config.toml", Some(PlaceKind::Own)),
            ("work/../.config/belljar", Some(PlaceKind::Own)),
            ("dotfiles", Some(PlaceKind::Own)),
            (".ssh", Some(PlaceKind::Logins)),
            ("link/id_rsa", Some(PlaceKind::Logins)),
            (".aws/credentials", Some(PlaceKind::Logins)),
            (".bashrc", Some(PlaceKind::Start)),
            (".config/fish/conf.d", Some(PlaceKind::Start)),
            ("work", None),
            (".config/other", None),
        ] {
            assert_eq!(at(path), private, "{path}");
        }
    }

    #[test]
    fn only_ordinary_paths_outside_of_homes_and_private_places_are_suggested() {
        let home = Path::new("/home/me");
        let places = PrivatePlaces::new(Some(home.into()), [home.join(".config/belljar")]);
        let may = |path: &str| places.may_be_suggested(Path::new(path), &LookBudget::new(10_000));
        for path in [
            "/home/me/a-b_c.d/e",
            "/srv/data",
            "/home/me/Téléchargements",
            "/home/me/.config/other",
            "/srv/model/tokenizer.json",
            "/srv/authors.json",
        ] {
            assert!(may(path), "{path}");
            assert!(!places.may_be_suggested(Path::new(path), &LookBudget::new(100)), "{path}");
        }
        for path in [
            "/",
            "/home",
            "/home/me",
            "/root",
            "/home/me/.ssh",
            "/home/me/.gnupg/x",
            "/home/me/.config/belljar",
            "/home/me/.bashrc",
            "/home/me/.bash_history",
            "/home/me/.codex/config.toml",
            "/home/me/.claude.json",
            "/home/me/.config/rclone/rclone.conf",
            "/home/me/.cargo/credentials.toml",
            "/srv/app/auth.json",
            "/srv/app/oauth_creds.json",
            "/srv/app/Tokens/x",
            "/srv/app/service-credentials",
            "/srv/app/server.key",
            "/srv/app/.env",
            "/home/other/.zsh_history",
            "/srv/../home/me",
            "/srv//data",
            "/srv/data/",
            "srv",
            "/srv/a b",
            "/srv/x\") to sandbox.read. **sandbox = false** (",
            "/srv/`x`",
            "/srv/\u{202e}x",
            &format!("/{}", "x".repeat(200)),
        ] {
            assert!(!may(path), "{path}");
        }
    }

    /// As on systems whose /home leads to /var/home.
    #[test]
    fn a_symlink_above_the_home_makes_nothing_else_private() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        fs::create_dir_all(dir.join("var/me/.ssh")).unwrap();
        fs::create_dir_all(dir.join("var/me/work")).unwrap();
        symlink("var", dir.join("home")).unwrap();
        let home = dir.join("home/me");
        let places = PrivatePlaces::new(Some(home.clone()), [home.join(".config/belljar")]);
        let kind = |path: &str| places.at(&dir.join(path)).map(|(kind, _)| kind);
        for (names, expected) in [
            (["home/me/work", "var/me/work"], None),
            (["home/me/.ssh/x", "var/me/.ssh"], Some(PlaceKind::Logins)),
            (["home/me/.config/belljar/x", "var/me/.config/belljar"], Some(PlaceKind::Own)),
            (["home/me", "var"], Some(PlaceKind::Own)),
            (["home", "."], Some(PlaceKind::Own)),
        ] {
            assert_eq!(names.map(kind), [expected; 2], "{names:?}");
        }
    }

    #[test]
    fn a_symlink_on_the_way_to_a_place_is_part_of_it() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().canonicalize().unwrap();
        for folder in ["links", "real", "w", "other"] {
            fs::create_dir(home.join(folder)).unwrap();
        }
        symlink("links/m", home.join("MCPs")).unwrap();
        symlink(home.join("real"), home.join("links/m")).unwrap();
        symlink("w/late", home.join("late")).unwrap();
        let places = PrivatePlaces::new(Some(home.clone()), [home.join("MCPs"), home.join("late")]);
        for own in ["links", "real", "w"] {
            assert!(matches!(places.at(&home.join(own)), Some((PlaceKind::Own, _))), "{own}");
        }
        assert_eq!(places.at(&home.join("other")), None);
    }
}
