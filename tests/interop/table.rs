//! Tables that a test writes into a page of the documentation, and the versions that stand in them.

use std::collections::BTreeMap;
use std::path::Path;

use parking_lot::Mutex;
use serde_json::Value;

/// Held while a page is read and written: tests that run at once write tables into one page.
static PAGES: Mutex<()> = Mutex::new(());

/// Compares the table with the one between the marks of this name, or writes it there with `BLESS=1`; both are what
/// `make TARGET` does.
#[track_caller]
pub fn check(page: &str, target: &str, name: &str, table: &str) {
    print!("{table}");
    let _held = PAGES.lock();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(page);
    let text = std::fs::read_to_string(&path).unwrap();
    let (before, written, after) = parts(&text, target, name);
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, format!("{before}{table}{after}")).unwrap();
    } else {
        assert_eq!(written, table, "`make {target}` writes it anew");
    }
}

/// The table between the marks of this name.
pub fn written(page: &str, target: &str, name: &str) -> String {
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(page)).unwrap();
    parts(&text, target, name).1.to_owned()
}

fn parts<'t>(text: &'t str, target: &str, name: &str) -> (&'t str, &'t str, &'t str) {
    let (begin, end) =
        (format!("<!-- {name}: written by `make {target}` -->\n"), format!("<!-- /{name} -->\n"));
    let start = text.find(&begin).expect("the page has a place for the table") + begin.len();
    let length = text[start..].find(&end).expect("the table has an end");
    (&text[..start], &text[start..start + length], &text[start + length..])
}

/// The version of each package that these files in a folder of `tests/fixtures` pin.
pub fn versions(folder: &str, files: &[&str]) -> BTreeMap<String, String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(folder);
    let pinned = files.iter().flat_map(|file| {
        let text = std::fs::read_to_string(folder.join(file)).unwrap();
        if file.ends_with(".json") { node(&text) } else { python(&text) }
    });
    pinned.collect()
}

fn node(text: &str) -> Vec<(String, String)> {
    let package: Value = serde_json::from_str(text).unwrap();
    let pinned = |key: &str| package[key].as_object().cloned().unwrap_or_default().into_iter();
    // What has a package for each kind of machine goes by the name of one of them.
    let native = pinned("optionalDependencies").filter_map(|(name, version)| {
        let name = name.strip_suffix("-linux-x64").filter(|name| *name != "node")?;
        Some((name.to_owned(), version))
    });
    let all = pinned("dependencies").chain(native);
    all.map(|(name, version)| (name, version.as_str().unwrap().to_owned())).collect()
}

fn python(text: &str) -> Vec<(String, String)> {
    let pinned = text.lines().filter_map(|line| line.split_once("=="));
    let name = |name: &str| name.split('[').next().unwrap_or_default().to_owned();
    pinned.map(|(package, version)| (name(package), version.to_owned())).collect()
}
