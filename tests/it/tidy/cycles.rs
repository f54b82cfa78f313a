//! The graph of the modules of each crate: no cycle between the modules of a folder.
//!
//! A module depends on those whose names it imports, or writes with their path; a name that its folder passes on counts
//! for the module that it comes from. A parent and its own children may use each other.

use std::collections::{BTreeMap, BTreeSet};

use super::source::{Named, files_below, is_test_file, paths, product_code, sources};

type Path = Vec<String>;

struct Module {
    file: String,
    named: Vec<Named>,
}

fn modules(source: &str) -> BTreeMap<Path, Module> {
    let mut modules = BTreeMap::new();
    for (file, text) in files_below(source, "rs").into_iter().filter(|(file, _)| !is_test_file(file)) {
        let inside = file[source.len() + 1..].trim_end_matches(".rs");
        let mut path: Path = inside.split('/').map(str::to_owned).collect();
        if inside == "lib" || inside.ends_with("/mod") {
            path.pop();
        }
        let named = paths(&product_code(&file, &text));
        modules.insert(path, Module { file, named });
    }
    modules
}

/// The place of a path that a module names, counted from the crate; nothing for other crates.
fn absolute(modules: &BTreeMap<Path, Module>, module: &[String], path: &[String]) -> Option<Path> {
    let (first, rest) = path.split_first()?;
    match first.as_str() {
        "crate" => Some(rest.to_vec()),
        "self" => Some([module, rest].concat()),
        "super" => {
            let levels = path.iter().take_while(|segment| *segment == "super").count();
            Some([module.get(..module.len() - levels)?, &path[levels..]].concat())
        }
        _ => Some([module, path].concat()).filter(|child| modules.contains_key(&child[..=module.len()])),
    }
}

/// The module that a path leads to, through the modules that pass its name on.
fn resolve(modules: &BTreeMap<Path, Module>, path: &[String]) -> Path {
    let mut path = path.to_vec();
    for _ in 0..8 {
        let inside =
            (0..=path.len()).rev().find(|length| modules.contains_key(&path[..*length])).unwrap_or(0);
        let module = &path[..inside];
        let passed_on = path.get(inside).and_then(|name| {
            let imports = modules.get(module)?.named.iter();
            let import = imports.filter(|named| named.alias.as_ref() == Some(name));
            import
                .filter_map(|named| absolute(modules, module, &named.path))
                .find(|from| *from != path[..=inside])
        });
        match passed_on {
            Some(from) => path = [from.as_slice(), &path[inside + 1..]].concat(),
            None => return module.to_vec(),
        }
    }
    path
}

/// For each folder which of its modules depends on which other, and where that is written.
fn edges(
    source: &str,
    modules: &BTreeMap<Path, Module>,
) -> BTreeMap<String, BTreeMap<(String, String), String>> {
    let mut edges: BTreeMap<String, BTreeMap<(String, String), String>> = BTreeMap::new();
    for (path, module) in modules {
        for named in &module.named {
            let Some(used) = absolute(modules, path, &named.path) else { continue };
            let used = resolve(modules, &used);
            let shared = path.iter().zip(&used).take_while(|(own, other)| own == other).count();
            if let (Some(own), Some(other)) = (path.get(shared), used.get(shared)) {
                let folder = [source.to_owned()].into_iter().chain(path[..shared].iter().cloned());
                let place = format!("{}: {}", module.file, named.path.join("::"));
                let folder = edges.entry(folder.collect::<Vec<_>>().join("/")).or_default();
                folder.insert((own.clone(), other.clone()), place);
            }
        }
    }
    edges
}

/// The nodes that can be reached from themselves.
pub fn in_cycles<'a>(edges: impl Iterator<Item = (&'a str, &'a str)>) -> BTreeSet<&'a str> {
    let mut reached: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (from, to) in edges {
        reached.entry(from).or_default().insert(to);
    }
    loop {
        let further: Vec<(&str, &str)> = reached
            .iter()
            .flat_map(|(from, to)| {
                to.iter().flat_map(|next| reached.get(next)).flatten().map(|end| (*from, *end))
            })
            .filter(|(from, end)| !reached[from].contains(end))
            .collect();
        if further.is_empty() {
            return reached.iter().filter(|(from, to)| to.contains(*from)).map(|(from, _)| *from).collect();
        }
        for (from, end) in further {
            reached.entry(from).or_default().insert(end);
        }
    }
}

#[test]
fn folders_have_no_cycles() {
    let mut wrong = Vec::new();
    let sources = sources();
    assert!(sources.len() > 5, "{sources:?}");
    let found = sources.iter().flat_map(|source| edges(source, &modules(source)));
    for (folder, uses) in found {
        let cyclic = in_cycles(uses.keys().map(|(from, to)| (from.as_str(), to.as_str())));
        if !cyclic.is_empty() {
            wrong.push(format!("{folder} has cycles of {} modules: {cyclic:?}", cyclic.len()));
            let inside = uses
                .iter()
                .filter(|((from, to), _)| [from, to].iter().all(|end| cyclic.contains(end.as_str())));
            wrong.extend(inside.map(|((from, to), place)| format!("  {from} uses {to}: {place}")));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn cycles_are_found_however_long() {
    let chain = [("a", "b"), ("b", "c"), ("c", "d")];
    assert_eq!(in_cycles(chain.into_iter()), BTreeSet::new());
    assert_eq!(in_cycles(chain.into_iter().chain([("d", "b")])), BTreeSet::from(["b", "c", "d"]));
}
