//! The version of what belljar stores for the user: the log of calls, journals, pins, logins, tokens, trust. An older belljar
//! must not write over what a newer one has stored in another way.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use belljar_base::{own_file, text};

/// The version that this belljar reads and writes. Whoever raises it writes it into [`FILE`], has the older ones read, and
/// keeps `tests/fixtures/state-1`.
const VERSION: u32 = 1;
/// The file in the state folder. Without it, the version is 1.
const FILE: &str = "version";
/// The largest file, in bytes.
const BYTES_MAX: u64 = 64;

/// Checks that this belljar knows the version of the state in these folders.
///
/// # Errors
/// It does not, or the file cannot be read; with the remedy.
pub(crate) fn check(folders: impl IntoIterator<Item = Option<PathBuf>>) -> Result<(), String> {
    folders.into_iter().flatten().try_for_each(|dir| check_in(&dir))
}

fn check_in(dir: &Path) -> Result<(), String> {
    let path = dir.join(FILE);
    let shown = text::inert_line(&path.display().to_string());
    match own_file::read(&path, BYTES_MAX) {
        Ok(bytes) if std::str::from_utf8(&bytes).is_ok_and(|text| text.trim().parse() == Ok(VERSION)) => {
            Ok(())
        }
        Ok(bytes) => Err(format!(
            "{shown} says {:?}, and this belljar reads version {VERSION}, so nothing runs and nothing is written: use the newer \
             belljar that has written it",
            text::inert_line(String::from_utf8_lossy(&bytes).trim())
        )),
        Err(error) if [ErrorKind::NotFound, ErrorKind::NotADirectory].contains(&error.kind()) => Ok(()),
        Err(error) => Err(format!("{shown} cannot be read, so nothing runs: {error}")),
    }
}
