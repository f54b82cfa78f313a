//! Stores the compiled code of the Python runtime. Compiling it takes most of the time of a start, so the first sandbox of an
//! image sends the compiled code before any user code runs in it, and later sandboxes of the same image get it with the
//! sources.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use belljar_base::cache_dir::CacheDir;
use belljar_base::digest::sha256;
use belljar_protocol::{BundleCode, FromSupervisor, RuntimeCode, runtime_bundle, runtime_modules};

/// The largest stored code, in bytes: a few times its present size.
const CODE_BYTES_MAX: usize = 4 << 20;
/// The largest number of Python versions with stored code.
const CODE_ENTRIES_MAX: usize = 8;

/// The digest of everything that the code depends on besides Python.
static DIGEST: LazyLock<String> = LazyLock::new(|| sha256(&runtime_bundle(BundleCode::None)));

/// The compiled code of the runtime on disk, one file for each Python: that of an image on an engine, or that of the
/// machine.
#[derive(Debug)]
pub(super) struct CodeCache(CacheDir);

impl CodeCache {
    /// A cache in this folder, which need not exist.
    pub(super) fn new(dir: PathBuf) -> Self {
        Self(CacheDir {
            dir,
            entry_bytes_max: CODE_BYTES_MAX,
            entries_max: CODE_ENTRIES_MAX,
            bytes_max: (CODE_BYTES_MAX * CODE_ENTRIES_MAX) as u64,
        })
    }

    /// The code that a sandbox with this Python has sent. `None` if there is none, or if its file is damaged.
    pub(super) fn load(&self, python: &str) -> Option<RuntimeCode> {
        let content = String::from_utf8(self.0.read(&name(python)).ok()?).ok()?;
        let (digest, json) = content.split_once('\n')?;
        if digest != sha256(json.as_bytes()) {
            tracing::warn!(python, "the stored code of the runtime is damaged; it is made again");
            return None;
        }
        serde_json::from_str(json).ok()
    }

    /// Stores code that a sandbox with this Python has sent before its first worker.
    ///
    /// # Errors
    /// It is not code of the runtime's modules, is not base64, is too large, or cannot be written.
    fn store(&self, python: &str, code: &RuntimeCode) -> Result<(), String> {
        let modules: BTreeSet<String> = runtime_modules().collect();
        if let Some(other) = code.modules.keys().find(|name| !modules.contains(*name)) {
            return Err(format!("{other:?} is no module of the runtime"));
        }
        if let Some((name, _)) = code.modules.iter().find(|(_, code)| STANDARD.decode(code).is_err()) {
            return Err(format!("the code of {name} is not base64"));
        }
        let json = serde_json::to_string(code).map_err(|error| error.to_string())?;
        if json.len() > CODE_BYTES_MAX - 65 {
            return Err(format!("it has {} bytes, at most {} are stored", json.len(), CODE_BYTES_MAX - 65));
        }
        let (name, content) = (name(python), format!("{}\n{json}", sha256(json.as_bytes())));
        self.0
            .write(&name, content.as_bytes(), &BTreeSet::from([name.clone()]))
            .map_err(|error| error.to_string())
    }
}

/// The compiled code that a new sandbox was asked for. It is accepted once, after the posture and before the first
/// worker, so that no user code can have changed it.
#[derive(Debug)]
pub(super) struct AwaitedCode {
    /// The cache, and the Python that it is stored for; `None` when no code is awaited.
    place: Option<(CodeCache, String)>,
    has_said_hello: bool,
}

impl AwaitedCode {
    pub(super) fn new(place: Option<(CodeCache, String)>) -> Self {
        Self { place, has_said_hello: false }
    }

    /// Stores the code, if this frame contains it.
    pub(super) fn hear(&mut self, frame: &FromSupervisor) {
        match frame {
            FromSupervisor::Hello { .. } => self.has_said_hello = true,
            FromSupervisor::WorkerStarted { .. } => self.place = None,
            FromSupervisor::Code(code) if self.has_said_hello => {
                if let Some((cache, python)) = self.place.take()
                    && let Err(reason) = cache.store(&python, code)
                {
                    tracing::warn!(reason, "the compiled code of the runtime cannot be stored");
                }
            }
            _ => {}
        }
    }
}

/// The file name for a Python.
fn name(python: &str) -> String {
    format!("{}.code", sha256(format!("{python}\0{}", *DIGEST).as_bytes()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// A module of the runtime.
    const MAIN: &str = "belljar_sandbox.boot.main";

    fn code(module: &str) -> RuntimeCode {
        RuntimeCode { magic: "a70d0d0a".into(), modules: BTreeMap::from([(module.into(), "AAAA".into())]) }
    }

    #[test]
    fn stored_code_is_loaded_for_its_image_only() {
        let dir = tempfile::tempdir().unwrap();
        let cache = CodeCache::new(dir.path().join("runtime"));
        assert!(cache.load("sha256:1").is_none());
        cache.store("sha256:1", &code(MAIN)).unwrap();
        assert_eq!(cache.load("sha256:1"), Some(code(MAIN)));
        assert!(cache.load("sha256:2").is_none());
    }

    #[test]
    fn code_is_stored_once_and_only_between_the_hello_and_the_first_worker() {
        let hello = || FromSupervisor::Hello { version: 1, python: "3.14".into(), posture: Box::default() };
        let worker = || FromSupervisor::WorkerStarted {
            worker: 1,
            posture: Box::default(),
            restored: None,
            checkpoint: None,
        };
        let of = |module: &str| FromSupervisor::Code(code(module));
        for (frames, stored) in [
            (vec![hello(), of(MAIN), worker()], Some(MAIN)),
            (vec![hello(), of(MAIN), of("mcp"), worker(), of("mcp")], Some(MAIN)),
            (vec![of("mcp"), hello(), of(MAIN)], Some(MAIN)),
            (vec![of("mcp"), hello(), worker()], None),
            (vec![hello(), worker(), of("mcp")], None),
            (vec![hello(), worker(), hello(), of("mcp")], None),
            (vec![worker(), of("mcp")], None),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let place = || (CodeCache::new(dir.path().join("runtime")), "image".to_owned());
            let mut awaited = AwaitedCode::new(Some(place()));
            frames.iter().for_each(|frame| awaited.hear(frame));
            assert_eq!(place().0.load("image"), stored.map(code), "{frames:?}");
        }
    }

    #[test]
    fn damaged_code_and_code_of_other_modules_is_not_used() {
        let dir = tempfile::tempdir().unwrap();
        let cache = CodeCache::new(dir.path().join("runtime"));
        assert!(
            cache.store("sha256:1", &code("os")).unwrap_err().contains("\"os\" is no module of the runtime")
        );
        let mut broken = code("mcp.runtime");
        broken.modules.insert("mcp".into(), "A".into());
        assert_eq!(cache.store("sha256:1", &broken).unwrap_err(), "the code of mcp is not base64");
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
