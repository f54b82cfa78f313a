//! A file of the user by its real path. A symlink that somebody puts on the way later is not followed, so that a file is
//! written where it was read.

use std::ffi::OsStr;
use std::fs::File;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, open, openat, renameat};
#[cfg(target_os = "linux")]
use nix::fcntl::{RenameFlags, renameat2};
use nix::sys::stat::{Mode, SFlag, fchmod, fstatat, mkdirat};
use nix::unistd::{UnlinkatFlags, linkat, unlinkat};

use crate::resolved_path::ResolvedPath;

/// Opens a folder also where the user may only pass through it.
#[cfg(target_os = "linux")]
const FOLDER: OFlag = OFlag::O_PATH;
#[cfg(not(target_os = "linux"))]
const FOLDER: OFlag = OFlag::O_RDONLY;
const PLAIN: OFlag = OFlag::O_NOFOLLOW.union(OFlag::O_CLOEXEC);

/// A file, which need not exist, by the path that it has without symlinks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RealFile(PathBuf);

impl RealFile {
    /// The file to which this absolute path leads now.
    #[must_use]
    pub fn of(path: &Path) -> Self {
        Self(ResolvedPath::of(path).end)
    }

    /// The file at the end of a way that was examined.
    #[must_use]
    pub fn at_end_of(way: &ResolvedPath) -> Self {
        Self(way.end.clone())
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Opens it to be read. A pipe is not waited for.
    ///
    /// # Errors
    /// When it cannot be opened, or a part of its path is a symlink by now (`ELOOP` or `ENOTDIR`).
    pub fn open(&self) -> io::Result<File> {
        let (folder, name) = self.folder(false)?;
        let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | PLAIN;
        Ok(File::from(openat(&folder, name, flags, Mode::empty())?))
    }

    /// Puts these bytes in its place, at once or not at all, with the rights that it has; a new one is this user's alone. Its
    /// folders are made if need be.
    ///
    /// # Errors
    /// When its folder cannot be made or written, or a part of its path is a symlink by now.
    pub fn replace(&self, bytes: &[u8]) -> io::Result<()> {
        let (folder, name) = self.folder(true)?;
        let mode = match fstatat(&folder, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(about) if SFlag::from_bits_truncate(about.st_mode) & SFlag::S_IFMT == SFlag::S_IFLNK => {
                return Err(Errno::ELOOP.into());
            }
            Ok(about) => Mode::from_bits_truncate(about.st_mode) & Mode::from_bits_truncate(0o777),
            Err(Errno::ENOENT) => Mode::from_bits_truncate(0o600),
            Err(error) => return Err(error.into()),
        };
        let write = |file: &mut File| {
            fchmod(&*file, mode)?;
            file.write_all(bytes)?;
            file.sync_all()
        };
        Self::beside(&folder, 0o600, write, |new| renameat(&folder, new, &folder, name))
    }

    /// Creates it with what `write` writes, completely or not at all, and with the usual rights of a new file. Until it is
    /// complete, it is a file `.belljar-*` in its folder, which stays there if belljar is killed.
    ///
    /// # Errors
    /// `EEXIST` if there is something, which stays as it is. Otherwise when it cannot be written, or a part of its path is a
    /// symlink by now.
    pub fn create(&self, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
        let (folder, name) = self.folder(false)?;
        if fstatat(&folder, name, AtFlags::AT_SYMLINK_NOFOLLOW).is_ok() {
            return Err(Errno::EEXIST.into());
        }
        Self::beside(&folder, 0o666, write, |new| {
            #[cfg(target_os = "linux")]
            match renameat2(&folder, new, &folder, name, RenameFlags::RENAME_NOREPLACE) {
                // Not every file system has this.
                Err(Errno::EINVAL | Errno::ENOSYS) => {}
                renamed => return renamed,
            }
            linkat(&folder, new, &folder, name, AtFlags::empty())?;
            unlinkat(&folder, new, UnlinkatFlags::NoRemoveDir)
        })
    }

    /// Has a new file of this mode written in the folder, and then put into its place by its name so far.
    fn beside(
        folder: &OwnedFd,
        mode: u32,
        write: impl FnOnce(&mut File) -> io::Result<()>,
        place: impl FnOnce(&str) -> nix::Result<()>,
    ) -> io::Result<()> {
        let new = format!(".belljar-{:016x}", RandomState::new().build_hasher().finish());
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | PLAIN;
        let mode = Mode::from_bits_truncate(mode as nix::libc::mode_t);
        let mut file = File::from(openat(folder, new.as_str(), flags, mode)?);
        let placed = write(&mut file).and_then(|()| Ok(place(&new)?));
        if placed.is_err() {
            // The error of the write is the one to report.
            let _ = unlinkat(folder, new.as_str(), UnlinkatFlags::NoRemoveDir);
        }
        placed
    }

    /// Removes it.
    ///
    /// # Errors
    /// When it cannot be removed, or a part of its path is a symlink by now.
    pub fn remove(&self) -> io::Result<()> {
        let (folder, name) = self.folder(false)?;
        Ok(unlinkat(&folder, name, UnlinkatFlags::NoRemoveDir)?)
    }

    /// Its folder, which is made if `is_made`, and its name there.
    fn folder(&self, is_made: bool) -> io::Result<(OwnedFd, &OsStr)> {
        let name = self.0.file_name().ok_or(Errno::EISDIR)?;
        let flags = FOLDER | OFlag::O_DIRECTORY | PLAIN;
        let mut folder = open("/", flags, Mode::empty())?;
        let parts = self.0.parent().into_iter().flat_map(Path::components);
        for part in parts.filter(|part| *part != Component::RootDir) {
            let Component::Normal(part) = part else { return Err(Errno::EINVAL.into()) };
            folder = match openat(&folder, part, flags, Mode::empty()) {
                Err(Errno::ENOENT) if is_made => {
                    match mkdirat(&folder, part, Mode::S_IRWXU) {
                        Ok(()) | Err(Errno::EEXIST) => {}
                        Err(error) => return Err(error.into()),
                    }
                    openat(&folder, part, flags, Mode::empty())?
                }
                opened => opened?,
            };
        }
        Ok((folder, name))
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn a_file_is_replaced_with_its_rights_also_behind_a_link_and_a_new_one_is_the_users_alone() {
        let dir = tempfile::tempdir().unwrap();
        let at = |path: &str| dir.path().join(path);
        let mode = |path: &str| at(path).metadata().unwrap().permissions().mode() & 0o777;
        RealFile::of(&at("a/b/f")).replace(b"one").unwrap();
        assert_eq!(
            (fs::read(at("a/b/f")).unwrap(), mode("a/b/f"), mode("a/b")),
            (b"one".to_vec(), 0o600, 0o700)
        );
        fs::set_permissions(at("a/b/f"), Permissions::from_mode(0o644)).unwrap();
        symlink("a/b", at("link")).unwrap();
        symlink("link/f", at("g")).unwrap();
        RealFile::of(&at("g")).replace(b"two").unwrap();
        assert_eq!((fs::read(at("a/b/f")).unwrap(), mode("a/b/f")), (b"two".to_vec(), 0o644));
        assert!(at("g").is_symlink());
        assert_eq!(fs::read_dir(at("a/b")).unwrap().count(), 1);
        assert!(RealFile::of(&at("a/b")).replace(b"").is_err(), "a folder");
        assert_eq!(fs::read_dir(at("a")).unwrap().count(), 1);
    }

    #[test]
    fn a_symlink_that_comes_after_the_path_was_followed_leads_nowhere() {
        let dir = tempfile::tempdir().unwrap();
        let at = |path: &str| dir.path().join(path);
        for turned in ["a", "a/b", "a/b/f"] {
            for folder in ["a/b", "precious/b"] {
                fs::create_dir_all(at(folder)).unwrap();
                fs::write(at(folder).join("f"), "own").unwrap();
            }
            let file = RealFile::of(&at("a/b/f"));
            fs::rename(at(turned), at("moved")).unwrap();
            symlink(at(&turned.replacen('a', "precious", 1)), at(turned)).unwrap();
            assert!(file.open().is_err(), "{turned}");
            assert!(file.replace(b"new").is_err(), "{turned}");
            assert_eq!(file.remove().is_ok(), turned == "a/b/f", "the symlink itself is removed");
            assert_eq!(fs::read(at("precious/b/f")).unwrap(), b"own", "{turned}");
            let _ =
                (fs::remove_file(at(turned)), fs::remove_dir_all(at("a")), fs::remove_dir_all(at("moved")));
            let _ = fs::remove_file(at("moved"));
        }
    }
}
