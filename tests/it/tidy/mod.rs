//! The rules of the code base, as tests over its sources.

mod cycles;
pub mod source;
mod words;

use std::collections::BTreeSet;

use source::{files_below, paths, product_code, read, root, sources};

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
    for folder in ["src", "crates", "tests", "benches", "fuzz/fuzz_targets"] {
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
fn only_the_configuration_and_the_guard_read_the_environment() {
    let mut wrong = Vec::new();
    for (file, text) in sources().iter().flat_map(|source| files_below(source, "rs")) {
        let is_owner = file.starts_with("src/config/") || file.starts_with("crates/belljar-guard/");
        let names = paths(&product_code(&file, &text));
        let mut names = names.iter().map(|named| named.path.iter().map(String::as_str).take(2));
        wrong.extend((!is_owner && names.any(|path| path.eq(["std", "env"]))).then_some(file));
    }
    assert_eq!(wrong, [""; 0]);
}

#[test]
fn every_runtime_file_is_embedded() {
    let bundle = belljar_protocol::runtime_bundle(belljar_protocol::BundleCode::None);
    let header = bundle.split(|byte| *byte == b'\n').next().unwrap();
    let header: serde_json::Value = serde_json::from_slice(header).unwrap();
    let embedded: BTreeSet<String> =
        header["files"].as_object().unwrap().keys().map(|path| format!("entrypoint/{path}")).collect();
    let on_disk: BTreeSet<String> = files_below("entrypoint", "py")
        .into_iter()
        .map(|(file, _)| file)
        .filter(|file| file != "entrypoint/bootstrap.py" && !file.starts_with("entrypoint/remote/"))
        .collect();
    assert_eq!(embedded, on_disk);
}
