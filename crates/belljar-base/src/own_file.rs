//! Small files of this user alone: mode 0600, in folders of mode 0700.
//!
//! It knows nothing of what is in them.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use nix::fcntl::OFlag;

use crate::resolved_path::ResolvedPath;

/// The bytes of a plain file that nobody else could have written or read, in a folder that nobody else can write.
///
/// # Errors
/// When it is not there, or is something else or larger.
pub fn read(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let file = open(path, File::options().read(true))?;
    if file.metadata()?.mode() & 0o077 != 0 {
        return Err(not_alone());
    }
    let mut bytes = Vec::new();
    file.take(bytes_max + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        return Err(io::Error::other("it is too large"));
    }
    Ok(bytes)
}

/// Opens a plain file that nobody else could have written, in a folder that nobody else can write. One that it makes has mode
/// 0600. Whoever writes makes the folder with [`make_folder()`] first.
///
/// # Errors
/// When it cannot be opened, or is something else.
pub fn open(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    check_way(path.parent().unwrap_or(path))?;
    // Neither a link nor a pipe is followed or waited for.
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
    let file = options.mode(0o600).custom_flags(flags.bits()).open(path)?;
    let folder = fs::metadata(path.parent().unwrap_or(path))?;
    let about = file.metadata()?;
    if about.is_file() && is_ours(&about) && is_ours(&folder) { Ok(file) } else { Err(not_alone()) }
}

/// Makes the folder if need be, so that only this user can use it.
///
/// # Errors
/// When it cannot be made, or somebody else owns it or can write it, or leads to it by a symlink, or has made a folder above
/// it.
pub fn make_folder(dir: &Path) -> io::Result<()> {
    check_way(dir)?;
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    let (named, folder) = (fs::symlink_metadata(dir)?, fs::metadata(dir)?);
    let is_own_link = named.uid() == folder.uid();
    // A folder that the user has made may be open to a group. It is closed below, and files of others in it are not read.
    let is_ours = folder.uid() == nix::unistd::geteuid().as_raw() && folder.mode() & 0o002 == 0;
    if !is_own_link || !folder.is_dir() || !is_ours {
        return Err(io::Error::other("its folder must be one of yours that only you can write (chmod 700)"));
    }
    if folder.mode() & 0o077 != 0 {
        // A folder that a symlink leads to may be anything, such as one of the system.
        if named.is_symlink() {
            let folder = dir.canonicalize()?;
            let why = format!(
                "a symlink leads to {}, and others can see what is in it (chmod 700)",
                folder.display()
            );
            return Err(io::Error::other(why));
        }
        fs::set_permissions(dir, Permissions::from_mode(0o700))?;
    }
    Ok(())
}

/// Checks that no other user has made a folder or symlink on the way to a folder.
///
/// # Errors
/// The place that another user has made.
pub fn check_way(dir: &Path) -> io::Result<()> {
    let way = ResolvedPath::of(&std::path::absolute(dir)?);
    match way.planted_by_others(nix::unistd::geteuid().as_raw()) {
        Some(place) => Err(io::Error::other(format!("another user has made {}", place.display()))),
        None => Ok(()),
    }
}

/// Checks that no other user has made this folder, a part of the way to it, or a symlink in it, nor anything in it if all
/// users can write there; and that no other user can replace a part of the way, but for the way to HOME. A folder that is
/// missing or cannot be read passes.
///
/// # Errors
/// The place that another user has made or can replace.
pub fn check_folder(dir: &Path, home: Option<&Path>) -> io::Result<()> {
    let check_all_of = |path: &Path| check_way(&path.join("entry"));
    check_all_of(dir)?;
    let user = nix::unistd::geteuid().as_raw();
    let home = home.map(|home| ResolvedPath::of(home).passed).unwrap_or_default();
    if let Some((place, why)) = ResolvedPath::of(dir).chosen_by_others_but(user, &home) {
        let place = place.display();
        return Err(io::Error::other(format!("another user can replace it by way of {place}, {why}")));
    }
    let is_foreign = |entry: &fs::DirEntry| entry.metadata().is_ok_and(|about| about.uid() != user);
    let mut foreign = fs::read_dir(dir).into_iter().flatten().filter_map(Result::ok).filter(is_foreign);
    foreign.try_for_each(|entry| check_all_of(&entry.path()))
}

/// Makes the folder if it is missing where all users could make it, so that nobody else does. An error
/// is only logged: the command that needs the folder reports it.
pub fn claim_folder(dir: &Path) {
    let nearest = dir.ancestors().find_map(|above| fs::metadata(above).ok().map(|about| (above, about)));
    let can_be_made_by_all = nearest.is_some_and(|(above, about)| above != dir && about.mode() & 0o002 != 0);
    if can_be_made_by_all && let Err(error) = make_folder(dir) {
        tracing::debug!(%error, "a folder of belljar's is not made at the start");
    }
}

/// As [`make_folder()`], where no symlink may have the folder's own name.
///
/// # Errors
/// As [`make_folder()`], and for a symlink.
pub fn make_plain_folder(dir: &Path) -> io::Result<()> {
    if dir.symlink_metadata().is_ok_and(|about| about.is_symlink()) {
        return Err(io::Error::other("a symlink has its name"));
    }
    make_folder(dir)
}

/// Writes the file whole, in a folder that is made if need be: either the old or the new one is there at any time.
///
/// # Errors
/// When others can write the folder, or it cannot be made or written.
pub fn write(dir: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    written(dir, bytes)?.persist(dir.join(name)).map_err(|error| error.error)?;
    Ok(())
}

/// As [`write()`], where there is none.
///
/// # Errors
/// `AlreadyExists` when there is one, which stays as it is; otherwise as [`write()`].
pub fn create(dir: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    written(dir, bytes)?.persist_noclobber(dir.join(name)).map_err(|error| error.error)?;
    Ok(())
}

/// What was found or done, and `None` if the file or folder is missing.
///
/// # Errors
/// Every other error.
pub fn unless_missing<T>(done: io::Result<T>) -> io::Result<Option<T>> {
    match done {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        done => done.map(Some),
    }
}

/// Removes a file. Returns whether it was there.
///
/// # Errors
/// It cannot be removed.
pub fn remove(path: &Path) -> io::Result<bool> {
    Ok(unless_missing(fs::remove_file(path))?.is_some())
}

/// The names in a folder, sorted; a missing folder has none. Names that are not UTF-8 are left out.
///
/// # Errors
/// The folder cannot be listed.
pub fn names(dir: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in unless_missing(fs::read_dir(dir))?.into_iter().flatten() {
        names.extend(entry?.file_name().into_string().ok());
    }
    names.sort();
    Ok(names)
}

/// A file of these bytes in the folder, which has no name that lasts yet.
fn written(dir: &Path, bytes: &[u8]) -> io::Result<tempfile::NamedTempFile> {
    make_folder(dir)?;
    // tempfile makes files of mode 0600.
    let mut file = tempfile::NamedTempFile::new_in(dir)?;
    file.write_all(bytes)?;
    Ok(file)
}

fn not_alone() -> io::Error {
    io::Error::other(
        "it must be a plain file of yours, mode 0600, in a folder of yours that only you can write",
    )
}

/// Whether it belongs to this user, and nobody else can write it.
fn is_ours(about: &fs::Metadata) -> bool {
    about.uid() == nix::unistd::geteuid().as_raw() && about.mode() & 0o022 == 0
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn what_is_written_is_of_this_user_alone_and_comes_back() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("a/b");
        write(&folder, "f", b"one").unwrap();
        fs::set_permissions(&folder, Permissions::from_mode(0o755)).unwrap();
        write(&folder, "f", b"two").unwrap();
        let path = folder.join("f");
        assert_eq!(read(&path, 3).unwrap(), b"two");
        assert_eq!((mode(&path), mode(&folder)), (0o600, 0o700));
        assert_eq!(read(&path, 2).unwrap_err().to_string(), "it is too large");
        let error = create(&folder, "f", b"three").unwrap_err();
        assert_eq!((error.kind(), read(&path, 3).unwrap()), (io::ErrorKind::AlreadyExists, b"two".to_vec()));
        create(&folder, "g", b"one").unwrap();
        assert_eq!(read(&folder.join("g"), 3).unwrap(), b"one");
    }

    #[test]
    fn what_others_could_have_written_or_read_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), "f", b"one").unwrap();
        let path = dir.path().join("f");
        symlink(&path, dir.path().join("link")).unwrap();
        assert!(read(&dir.path().join("link"), 3).is_err());
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        assert!(read(&path, 3).is_err());
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        assert!(read(&path, 3).is_ok());
        fs::set_permissions(dir.path(), Permissions::from_mode(0o707)).unwrap();
        assert!(read(&path, 3).is_err());
        assert!(write(dir.path(), "f", b"x").is_err());
        fs::set_permissions(dir.path(), Permissions::from_mode(0o700)).unwrap();
        symlink(dir.path(), dir.path().join("elsewhere")).unwrap();
        write(&dir.path().join("elsewhere"), "f", b"y").unwrap();
        assert_eq!(read(&path, 3).unwrap(), b"y", "the user's own symlink");
    }

    #[test]
    fn no_folder_is_used_that_another_user_has_made_or_leads_to() {
        let dir = tempfile::tempdir().unwrap();
        let at = |path: &str| dir.path().canonicalize().unwrap().join(path);
        let is_refused =
            |path: &str| make_folder(&at(path)).unwrap_err().to_string().contains("another user");
        fs::create_dir_all(at("shared/x")).unwrap();
        for mode in [0o777, 0o1777] {
            // Whoever replaces a folder here makes another user's one.
            fs::set_permissions(at("shared"), Permissions::from_mode(mode)).unwrap();
            make_folder(&at("shared/x/y")).unwrap();
        }
        if nix::unistd::geteuid().is_root() {
            fs::create_dir_all(at("shared/theirs/x")).unwrap();
            std::os::unix::fs::chown(at("shared/theirs"), Some(1), None).unwrap();
            assert!(is_refused("shared/theirs/x"));
            symlink("x", at("shared/link")).unwrap();
            make_folder(&at("shared/x")).unwrap();
            make_folder(&at("shared/link")).unwrap();
            std::os::unix::fs::lchown(at("shared/link"), Some(1), None).unwrap();
            assert!(is_refused("shared/link/y"));
        }
        // The rights of a folder that a symlink leads to stay as they are.
        fs::create_dir(at("open")).unwrap();
        fs::set_permissions(at("open"), Permissions::from_mode(0o755)).unwrap();
        symlink("open", at("to-open")).unwrap();
        assert!(make_folder(&at("to-open")).unwrap_err().to_string().contains("a symlink leads to"));
        assert_eq!(mode(&at("open")), 0o755);
        symlink("shared", at("own")).unwrap();
        assert!(make_plain_folder(&at("own")).unwrap_err().to_string().contains("symlink"));
    }

    #[test]
    fn a_file_is_opened_only_where_nobody_else_can_have_made_or_changed_it() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("a/b");
        let add = || {
            make_folder(&folder)?;
            open(&folder.join("f"), File::options().append(true).create(true))?.write_all(b"x")
        };
        let change = |name: &str, mode| {
            fs::set_permissions(folder.join(name), Permissions::from_mode(mode)).unwrap();
        };
        add().unwrap();
        assert_eq!((mode(&folder), mode(&folder.join("f"))), (0o700, 0o600));
        for open_to_others in [0o702, 0o777, 0o1777] {
            change("", open_to_others);
            assert!(add().is_err(), "{open_to_others:o}");
            assert!(open(&folder.join("f"), File::options().read(true)).is_err(), "{open_to_others:o}");
        }
        change("", 0o700);
        for open_to_others in [0o620, 0o602, 0o666] {
            change("f", open_to_others);
            assert!(add().is_err(), "{open_to_others:o}");
        }
        change("f", 0o644);
        add().unwrap();
        assert_eq!(fs::read(folder.join("f")).unwrap(), b"xx");
        fs::rename(folder.join("f"), folder.join("g")).unwrap();
        symlink("g", folder.join("f")).unwrap();
        assert!(add().is_err());
        fs::remove_file(folder.join("f")).unwrap();
        nix::unistd::mkfifo(&folder.join("f"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(add().is_err() && open(&folder.join("f"), File::options().read(true)).is_err());
        if nix::unistd::geteuid().is_root() {
            fs::remove_file(folder.join("f")).unwrap();
            add().unwrap();
            std::os::unix::fs::chown(folder.join("f"), Some(1), None).unwrap();
            assert!(add().is_err());
            fs::remove_file(folder.join("f")).unwrap();
            std::os::unix::fs::chown(&folder, Some(1), None).unwrap();
            assert!(add().is_err());
        }
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o777
    }
}
