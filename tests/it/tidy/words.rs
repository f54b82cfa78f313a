//! Words that have no place in the repository.

use super::source::{files_below, read, root, without_comments};

/// Words that are not used, each with the standard one.
const AVOIDED: [(&str, &str); 5] = [
    ("rooms", "modules"),
    ("floors", "layers"),
    ("is none", "does not exist, is invalid"),
    ("gone on with", "resumed"),
    ("told of", "reported, logged"),
];

/// Names that say what has happened to a thing, and not what the thing is.
const NO_NOUNS: [&str; 40] = [
    "Anew", "Answered", "Asked", "Before", "Called", "Came", "Checked", "Chosen", "Compared", "Done",
    "Dropped", "Earlier", "Ended", "Filled", "Followed", "Found", "Given", "Granted", "Heard", "Held",
    "Kept", "Known", "Later", "Learned", "Listed", "Loaded", "Look", "Made", "Missing", "Now", "Opened",
    "Planned", "Said", "Saved", "Seen", "Shown", "Taken", "Then", "Told", "Way",
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
    let mut found = Vec::new();
    let mut files = files_below("src", "rs");
    files.extend(
        ["ARCHITECTURE.md", "CONTRIBUTING.md"].map(|file| (file.to_owned(), read(&root().join(file)))),
    );
    for (file, text) in files {
        for (number, line) in text.lines().enumerate() {
            // None is a value of Python.
            let words = line.replace("is None", "").to_lowercase();
            let words = words.replace(|c: char| !c.is_alphanumeric() && c != '_', " ");
            let words = format!(" {words} ").replace(" there is none ", " ").replace(" is none of ", " ");
            let used = AVOIDED.iter().filter(|(word, _)| words.contains(&format!(" {word} ")));
            found.extend(used.map(|(word, better)| format!("{file}:{}: {word:?}; say {better}", number + 1)));
        }
    }
    assert_eq!(found, [""; 0]);
}

#[test]
fn types_are_nouns() {
    let mut found = Vec::new();
    for (file, text) in files_below("src", "rs") {
        let code = without_comments(&text);
        let words: Vec<&str> =
            code.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
        let types = words.windows(2).filter(|pair| ["struct", "enum", "trait", "type"].contains(&pair[0]));
        found.extend(
            types.filter(|pair| NO_NOUNS.contains(&pair[1])).map(|pair| format!("{file}: {}", pair[1])),
        );
    }
    assert_eq!(found, [""; 0]);
}
