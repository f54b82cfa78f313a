//! Reads the sources: files of a folder, code without tests and comments, and the paths that code names.

use std::path::{Path, PathBuf};

pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

pub fn read(path: &Path) -> String {
    let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    // Among the invalid examples are files that are not UTF-8.
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Names, relative to the checkout, and texts of all files with an extension below a folder.
pub fn files_below(folder: &str, extension: &str) -> Vec<(String, String)> {
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

pub fn is_test_file(file: &str) -> bool {
    file.ends_with("_tests.rs") || file.contains("/test_")
}

/// The folders of the sources of each crate, from the checkout.
pub fn sources() -> Vec<String> {
    let crates = std::fs::read_dir(root().join("crates")).unwrap();
    let names = crates.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut sources: Vec<String> = names.map(|name| format!("crates/{name}/src")).collect();
    sources.push("src".to_owned());
    sources
}

pub fn without_comments(text: &str) -> String {
    text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

/// A file's code without its tests and comments.
pub fn product_code(file: &str, text: &str) -> String {
    if is_test_file(file) {
        return String::new();
    }
    let text = without_comments(text);
    let mut lines = text.lines();
    let mut code = Vec::new();
    while let Some(line) = lines.next() {
        if line == "#[cfg(test)]" {
            let item = lines.find(|line| !line.starts_with('#')).unwrap_or_default();
            let last = if item.ends_with('{') { "}" } else { ";" };
            if !item.ends_with(last) {
                // A block ends at a line that holds nothing else than its end.
                lines.find(|line| if last == "}" { *line == last } else { line.ends_with(last) });
            }
        } else {
            code.push(line);
        }
    }
    code.join("\n")
}

/// A path in code, and the name by which it is known afterwards if a `use` has it.
#[derive(Debug, PartialEq, Eq)]
pub struct Named {
    pub path: Vec<String>,
    pub alias: Option<String>,
}

/// All paths of code without comments: those of `use` one by one, and those with `::` elsewhere.
pub fn paths(code: &str) -> Vec<Named> {
    let mut found = Vec::new();
    let mut rest = String::new();
    let mut lines = code.lines();
    while let Some(line) = lines.next() {
        let Some(begun) = after_use(line.trim_start()) else {
            rest.push_str(line);
            rest.push('\n');
            continue;
        };
        let mut tree = begun.to_owned();
        while !tree.contains(';') {
            let Some(next) = lines.next() else { break };
            tree.push_str(next.trim());
            tree.push(' ');
        }
        use_tree(tree.split(';').next().unwrap_or_default(), &[], &mut found);
    }
    let is_of_path = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    for word in rest.split(|c| !is_of_path(c)).filter(|word| word.contains("::")) {
        let path = segments(word.trim_matches(':'));
        found.extend((path.len() > 1).then_some(Named { path, alias: None }));
    }
    found
}

fn after_use(line: &str) -> Option<&str> {
    let line = match line.strip_prefix("pub") {
        Some(public) if public.starts_with('(') => public.split_once(')')?.1,
        Some(public) => public,
        None => line,
    };
    line.trim_start().strip_prefix("use ")
}

fn segments(path: &str) -> Vec<String> {
    path.split("::").map(|segment| segment.trim().to_owned()).filter(|segment| !segment.is_empty()).collect()
}

fn use_tree(tree: &str, prefix: &[String], found: &mut Vec<Named>) {
    let (mut depth, mut begins) = (0, 0);
    let mut branches = Vec::new();
    for (at, character) in tree.char_indices() {
        match character {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                branches.push(&tree[begins..at]);
                begins = at + 1;
            }
            _ => {}
        }
    }
    branches.push(&tree[begins..]);
    for branch in branches.into_iter().map(str::trim).filter(|branch| !branch.is_empty()) {
        if let Some((stem, inner)) = branch.split_once('{') {
            let inner = inner.strip_suffix('}').unwrap_or(inner);
            use_tree(inner, &[prefix, &segments(stem)].concat(), found);
            continue;
        }
        let (path, renamed) =
            branch.split_once(" as ").map_or((branch, None), |(path, name)| (path, Some(name)));
        let mut path = [prefix, &segments(path)].concat();
        if path.last().is_some_and(|last| last == "self") && path.len() > 1 {
            path.pop();
        }
        let alias = renamed.map(|name| name.trim().to_owned()).or_else(|| path.last().cloned());
        found.push(Named { path, alias });
    }
}

#[test]
fn paths_are_found_in_braces_and_inline() {
    let code = "use crate::text;\npub(super) use crate::{\n    broker, config::{Config, env as e}, run::{self},\n};\n\
                fn f() { super::a::b(Vec::<u8>::new()) }";
    let shown: Vec<String> = paths(code)
        .into_iter()
        .map(|named| format!("{} as {}", named.path.join("::"), named.alias.unwrap_or_default()))
        .collect();
    assert_eq!(
        shown,
        [
            "crate::text as text",
            "crate::broker as broker",
            "crate::config::Config as Config",
            "crate::config::env as e",
            "crate::run as run",
            "super::a::b as ",
        ]
    );
}
