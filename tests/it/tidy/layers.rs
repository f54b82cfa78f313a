//! Which modules may use which, and which modules may name which crates.

use std::collections::{BTreeMap, BTreeSet};

use super::source::{files_below, paths, product_code, read, root, top_module, without_comments};

/// Edges within one layer, each with its reason.
const WITHIN_A_LAYER: [(&str, &str, &str); 2] = [
    ("protocol", "run", "frames carry a run's nouns: outcomes, faults, images"),
    ("app", "cli", "the application does what the command line asks for"),
];

/// Crates and modules of the standard library with owners: no other module names them.
const OWNED: [(&str, &[&str]); 30] = [
    ("bollard", &["engine"]),
    ("landlock", &["confine"]),
    ("rustix", &["confine", "engine"]),
    ("seccompiler", &["confine"]),
    ("jsonschema", &["catalog"]),
    ("toml", &["config", "skills"]),
    ("rmcp", &["jsonrpc", "server", "upstream"]),
    ("clap", &["cli", "main"]),
    ("tikv_jemalloc_ctl", &["main"]),
    ("tikv_jemallocator", &["main"]),
    ("url", &["config", "models", "policy", "service_login", "upstream", "web"]),
    ("reqwest", &["models", "upstream", "web"]),
    ("ring", &["jose"]),
    ("rustls", &["web"]),
    ("rustls_pki_types", &["jose"]),
    ("rustls_platform_verifier", &["web"]),
    ("sse_stream", &["upstream"]),
    ("chrono", &["audit", "clock", "skills"]),
    ("wildmatch", &["policy"]),
    ("jsonc_parser", &["clients"]),
    ("saphyr_parser", &["clients"]),
    ("similar", &["clients"]),
    ("strsim", &["broker", "catalog", "text"]),
    ("tar", &["recipe"]),
    ("toml_edit", &["clients", "config"]),
    ("mime_guess", &["workspace"]),
    ("percent_encoding", &["catalog", "policy", "workspace"]),
    ("icu_normalizer", &["text"]),
    ("icu_properties", &["text"]),
    ("std::env", &["config", "guard"]),
];

/// A name in a string that looks like a path: the target whose log level is set.
const MENTIONED: (&str, &str) = ("rmcp", "src/app/common/logging.rs");

/// The layer of each module, from the table in a document.
fn layers(file: &str) -> BTreeMap<String, u8> {
    let text = read(&root().join(file));
    let mut layers = BTreeMap::new();
    for line in text.lines() {
        let mut cells = line.trim_start_matches("//! ").split('|').skip(1).map(str::trim);
        let (Some(layer), Some(modules)) = (cells.next(), cells.next()) else { continue };
        let Some(layer) = layer.strip_prefix(['F', 'L']).and_then(|number| number.parse().ok()) else {
            continue;
        };
        layers.extend(modules.split('`').skip(1).step_by(2).map(|module| (module.to_owned(), layer)));
    }
    layers
}

#[test]
fn documents_agree_on_the_layers() {
    let layers_of_code = layers("src/lib.rs");
    let modules: BTreeSet<String> =
        files_below("src", "rs").iter().map(|(file, _)| top_module(file).to_owned()).collect();
    let known: BTreeSet<String> = layers_of_code.keys().cloned().chain(["lib".to_owned()]).collect();
    let tested = |module: &String| !module.ends_with("_tests");
    assert_eq!(modules.into_iter().filter(tested).collect::<BTreeSet<_>>(), known);
    assert_eq!(layers("ARCHITECTURE.md"), layers_of_code);
}

#[test]
fn modules_use_lower_layers_only() {
    let layers = layers("src/lib.rs");
    let mut wrong = BTreeSet::new();
    for (file, text) in files_below("src", "rs") {
        let own = top_module(&file).trim_end_matches("_tests");
        let Some(own_layer) = layers.get(own) else { continue };
        for named in paths(&without_comments(&text)) {
            let (Some("crate"), Some(used)) = (named.path.first().map(String::as_str), named.path.get(1))
            else {
                continue;
            };
            let is_allowed = WITHIN_A_LAYER.iter().any(|(from, to, _)| (*from, *to) == (own, used.as_str()));
            let Some(layer) = layers.get(used).filter(|_| used != own && !is_allowed) else { continue };
            if layer >= own_layer {
                wrong.insert(format!("{file} (layer {own_layer}) uses {used} (layer {layer})"));
            }
        }
    }
    assert_eq!(wrong, BTreeSet::new());
}

/// Whether code names a crate, or a module of one.
fn names(code: &str, owned: &str) -> bool {
    let owned: Vec<&str> = owned.split("::").collect();
    // Macros such as `env!` have no path, and a variable may be called as a crate is.
    paths(code).iter().any(|named| {
        named.path.iter().map(String::as_str).zip(&owned).filter(|(segment, name)| segment == *name).count()
            == owned.len()
    })
}

#[test]
fn crates_are_named_by_their_owners_only() {
    let mut wrong = Vec::new();
    for (file, text) in files_below("src", "rs") {
        let code = product_code(&file, &text);
        for (owned, owners) in OWNED {
            if !owners.contains(&top_module(&file))
                && (owned, file.as_str()) != MENTIONED
                && names(&code, owned)
            {
                wrong.push(format!("{file} names {owned}, which belongs to {owners:?}"));
            }
        }
    }
    assert_eq!(wrong, [""; 0]);
}

#[test]
fn the_architecture_says_which_modules_use_each_crate() {
    let text = read(&root().join("ARCHITECTURE.md"));
    let (_, table) = text.split_once("| crate | only in |").unwrap();
    let ticked = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>();
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let written: BTreeMap<String, Vec<String>> = rows
        .flat_map(|row| {
            let cells: Vec<&str> = row.split('|').collect();
            ticked(cells[1]).into_iter().map(move |owned| (owned, ticked(cells[2])))
        })
        .collect();
    let owned =
        OWNED.map(|(owned, owners)| (owned.to_owned(), owners.iter().map(|&of| of.to_owned()).collect()));
    assert_eq!(written, BTreeMap::from(owned));
}

#[test]
fn names_of_modules_are_seen_in_every_form() {
    for seen in
        ["use std::env;", "std::env::var(\"A\")", "use std::{env, fs};", "use std::{fs::{self}, env::var};"]
    {
        assert!(names(seen, "std::env"), "{seen}");
    }
    for other in ["use std::{fs, process::{env}};", "std::environment()", "env!(\"A\")"] {
        assert!(!names(other, "std::env"), "{other}");
    }
}
