//! Words that have no place in the repository.

use std::collections::BTreeMap;

use super::source::{files_below, read, root, top_module};

/// Words that are not used, each with the standard one.
const AVOIDED: [(&str, &str); 5] = [
    ("rooms", "modules"),
    ("floors", "layers"),
    ("is none", "does not exist, is invalid"),
    ("gone on with", "resumed"),
    ("told of", "reported, logged"),
];

/// Modules that still use them. This table only shrinks.
const OFFENDERS: [&str; 14] = [
    "app", "broker", "catalog", "clients", "config", "jobs", "journal", "jsonrpc", "models", "recipe",
    "render", "server", "session", "upstream",
];

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
fn avoided_words_do_not_come_back() {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut files = files_below("src", "rs");
    files.extend(
        ["ARCHITECTURE.md", "CONTRIBUTING.md"].map(|file| (file.to_owned(), read(&root().join(file)))),
    );
    for (file, text) in files {
        let owner = if file.ends_with(".md") { file.as_str() } else { top_module(&file) };
        for (number, line) in text.lines().enumerate() {
            let words = line.to_lowercase().replace(|c: char| !c.is_alphanumeric() && c != '_', " ");
            let words = format!(" {words} ").replace(" there is none ", " ").replace(" is none of ", " ");
            for (word, better) in AVOIDED {
                if words.contains(&format!(" {word} ")) {
                    let place = format!("{file}:{}: {word:?}; say {better}", number + 1);
                    found.entry(owner.to_owned()).or_default().push(place);
                }
            }
        }
    }
    let mended: Vec<&str> = OFFENDERS.into_iter().filter(|offender| !found.contains_key(*offender)).collect();
    assert_eq!(mended, [""; 0], "these can leave OFFENDERS");
    found.retain(|owner, _| !OFFENDERS.contains(&owner.as_str()));
    assert_eq!(found, BTreeMap::new());
}
