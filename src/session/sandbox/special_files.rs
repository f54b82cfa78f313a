//! Searches a folder for files that lead out of the sandbox if the folder is mounted: named pipes, sockets and devices.
//!
//! A read-only mount does not stop code from writing into a named pipe or connecting to a socket. The search follows no
//! link, and does not notice files that are made after it.

use std::fs::{self, FileType};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use belljar_base::text;

/// The bounds on the search of a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bounds {
    pub(super) entries_max: usize,
    pub(super) time_max: Duration,
}

/// The reason for which a folder is not safe to mount. Paths are relative to the folder.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum UnsafeFolder {
    Special { path: PathBuf, kind: &'static str },
    Unreadable { path: PathBuf, reason: String },
    TooManyEntries { entries_max: usize },
    TooSlow { time_max: Duration },
}

impl UnsafeFolder {
    /// The problem and a hint, for a folder that code would find at `guest`.
    pub(super) fn explain(&self, guest: &str) -> String {
        let at = |path: &Path| text::inert_excerpt(&Path::new(guest).join(path).display().to_string(), 200);
        match self {
            Self::Special { path, kind } => {
                format!("{} is a {kind}, which leads out of the sandbox; remove it", at(path))
            }
            Self::Unreadable { path, reason } => format!(
                "{} cannot be searched for named pipes and sockets ({reason}); make it readable for you, or close it to \
                 other users",
                at(path)
            ),
            Self::TooManyEntries { entries_max } => format!(
                "{guest} has more than {entries_max} files, too many to search for named pipes and sockets; mount \
                 folders inside it",
            ),
            Self::TooSlow { time_max } => format!(
                "searching {guest} for named pipes and sockets took more than {} s; mount folders inside it",
                time_max.as_secs()
            ),
        }
    }
}

/// Searches `root` and all folders in it.
///
/// # Errors
/// The first reason why the folder is not safe to mount.
pub(super) fn search(root: &Path, bounds: Bounds) -> Result<(), UnsafeFolder> {
    let deadline = Instant::now() + bounds.time_max;
    let mut entries_left = bounds.entries_max;
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        let relative = |path: &Path| path.strip_prefix(root).unwrap_or(path).to_owned();
        let unreadable = |error: &io::Error| UnsafeFolder::Unreadable {
            path: relative(&folder),
            reason: error.to_string(),
        };
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if is_closed_to_code(&folder, &error) => continue,
            Err(error) => return Err(unreadable(&error)),
        };
        for entry in entries {
            if entries_left == 0 {
                return Err(UnsafeFolder::TooManyEntries { entries_max: bounds.entries_max });
            }
            entries_left -= 1;
            let entry = entry.map_err(|error| unreadable(&error))?;
            let kind = match entry.file_type() {
                Ok(kind) => kind,
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(error) => return Err(unreadable(&error)),
            };
            if kind.is_dir() {
                folders.push(entry.path());
            } else if let Some(kind) = special(kind) {
                return Err(UnsafeFolder::Special { path: relative(&entry.path()), kind });
            }
        }
        if Instant::now() > deadline {
            return Err(UnsafeFolder::TooSlow { time_max: bounds.time_max });
        }
    }
    Ok(())
}

/// The name of a kind of file that leads out of the sandbox.
fn special(kind: FileType) -> Option<&'static str> {
    if kind.is_fifo() {
        Some("named pipe")
    } else if kind.is_socket() {
        Some("socket")
    } else if kind.is_block_device() || kind.is_char_device() {
        Some("device")
    } else {
        None
    }
}

/// Whether code cannot enter the folder either: it is gone, or only its owner and group may.
fn is_closed_to_code(folder: &Path, error: &io::Error) -> bool {
    let is_closed = || folder.symlink_metadata().is_ok_and(|about| about.permissions().mode() & 0o007 == 0);
    match error.kind() {
        ErrorKind::NotFound => true,
        ErrorKind::PermissionDenied => is_closed(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use super::*;

    const BOUNDS: Bounds = Bounds { entries_max: 100, time_max: Duration::from_secs(60) };

    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("deep/er")).unwrap();
        fs::write(folder.path().join("deep/er/file"), "").unwrap();
        symlink("/dev/null", folder.path().join("link")).unwrap();
        symlink("/dev", folder.path().join("deep/links")).unwrap();
        folder
    }

    fn said(folder: &tempfile::TempDir, bounds: Bounds) -> Option<String> {
        search(folder.path(), bounds).err().map(|found| found.explain("/mnt/data"))
    }

    #[test]
    fn plain_files_folders_and_links_are_safe() {
        assert_eq!(said(&folder(), BOUNDS), None);
    }

    #[test]
    fn a_named_pipe_in_a_deep_folder_is_found() {
        let folder = folder();
        let path = folder.path().join("deep/er/pipe");
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRUSR).unwrap();
        let expected = "/mnt/data/deep/er/pipe is a named pipe, which leads out of the sandbox; remove it";
        assert_eq!(said(&folder, BOUNDS).unwrap(), expected);
        fs::remove_file(path).unwrap();
        assert_eq!(said(&folder, BOUNDS), None);
    }

    #[test]
    fn a_socket_is_found() {
        let folder = folder();
        let _listener = UnixListener::bind(folder.path().join("socket")).unwrap();
        let expected = "/mnt/data/socket is a socket, which leads out of the sandbox; remove it";
        assert_eq!(said(&folder, BOUNDS).unwrap(), expected);
    }

    #[test]
    fn a_device_is_found() {
        assert_eq!(special(fs::metadata("/dev/null").unwrap().file_type()), Some("device"));
        let found = search(Path::new("/dev"), Bounds { entries_max: 1_000_000, ..BOUNDS });
        let Err(UnsafeFolder::Special { path, kind }) = found else { panic!("{found:?}") };
        // The folder may also have a socket or a pipe, which the search may find first.
        let is_file = |path: &Path| fs::symlink_metadata(path).unwrap().file_type();
        assert_eq!(special(is_file(&Path::new("/dev").join(path))), Some(kind));
    }

    #[test]
    fn too_many_entries_are_not_taken_for_safe() {
        let folder = folder();
        let entries = 5;
        assert_eq!(said(&folder, Bounds { entries_max: entries, ..BOUNDS }), None);
        let expected = "/mnt/data has more than 4 files, too many to search for named pipes and sockets; mount folders \
                        inside it";
        assert_eq!(said(&folder, Bounds { entries_max: entries - 1, ..BOUNDS }).unwrap(), expected);
    }

    #[test]
    fn a_search_beyond_its_time_is_not_taken_for_safe() {
        let said = said(&folder(), Bounds { time_max: Duration::ZERO, ..BOUNDS }).unwrap();
        assert!(
            said.starts_with("searching /mnt/data for named pipes and sockets took more than 0 s"),
            "{said}"
        );
    }

    #[test]
    fn a_folder_that_others_may_not_enter_is_skipped() {
        let folder = folder();
        let denied = io::Error::from(ErrorKind::PermissionDenied);
        let deep = folder.path().join("deep");
        for (mode, is_closed) in [(0o700, true), (0o770, true), (0o701, false), (0o755, false)] {
            fs::set_permissions(&deep, fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(is_closed_to_code(&deep, &denied), is_closed, "{mode:o}");
        }
        assert!(is_closed_to_code(Path::new("/gone"), &io::Error::from(ErrorKind::NotFound)));
    }
}
