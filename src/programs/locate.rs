//! Finds the file that a command name would start.
//!
//! It starts nothing, and does not say whether the file would work.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The executable file behind a command: looked for on `path_variable` (as in `PATH`) when it has no slash, else taken
/// from `cwd` when it is relative. `None` when there is no such file or it may not be executed.
#[must_use]
pub fn locate_program(program: &Path, path_variable: Option<&OsStr>, cwd: &Path) -> Option<PathBuf> {
    if program.as_os_str().is_empty() {
        return None;
    }
    if program.as_os_str().as_encoded_bytes().contains(&b'/') {
        return Some(cwd.join(program)).filter(|file| is_executable(file));
    }
    path_variable?
        .as_encoded_bytes()
        .split(|byte| *byte == b':')
        .map(|folder| {
            // An empty part of PATH is the working folder.
            cwd.join(std::os::unix::ffi::OsStrExt::from_bytes(folder) as &OsStr).join(program)
        })
        .find(|file| is_executable(file))
}

fn is_executable(file: &Path) -> bool {
    file.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_first_executable_file_of_the_path_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let (first, second) = (folder.path().join("a"), folder.path().join("b"));
        for (place, mode) in [(&first, 0o644), (&second, 0o755)] {
            fs::create_dir(place).unwrap();
            fs::write(place.join("tool"), "").unwrap();
            fs::set_permissions(place.join("tool"), fs::Permissions::from_mode(mode)).unwrap();
        }
        let path = format!("{}:{}:/nowhere", first.display(), second.display());
        let located = |program: &str| locate_program(Path::new(program), Some(path.as_ref()), folder.path());
        assert_eq!(located("tool"), Some(second.join("tool")));
        assert_eq!(located("b/tool"), Some(second.join("tool")));
        assert_eq!(located("a/tool"), None);
        assert_eq!(located("b"), None);
        assert_eq!(located("none"), None);
        assert_eq!(located(""), None);
    }
}
