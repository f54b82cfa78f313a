//! The Python runtime that is streamed into the sandbox. It is embedded, so that both ends are always of one version.
//!
//! To compile it takes most of the time of a start. So the first sandbox of an image sends the compiled code before any
//! user code runs in it, and later sandboxes of the same image get this code with the sources.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::LazyLock;

use serde_json::value::RawValue;

use crate::cache_dir::CacheDir;
use crate::digest::sha256;
use crate::protocol::{BundleCode, RuntimeCode, bundle_line};

/// Passed to `python3 -c`: reads the bundle and runs it.
pub const BOOTSTRAP: &str = include_str!("../../../entrypoint/bootstrap.py");

/// The module whose `main()` becomes PID 1.
const MAIN: &str = "belljar_sandbox.boot.main";
/// Size of the largest stored code, in bytes: a few times what it has.
const CODE_BYTES_MAX: usize = 4 << 20;
/// How many images' code is stored.
const CODE_ENTRIES_MAX: usize = 8;

/// The source files by path.
static FILES: LazyLock<BTreeMap<&str, &str>> = LazyLock::new(|| {
    // The list is made by build.rs.
    BTreeMap::from(include!(concat!(env!("OUT_DIR"), "/runtime_files.rs")))
});
/// The digest of everything that the code depends on besides the image.
static DIGEST: LazyLock<String> = LazyLock::new(|| sha256(&bundle_line(&FILES, MAIN, BundleCode::None)));

/// The first line towards a new sandbox: all files of the runtime.
#[must_use]
pub fn bundle(code: BundleCode<'_>) -> Vec<u8> {
    bundle_line(&FILES, MAIN, code)
}

/// Compiled code of the runtime on disk, one file for each image.
#[derive(Debug)]
pub(super) struct CodeCache(CacheDir);

impl CodeCache {
    /// In this folder, which need not be there.
    pub(super) fn new(dir: PathBuf) -> Self {
        Self(CacheDir {
            dir,
            entry_bytes_max: CODE_BYTES_MAX,
            entries_max: CODE_ENTRIES_MAX,
            bytes_max: (CODE_BYTES_MAX * CODE_ENTRIES_MAX) as u64,
        })
    }

    /// The code that a sandbox of this image has sent. `None` if there is none, or if its file is damaged.
    pub(super) fn load(&self, image: &str) -> Option<Box<RawValue>> {
        let content = String::from_utf8(self.0.read(&name(image)).ok()?).ok()?;
        let (digest, json) = content.split_once('\n')?;
        if digest != sha256(json.as_bytes()) {
            tracing::warn!(image, "the stored code of the runtime is damaged; it is made again");
            return None;
        }
        RawValue::from_string(json.to_owned()).ok()
    }

    /// Stores code that a sandbox of this image has sent before its first worker.
    ///
    /// # Errors
    /// When it is not code of the runtime's modules, or cannot be written.
    pub(super) fn store(&self, image: &str, code: &RuntimeCode) -> Result<(), String> {
        let modules: BTreeSet<String> = FILES.keys().map(|path| module(path)).collect();
        if let Some(other) = code.modules.keys().find(|name| !modules.contains(*name)) {
            return Err(format!("{other:?} is no module of the runtime"));
        }
        let json = serde_json::to_string(code).map_err(|error| error.to_string())?;
        if json.len() > CODE_BYTES_MAX - 65 {
            return Err(format!("it has {} bytes, at most {} are stored", json.len(), CODE_BYTES_MAX - 65));
        }
        let (name, content) = (name(image), format!("{}\n{json}", sha256(json.as_bytes())));
        self.0
            .write(&name, content.as_bytes(), &BTreeSet::from([name.clone()]))
            .map_err(|error| error.to_string())
    }
}

/// The name of the file for an image.
fn name(image: &str) -> String {
    format!("{}.code", sha256(format!("{image}\0{}", *DIGEST).as_bytes()))
}

/// The name of the module in a file.
fn module(path: &str) -> String {
    let path = path.strip_suffix(".py").unwrap_or(path);
    path.strip_suffix("/__init__").unwrap_or(path).replace('/', ".")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(module: &str) -> RuntimeCode {
        RuntimeCode { magic: "a70d0d0a".into(), modules: BTreeMap::from([(module.into(), "AAAA".into())]) }
    }

    #[test]
    fn stored_code_is_loaded_for_its_image_only() {
        let dir = tempfile::tempdir().unwrap();
        let cache = CodeCache::new(dir.path().join("runtime"));
        assert!(cache.load("sha256:1").is_none());
        cache.store("sha256:1", &code(MAIN)).unwrap();
        let loaded: RuntimeCode = serde_json::from_str(cache.load("sha256:1").unwrap().get()).unwrap();
        assert_eq!(loaded, code(MAIN));
        assert!(cache.load("sha256:2").is_none());
    }

    #[test]
    fn damaged_code_and_code_of_other_modules_is_not_used() {
        let dir = tempfile::tempdir().unwrap();
        let cache = CodeCache::new(dir.path().join("runtime"));
        assert!(
            cache.store("sha256:1", &code("os")).unwrap_err().contains("\"os\" is no module of the runtime")
        );
        cache.store("sha256:1", &code("mcp.runtime")).unwrap();
        let file = cache.0.path(&name("sha256:1"));
        let content = std::fs::read_to_string(&file).unwrap().replace("AAAA", "AAAB");
        std::fs::write(&file, content).unwrap();
        assert!(cache.load("sha256:1").is_none());
    }

    #[test]
    fn the_code_of_only_a_few_images_is_stored() {
        let dir = tempfile::tempdir().unwrap();
        let cache = CodeCache::new(dir.path().join("runtime"));
        for image in 0..2 * CODE_ENTRIES_MAX {
            cache.store(&image.to_string(), &code("mcp")).unwrap();
        }
        assert_eq!(std::fs::read_dir(&cache.0.dir).unwrap().count(), CODE_ENTRIES_MAX);
    }
}
