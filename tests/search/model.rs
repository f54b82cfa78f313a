//! Where `scripts/setup.sh test` puts the sentence encoder that the tests use.

// Each test program uses its own part of this.
#![allow(dead_code)]

use std::path::PathBuf;

/// Its folder, whether it is there or not.
pub fn place() -> PathBuf {
    let folder = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let cache = folder("BELLJAR_CACHE")
        .or_else(|| folder("XDG_CACHE_HOME").map(|dir| dir.join("belljar")))
        .or_else(|| folder("HOME").map(|dir| dir.join(".cache/belljar")));
    cache.expect("a home").join("model/minilm")
}

/// Its folder.
///
/// # Panics
/// When it is not there.
pub fn installed() -> PathBuf {
    let folder = place();
    assert!(folder.is_dir(), "{} is missing: run scripts/setup.sh test", folder.display());
    folder
}
