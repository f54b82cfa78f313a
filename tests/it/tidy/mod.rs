//! The rules of the code base, as tests over its sources.

mod cycles;
mod layers;
mod source;
mod words;

use std::collections::BTreeSet;

use source::{files_below, product_code, read, root};

/// Unwraps outside tests, each provable where it stands: file, how many.
const PROVABLE: [(&str, usize); 3] = [
    // The embedded defaults, checked by tests.
    ("src/config/settings/definitions.rs", 1),
    ("src/config/settings/resolve.rs", 1),
    // A frame of our own is written to memory.
    ("src/protocol/to_sandbox.rs", 1),
];

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
    assert_eq!(found, [""; 0], "out! and err! of app/common/printing.rs do not panic");
}

#[test]
fn every_runtime_file_is_embedded() {
    let bundle = belljar::session::bundle(belljar::protocol::BundleCode::None);
    let header = bundle.split(|byte| *byte == b'\n').next().unwrap();
    let header: serde_json::Value = serde_json::from_slice(header).unwrap();
    let embedded: BTreeSet<String> =
        header["files"].as_object().unwrap().keys().map(|path| format!("entrypoint/{path}")).collect();
    let on_disk: BTreeSet<String> = files_below("entrypoint", "py")
        .into_iter()
        .map(|(file, _)| file)
        .filter(|file| file != "entrypoint/bootstrap.py")
        .collect();
    assert_eq!(embedded, on_disk);
}

#[test]
fn nothing_is_measured_by_a_clock_that_can_jump() {
    let of_rust = ["SystemTime", "UNIX_EPOCH", "chrono::", "CLOCK_REALTIME"];
    let of_python =
        ["time.time(", "from time import time", "datetime", "CLOCK_REALTIME", "gmtime", "localtime"];
    // The log and the journal tell people when something was; a login outlives the process, and so does the time of its end; files have
    // the times that they had; versions of skills say when they were written; and how long ago a folder has changed only the clock
    // tells that dated it. Texts of servers have dates.
    let timeless = [
        "src/audit/",
        "src/journal/time.rs",
        "src/upstream/login_file.rs",
        "src/workspace/pieces.rs",
        "src/skills/header.rs",
        "src/config/read/file.rs",
        "entrypoint/belljar_sandbox/worker/workspace_watch.py",
        "entrypoint/belljar_sandbox/wire/python_literal.py",
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
