//! Claims about which folders may be mounted, and about the messages for the others.

use std::collections::BTreeMap;
use std::fs;

use super::*;
use crate::config::{Config, ConfigFiles, edited_settings};

/// A user's folder, with a folder `data` that can be mounted.
struct User(tempfile::TempDir);

impl User {
    fn new() -> Self {
        let user = Self(tempfile::tempdir().unwrap());
        for folder in [".config/belljar", "MCPs/tools", "data/deep", "work/sub", "a:b", "project/.belljar"] {
            fs::create_dir_all(user.path(folder)).unwrap();
        }
        fs::write(user.path("data/file"), "").unwrap();
        user
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().canonicalize().unwrap().join(name)
    }

    fn environment(&self) -> Environment {
        Environment {
            variables: BTreeMap::new(),
            home: Some(self.path("")),
            uid: nix::unistd::geteuid().as_raw(),
            cwd: Some(self.path("project")),
            executable: None,
            owner: None,
        }
    }

    fn writes(&self, config: &str) {
        fs::write(self.path(".config/belljar/config.toml"), config).unwrap();
    }

    /// The mounted folders, and the messages for the others.
    fn loads(&self, config: &str) -> (Vec<String>, Vec<String>) {
        self.writes(config);
        self.loads_in(self.environment())
    }

    fn loads_in(&self, environment: Environment) -> (Vec<String>, Vec<String>) {
        let config = Config::load(&environment);
        let home = self.path("");
        let home = home.to_str().unwrap().trim_end_matches('/').to_owned();
        let said = config.problems.iter().map(|problem| problem.to_string().replace(&home, "~"));
        let mounted = config.mounts.iter().map(|mount| {
            let access = if mount.writable { "rw" } else { "ro" };
            format!("{} {} {access}", mount.host.display(), mount.guest).replace(&home, "~")
        });
        (mounted.collect(), said.collect())
    }
}

#[test]
fn folders_are_mounted_read_only_by_their_own_names_unless_it_is_said_otherwise() {
    let user = User::new();
    std::os::unix::fs::symlink("data", user.path("link")).unwrap();
    let config = "[[mount]]\nhost = \"~/link\"\n[[mount]]\nhost = \"../../work\"\nguest = \"/mnt/of/me\"\nwritable = true\n";
    let (mounted, said) = user.loads(config);
    assert_eq!(said, [""; 0]);
    assert_eq!(mounted, ["~/data /mnt/data ro", "~/work /mnt/of/me rw"]);
}

#[test]
fn what_must_not_be_mounted_is_left_out_with_the_reason_and_the_rest_counts() {
    let user = User::new();
    fs::create_dir(user.path(".ssh")).unwrap();
    fs::create_dir_all(user.path(".local/share/keyrings")).unwrap();
    fs::create_dir_all(user.path(".local/share/belljar/environments")).unwrap();
    std::os::unix::fs::symlink(".ssh", user.path("keys")).unwrap();
    fs::create_dir_all(user.path("dotfiles/gnupg")).unwrap();
    std::os::unix::fs::symlink("dotfiles/gnupg", user.path(".gnupg")).unwrap();
    for (mount, says) in [
        ("host = \"~/gone\"", "host: ~/gone: No such file or directory"),
        ("host = \"~/data/file\"", "is no folder; a file is mounted with the folder that it is in"),
        ("host = \"~\"", "holds your whole home"),
        ("host = \"/\"", "is all of the machine"),
        ("host = \"/tmp/../proc\"", "belongs to the system"),
        ("host = \"/etc\"", "belongs to the system"),
        ("host = \"/usr\"", "belongs to the system"),
        ("host = \"/usr/share\"", "belongs to the system"),
        ("host = \"/bin\"", "belongs to the system"),
        ("host = \"/var\"", "belongs to the system or holds a folder that does"),
        ("host = \"/var/run\"", "belongs to the system"),
        ("host = \"/tmp\"", "is shared by all users or programs"),
        ("host = \"~/.ssh\"", "holds keys or logins"),
        ("host = \"~/keys\"", "holds keys or logins"),
        ("host = \"~/.local/share/keyrings\"", "holds keys or logins"),
        ("host = \"~/.local\"", "holds belljar's own files (~/.local/state/belljar)"),
        ("host = \"~/.gnupg\"", "holds keys or logins"),
        ("host = \"~/dotfiles/gnupg\"", "holds keys or logins"),
        ("host = \"~/dotfiles\"", "holds keys or logins"),
        ("host = \"~/.local/share/belljar/environments\"", "holds belljar's own files"),
        ("host = \"~/.config\"", "holds belljar's own files"),
        ("host = \"~/.config/belljar\"", "holds belljar's own files"),
        ("host = \"~/MCPs\"\nwritable = true", "holds belljar's own files"),
        ("host = \"~/MCPs/tools\"", "holds belljar's own files"),
        (
            "host = \"~/work/sub\"\nguest = \"/mnt/x\"\nwritable = true",
            "in or above that of /mnt/work, and one of them is writable",
        ),
        ("host = \"~/a:b\"", "a colon, a comma"),
        ("host = \"~/data\"\nguest = \"/etc\"", "guest: \"/etc\" must be below /mnt"),
        ("host = \"~/data\"\nguest = \"/mnt/../etc\"", "must be below /mnt"),
        ("host = \"~/data\"\nguest = \"/mnt/\"", "must be below /mnt"),
        ("host = \"~/data\"\nguest = \"/mnt/work/x\"", "lies in or above /mnt/work"),
        ("guest = \"/mnt/x\"", "names no folder; add host ="),
        ("host = 3", "mount.host: must be a folder, such as \"~/data\", not a number"),
        ("hots = \"~/data\"", "so that the folder is not mounted; did you mean \"host\"?"),
        (
            "host = \"~/data\"\nread_only = true",
            "so that the folder is not mounted; a mount has host, guest and writable",
        ),
        (
            "host = \"~/data\"\nwritable = \"yes\"",
            "mount.writable: must be true or false, not a string; the folder is not mounted",
        ),
    ] {
        let (mounted, said) = user.loads(&format!("[[mount]]\nhost = \"~/work\"\n[[mount]]\n{mount}\n"));
        assert_eq!(mounted, ["~/work /mnt/work ro"], "{mount}");
        assert!(said.len() == 1 && said[0].contains(says), "{mount}: {said:?}");
        assert!(said[0].starts_with("~/.config/belljar/config.toml:"), "{said:?}");
    }
    let (mounted, said) = user.loads("mount = 3\n");
    assert!(mounted.is_empty() && said[0].contains("write [[mount]]"), "{said:?}");
}

/// The mounts of `folder`, with these links in the home, and the messages.
fn with_links(links: &[(&str, &str)], variables: &[(&str, &str)], mount: &str) -> (Vec<String>, Vec<String>) {
    let user = User::new();
    fs::create_dir_all(user.path("stow/deep")).unwrap();
    fs::create_dir_all(user.path("elsewhere")).unwrap();
    for (link, target) in links {
        let link = user.path(link);
        fs::remove_dir_all(&link).ok();
        std::os::unix::fs::symlink(target.replace('~', user.path("").to_str().unwrap()), link).unwrap();
    }
    user.writes(&format!("[[mount]]\n{mount}\n"));
    let variables = variables.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
    user.loads_in(Environment { variables, ..user.environment() })
}

#[test]
fn a_folder_to_which_a_configuration_file_leads_or_would_lead_is_not_mounted() {
    let stow = "host = \"~/stow\"\nwritable = true";
    let deep = "host = \"~/stow/deep\"\nwritable = true";
    for (links, variables, mount) in [
        // A link to a file, an intermediate link, and links to what does not exist yet.
        (&[("MCPs/s.json", "../stow/s.json")][..], &[][..], stow),
        (&[("stow/second.json", "~/elsewhere/s.json"), ("MCPs/s.json", "~/stow/second.json")], &[], stow),
        (&[("stow/second", "../elsewhere"), ("MCPs/s.json", "../stow/second/s.json")], &[], stow),
        (&[(".config/belljar/policy.toml", "~/stow/policy.toml")], &[], stow),
        (&[(".config/belljar/policy.toml", "~/stow/deep/none/policy.toml")], &[], deep),
        (&[("MCPs/s.json", "~/stow/deep/../s.json")], &[], deep),
        // Folders that are links.
        (&[("MCPs", "stow/deep")], &[], stow),
        (&[("MCPs", "stow/deep")], &[], "host = \"~/stow/deep\""),
        (&[(".local", "stow/deep")], &[], stow),
        (&[(".local", "stow/deep")], &[("XDG_STATE_HOME", "/nowhere/x")], deep),
        // Other names, through variables.
        (&[("more.json", "stow/s.json")], &[("MCP_SERVERS_CONFIG", "~/more.json")], stow),
        (&[("more", "stow/deep")], &[("MCP_SERVERS_CONFIG", "~/more/")], stow),
        (&[], &[("MCP_BRIDGE_STATE_DIR", "~/stow/deep/state")], deep),
        // The mount is written otherwise.
        (
            &[("MCPs/s.json", "../stow/s.json"), ("other", "stow")],
            &[],
            "host = \"~/other/\"\nwritable = true",
        ),
        (&[("MCPs/s.json", "../stow/s.json")], &[], "host = \"~/work/../stow/.\"\nwritable = true"),
    ] {
        let (mounted, said) = with_links(links, variables, mount);
        assert_eq!(mounted, [""; 0], "{links:?} {variables:?}");
        assert!(
            said.iter().any(|said| said.contains("holds belljar's own files (~/")),
            "{links:?}: {said:?}"
        );
    }
    // The same folders are mounted if what leads to them is not read.
    for (links, mount, expected) in [
        (&[("MCPs/s.json", "../elsewhere/s.json")], stow, "~/stow /mnt/stow rw"),
        (&[("MCPs/tools/s.json", "~/stow/s.json")], stow, "~/stow /mnt/stow rw"),
        (&[("MCPs/s.json", "~/stow/s.json")], deep, "~/stow/deep /mnt/deep rw"),
    ] {
        assert_eq!(with_links(links, &[], mount).0, [expected], "{links:?}");
    }
}

#[test]
fn a_home_that_is_a_link_in_a_writable_folder_is_not_left_to_code() {
    let user = User::new();
    let other = tempfile::tempdir().unwrap();
    let place = other.path().canonicalize().unwrap();
    std::os::unix::fs::symlink(user.path(""), place.join("home")).unwrap();
    user.writes(&format!("[[mount]]\nhost = \"{}\"\nwritable = true\n", place.display()));
    assert_eq!(user.loads_in(user.environment()).0.len(), 1);
    let (mounted, said) = user.loads_in(Environment { home: Some(place.join("home")), ..user.environment() });
    assert!(mounted.is_empty() && said[0].contains("holds belljar's own files"), "{said:?}");
}

#[test]
fn a_mount_whose_written_path_code_can_replace_is_left_out_wherever_it_leads() {
    for (links, host, is_mounted) in [
        (&[][..], "~/stow/deep", false),
        (&[("stow/link", "~/elsewhere")], "~/stow/link", false),
        (&[("stow/link", "~/elsewhere")], "~/stow/link/../data", false),
        (&[("stow/link", "~/.config")], "~/stow/link/autostart", false),
        (&[("way", "stow/deep")], "~/way", false),
        (&[("stow/link", ".."), ("way", "stow/link")], "~/way/data", false),
        (&[], "~/stow/deep/../../data", false),
        (&[("stow/link", "~/elsewhere")], "~/elsewhere", true),
        (&[("way", "data")], "~/way", true),
        (&[], "~/stow/../data", true),
    ] {
        let stow = "host = \"~/stow\"\nwritable = true\n";
        let other = format!("host = \"{host}\"\nguest = \"/mnt/other\"\n");
        // The order of the tables does not matter.
        for mounts in [format!("{stow}[[mount]]\n{other}"), format!("{other}[[mount]]\n{stow}")] {
            let (mounted, said) = with_links(links, &[], &mounts);
            assert!(mounted.contains(&"~/stow /mnt/stow rw".to_owned()), "{host}: {said:?}");
            assert_eq!(mounted.len() == 2, is_mounted, "{host}: {mounted:?} {said:?}");
            let named = said
                .iter()
                .any(|said| said.contains("which code can replace, and so choose what is mounted"));
            assert_eq!(named, !is_mounted, "{host}: {said:?}");
        }
    }
}

#[test]
fn a_mount_whose_path_a_confined_server_can_replace_is_left_out() {
    let server =
        |write: &str| format!("\n[servers.s]\ncommand = \"c\"\nsandbox = {{ write = [\"{write}\"] }}\n");
    for (write, host, is_mounted) in [
        ("~/stow", "~/stow/deep", false),
        ("../../stow", "~/stow/deep/", false),
        ("~/stow", "~/work/../stow/deep", false),
        ("~/way", "~/stow/deep", false),
        // The server cannot replace the folder that it was given, nor one above it.
        ("~/stow", "~/stow", true),
        ("~/stow/deep", "~/stow", true),
        ("~/elsewhere", "~/stow/deep", true),
    ] {
        let mount = format!("host = \"{host}\"\nguest = \"/mnt/x\"{}", server(write));
        let (mounted, said) = with_links(&[("way", "stow")], &[], &mount);
        assert_eq!(mounted.len() == 1, is_mounted, "{write} {host}: {said:?}");
        let named = said.iter().any(|said| said.contains("/deep, which the confined server 's' can replace"));
        assert_eq!(named, !is_mounted, "{write} {host}: {said:?}");
    }
}

#[test]
fn files_that_are_executed_at_a_login_are_not_mounted_writable() {
    let folder =
        |more: &str| with_links(&[(".config/fish", "~/stow")], &[], &format!("host = \"~/stow\"{more}"));
    let (mounted, said) = folder("\nwritable = true");
    assert!(
        mounted.is_empty() && said[0].contains("holds what is executed when you log in (~/.config/fish)"),
        "{said:?}"
    );
    assert_eq!(folder("").0, ["~/stow /mnt/stow ro"]);
}

#[test]
fn belljars_own_program_is_not_left_to_code_or_a_server_to_change() {
    let user = User::new();
    fs::write(user.path("work/belljar"), "").unwrap();
    std::os::unix::fs::symlink("work", user.path("bin")).unwrap();
    let server = "[servers.s]\ncommand = \"c\"\nsandbox = { write = [\"~/work\"] }\n";
    for (program, is_there) in [("work/belljar", true), ("bin/belljar", true), ("data/file", false)] {
        let environment = || Environment { executable: Some(user.path(program)), ..user.environment() };
        let mounted = |more: &str| {
            user.writes(&format!("[[mount]]\nhost = \"~/work\"\n{more}"));
            user.loads_in(environment())
        };
        let (folders, said) = mounted("writable = true\n");
        assert_eq!(folders.is_empty(), is_there, "{program}: {said:?}");
        let remedy = "holds belljar's own files";
        assert_eq!(said.iter().any(|said| said.contains(remedy)), is_there, "{program}: {said:?}");
        assert_eq!(
            said.iter().any(|said| said.contains("; without writable it would be")),
            is_there,
            "{said:?}"
        );
        let (folders, said) = mounted("");
        assert_eq!((folders, said), (vec!["~/work /mnt/work ro".to_owned()], vec![]), "{program}");
        let (_, said) = mounted(server);
        let is_refused = said.iter().any(|said| said.contains("would let the server change its own rights"));
        assert_eq!(is_refused, is_there, "{program}: {said:?}");
        let (_, said) = mounted(&server.replace("write", "read"));
        assert_eq!(said, [""; 0], "{program}");
    }
}

#[test]
fn system_folders_are_known_by_name_and_data_folders_are_not() {
    let environment = |home: &str| Environment { home: Some(home.into()), ..User::new().environment() };
    let refused = |home: &str, host: &str| is_kept_from_code(&environment(home), Path::new(host));
    for host in
        ["/usr", "/usr/local/share", "/var", "/var/lib/docker", "/boot/efi", "/sys/fs", "/System/Volumes"]
    {
        let reason = refused("/home/me", host).unwrap_or_default();
        assert!(reason.starts_with("belongs to the system"), "{host}: {reason}");
    }
    for host in ["/private", "/private/var", "/run/media", "/root/data", "/nix/store", "/Library/Caches"] {
        assert!(refused("/home/me", host).is_some(), "{host}");
    }
    for host in ["/home", "/tmp", "/var/tmp", "/Users"] {
        let reason = refused("/srv/me", host).unwrap_or_default();
        assert!(reason.starts_with("is shared by all users or programs"), "{host}: {reason}");
    }
    for host in [
        "/srv",
        "/mnt",
        "/mnt/data",
        "/media/me/disk",
        "/run/media/me/disk",
        "/data",
        "/opt/x",
        "/var/data",
        "/var/www/site",
        "/var/tmp/x",
        "/tmp/x",
        "/home/me/project",
        "/var/home/me/project",
        "/users/x",
        "/Users/me/data",
        "/private/var/folders/x",
        "/usrdata",
    ] {
        assert_eq!(refused("/home/me", host), None, "{host}");
    }
    assert_eq!(refused("/root", "/root/data"), None, "root's own");
    assert!(refused("/root", "/root").is_some());
    assert!(refused("/", "/etc").is_some(), "no home at all");
}

#[test]
fn a_project_mounts_nothing() {
    let user = User::new();
    fs::write(user.path("project/.belljar/config.toml"), "[[mount]]\nhost = \"../../data\"\n").unwrap();
    let (mounted, said) = user.loads("");
    assert!(mounted.is_empty() && said[0].contains("is not taken from a project"), "{said:?}");
}

#[test]
fn an_edited_mount_is_followed_and_said() {
    let user = User::new();
    user.writes("[[mount]]\nhost = \"~/data\"\n");
    let (_, mut files) = ConfigFiles::load(user.environment());
    let before = std::sync::Arc::clone(files.config());
    user.writes("# moved\n[[mount]]\nhost = \"~/data\"\n");
    files.look();
    assert_eq!(edited_settings(&before, files.config()), None);
    user.writes("[[mount]]\nhost = \"~/data\"\nwritable = true\n");
    assert_eq!(files.look(), []);
    let said = edited_settings(&before, files.config());
    assert_eq!(said.unwrap(), "the user has changed settings (mount for the next sandbox)");
}

#[test]
fn a_folder_to_which_a_link_of_the_opened_project_leads_is_not_mounted() {
    let user = User::new();
    fs::create_dir_all(user.path("proj/own")).unwrap();
    fs::create_dir_all(user.path("docs")).unwrap();
    std::os::unix::fs::symlink("../docs", user.path("proj/data")).unwrap();
    std::os::unix::fs::symlink("own", user.path("proj/inside")).unwrap();
    for (cwd, folder, mounted) in [
        (Some("proj"), "data", 0),
        // It could lead to .git/hooks.
        (Some("proj"), "inside", 0),
        (Some("proj"), "own", 1),
        (None, "data", 1),
        // A client that opens HOME opens the user's own files.
        (Some(""), "data", 1),
    ] {
        user.writes(&format!("[[mount]]\nhost = \"~/proj/{folder}\"\n"));
        let cwd = cwd.map(|cwd| user.path(cwd));
        let (folders, said) = user.loads_in(Environment { cwd, ..user.environment() });
        assert_eq!(folders.len(), mounted, "{folder}: {said:?}");
        assert!(mounted == 1 || said[0].contains("goes through the project's symlink"), "{said:?}");
    }
}
