//! Finds configuration files and reads them whole. A file that is not a regular file of a trusted owner is refused.
//!
//! It never blocks on a pipe or device, and does not look at the contents beyond their encoding.

use std::collections::BTreeSet;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use belljar_base::clock;
use belljar_base::limits::Limits;
use belljar_base::problem::{Position, Problem};
use belljar_base::resolved_path::{ResolvedPath, is_written_by_others};
use nix::errno::Errno;
use nix::fcntl::OFlag;

/// The resolution of the coarsest clock of a file system in use, in seconds.
const SETTLED_SECS: i64 = 2;
/// The largest number of items of a folder that are looked at for symlinks.
const ITEMS_MAX: usize = 65_536;

/// The `*.json` files of a folder, sorted by name, without hidden ones. A folder that does not exist has no files.
pub(crate) fn listed(folder: &Path, uid: u32, limits: &Limits) -> Result<Vec<PathBuf>, Box<Problem>> {
    let refused = |error: io::Error| problem(folder, format!("cannot be listed: {}", said(&error)));
    let metadata = match folder.metadata() {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound && !folder.is_symlink() => {
            return Ok(Vec::new());
        }
        Err(error) => return refuse(refused(error)),
    };
    // The owner of a folder can replace what is in it, even in a sticky one.
    if !is_trusted_owner(&metadata, uid) {
        return refuse(
            problem(folder, "belongs to another user, so its files are not trusted")
                .hint(format!("run: chown {uid} {}", folder.display())),
        );
    }
    // In a sticky folder, other users replace only what is theirs.
    if metadata.mode() & 0o1000 == 0 && is_written_by_others(&metadata, uid) {
        return refuse(
            problem(folder, "other users may write to this folder, so its files are not trusted")
                .hint(format!("run: chmod go-w {}", folder.display())),
        );
    }
    let mut paths = Vec::new();
    for item in folder.read_dir().map_err(refused)? {
        let name = item.map_err(refused)?.file_name();
        let bytes = name.as_encoded_bytes();
        if bytes.ends_with(b".json") && !bytes.starts_with(b".") {
            paths.push(folder.join(name));
        }
    }
    if paths.len() > limits.config_files_max {
        return refuse(problem(
            folder,
            format!("holds {} files, more than the {} allowed", paths.len(), limits.config_files_max),
        ));
    }
    paths.sort();
    Ok(paths)
}

/// The symlinks directly in a folder; none of a folder that does not exist or cannot be listed.
pub(crate) fn links_in(folder: &Path) -> Vec<PathBuf> {
    let items = folder.read_dir().into_iter().flatten().flatten().take(ITEMS_MAX);
    items
        .filter(|item| item.file_type().is_ok_and(|kind| kind.is_symlink()))
        .map(|item| item.path())
        .collect()
}

/// The fingerprint of a file, which differs when the file was changed, replaced or removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fingerprint {
    /// The file exists: device, inode, size, and the times of its last changes.
    There([i64; 7]),
    /// There is no file.
    Absent,
    /// The file's state is unknown: the system's error number.
    Unseen(i32),
}

/// A file, and the fingerprint that it had when it was read.
pub(crate) type WatchedFile = (PathBuf, Fingerprint);

impl Fingerprint {
    /// Whether a later change is certain to change the fingerprint. It is not while the file is new, since two changes
    /// within one tick of the file system's clock have the same time.
    pub(crate) fn is_settled(&self) -> bool {
        let Self::There([_, _, _, modified, _, changed, _]) = self else { return true };
        let now = clock::unix_seconds().cast_signed();
        now - modified.max(changed) > SETTLED_SECS
    }
}

/// Takes a file's fingerprint without reading it.
pub(crate) fn fingerprint(path: &Path) -> Fingerprint {
    // For a link, the fingerprint is that of its target.
    let seen = path.symlink_metadata();
    let is_link = seen.as_ref().is_ok_and(Metadata::is_symlink);
    let metadata = match if is_link { path.metadata() } else { seen } {
        Ok(metadata) => metadata,
        Err(error) if !is_link && says_absent(&error) => return Fingerprint::Absent,
        Err(error) => return Fingerprint::Unseen(error.raw_os_error().unwrap_or_default()),
    };
    let (mtime, ctime) =
        ((metadata.mtime(), metadata.mtime_nsec()), (metadata.ctime(), metadata.ctime_nsec()));
    let [device, inode, bytes] = [metadata.dev(), metadata.ino(), metadata.size()].map(u64::cast_signed);
    Fingerprint::There([device, inode, bytes, mtime.0, mtime.1, ctime.0, ctime.1])
}

/// The real paths of the folders of these files, and of those files that are symlinks. A file whose folder was moved, and is
/// a link now, has the fingerprint that it had before.
pub(crate) fn real_places(files: impl Iterator<Item = PathBuf>) -> BTreeSet<PathBuf> {
    let place =
        |file: PathBuf| if file.is_symlink() { Some(file) } else { file.parent().map(Path::to_owned) };
    let places: BTreeSet<PathBuf> = files.filter_map(place).collect();
    places.into_iter().map(|place| place.canonicalize().unwrap_or_default()).collect()
}

/// Whether nothing exists at the path. A dangling link exists, and a path that cannot be examined may exist.
pub(crate) fn is_absent(path: &Path) -> bool {
    path.symlink_metadata().is_err_and(|error| says_absent(&error))
}

fn says_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Reads a configuration file, if its owner is trusted and it is not too large.
pub(crate) fn read(path: &Path, uid: u32, limits: &Limits) -> Result<Vec<u8>, Box<Problem>> {
    let way = ResolvedPath::of(&std::path::absolute(path).unwrap_or_else(|_| path.to_owned()));
    read_at_end(path, &way, uid, limits.config_file_bytes_max)
}

/// Reads a file of at most `bytes_max` bytes whose owner is trusted, as are the owners of all links that lead to it. A
/// file that was opened at another place than the end of the resolved path is refused.
pub(super) fn read_at_end(
    path: &Path,
    way: &ResolvedPath,
    uid: u32,
    bytes_max: u64,
) -> Result<Vec<u8>, Box<Problem>> {
    let metadata = path.metadata().map_err(|error| unreadable(path, &error))?;
    trusted(path, &metadata, uid, bytes_max)?;
    if let Some(link) = way.foreign_link(uid) {
        let message = format!("is reached through {}, a link that belongs to another user", link.display());
        return refuse(problem(path, message).hint("put a link of your own, or the file, in its place"));
    }
    let file = opened(path, &way.end)?;
    // The path may lead to another file by now: the checks count for the file that was opened.
    let opened = file.metadata().map_err(|error| unreadable(path, &error))?;
    trusted(path, &opened, uid, bytes_max)?;
    // Systems without this folder have no confined servers, so none can replace the path.
    let place = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()));
    if place.is_ok_and(|place| place != way.end) {
        return refuse(problem(path, "was replaced while it was read"));
    }
    bounded_bytes(path, file, bytes_max)
}

/// The text of a file, without a byte order mark.
pub(crate) fn text(path: &Path, mut bytes: Vec<u8>) -> Result<String, Box<Problem>> {
    if bytes.starts_with(&[0xff, 0xfe])
        || bytes.starts_with(&[0xfe, 0xff])
        || bytes.iter().take(4).any(|b| *b == 0)
    {
        return refuse(
            problem(path, "is not UTF-8 but UTF-16 or another wide encoding").hint("save it as UTF-8"),
        );
    }
    if bytes.starts_with(&[0xef, 0xbb, 0xbf]) {
        bytes.drain(..3);
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let valid_bytes = error.utf8_error().valid_up_to();
        let valid = String::from_utf8_lossy(&error.as_bytes()[..valid_bytes]).into_owned();
        problem(path, format!("holds the byte 0x{:02x}, which is not UTF-8", error.as_bytes()[valid_bytes]))
            .at(Position::of(&valid, valid_bytes))
            .hint("save it as UTF-8")
    })?;
    if text.trim().is_empty() {
        return refuse(problem(path, "is empty").hint("write {\"mcpServers\": {}} or remove it"));
    }
    Ok(text)
}

/// Opens the file at the end of a path without blocking, whatever kind of file it is.
fn opened(path: &Path, end: &Path) -> Result<File, Box<Problem>> {
    let flags = (OFlag::O_NONBLOCK | OFlag::O_NOCTTY).bits();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(end);
    file.map_err(|error| Box::new(unreadable(path, &error)))
}

fn bounded_bytes(path: &Path, file: File, bytes_max: u64) -> Result<Vec<u8>, Box<Problem>> {
    let mut bytes = Vec::new();
    file.take(bytes_max + 1).read_to_end(&mut bytes).map_err(|error| unreadable(path, &error))?;
    if bytes.len() as u64 > bytes_max {
        return refuse(too_large(path, bytes_max));
    }
    Ok(bytes)
}

fn trusted(path: &Path, metadata: &Metadata, uid: u32, bytes_max: u64) -> Result<(), Box<Problem>> {
    let kind = metadata.file_type();
    if !kind.is_file() {
        let found = if kind.is_dir() {
            "a folder"
        } else if kind.is_fifo() {
            "a pipe"
        } else if kind.is_socket() {
            "a socket"
        } else {
            "a device"
        };
        return refuse(problem(path, format!("is {found}, not a file")));
    }
    if !is_trusted_owner(metadata, uid) {
        return refuse(
            problem(path, "belongs to another user, so what it says is not trusted")
                .hint(format!("run: chown {uid} {}", path.display())),
        );
    }
    if is_written_by_others(metadata, uid) {
        return refuse(
            problem(path, "other users may write to this file, so what it says is not trusted")
                .hint(format!("run: chmod go-w {}", path.display())),
        );
    }
    if metadata.len() > bytes_max {
        return refuse(too_large(path, bytes_max));
    }
    Ok(())
}

fn is_trusted_owner(metadata: &Metadata, uid: u32) -> bool {
    metadata.uid() == uid || metadata.uid() == 0
}

fn too_large(path: &Path, bytes_max: u64) -> Problem {
    problem(path, format!("is larger than the {bytes_max} bytes allowed"))
}

fn unreadable(path: &Path, error: &io::Error) -> Problem {
    if error.raw_os_error() == Some(Errno::ELOOP as i32) {
        return problem(path, "is a symbolic link that leads back to itself");
    }
    match error.kind() {
        io::ErrorKind::NotFound if path.is_symlink() => problem(path, "is a symbolic link to nothing"),
        io::ErrorKind::NotFound => problem(path, "does not exist"),
        io::ErrorKind::PermissionDenied => problem(path, "may not be read by this user"),
        _ => problem(path, format!("cannot be read: {}", said(error))),
    }
}

/// The system's message without Rust's suffix such as "(os error 13)".
fn said(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(code) => Errno::from_raw(code).desc().to_lowercase(),
        None => error.to_string(),
    }
}

fn refuse<T>(problem: Problem) -> Result<T, Box<Problem>> {
    Err(Box::new(problem))
}

fn problem(path: &Path, message: impl Into<String>) -> Problem {
    Problem::of_file(path, message)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};

    use super::*;

    #[test]
    fn a_file_is_read_through_links_of_its_reader_and_of_root_only() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("link");
        symlink("/etc/passwd", &link).unwrap();
        let own = nix::unistd::geteuid().as_raw();
        let said =
            |path: &Path, uid| read(path, uid, &Limits::default()).err().map(|problem| problem.message);
        assert_eq!(said(&link, own), None);
        let (mut reader, other) = (own + 1, own + 1);
        if own == 0 {
            // Links of root are trusted.
            assert_eq!(said(&link, other), None);
            lchown(&link, Some(other + 1), None).unwrap();
            reader = 0;
        }
        let refused = format!("is reached through {}, a link that belongs to another user", link.display());
        assert_eq!(said(&link, reader), Some(refused));
        assert_eq!(said(Path::new("/etc/passwd"), reader), None);
    }

    #[test]
    fn a_file_and_a_folder_that_another_group_can_write_are_refused() {
        let (uid, dir) = (nix::unistd::geteuid().as_raw(), tempfile::tempdir().unwrap());
        let file = dir.path().join("s.json");
        fs::write(&file, "{}").unwrap();
        let refused = || {
            let written = read(&file, uid, &Limits::default()).err().map(|problem| problem.message);
            [written, listed(dir.path(), uid, &Limits::default()).err().map(|problem| problem.message)]
        };
        let allow = |mode: u32| {
            fs::set_permissions(&file, Permissions::from_mode(mode & 0o666)).unwrap();
            fs::set_permissions(dir.path(), Permissions::from_mode(mode)).unwrap();
        };
        allow(0o777);
        let said = ["file, so what it says is not trusted", "folder, so its files are not trusted"]
            .map(|what| Some(format!("other users may write to this {what}")));
        assert_eq!(refused(), said);
        // Only root can give files to any group.
        if uid == 0 {
            for (group, mode, expected) in
                [(4_242, 0o775, said.clone()), (4_242, 0o755, [None, None]), (0, 0o775, [None, None])]
            {
                chown(&file, None, Some(group)).unwrap();
                chown(dir.path(), None, Some(group)).unwrap();
                allow(mode);
                assert_eq!(refused(), expected, "{group} {mode:o}");
            }
        }
    }
}
