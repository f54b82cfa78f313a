//! The shapes of results, which outlive sessions: one file of mode 0600 for each server, in a folder of mode 0700.
//!
//! The files hold keys and types, never a value. The files are read when a shape is first needed. A file that belongs
//! to somebody else, is broken or is too large is left out and logged.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use belljar_base::limits::Limits;
use belljar_base::names::ServerName;
use belljar_base::own_file;
use belljar_tools::catalog::{AnsweredCall, Observation, Shapes};
use parking_lot::Mutex;

/// The largest number of files that are read, one for each server.
const FILES_MAX: usize = 1_000;
const EXTENSION: &str = "shapes";

/// The shapes of results that were seen in calls, and their files.
pub(crate) struct ShapeStore {
    /// The folder of the files. Without a folder nothing is learned or shown.
    dir: Option<PathBuf>,
    limits: Limits,
    /// The shapes, after they have been read.
    known: Mutex<Option<Shapes>>,
}

impl ShapeStore {
    pub(crate) fn new(dir: Option<PathBuf>, limits: &Limits) -> Self {
        Self { dir, limits: limits.clone(), known: Mutex::new(None) }
    }

    /// Learns the shape of a call's result. A new shape is written at once, since a bridge may be killed at any time.
    pub(crate) fn learn(&self, answered: &AnsweredCall<'_>, is_secret: &dyn Fn(&str) -> bool) {
        let Some(dir) = &self.dir else { return };
        let mut known = self.known.lock();
        let shapes = self.read(&mut known);
        if shapes.learn(answered, is_secret) == Observation::New
            && let Err(error) = own_file::write(
                dir,
                &file_name(answered.server),
                shapes.to_json(answered.server).to_string().as_bytes(),
            )
        {
            tracing::warn!(server = %answered.server, %error, "the shape of a result could not be kept");
        }
    }

    /// Gives access to the known shapes, except those of the servers that are left out.
    pub(crate) fn with<R>(&self, left_out: BTreeSet<ServerName>, shown: impl FnOnce(&Shapes) -> R) -> R {
        let mut known = self.known.lock();
        let shapes = self.read(&mut known);
        shapes.leave_out(left_out);
        shown(shapes)
    }

    fn read<'s>(&self, known: &'s mut Option<Shapes>) -> &'s mut Shapes {
        known.get_or_insert_with(|| {
            let mut shapes = Shapes::new(&self.limits);
            if let Some(dir) = &self.dir
                && let Err(error) = read_all(dir, &mut shapes, self.limits.learned_file_bytes_max)
            {
                tracing::warn!(%error, "what was learned of results cannot be read");
            }
            shapes
        })
    }
}

fn read_all(dir: &Path, shapes: &mut Shapes, bytes_max: u64) -> io::Result<()> {
    let entries = own_file::unless_missing(fs::read_dir(dir))?.into_iter().flatten();
    let entries: io::Result<Vec<_>> = entries.take(FILES_MAX).collect();
    let paths = entries?.into_iter().map(|entry| entry.path());
    for path in paths.filter(|path| path.extension().is_some_and(|extension| extension == EXTENSION)) {
        let read = own_file::read(&path, bytes_max).and_then(|file| Ok(shapes.add_json(&file)?));
        if let Err(error) = read {
            tracing::warn!(path = %path.display(), %error, "a file of learned shapes is left out");
        }
    }
    Ok(())
}

fn file_name(server: &ServerName) -> String {
    format!("{}.{EXTENSION}", Shapes::file_stem(server))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use belljar_tools::catalog::Tool;
    use serde_json::json;

    use super::*;

    const RESULT: &str = r#"{"content":[],"structuredContent":{"id":1}}"#;

    fn server() -> ServerName {
        ServerName::new("a/b").unwrap()
    }

    fn tool() -> Tool {
        let mut tool = Tool::from_json(&json!({"name": "t"}), &Limits::default()).unwrap();
        tool.signature = "t()".into();
        tool
    }

    fn shape_store(dir: &Path) -> ShapeStore {
        ShapeStore::new(Some(dir.join("state/learned")), &Limits::default())
    }

    fn learn(shape_store: &ShapeStore) {
        shape_store.learn(&AnsweredCall { server: &server(), tool: &tool(), result: RESULT }, &|_| false);
    }

    fn shown(shape_store: &ShapeStore) -> String {
        shape_store.with(BTreeSet::new(), |shapes| shapes.signature(&server(), &tool()))
    }

    #[test]
    fn what_was_learned_outlives_the_session_in_files_of_this_user_alone() {
        let dir = tempfile::tempdir().unwrap();
        learn(&shape_store(dir.path()));
        let later = shape_store(dir.path());
        assert_eq!(shown(&later), "t() -> {id: int}  # seen once");
        learn(&later);
        assert_eq!(shown(&shape_store(dir.path())), "t() -> {id: int}  # seen 2 times");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let files: Vec<PathBuf> = fs::read_dir(dir.path().join("state/learned"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        assert_eq!(
            (mode(&dir.path().join("state/learned")), files.len(), mode(&files[0])),
            (0o700, 1, 0o600)
        );
        assert!(!fs::read_to_string(&files[0]).unwrap().contains(": 1"));
    }

    #[test]
    fn files_that_are_not_ours_broken_or_too_large_are_left_out() {
        let dir = tempfile::tempdir().unwrap();
        learn(&shape_store(dir.path()));
        let folder = dir.path().join("state/learned");
        let file = fs::read_dir(&folder).unwrap().next().unwrap().unwrap().path();
        let good = fs::read(&file).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(shown(&shape_store(dir.path())), "t()");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&file, &good[..good.len() / 2]).unwrap();
        assert_eq!(shown(&shape_store(dir.path())), "t()");
        let small = Limits { learned_file_bytes_max: good.len() as u64 - 1, ..Limits::default() };
        fs::write(&file, &good).unwrap();
        assert_eq!(shown(&ShapeStore::new(Some(folder.clone()), &small)), "t()");
        fs::rename(&file, dir.path().join("elsewhere")).unwrap();
        std::os::unix::fs::symlink(dir.path().join("elsewhere"), &file).unwrap();
        nix::unistd::mkfifo(&folder.join("fifo.shapes"), nix::sys::stat::Mode::S_IRUSR).unwrap();
        assert_eq!(shown(&shape_store(dir.path())), "t()");
    }

    #[test]
    fn without_a_folder_nothing_is_learned() {
        let shape_store = ShapeStore::new(None, &Limits::default());
        learn(&shape_store);
        assert_eq!(shown(&shape_store), "t()");
    }
}
