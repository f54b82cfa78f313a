//! The house's rules as tables, so that a new edge between rooms is a visible decision.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Rooms and floors: a room uses rooms on lower floors only.
const FLOORS: [(&str, u8); 33] = [
    ("digest", 0),
    ("memory", 0),
    ("names", 0),
    ("limits", 0),
    ("own_file", 0),
    ("secret", 0),
    ("text", 0),
    ("protocol", 1),
    ("jsonrpc", 1),
    ("run", 1),
    ("guard", 1),
    ("policy", 1),
    ("recipe", 1),
    ("web", 1),
    ("audit", 2),
    ("engine", 2),
    ("upstream", 2),
    ("catalog", 2),
    ("clients", 2),
    ("config", 2),
    ("encoder", 2),
    ("jobs", 2),
    ("journal", 2),
    ("models", 2),
    ("render", 2),
    ("skills", 2),
    ("workspace", 2),
    ("broker", 3),
    ("session", 4),
    ("server", 5),
    ("app", 6),
    ("cli", 6),
    ("main", 7),
];

/// Edges within one floor, each with the reason why it may be.
const WITHIN_A_FLOOR: [(&str, &str, &str); 2] = [
    ("protocol", "run", "frames carry a run's nouns: outcomes, faults, images"),
    ("app", "cli", "the application does what the command line asks for"),
];

/// Crates and modules with owners: nobody else names them.
const OWNED: [(&str, &[&str]); 27] = [
    ("bollard", &["engine"]),
    ("candle_core", &["encoder"]),
    ("candle_nn", &["encoder"]),
    ("rayon", &["encoder"]),
    ("tokenizers", &["encoder"]),
    ("zip", &["encoder"]),
    ("jsonschema", &["catalog"]),
    ("toml", &["config", "skills"]),
    ("rmcp", &["jsonrpc", "server", "upstream"]),
    ("clap", &["cli", "main"]),
    ("url", &["config", "models", "upstream", "web"]),
    ("reqwest", &["models", "upstream", "web"]),
    ("rustls", &["web"]),
    ("rustls_platform_verifier", &["web"]),
    ("sse_stream", &["upstream"]),
    ("chrono", &["audit", "journal", "skills"]),
    ("wildmatch", &["policy"]),
    ("jsonc_parser", &["clients"]),
    ("saphyr_parser", &["clients"]),
    ("similar", &["clients"]),
    ("tar", &["recipe"]),
    ("toml_edit", &["clients", "config"]),
    ("mime_guess", &["workspace"]),
    ("percent_encoding", &["catalog", "policy", "workspace"]),
    ("icu_normalizer", &["text"]),
    ("icu_properties", &["text"]),
    ("std::env", &["config"]),
];

/// Names of owned things in texts that are not code.
const OWNED_MENTIONS: [(&str, &str, &str); 1] =
    [("rmcp", "src/app/logging.rs", "the target whose log level is set")];

/// Unwraps outside tests, each provable where it stands: file, how many.
const PROVABLE: [(&str, usize); 3] = [
    // The embedded defaults, checked by tests.
    ("src/config/defaults.rs", 1),
    ("src/config/settings.rs", 1),
    // A frame of our own is written to memory.
    ("src/protocol/to_sandbox.rs", 1),
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn files_below(folder: &str, extension: &str) -> Vec<(String, String)> {
    fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { walk(&path, found) } else { found.push(path) }
        }
    }
    let mut paths = Vec::new();
    walk(&root().join(folder), &mut paths);
    paths.sort();
    let has_extension = |path: &PathBuf| path.extension().is_some_and(|found| found == extension);
    let name = |path: &Path| path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
    paths.iter().filter(|path| has_extension(path)).map(|path| (name(path), read(path))).collect()
}

fn read(path: &Path) -> String {
    let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    // Among the invalid examples are files that are no UTF-8.
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The room that a file under src/ belongs to.
fn room(file: &str) -> &str {
    let inside = file.strip_prefix("src/").unwrap();
    inside.split('/').next().unwrap().trim_end_matches(".rs")
}

/// A file's code without its tests and comments.
fn product_code(file: &str, text: &str) -> String {
    if file.ends_with("_tests.rs") {
        return String::new();
    }
    let mut lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    let mut code = Vec::new();
    while let Some(line) = lines.next() {
        if line == "#[cfg(test)]" {
            let item = lines.find(|line| !line.starts_with('#')).unwrap_or_default();
            let last = if item.ends_with('{') { "}" } else { ";" };
            if !item.ends_with(last) {
                // Of a block the line that is no more than its end.
                lines.find(|line| if last == "}" { *line == last } else { line.ends_with(last) });
            }
        } else {
            code.push(line);
        }
    }
    code.join("\n")
}

fn floor(room: &str) -> u8 {
    let (_, floor) = FLOORS
        .into_iter()
        .find(|(known, _)| *known == room)
        .unwrap_or_else(|| panic!("room {room:?} has no floor; give it one in FLOORS"));
    floor
}

/// What stands right below a path, by itself or in braces.
fn named_below(code: &str, path: &str) -> Vec<String> {
    let name = |text: &str| {
        text.trim_start().chars().take_while(|c| c.is_ascii_lowercase() || *c == '_').collect::<String>()
    };
    let mut found = Vec::new();
    for (_, rest) in code.match_indices(path).map(|(at, path)| code.split_at(at + path.len())) {
        let Some(group) = rest.strip_prefix('{') else {
            found.push(name(rest));
            continue;
        };
        let (mut depth, mut begins) = (0, 0);
        for (at, character) in group.char_indices() {
            match character {
                '{' => depth += 1,
                '}' if depth > 0 => depth -= 1,
                ',' | '}' if depth == 0 => {
                    found.push(name(&group[begins..at]));
                    begins = at + 1;
                    if character == '}' {
                        break;
                    }
                }
                _ => {}
            }
        }
    }
    found
}

/// Whether code names a crate, or a module of one; as a path, since a message may have the word.
fn names(code: &str, owned: &str) -> bool {
    match owned.split_once("::") {
        Some((parent, module)) => named_below(code, &format!("{parent}::")).iter().any(|name| name == module),
        None => code.contains(&format!("{owned}::")),
    }
}

#[test]
fn what_is_used_is_seen_in_braces_too() {
    let code = "use crate::text;\nuse crate::{\n    broker, config::{Config, env}, session::Session,\n};\nuse crate::{run};";
    assert_eq!(named_below(code, "crate::"), ["text", "broker", "config", "session", "", "run"]);
    for seen in
        ["use std::env;", "std::env::var(\"A\")", "use std::{env, fs};", "use std::{fs::{self}, env::var};"]
    {
        assert!(names(seen, "std::env"), "{seen}");
    }
    for other in ["use std::{fs, process::{env}};", "std::environment()", "env!(\"A\")"] {
        assert!(!names(other, "std::env"), "{other}");
    }
}

#[test]
fn the_rooms_are_told_as_they_are() {
    let mut told = [(); 2].map(|()| BTreeSet::new());
    for (told, file) in told.iter_mut().zip(["src/lib.rs", "ARCHITECTURE.md"]) {
        let text = read(&root().join(file));
        for line in text.lines().filter_map(|line| line.trim_start_matches("//! ").strip_prefix("| F")) {
            let mut cells = line.split('|');
            let floor: u8 = cells.next().unwrap().trim().parse().unwrap();
            let rooms = cells.next().unwrap().split('`').skip(1).step_by(2);
            told.extend(rooms.map(|room| (room.to_owned(), floor)));
        }
    }
    let rooms = FLOORS.map(|(room, floor)| (room.to_owned(), floor)).into();
    assert_eq!(told, [(); 2].map(|()| BTreeSet::clone(&rooms)));
}

#[test]
fn rooms_use_lower_floors_only() {
    let mut wrong = BTreeSet::new();
    for (file, text) in files_below("src", "rs") {
        let own = room(&file);
        if own == "lib" {
            continue;
        }
        for used in named_below(&text, "crate::") {
            let is_allowed = WITHIN_A_FLOOR.iter().any(|(from, to, _)| (*from, *to) == (own, used.as_str()));
            if used == own || used.is_empty() || is_allowed {
                continue;
            }
            if floor(&used) >= floor(own) {
                wrong.insert(format!("{file} (floor {}) uses {used} (floor {})", floor(own), floor(&used)));
            }
        }
    }
    assert_eq!(wrong, BTreeSet::new());
}

#[test]
fn crates_are_named_by_their_owners_only() {
    let mut wrong = Vec::new();
    for (file, text) in files_below("src", "rs") {
        for (owned, owners) in OWNED {
            let mentioned =
                OWNED_MENTIONS.iter().any(|(of, in_file, _)| (*of, *in_file) == (owned, file.as_str()));
            if names(&product_code(&file, &text), owned) && !owners.contains(&room(&file)) && !mentioned {
                wrong.push(format!("{file} names {owned}, which belongs to {owners:?}"));
            }
        }
    }
    assert_eq!(wrong, [""; 0]);
}

#[test]
fn crates_that_blur_errors_or_duplicate_the_standard_library_are_no_dependencies() {
    let manifest = read(&root().join("Cargo.toml"));
    for refused in ["anyhow", "eyre", "lazy_static", "once_cell", "openssl"] {
        assert!(!manifest.lines().any(|line| line.starts_with(refused)), "{refused}");
    }
}

#[test]
fn every_file_says_at_its_top_what_it_is() {
    let mut wrong = Vec::new();
    for folder in ["src", "tests", "benches", "fuzz/fuzz_targets"] {
        let silent = |(file, text): (String, String)| (!text.starts_with("//! ")).then_some(file);
        wrong.extend(files_below(folder, "rs").into_iter().filter_map(silent));
    }
    for folder in ["entrypoint", "tests/entrypoint"] {
        let is_silent =
            |text: &str| !text.starts_with("\"\"\"") && !text.starts_with("#!/") && !text.trim().is_empty();
        let silent = |(file, text): (String, String)| is_silent(&text).then_some(file);
        wrong.extend(files_below(folder, "py").into_iter().filter_map(silent));
    }
    assert_eq!(wrong, [""; 0]);
}

#[test]
fn mod_files_hold_declarations_only() {
    let mut wrong = Vec::new();
    for (file, text) in files_below("src", "rs").into_iter().filter(|(file, _)| file.ends_with("/mod.rs")) {
        for item in
            ["fn ", "struct ", "enum ", "impl", "const ", "static ", "type ", "trait ", "macro_rules!"]
        {
            let declares = |line: &str| {
                let line = line.trim_start_matches("pub ").trim_start_matches("pub(super) ");
                line.trim_start_matches("pub(crate) ").trim_start_matches("async ").starts_with(item)
            };
            if text.lines().any(declares) {
                wrong.push(format!("{file} holds a {}", item.trim()));
            }
        }
    }
    assert_eq!(wrong, [""; 0]);
}

#[test]
fn product_code_does_not_unwrap() {
    let mut found = Vec::new();
    for (file, text) in files_below("src", "rs") {
        let code = product_code(&file, &text);
        let count = [".unwrap()", ".expect(", "panic!(", "unreachable!(", "todo!(", "unimplemented!("]
            .map(|call| code.matches(call).count())
            .into_iter()
            .sum::<usize>();
        if count > 0 {
            found.push((file, count));
        }
    }
    let provable: Vec<(String, usize)> = PROVABLE.map(|(file, count)| (file.to_owned(), count)).to_vec();
    assert_eq!(found, provable);
}

#[test]
fn what_commands_print_does_not_panic_when_nobody_reads_it() {
    let mut found = Vec::new();
    for (file, text) in files_below("src", "rs") {
        let code = product_code(&file, &text);
        if ["print!(", "println!("].iter().any(|panics| code.contains(panics)) {
            found.push(file);
        }
    }
    assert_eq!(found, [""; 0], "out! and err! of app/printing.rs do not panic");
}

#[test]
fn every_runtime_file_is_embedded() {
    let embedded = read(&root().join("src/session/runtime.rs"));
    let listed: Vec<String> = embedded
        .lines()
        .filter_map(|line| line.trim().strip_prefix('"')?.strip_suffix("\","))
        .filter(|path| path.ends_with(".py"))
        .map(|path| format!("entrypoint/{path}"))
        .collect();
    let on_disk: Vec<String> = files_below("entrypoint", "py")
        .into_iter()
        .map(|(file, _)| file)
        .filter(|file| file != "entrypoint/bootstrap.py")
        .collect();
    assert_eq!(listed, on_disk);
}

#[test]
fn nothing_is_left_for_later() {
    // Written in two pieces, so that this file does not find itself.
    let marks = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X:")];
    let mut found = Vec::new();
    for folder in
        ["src", "tests", "benches", "entrypoint", "scripts", "sandbox-image", "config", "fuzz/fuzz_targets"]
    {
        for extension in ["rs", "py", "sh", "md", "toml"] {
            for (file, text) in files_below(folder, extension) {
                let marked = marks.iter().filter(|mark| text.contains(**mark));
                found.extend(marked.map(|mark| format!("{file}: {mark}")));
            }
        }
    }
    assert_eq!(found, [""; 0]);
}

#[test]
fn no_file_has_the_projects_former_name() {
    // Written in two pieces, so that this file does not find itself.
    let former = concat!("hot", "cell");
    let has_it = |text: &str| text.to_lowercase().contains(former);
    let mut found = Vec::new();
    let mut folders = vec![root().to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            // The history and what was built do not belong to the tree.
            if [".git", "target", "corpus", "artifacts", "__pycache__"].contains(&name)
                || name.ends_with("_cache")
            {
                continue;
            }
            if has_it(name) || (path.is_file() && has_it(&read(&path))) {
                found.push(path.strip_prefix(root()).unwrap().display().to_string());
            }
            if path.is_dir() && !path.is_symlink() {
                folders.push(path);
            }
        }
    }
    assert_eq!(found, [""; 0]);
}

#[test]
fn nothing_is_measured_by_a_clock_that_can_jump() {
    let of_rust = ["SystemTime", "UNIX_EPOCH", "chrono::", "CLOCK_REALTIME"];
    let of_python =
        ["time.time(", "from time import time", "datetime", "CLOCK_REALTIME", "gmtime", "localtime"];
    // The log and the journal tell people when something was; a login outlives the process, and so does the time of its end; files have
    // the times that they had; versions of skills say when they were written; and how long ago a folder has changed only the clock
    // tells that dated it.
    let timeless = [
        "src/audit/",
        "src/journal/time.rs",
        "src/upstream/oauth/login_file.rs",
        "src/workspace/pieces.rs",
        "src/skills/header.rs",
        "src/config/file.rs",
        "entrypoint/belljar_sandbox/workspace.py",
    ];
    let is_measuring = |(file, _): &(String, String)| !timeless.iter().any(|place| file.starts_with(place));
    let of_rust = files_below("src", "rs").into_iter().map(|file| (file, of_rust.as_slice()));
    let of_python = files_below("entrypoint", "py").into_iter().map(|file| (file, of_python.as_slice()));
    let files = of_rust.chain(of_python).filter(|(file, _)| is_measuring(file));
    let found: Vec<String> = files
        .flat_map(|((file, text), words)| {
            let used = words.iter().filter(move |word| text.contains(**word));
            used.map(|word| format!("{file}: {word}")).collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(found, [""; 0]);
}
