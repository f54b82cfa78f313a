//! Finds in the words of a confined server what it lacks: paths that exist outside of its confinement, and hosts.
//!
//! Servers write such texts for people, and a hostile server can write anything. A path counts only if it exists
//! outside, cannot be used inside, and may be suggested: it has ordinary characters and leads to nothing private.
//! Nothing in the text is trusted.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use belljar_base::look_budget::LookBudget;
use belljar_base::text;
use belljar_confine::{Access, Network, PrivatePlaces, ServerPlan};

use super::follow::is_of_system;
use super::resolve::{ResolveError, resolve_within};

/// A file or network access that a confined server needed and does not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lack {
    /// The server does not see the file or folder.
    Read(PathBuf),
    /// The server cannot change the file or folder.
    Write(PathBuf),
    /// The server has no network. The host is that of its error, if the error names one.
    Host(Option<String>),
}

/// The number of bytes of a server's text that are searched. The next constant limits how many lacks are reported.
const TEXT_BYTES_MAX: usize = 16 * 1024;
const TOLD_MAX: usize = 5;
/// The largest number of paths of a text that are looked up, and of file-system operations for all of them. A text can
/// name one path a thousand times, and a server can make the paths that it names long.
const PATHS_MAX: usize = 20;
const LOOKS_MAX: usize = 4096;
/// Longest host that is named, in characters.
const HOST_CHARS_MAX: usize = 100;
/// Words for a file that is missing or refused, in lower case.
const OF_FILES: [&str; 15] = [
    "no such file",
    "file not found",
    "enoent",
    "permission denied",
    "eacces",
    "eperm",
    "not permitted",
    "read-only file system",
    "erofs",
    "not exist",
    "cannot access",
    "not accessible",
    "cannot open",
    "can't open",
    "unable to open",
];
/// The words in `OF_FILES` that show an attempt to change a file.
const OF_CHANGES: [&str; 2] = ["read-only file system", "erofs"];
/// Words for a network that is missing, in lower case.
const OF_NETWORK: [&str; 11] = [
    "enotfound ",
    "eai_again ",
    "enetunreach",
    "network is unreachable",
    "name resolution",
    "name or service not known",
    "could not resolve",
    "getaddrinfo",
    "no such host",
    "dial tcp",
    "dns error",
];
/// The words before a host in such a text.
const BEFORE_HOSTS: [&str; 9] = [
    "https://",
    "http://",
    "enotfound ",
    "eai_again ",
    "host='",
    "lookup ",
    "resolve host: ",
    "enetunreach ",
    "dial tcp ",
];

/// Finds the files and hosts that the text names as missing.
pub(crate) fn lacks(said: &str, plan: &ServerPlan, private: &PrivatePlaces) -> Vec<Lack> {
    let said = text::bounded(said, TEXT_BYTES_MAX);
    let looks = LookBudget::new(LOOKS_MAX);
    let mut looked_at = BTreeSet::new();
    let mut found: Vec<Lack> = Vec::new();
    for line in said.lines() {
        let small = line.to_lowercase();
        let holds = |words: &[&str]| words.iter().any(|word| small.contains(word));
        let mut add = |lack: Lack| {
            if !found.contains(&lack) && found.len() < TOLD_MAX {
                found.push(lack);
            }
        };
        if holds(&OF_FILES) {
            let changes = holds(&OF_CHANGES);
            for path in paths(line) {
                if looked_at.contains(&(path, changes)) {
                    continue;
                }
                if looked_at.len() >= PATHS_MAX {
                    break;
                }
                looked_at.insert((path, changes));
                of_path(Path::new(path), changes, plan, &looks)
                    .filter(|lack| lack.may_be_suggested(plan, private, &looks))
                    .into_iter()
                    .for_each(&mut add);
            }
        }
        if plan.network == Network::None && holds(&OF_NETWORK) {
            add(Lack::Host(host(&small)));
        }
    }
    // A lack with a host makes the one without a host redundant.
    if found.iter().any(|lack| matches!(lack, Lack::Host(Some(_)))) {
        found.retain(|lack| *lack != Lack::Host(None));
    }
    found
}

/// The lacks of these files that may be suggested to the user.
pub(crate) fn to_suggest(unfollowed: &[PathBuf], plan: &ServerPlan, private: &PrivatePlaces) -> Vec<Lack> {
    let looks = LookBudget::new(LOOKS_MAX);
    let all = unfollowed.iter().cloned().map(Lack::Read);
    all.filter(|lack| lack.may_be_suggested(plan, private, &looks)).collect()
}

/// The absolute paths of a line. A quoted path ends at the closing quote, an unquoted one at a blank or a mark such as
/// a comma.
fn paths(line: &str) -> impl Iterator<Item = &str> {
    line.match_indices('/').filter_map(|(at, _)| {
        let before = line[..at].chars().next_back();
        if before.is_some_and(|c| c.is_alphanumeric() || "/.:-_~@".contains(c)) {
            // A slash after a colon begins a path in a line such as `open:/x`, but not in an address.
            let is_colon = before == Some(':') && !line[at..].starts_with("//");
            if !is_colon {
                return None;
            }
        }
        let rest = &line[at..];
        let end = match before.filter(|quote| "'\"`".contains(*quote)) {
            Some(quote) => rest.find(quote)?,
            None => {
                rest.find(|c: char| c.is_whitespace() || "'\"`,;()[]<>".contains(c)).unwrap_or(rest.len())
            }
        };
        let path = rest[..end].trim_end_matches(['.', ':', '/']);
        (path.len() > 1).then_some(path)
    })
}

fn of_path(path: &Path, changes: bool, plan: &ServerPlan, looks: &LookBudget) -> Option<Lack> {
    // The path is resolved outside of the confinement. If it does not exist there, the server may have tried to make
    // the file, so its folder counts.
    let (named, real) = match resolve_within(path, looks) {
        Ok(way) => (path.to_owned(), way.end),
        // It is unknown whether such a path exists.
        Err(ResolveError::OfKernel(_) | ResolveError::Missing(io::ErrorKind::InvalidFilename)) => {
            return None;
        }
        Err(ResolveError::Missing(_)) => {
            let folder = path.parent()?;
            (folder.to_owned(), resolve_within(folder, looks).ok()?.end)
        }
    };
    let is_made = named != path;
    if is_of_system(&real) || real.parent().is_none() {
        return None;
    }
    let seen = plan.visible.iter().rev().find(|visible| real.starts_with(&visible.path));
    let is_private = |folder: &str| named.as_path() == Path::new(folder);
    match seen.map(|visible| visible.access) {
        Some(Access::Layer | Access::Write | Access::Change) => None,
        Some(_) if is_made || changes => Some(Lack::Write(named)),
        Some(_) => None,
        // The server has its own HOME and /tmp, with its own files.
        None if is_private(&plan.home) || is_private("/tmp") || is_private("/var/tmp") => None,
        None if is_made || changes => Some(Lack::Write(named)),
        None => Some(Lack::Read(named)),
    }
}

fn host(line: &str) -> Option<String> {
    let behind = BEFORE_HOSTS.iter().find_map(|mark| line.split_once(mark).map(|(_, rest)| rest))?;
    let host = behind.split(|c: char| !(c.is_ascii_alphanumeric() || "-.".contains(c))).next()?;
    let is_host = (host.contains('.') || host == "localhost") && host.len() <= HOST_CHARS_MAX;
    is_host.then(|| host.trim_end_matches('.').to_owned())
}

impl Lack {
    /// The path that the server cannot read, if that is the lack.
    #[must_use]
    pub fn to_read(&self) -> Option<&Path> {
        match self {
            Self::Read(path) => Some(path),
            Self::Write(_) | Self::Host(_) => None,
        }
    }

    fn may_be_suggested(&self, plan: &ServerPlan, private: &PrivatePlaces, looks: &LookBudget) -> bool {
        match self {
            Self::Read(path) | Self::Write(path) => {
                private.may_be_suggested(path, looks) && !Path::new(&plan.home).starts_with(path)
            }
            Self::Host(_) => true,
        }
    }
}

impl fmt::Display for Lack {
    /// Writes words that follow "it needs", with the key that grants it. Paths and hosts have ordinary characters only.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(path) => write!(f, "to read {path:?} (sandbox.read)"),
            Self::Write(path) => write!(f, "to change {path:?} (sandbox.write)"),
            Self::Host(Some(host)) => write!(f, "to reach {host:?} (sandbox.network)"),
            Self::Host(None) => f.write_str("to reach the network (sandbox.network)"),
        }
    }
}

/// The lacks in words that mark them as the server's unchecked claim; `None` if there are none.
#[must_use]
pub fn in_words(lacks: &[Lack]) -> Option<String> {
    let said: Vec<String> = lacks.iter().map(ToString::to_string).collect();
    (!said.is_empty()).then(|| {
        format!("this server is confined; it says, and nobody has checked, that it needs {}", said.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use belljar_confine::VisiblePath;

    use super::*;

    fn plan(visible: &[(&Path, Access)], network: Network) -> ServerPlan {
        let visible = visible
            .iter()
            .map(|(path, access)| VisiblePath { path: path.to_str().unwrap().to_owned(), access: *access });
        ServerPlan {
            network,
            folder: "/".into(),
            home: "/home/me".into(),
            links: vec![],
            visible: visible.collect(),
        }
    }

    #[test]
    fn paths_that_are_there_outside_are_named_with_the_key() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        for name in ["seen", "hidden", "a b", "own", "me/.ssh", "me/.gnupg", "x`y", "x(y)"] {
            std::fs::create_dir_all(dir.join(name)).unwrap();
            std::fs::write(dir.join(name).join("x.txt"), "").unwrap();
        }
        let plan = plan(&[(&dir.join("seen"), Access::Execute)], Network::Host);
        let private = PrivatePlaces::new(Some(dir.join("me")), [dir.join("own")]);
        let of = |said: &str| lacks(&said.replace('@', dir.to_str().unwrap()), &plan, &private);
        let at = |path: &str| dir.join(path);
        for said in [
            "Error: ENOENT: no such file or directory, open '@/hidden/x.txt'",
            "FileNotFoundError: [Errno 2] No such file or directory: '@/hidden/x.txt'",
            "open @/hidden/x.txt: no such file or directory",
            "error: File not found: @/hidden/x.txt",
            "PermissionError: [Errno 13] Permission denied: \"@/hidden/x.txt\"",
        ] {
            assert_eq!(of(said), [Lack::Read(at("hidden/x.txt"))], "{said}");
        }
        assert_eq!(of("Warning: Cannot access directory @/hidden, skipping"), [Lack::Read(at("hidden"))]);
        assert_eq!(of("EROFS: read-only file system, open '@/seen/new'"), [Lack::Write(at("seen"))]);
        assert_eq!(of("EROFS: read-only file system, open '@/seen/x.txt'"), [Lack::Write(at("seen/x.txt"))]);
        assert_eq!(of("ENOENT: mkdir '@/hidden/new'"), [Lack::Write(at("hidden"))]);
        for said in [
            "no such file: '@/nowhere/x'",
            "read @/hidden/x.txt",
            "no such file: '/proc/1/environ'",
            "no such file: '/usr/lib/nothing'",
            "no such file: https://example.com@/hidden",
            "ENOENT: open '@/seen/x.txt'",
            // None of these texts may lead to a suggestion, or look like belljar's own words.
            "ENOENT: open '@/a b/x.txt'",
            "ENOENT: open '@/x`y/x.txt'",
            "ENOENT: open '@/x(y)/x.txt'",
            "ENOENT: open '@/hidden/../me/.ssh/x.txt'",
            "ENOENT: open '@/me/.ssh'",
            "ENOENT: open '@/me/.gnupg/x.txt'",
            "ENOENT: open '@/own/x.txt'",
            "ENOENT: open '@/me'",
            "ENOENT: open '@'",
            "EROFS: open '@/me/new'",
        ] {
            assert_eq!(of(said), [], "{said}");
        }
        assert_eq!(
            in_words(&of("ENOENT: '@/hidden'")).unwrap().replace(dir.to_str().unwrap(), "@"),
            "this server is confined; it says, and nobody has checked, that it needs to read \"@/hidden\" (sandbox.read)"
        );
    }

    /// The first of many symlinks, each of which leads to the next by so many folders; the last one leads nowhere.
    fn long_way(folder: &Path, parts: usize) -> PathBuf {
        std::fs::create_dir(folder.join("d")).unwrap();
        for number in 0..39 {
            let next = format!("{}k{}", "d/../".repeat(parts), number + 1);
            std::os::unix::fs::symlink(next, folder.join(format!("k{number}"))).unwrap();
        }
        folder.join("k0")
    }

    #[test]
    fn a_text_costs_less_than_following_a_few_of_its_paths() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        for name in ["short", "long"] {
            std::fs::create_dir(dir.join(name)).unwrap();
        }
        let path = long_way(&dir.join("long"), 800);
        let short = long_way(&dir.join("short"), 100);
        let plan = plan(&[(&dir, Access::Change)], Network::Host);
        let start = std::time::Instant::now();
        for _ in 0..20 {
            assert!(path.canonicalize().is_err());
        }
        let of_twenty = start.elapsed();
        for path in [path, short] {
            let path = path.to_str().unwrap();
            let same = format!("ENOENT: {path}\n").repeat(500);
            // Each is another path.
            let other: String = (0..500).map(|number| format!("ENOENT: {path}/{number}\n")).collect();
            for said in [same, other] {
                let start = std::time::Instant::now();
                assert_eq!(lacks(&said, &plan, &PrivatePlaces::default()), []);
                assert!(start.elapsed() < of_twenty, "{:?}, and 20 paths {of_twenty:?}", start.elapsed());
            }
        }
    }

    #[test]
    fn a_path_is_named_behind_many_equal_ones_and_not_behind_many_others() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        for name in ["seen", "hidden"] {
            std::fs::create_dir(dir.join(name)).unwrap();
        }
        let plan = plan(&[(&dir.join("seen"), Access::Execute)], Network::Host);
        let hidden = dir.join("hidden");
        let of = |before: String| {
            let said = format!("{before}ENOENT: {}", hidden.display());
            lacks(&said, &plan, &PrivatePlaces::default())
        };
        let seen = |dots: &str| format!("ENOENT: {}{dots}/seen\n", dir.display());
        assert_eq!(of(seen("").repeat(PATHS_MAX + 1)), [Lack::Read(hidden.clone())]);
        let others = |count: usize| (0..count).map(|number| seen(&"/.".repeat(number))).collect::<String>();
        assert_eq!(of(others(PATHS_MAX - 1)), [Lack::Read(hidden.clone())]);
        assert_eq!(of(others(PATHS_MAX)), []);
    }

    #[test]
    fn hosts_are_named_where_there_is_no_network() {
        let offline = plan(&[], Network::None);
        for (said, host) in [
            ("FetchError: getaddrinfo ENOTFOUND api.github.com", Some("api.github.com")),
            ("getaddrinfo EAI_AGAIN registry.npmjs.org registry.npmjs.org:443", Some("registry.npmjs.org")),
            ("HTTPSConnectionPool(host='pypi.org', port=443): name resolution failed", Some("pypi.org")),
            ("dial tcp: lookup example.com: no such host", Some("example.com")),
            ("connect ENETUNREACH 192.0.2.1:443 - Local (0.0.0.0:0)", Some("192.0.2.1")),
            ("[Errno -3] Temporary failure in name resolution", None),
        ] {
            assert_eq!(
                lacks(said, &offline, &PrivatePlaces::default()),
                [Lack::Host(host.map(str::to_owned))],
                "{said}"
            );
        }
        let online = plan(&[], Network::Host);
        assert_eq!(lacks("getaddrinfo ENOTFOUND api.github.com", &online, &PrivatePlaces::default()), []);
        assert_eq!(lacks("see https://example.com", &offline, &PrivatePlaces::default()), []);
    }
}
