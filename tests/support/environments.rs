//! Virtual environments for sandboxes without a container engine, built by the program itself, once for each content.

use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use super::Home;
use super::engines::cache;
use super::images::with_sources;

/// What decides the content of the usual one.
pub const FILES: [&str; 2] = ["sandbox-image/make-environment.sh", "sandbox-image/requirements.lock"];
/// One that no checkout has used for so long is removed.
const UNUSED: Duration = Duration::from_secs(86_400);

/// A folder of environments with the usual one. It stays, so that later runs of the tests find it.
pub fn usual() -> PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(build).clone()
}

fn build() -> PathBuf {
    let mut hasher = DefaultHasher::new();
    for file in FILES {
        std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap().hash(&mut hasher);
    }
    let all = cache().join("test-environments");
    let own = all.join(format!("{:016x}", hasher.finish()));
    std::fs::create_dir_all(&own).unwrap();
    let folder = own.join("belljar/environments");
    // Two tests must not build the same at once.
    let lock = File::create(all.join("lock")).unwrap();
    lock.lock().unwrap();
    let used = |own: &Path| own.join("used");
    std::fs::write(used(&own), "now").unwrap();
    if !folder.join("default").exists() {
        for other in std::fs::read_dir(&all).unwrap().flatten().map(|other| other.path()) {
            let unused = used(&other).metadata().and_then(|about| about.modified()).ok();
            if unused.and_then(|at| at.elapsed().ok()).is_some_and(|since| since > UNUSED) {
                std::fs::remove_dir_all(other).unwrap();
            }
        }
        let home = with_sources(Home::new().env("MCP_BRIDGE_RUNTIME", "process"));
        let built = home.env("XDG_DATA_HOME", own.to_str().unwrap()).run(&["image", "build"]);
        assert_eq!(built.code, Some(0), "{}", built.stderr);
    }
    folder
}
