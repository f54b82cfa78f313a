//! Finds the files and folders that a server could be given, and reads the beginning of a file.
//!
//! It opens only regular files, and reads no more of them than it is asked for.

use std::fs::{self, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use belljar_base::look_budget::LookBudget;
use belljar_base::resolved_path::ResolvedPath;
use nix::fcntl::OFlag;

/// The kernel's folders: what is in them is not the same for another process.
const OF_KERNEL: [&str; 3] = ["/proc", "/sys", "/dev"];

/// Why a path leads nowhere.
#[derive(Debug)]
pub(super) enum ResolveError {
    /// The path, or the target of a symlink, does not exist.
    Missing(io::ErrorKind),
    /// The path leads to a place of the kernel.
    OfKernel(PathBuf),
}

/// Where an absolute path leads, if it leads to a file or folder that is the same for every process.
pub(super) fn resolve(path: &Path) -> Result<ResolvedPath, ResolveError> {
    same_for_all(path, ResolvedPath::of)
}

/// As [`resolve`], with a bound on file-system operations. A path that needs more counts as missing, like one that is
/// too long.
pub(super) fn resolve_within(path: &Path, looks: &LookBudget) -> Result<ResolvedPath, ResolveError> {
    same_for_all(path, |path| ResolvedPath::within(path, looks))
}

fn same_for_all(
    path: &Path,
    follow: impl FnOnce(&Path) -> ResolvedPath,
) -> Result<ResolvedPath, ResolveError> {
    if !path.is_absolute() {
        return Err(ResolveError::Missing(io::ErrorKind::InvalidInput));
    }
    let way = follow(path);
    let is_of_kernel = |place: &&PathBuf| OF_KERNEL.iter().any(|folder| place.starts_with(folder));
    if let Some(place) = way.passed.iter().find(is_of_kernel) {
        return Err(ResolveError::OfKernel(place.clone()));
    }
    match way.missing {
        Some(kind) => Err(ResolveError::Missing(kind)),
        None => Ok(way),
    }
}

/// The file or folder of this name in a real folder. A symlink does not count, also not one that stays in the folder:
/// whoever made it could choose other files of the folder.
pub(super) fn inside(folder: &Path, name: &str, looks: &LookBudget) -> Option<PathBuf> {
    let way = resolve_within(&folder.join(name), looks).ok()?;
    way.links.is_empty().then_some(way.end)
}

/// The names of at most `names_max` children of a folder. Names that are not UTF-8 are left out.
pub(super) fn names_in(folder: &Path, names_max: usize, looks: &LookBudget) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().take(names_max).take_while(|_| looks.take(1));
    entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect()
}

/// Whether a regular file is at this real path.
pub(super) fn is_file(real: &Path, looks: &LookBudget) -> bool {
    looks.take(1) && fs::symlink_metadata(real).is_ok_and(|metadata| metadata.is_file())
}

/// Whether a folder is at this real path.
pub(super) fn is_folder(real: &Path, looks: &LookBudget) -> bool {
    looks.take(1) && fs::symlink_metadata(real).is_ok_and(|metadata| metadata.is_dir())
}

/// The beginning of the regular file at this real path; nothing of another file, or one that cannot be read.
pub(super) fn beginning(real: &Path, bytes_max: u64, looks: &LookBudget) -> Vec<u8> {
    let mut text = Vec::new();
    // A pipe or device is not opened, and one that replaces the file meanwhile does not block.
    let flags = (OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_NOCTTY).bits();
    if is_file(real, looks)
        && let Ok(file) = OpenOptions::new().read(true).custom_flags(flags).open(real)
        && file.metadata().is_ok_and(|metadata| metadata.is_file())
    {
        drop(file.take(bytes_max).read_to_end(&mut text));
    }
    text
}
