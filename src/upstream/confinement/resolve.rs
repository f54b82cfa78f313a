//! Where a path leads, link by link, and the beginning of the file that is there.
//!
//! It opens nothing but regular files, and reads no more of them than it is asked for.

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};

use nix::fcntl::OFlag;

/// Symlinks on one way.
const HOPS_MAX: usize = 40;
/// Parts of one way, those of the targets of its symlinks among them.
const PARTS_MAX: usize = 512;
/// The kernel's folders: what is in them is not the same for another process.
const OF_KERNEL: [&str; 3] = ["/proc", "/sys", "/dev"];

/// The way that a path takes.
#[derive(Debug)]
pub(super) struct ResolvedPath {
    /// The path without symlinks.
    pub(super) real: PathBuf,
    /// The symlinks on the way, each at its real place, with its target.
    pub(super) links: Vec<(PathBuf, PathBuf)>,
    /// The real places of the file's names: symlinks to it, and the file itself, which comes last.
    pub(super) names: Vec<PathBuf>,
}

/// Why a path leads nowhere.
#[derive(Debug)]
pub(super) enum ResolveError {
    /// The path, or a target of a symlink, is not there.
    Missing(io::ErrorKind),
    /// The path leads to a place of the kernel.
    OfKernel(PathBuf),
}

/// Follows an absolute path as the kernel does.
pub(super) fn resolve(path: &Path) -> Result<ResolvedPath, ResolveError> {
    if !path.is_absolute() {
        return Err(ResolveError::Missing(io::ErrorKind::InvalidInput));
    }
    let (mut real, mut links, mut names) = (PathBuf::from("/"), Vec::new(), Vec::new());
    // The next part comes last.
    let mut rest = parts(path);
    let mut parts_left = PARTS_MAX;
    while let Some(part) = rest.pop() {
        parts_left =
            parts_left.checked_sub(1).ok_or(ResolveError::Missing(io::ErrorKind::InvalidFilename))?;
        if part == ".." {
            real.pop();
            continue;
        }
        let place = real.join(&part);
        if OF_KERNEL.iter().any(|folder| place.starts_with(folder)) {
            return Err(ResolveError::OfKernel(place));
        }
        match fs::read_link(&place) {
            Ok(_) if links.len() == HOPS_MAX => {
                return Err(ResolveError::Missing(io::ErrorKind::NotFound));
            }
            Ok(target) => {
                if rest.is_empty() {
                    names.push(place.clone());
                }
                if target.is_absolute() {
                    real = PathBuf::from("/");
                }
                rest.extend(parts(&target));
                links.push((place, target));
            }
            // What is no symlink.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => real = place,
            Err(error) => return Err(ResolveError::Missing(error.kind())),
        }
    }
    names.push(real.clone());
    Ok(ResolvedPath { real, links, names })
}

/// The parts of a path, the last one first.
fn parts(path: &Path) -> Vec<OsString> {
    let parts = path.components().filter_map(|part| match part {
        Component::Normal(part) => Some(part.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    });
    parts.rev().collect()
}

/// The real path of a file or folder of this folder. A symlink counts if it stays in the folder.
pub(super) fn inside(folder: &Path, name: &str) -> Option<PathBuf> {
    let folder = resolve(folder).ok()?.real;
    let real = resolve(&folder.join(name)).ok()?.real;
    (real.starts_with(&folder) && real != folder).then_some(real)
}

/// Whether a regular file is at this real path.
pub(super) fn is_file(real: &Path) -> bool {
    fs::symlink_metadata(real).is_ok_and(|metadata| metadata.is_file())
}

/// Whether a folder is at this real path.
pub(super) fn is_folder(real: &Path) -> bool {
    fs::symlink_metadata(real).is_ok_and(|metadata| metadata.is_dir())
}

/// The beginning of the regular file at this real path; nothing of another file, or one that cannot be read.
pub(super) fn beginning(real: &Path, bytes_max: u64) -> Vec<u8> {
    let mut text = Vec::new();
    // A pipe or device is not opened, and where it takes the file's place in between, it is not waited for.
    let flags = (OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_NOCTTY).bits();
    if is_file(real)
        && let Ok(file) = OpenOptions::new().read(true).custom_flags(flags).open(real)
        && file.metadata().is_ok_and(|metadata| metadata.is_file())
    {
        drop(file.take(bytes_max).read_to_end(&mut text));
    }
    text
}
