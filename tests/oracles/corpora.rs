//! The corpora of `fuzz/corpus`, through the same oracles as when fuzzing.

use std::path::Path;

/// What each corpus has at least: fewer would say that it was not found.
const INPUTS_MIN: usize = 15;
/// All corpora together.
const BYTES_MAX: u64 = 1 << 20;

/// Checks every input of a corpus; when one fails, its file is named.
fn replay(target: &str, check: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target);
    let mut checked = 0;
    for entry in folder.read_dir().unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let path = entry.unwrap().path();
        let input = std::fs::read(&path).unwrap();
        if std::panic::catch_unwind(|| check(&input)).is_err() {
            panic!("{} fails", path.display());
        }
        checked += 1;
    }
    assert!(checked >= INPUTS_MIN, "{target} has {checked} inputs");
}

macro_rules! corpora {
    ($($target:ident),*) => {
        $(#[test]
        fn $target() {
            replay(stringify!($target), crate::$target::check);
        })*

        #[test]
        fn every_corpus_has_a_target_and_an_oracle_and_all_are_small() {
            let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz");
            let names = |folder: &str| {
                let entries = fuzz.join(folder).read_dir().unwrap();
                let mut names: Vec<String> = entries
                    .map(|entry| entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned())
                    .collect();
                names.sort();
                names
            };
            let known = [$(stringify!($target)),*];
            assert_eq!(names("corpus"), known);
            assert_eq!(names("fuzz_targets"), known);
            let bytes: u64 = known
                .iter()
                .flat_map(|target| fuzz.join("corpus").join(target).read_dir().unwrap())
                .map(|entry| entry.unwrap().metadata().unwrap().len())
                .sum();
            assert!(bytes <= BYTES_MAX, "{bytes} bytes");
        }
    };
}

corpora!(client_files, config_parser, frame_decoder, jsonrpc_input, name_mapping, schema_to_python);
