//! Places of a user that no program is given unasked: keys and logins, start files of shells, and belljar's own files.
//!
//! It opens and refuses nothing: its users do.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use super::resolved_path::ResolvedPath;

/// Files and folders of a home that are there for keys and logins.
pub const LOGIN_PLACES: [&str; 24] = [
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".kube",
    ".docker",
    ".password-store",
    ".pki",
    ".mozilla",
    ".thunderbird",
    ".config/BraveSoftware",
    ".config/chromium",
    ".config/containers",
    ".config/gcloud",
    ".config/gh",
    ".config/google-chrome",
    ".local/share/keyrings",
    ".local/share/kwalletd",
    ".git-credentials",
    ".netrc",
    ".npmrc",
    ".pypirc",
    "Library/Cookies",
    "Library/Keychains",
];
/// Files and folders of a home whose content runs with all rights of the user, at the next login or shell.
const START_PLACES: [&str; 16] = [
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
    ".xprofile",
    ".xsessionrc",
    ".config/autostart",
    ".config/environment.d",
    ".config/fish",
    ".config/systemd/user",
];
/// The home of the machine's administrator.
const ROOTS_HOME: &str = "/root";
/// Longest path that may be suggested, in characters.
const SUGGESTED_CHARS_MAX: usize = 200;

/// The places of one user.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PrivatePlaces {
    home: Option<PathBuf>,
    /// Files and folders that belljar reads and keeps.
    own: Arc<[PathBuf]>,
}

/// What a place is private for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlaceKind {
    /// It is belljar's: its configuration, its state, its environments.
    Own,
    /// It is there for keys and logins.
    Logins,
    /// It is run when the user logs in or opens a shell.
    Start,
}

impl PrivatePlaces {
    /// Those of the user with this home; `own` are belljar's.
    #[must_use]
    pub fn new(home: Option<PathBuf>, own: impl IntoIterator<Item = PathBuf>) -> Self {
        Self { home, own: own.into_iter().collect() }
    }

    /// The same, with further files that are belljar's.
    #[must_use]
    pub fn with(&self, own: impl IntoIterator<Item = PathBuf>) -> Self {
        Self::new(self.home.clone(), self.own.iter().cloned().chain(own))
    }

    /// The first private place that a path is, lies in, or holds, as they are named and where they are.
    #[must_use]
    pub fn at(&self, path: &Path) -> Option<(PlaceKind, PathBuf)> {
        let path = forms(path);
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
                let lies_in = path.iter().any(|path| forms.iter().any(|place| path.starts_with(place)));
                let holds = path.iter().any(|path| forms.iter().any(|place| place.starts_with(path)));
                // What is not there holds no keys; the others could be made.
                lies_in || holds && (private != PlaceKind::Logins || place.exists())
            });
            met.map(|place| (private, place))
        })
    }

    /// Whether a path that a program has named may be shown as one that it could be given: it has the characters of ordinary
    /// names only, and is neither private nor a home nor a folder that holds one.
    #[must_use]
    pub fn may_be_suggested(&self, path: &Path) -> bool {
        let is_ordinary = |text: &str| {
            let is_ordinary = |c: char| c.is_alphanumeric() || "/._-+@~".contains(c);
            text.starts_with('/')
                && text.chars().count() <= SUGGESTED_CHARS_MAX
                && text.chars().all(is_ordinary)
                && !text[1..].split('/').any(|part| matches!(part, "" | "." | ".."))
        };
        let homes = || self.home.iter().map(PathBuf::as_path).chain([Path::new(ROOTS_HOME)]);
        let holds_home =
            |path: &PathBuf| homes().any(|home| forms(home).iter().any(|home| home.starts_with(path)));
        path.to_str().is_some_and(is_ordinary)
            && !forms(path).iter().any(holds_home)
            && self.at(path).is_none()
    }
}

/// A path as it is named, without `.` and `..`, the symlinks on its way, and where it is, as far as it is there.
fn forms(path: &Path) -> Vec<PathBuf> {
    let mut named = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => drop(named.pop()),
            part => named.push(part),
        }
    }
    let way = ResolvedPath::of(path);
    [named, way.end].into_iter().chain(way.links.into_iter().map(|(link, _)| link)).collect()
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
        let may = |path: &str| places.may_be_suggested(Path::new(path));
        for path in ["/home/me/a-b_c.d/e", "/srv/data", "/home/me/Téléchargements", "/home/me/.config/other"]
        {
            assert!(may(path), "{path}");
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
