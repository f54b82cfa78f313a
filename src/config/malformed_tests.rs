//! Claims about malformed files: each kind, in each order of files and folders, costs only what is wrong, and is said in
//! one line with its file, place and key.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;

use super::*;
use Contents::{Is, Text};

const GOOD: &str = r#"{"mcpServers": {"good": {"command": "c"}}}"#;

/// The contents of the place where a file is expected.
#[derive(Clone, Copy)]
enum Contents {
    /// A file; `^` marks the position that must be reported, and is not written.
    Text(&'static str),
    /// A function makes the contents; no position can be reported.
    Is(fn(&Path)),
}

/// A kind of defect: its name, its contents, the message behind file and position, and the servers that still load.
type Kind = (&'static str, Contents, &'static str, &'static [&'static str]);

const KINDS: [Kind; 51] = [
    ("01 empty", Text(""), "is empty", &[]),
    ("01 blank", Text(" \n\t\n"), "is empty", &[]),
    ("02 array", Text("^[]"), "must be an object with \"mcpServers\", not an array", &[]),
    ("03 null servers", Text(r#"{"mcpServers": ^null}"#), "mcpServers: must be an object, not null", &[]),
    ("04 truncated", Text(r#"{"mcpServers": {"bad": {"command": ^"c"#), "unterminated string literal", &[]),
    ("05 trailing comma", Text("{\"mcpServers\":\n {\"beside\": {\"command\": \"c\"},}}"), "", &["beside"]),
    ("05 two commas", Text(r#"{"mcpServers": {},^,}"#), "unexpected token in object", &[]),
    ("05 comment", Text(r#"{"mcpServers": {} ^/* JSONC}"#), "unterminated comment block", &[]),
    ("06 UTF-16 little", Is(|path| wide(path, u16::to_le_bytes)), "is not UTF-8 but UTF-16", &[]),
    ("06 UTF-16 big", Is(|path| wide(path, u16::to_be_bytes)), "is not UTF-8 but UTF-16", &[]),
    (
        "07 Latin-1",
        Is(|path| write(path, b"\n\n{\"caf\xe9\": 1}")),
        ":3:6: holds the byte 0xe9, which is not UTF-8",
        &[],
    ),
    (
        "08 byte order mark",
        Is(|path| write(path, b"\xef\xbb\xbf{\"mcpServers\": {\"beside\": {\"command\": \"c\"}}}")),
        "",
        &["beside"],
    ),
    (
        "09 depth",
        Is(|path| write(path, "[".repeat(200_000).as_bytes())),
        ":1:513: nesting deeper than 128 levels",
        &[],
    ),
    (
        "10 100 MB",
        Is(|path| fs::File::create(path).unwrap().set_len(100 << 20).unwrap()),
        "is larger than the 1048576 bytes",
        &[],
    ),
    (
        "11 key twice",
        Text(r#"{"mcpServers": {"beside": {"command": "c"}, "bad": {"command": "c", ^"command": "d"}}}"#),
        "mcpServers.bad.command: is repeated",
        &["beside"],
    ),
    (
        "11 name twice",
        Text(
            r#"{"mcpServers": {"beside": {"command": "c"}, "bad": {"command": "c"}, ^"bad": {"command": "d"}}}"#,
        ),
        "mcpServers.bad: is repeated",
        &["beside"],
    ),
    (
        "11 servers twice",
        Text(r#"{"mcpServers": {"bad": {"command": "c"}}, ^"mcpServers": {}}"#),
        "mcpServers: is repeated",
        &[],
    ),
    (
        "12 args a string",
        Text(r#"{"mcpServers": {"beside": {"command": "c"}, "bad": {"command": "c", "args": ^"-y"}}}"#),
        "mcpServers.bad.args: must be an array of strings, not a string",
        &["beside"],
    ),
    (
        "13 env a list",
        Text(r#"{"mcpServers": {"beside": {"command": "c"}, "bad": {"command": "c", "env": ^["A=1"]}}}"#),
        "mcpServers.bad.env: must be an object of strings, not an array",
        &["beside"],
    ),
    (
        "14 env a boolean",
        Text(r#"{"mcpServers": {"beside": {"command": "c"}, "bad": {"command": "c", "env": {"A": ^true}}}}"#),
        "mcpServers.bad.env.A: must be a string, not a boolean",
        &["beside"],
    ),
    (
        "14 env null",
        Text(r#"{"mcpServers": {"beside": {"command": "c"}, "bad": {"command": "c", "env": {"A": ^null}}}}"#),
        "mcpServers.bad.env.A: must be a string, not null",
        &["beside"],
    ),
    (
        "15 url without a scheme",
        Text(r#"{"mcpServers": {"beside": {"command": "c"}, "bad": {"url": ^"example.com/mcp"}}}"#),
        "mcpServers.bad.url: is no address",
        &["beside"],
    ),
    (
        "15 unknown type",
        Text(r#"{"mcpServers": {"beside": {"command": "c"}, "bad": {"command": "c", "type": ^"pigeon"}}}"#),
        "mcpServers.bad: has the type \"pigeon\"",
        &["beside"],
    ),
    (
        "16 url and command",
        Text(
            r#"{"mcpServers": {"beside": {"command": "c"}, "bad": {"command": "c", ^"url": "http://127.0.0.1:1"}}}"#,
        ),
        "mcpServers.bad: has both a command and a url",
        &["beside"],
    ),
    (
        "17 empty name",
        Text(r#"{"mcpServers": {"beside": {"command": "c"}, ^"": {"command": "c"}}}"#),
        "mcpServers: a server name is empty",
        &["beside"],
    ),
    (
        "17 blank command",
        Text(r#"{"mcpServers": {"beside": {"command": "c"}, "bad": ^{"command": "  "}}}"#),
        "mcpServers.bad.command: is empty",
        &["beside"],
    ),
    (
        "19 pipe",
        Is(|path| nix::unistd::mkfifo(path, nix::sys::stat::Mode::S_IRWXU).unwrap()),
        "is a pipe, not a file",
        &[],
    ),
    (
        "22 unknown key",
        Text(r#"{"mcpServers": {"beside": {"command": "c"}, "bad": {"command": "c", ^"dney": []}}}"#),
        "mcpServers.bad.dney: is no key that belljar knows; did you mean \"deny\"?",
        &["beside"],
    ),
    (
        "22 one key in two spellings",
        Text(
            r#"{"mcpServers": {"beside": {"command": "c"}, "bad": {"command": "c", "sandboxFiles": false, ^"sandbox_files": true}}}"#,
        ),
        "mcpServers.bad.sandbox_files: is repeated",
        &["beside"],
    ),
    (
        "23 no time",
        Text(r#"{"mcpServers": {"beside": {"command": "c"}, "bad": {"command": "c", "timeout": ^0}}}"#),
        "mcpServers.bad.timeout: is 0, it must be above 0 and up to 86400 seconds",
        &["beside"],
    ),
    (
        "23 time as text",
        Text(r#"{"mcpServers": {"beside": {"command": "c"}, "bad": {"command": "c", "timeout": ^"5s"}}}"#),
        "mcpServers.bad.timeout: must be a number of seconds, not a string",
        &["beside"],
    ),
    (
        "23 more than a day of milliseconds",
        Text(
            r#"{"mcpServers": {"beside": {"command": "c"}, "bad": {"command": "c", "timeout": ^86400001}}}"#,
        ),
        "mcpServers.bad.timeout: is 86400001, it must be above 0",
        &["beside"],
    ),
    (
        "24 half a call at once",
        Text(
            r#"{"mcpServers": {"beside": {"command": "c"}, "bad": {"command": "c", "maxConcurrency": ^0.5}}}"#,
        ),
        "mcpServers.bad.max_concurrency: is 0.5, it must be a whole number from 1 to 32",
        &["beside"],
    ),
    (
        "25 deny a string",
        Text(r#"{"mcpServers": {"beside": {"command": "c"}, "bad": {"command": "c", "deny": ^"delete_*"}}}"#),
        "mcpServers.bad.deny: must be an array of patterns of tools' names, not a string",
        &["beside"],
    ),
    (
        "25 empty pattern",
        Text(r#"{"mcpServers": {"beside": {"command": "c"}, "bad": {"command": "c", "allow": ["a", ^""]}}}"#),
        "mcpServers.bad.allow[1]: a pattern has 1 to 200 characters",
        &["beside"],
    ),
    (
        "26 files maybe",
        Text(r#"{"mcpServers": {"beside": {"command": "c"}, "bad": {"command": "c", "sandbox_files": ^0}}}"#),
        "mcpServers.bad.sandbox_files: must be true or false, not a number",
        &["beside"],
    ),
    (
        "27 sandbox a word",
        Text(r#"{"mcpServers": {"beside": {"command": "c"}, "bad": {"command": "c", "sandbox": ^"yes"}}}"#),
        "mcpServers.bad.sandbox: must be true, false or an object, not a string",
        &["beside"],
    ),
    (
        "27 sandbox of a url",
        Text(
            r#"{"mcpServers": {"beside": {"command": "c"}, "bad": {"url": "https://a.example", "sandbox": ^true}}}"#,
        ),
        "mcpServers.bad.sandbox: is for a command: a server at a url runs elsewhere, and belljar does not confine it",
        &["beside"],
    ),
    (
        "27 sandbox key",
        Text(
            r#"{"mcpServers": {"beside": {"command": "c"}, "bad": {"command": "c", "sandbox": {^"reed": ["/a"]}}}}"#,
        ),
        "mcpServers.bad.sandbox.reed: is no key that belljar knows; did you mean \"read\"?",
        &["beside"],
    ),
    (
        "27 sandbox network",
        Text(
            r#"{"mcpServers": {"beside": {"command": "c"}, "bad": {"command": "c", "sandbox": {"network": ^"some"}}}}"#,
        ),
        "mcpServers.bad.sandbox.network: must be \"none\" or \"host\"",
        &["beside"],
    ),
    (
        "27 sandbox path",
        Text(
            r#"{"mcpServers": {"beside": {"command": "c"}, "bad": {"command": "c", "sandbox": {"read": ^"/a"}}}}"#,
        ),
        "mcpServers.bad.sandbox.read: must be an array of paths, not a string",
        &["beside"],
    ),
    (
        "27 sandbox root",
        Text(
            r#"{"mcpServers": {"beside": {"command": "c"}, "bad": {"command": "c", "sandbox": {"write": ["/a", ^"/"]}}}}"#,
        ),
        "mcpServers.bad.sandbox.write[1]: is /, which cannot be passed on",
        &["beside"],
    ),
    (
        "27 sandbox kernel",
        Text(
            r#"{"mcpServers": {"beside": {"command": "c"}, "bad": {"command": "c", "sandbox": {"read": [^"/proc/1"]}}}}"#,
        ),
        "mcpServers.bad.sandbox.read[0]: is /proc/1, which cannot be passed on",
        &["beside"],
    ),
    ("19 socket", Is(|path| drop(UnixListener::bind(path).unwrap())), "is a socket, not a file", &[]),
    ("19 dangling link", Is(|path| symlink("nothing", path).unwrap()), "is a symbolic link to nothing", &[]),
    (
        "19 looping link",
        Is(|path| symlink(path, path).unwrap()),
        "is a symbolic link that leads back to itself",
        &[],
    ),
    (
        "19 world-writable",
        Is(|path| {
            write(path, b"{}");
            mode(path, 0o666);
        }),
        "other users may write to this file",
        &[],
    ),
    (
        "19 unreadable",
        Is(|path| {
            write(path, b"{}");
            mode(path, 0o000);
        }),
        "may not be read by this user",
        &[],
    ),
    (
        "20 variable unset",
        Text(
            r#"{"mcpServers": {"beside": {"command": "c"}, "bad": {"command": "c", "args": ["a", ^"${NO_SUCH}"]}}}"#,
        ),
        "mcpServers.bad.args[1]: refers to ${NO_SUCH}, which is not set",
        &["beside"],
    ),
    (
        "20 NUL",
        Text("{\"mcpServers\": {\"beside\": {\"command\": \"c\"}, \"bad\": {\"command\": ^\"c\\u0000\"}}}"),
        "mcpServers.bad.command: holds a NUL character",
        &["beside"],
    ),
    (
        "20 carriage return",
        Text(
            "{\"mcpServers\": {\"beside\": {\"command\": \"c\"}, \"bad\": {\"command\": \"c\", \"env\": {\"A\": ^\"1\\r\"}}}}",
        ),
        "mcpServers.bad.env.A: holds a carriage return",
        &["beside"],
    ),
];

/// The paths of the bad file and the good one, and the value of MCP_SERVERS_CONFIG.
const ORDERS: [(&str, &str, Option<&str>); 10] = [
    ("MCPs/a.json", "MCPs/b.json", None),
    ("MCPs/b.json", "MCPs/a.json", None),
    ("MCPs/x.json", "more/x.json", Some("more")),
    ("more/x.json", "MCPs/x.json", Some("more")),
    ("more/a.json", "more/b.json", Some("more")),
    ("more/b.json", "more/a.json", Some("more")),
    ("more/x.json", "MCPs/x.json", Some("more/x.json")),
    ("MCPs/x.json", "more/x.json", Some("more/x.json")),
    // Reached twice, read once.
    ("MCPs/a.json", "MCPs/b.json", Some("MCPs")),
    ("MCPs/b.json", "MCPs/a.json", Some("MCPs/b.json")),
];

fn write(path: &Path, bytes: &[u8]) {
    fs::write(path, bytes).unwrap();
}

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn wide(path: &Path, bytes: fn(u16) -> [u8; 2]) {
    let text: Vec<u8> = format!("\u{feff}{GOOD}").encode_utf16().flat_map(bytes).collect();
    write(path, &text);
}

impl Contents {
    fn make(self, path: &Path) {
        match self {
            Text(text) => write(path, text.replacen('^', "", 1).as_bytes()),
            Is(make) => make(path),
        }
    }

    /// `:LINE:COLUMN` of the mark.
    fn place(self) -> String {
        let Text(text) = self else { return String::new() };
        let Some((before, _)) = text.split_once('^') else { return String::new() };
        let column = before.rsplit('\n').next().unwrap().chars().count() + 1;
        format!(":{}:{column}", before.matches('\n').count() + 1)
    }
}

/// A home with these files, made in this order.
fn home(named: Option<&str>, files: &[(&str, Contents)]) -> (tempfile::TempDir, Environment) {
    let folder = tempfile::tempdir().unwrap();
    for name in ["MCPs", "more"] {
        fs::create_dir(folder.path().join(name)).unwrap();
    }
    for (path, contents) in files {
        contents.make(&folder.path().join(path));
    }
    let named = named.map(|named| ("MCP_SERVERS_CONFIG".into(), folder.path().join(named).into()));
    let environment = Environment {
        variables: named.into_iter().collect(),
        home: Some(folder.path().to_owned()),
        uid: nix::unistd::geteuid().as_raw(),
        cwd: Some(folder.path().to_owned()),
        executable: None,
        owner: None,
    };
    (folder, environment)
}

fn loaded(environment: &Environment) -> (Vec<String>, Vec<String>) {
    let config = Config::load(environment);
    let names = config.servers.iter().map(|server| server.name.as_str().to_owned()).collect();
    (names, config.problems.iter().map(ToString::to_string).collect())
}

#[test]
fn each_kind_of_defect_costs_only_itself_in_every_order_and_is_said_in_one_line() {
    for (kind, contents, said, beside) in KINDS {
        if kind == "19 unreadable" && nix::unistd::geteuid().is_root() {
            continue; // Root reads everything.
        }
        for (bad, good, named) in ORDERS {
            for bad_is_first in [true, false] {
                let mut files = [(bad, contents), (good, Text(GOOD))];
                if !bad_is_first {
                    files.reverse();
                }
                let (folder, environment) = home(named, &files);
                let (names, problems) = loaded(&environment);
                let order = format!("{kind} in {bad}, good in {good}, {named:?}");
                let mut expected = beside.to_vec();
                expected.push("good");
                assert_eq!(names, expected, "{order}: {problems:?}");
                let start = format!("{}{}: ", folder.path().join(bad).display(), contents.place());
                let start = if said.starts_with(':') { start.trim_end_matches(": ") } else { &start };
                match problems.as_slice() {
                    [] if said.is_empty() => {}
                    [only] => assert!(
                        only.starts_with(&format!("{start}{said}")) && !said.is_empty(),
                        "{order}: {only}"
                    ),
                    other => panic!("{order}: {other:?}"),
                }
            }
        }
    }
}

#[test]
fn a_folder_named_like_a_file_costs_nothing_else_in_every_order() {
    for (bad, good, named) in ORDERS.into_iter().filter(|(bad, _, named)| *named != Some(bad)) {
        let (folder, environment) =
            home(named, &[(bad, Is(|path| fs::create_dir(path).unwrap())), (good, Text(GOOD))]);
        let said = format!("{}: is a folder, not a file", folder.path().join(bad).display());
        assert_eq!(loaded(&environment), (vec!["good".to_owned()], vec![said]));
    }
}

/// Whether both files are on one level: both below `~/MCPs`, or both in what MCP_SERVERS_CONFIG names.
fn are_level(one: &str, two: &str) -> bool {
    one.starts_with("MCPs") == two.starts_with("MCPs")
}

#[test]
fn one_name_in_two_files_is_lost_in_every_order_and_both_are_named() {
    const ONE: Contents = Text(r#"{"mcpServers": {"good": {"command": "c"}, "twice": {"command": "one"}}}"#);
    const TWO: Contents = Text(r#"{"mcpServers": {"twice": {"command": "two"}}}"#);
    for (one, two, named) in ORDERS.into_iter().filter(|(one, two, _)| are_level(one, two)) {
        for files in [[(one, ONE), (two, TWO)], [(two, TWO), (one, ONE)]] {
            let (folder, environment) = home(named, &files);
            let (names, problems) = loaded(&environment);
            assert_eq!(names, ["good"], "{one} and {two}");
            let [only] = problems.as_slice() else { panic!("{problems:?}") };
            for place in [format!("{one}:1:43"), format!("{two}:1:17")] {
                let place = folder.path().join(place).display().to_string();
                assert!(only.contains(&place), "{only}");
            }
            assert!(only.contains("mcpServers.twice: is defined in"), "{only}");
        }
    }
}

#[test]
fn of_one_name_on_two_levels_the_first_counts_in_every_order_and_the_other_is_noted() {
    const ENTRY: Contents = Text(r#"{"mcpServers": {^"twice": {"command": "c"}}}"#);
    for (one, two, named) in ORDERS.into_iter().filter(|(one, two, _)| !are_level(one, two)) {
        let (folder, environment) = home(named, &[(one, ENTRY), (two, ENTRY)]);
        let config = Config::load(&environment);
        let (first, second) = if one.starts_with("MCPs") { (one, two) } else { (two, one) };
        let sources: Vec<&Path> = config.servers.iter().map(|server| server.source.as_path()).collect();
        assert_eq!(sources, [folder.path().join(first)]);
        let place = |file: &str| folder.path().join(file).display().to_string();
        let said: Vec<String> =
            config.problems.iter().map(|problem| format!("{} {problem}", problem.severity)).collect();
        let (first, second) = (place(first), place(second));
        assert_eq!(
            said,
            [format!(
                "note {second}:1:17: mcpServers.twice: is not used: {first}:1:17 has the name too, and counts more"
            )]
        );
    }
}
