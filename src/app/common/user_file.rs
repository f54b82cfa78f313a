//! Files that the user names on the command line, outside of belljar's folders. A new one is created completely or not at all,
//! even if belljar is killed, and never over another file.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use belljar_base::real_file::RealFile;
use belljar_base::resolved_path::ResolvedPath;
use belljar_base::text;
use nix::errno::Errno;
use nix::unistd::{User, geteuid};

/// Longest name that is shown, in characters.
const SHOWN_CHARS_MAX: usize = 300;

/// The file to which a path leads. No symlink in one of the `foreign` places, as
/// [`ConfigFiles::foreign_places`](crate::config::ConfigFiles::foreign_places) gives them, may be on the way,
/// not even one that stays in its place: it may lead to a file that is the user's, such as `.env`. A symlink that
/// another user has made or moved there is refused, too.
///
/// # Errors
/// There is such a symlink, or no working folder.
fn real(path: &Path, foreign: &[PathBuf]) -> io::Result<RealFile> {
    let way = ResolvedPath::of(&std::path::absolute(path)?);
    let in_place = || foreign.iter().find_map(|folder| way.link_in(folder));
    let uid = geteuid();
    let home = User::from_uid(uid).ok().flatten().map(|user| user.dir).unwrap_or_default();
    match way.link_of_others(uid.as_raw(), &home).or_else(in_place) {
        Some(link) => {
            let (link, end) = (shown(link), shown(&way.end));
            Err(io::Error::other(format!(
                "{link} is a symlink that somebody else may have made, so it is not followed; it leads to {end}"
            )))
        }
        None => Ok(RealFile::at_end_of(&way)),
    }
}

/// Opens a plain file of the user. No symlink in one of the `foreign` places may lead to it, as for [`create`].
///
/// # Errors
/// It is no plain file, or cannot be opened; with its path.
pub(crate) fn plain(path: &Path, foreign: &[PathBuf]) -> Result<File, String> {
    let file = plain_or_passed(path, foreign)?;
    match file.metadata() {
        Ok(about) if about.is_file() => Ok(file),
        _ => Err(format!("{} is no plain file", shown(path))),
    }
}

/// Opens what [`plain`] opens, or what a shell passes as a descriptor of this process: a pipe, or a here-document.
///
/// # Errors
/// It is neither, or cannot be opened; with its path.
pub(crate) fn plain_or_passed(path: &Path, foreign: &[PathBuf]) -> Result<File, String> {
    let named = |error: io::Error| format!("{}: {error}", shown(path));
    let is_number = |name: &OsStr| name.as_encoded_bytes().iter().all(u8::is_ascii_digit);
    let folders = ["/dev/fd", "/proc/self/fd"].map(Path::new);
    if path == Path::new("/dev/stdin")
        || path.parent().is_some_and(|folder| folders.contains(&folder))
            && path.file_name().is_some_and(is_number)
    {
        return File::open(path).map_err(named);
    }
    let real = real(path, foreign).map_err(named)?;
    // A device or a pipe is not opened to see what it is.
    match real.path().metadata().map_err(named)?.is_file() {
        true => real.open().map_err(named),
        false => Err(format!("{} is no plain file", shown(path))),
    }
}

/// Creates a file as [`RealFile::create`] does. No symlink in one of the `foreign` places, as
/// [`ConfigFiles::foreign_places`](crate::config::ConfigFiles::foreign_places) gives them, may lead to it.
///
/// # Errors
/// Something exists at `path` already, and stays unchanged. Or the file cannot be written, and is not created.
pub(crate) fn create(
    path: &Path,
    foreign: &[PathBuf],
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    if path.symlink_metadata().is_ok() {
        return Err(Errno::EEXIST.into());
    }
    // A folder is meant.
    let written = path.as_os_str().as_encoded_bytes();
    if written.ends_with(b"/") || written.ends_with(b"/.") {
        return Err(Errno::ENOENT.into());
    }
    real(path, foreign)?.create(write)
}

fn shown(path: &Path) -> String {
    text::inert_excerpt(&path.display().to_string(), SHOWN_CHARS_MAX)
}

/// The message for the user about a file that could not be created.
pub(crate) fn why_not(path: &Path, error: &io::Error) -> String {
    let shown = shown(path);
    match error.kind() {
        io::ErrorKind::AlreadyExists => {
            format!("{shown} is there already, and stays as it is: give another name")
        }
        _ => format!("{shown}: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let names = fs::read_dir(folder).unwrap();
        names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn nothing_is_overwritten_also_what_comes_meanwhile_and_what_fails_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let full = create(&path, &[], |_| Err(Errno::ENOSPC.into())).unwrap_err();
        assert_eq!((full.raw_os_error(), names(dir.path())), (Some(nix::libc::ENOSPC), vec![]));
        let late = create(&path, &[], |file| {
            fs::write(&path, "theirs")?;
            file.write_all(b"mine")
        });
        assert_eq!(late.unwrap_err().raw_os_error(), Some(nix::libc::EEXIST));
        let again = create(&path, &[], |_| panic!("it is there already")).unwrap_err();
        assert_eq!(again.raw_os_error(), Some(nix::libc::EEXIST));
        assert_eq!((fs::read(&path).unwrap(), names(dir.path())), (b"theirs".to_vec(), vec!["a".into()]));
        let nowhere = create(&dir.path().join("no/b"), &[], |_| Ok(())).unwrap_err();
        assert_eq!(nowhere.raw_os_error(), Some(nix::libc::ENOENT));
    }

    #[test]
    fn no_symlink_that_somebody_else_may_have_made_leads_to_it() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let place = root.join("project");
        for folder in [&root.join("precious"), &place, &place.join("own")] {
            fs::create_dir(folder).unwrap();
            fs::write(folder.join("b"), "b").unwrap();
        }
        symlink("../precious", place.join("out")).unwrap();
        symlink("own", place.join("in")).unwrap();
        let path = place.join("out/a");
        let why = create(&path, std::slice::from_ref(&place), |_| Ok(())).unwrap_err().to_string();
        assert!(why.contains("is a symlink") && why.ends_with("/precious/a"), "{why}");
        for (name, foreign, is_read) in [
            ("out/b", vec![place.clone()], false),
            ("in/b", vec![place.clone()], false),
            ("in/b", vec!["/".into()], false),
            ("own/b", vec![place.clone()], true),
            ("out/b", vec![], true),
            ("out", vec![], false),
        ] {
            assert_eq!(plain(&place.join(name), &foreign).is_ok(), is_read, "{name} {foreign:?}");
        }
        for folder in ["none/", "none/."] {
            assert!(create(&place.join(folder), &[], |_| Ok(())).is_err() && !place.join("none").exists());
        }
        create(&path, &[root.join("other")], |_| Ok(())).unwrap();
        let mut there = names(&root.join("precious"));
        there.sort();
        assert_eq!(there, ["a", "b"]);
    }

    #[test]
    fn no_symlink_of_another_user_leads_to_it() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("folder")).unwrap();
        fs::write(dir.path().join("folder/a"), "a").unwrap();
        let link = dir.path().join("link");
        symlink("folder", &link).unwrap();
        plain(&link.join("a"), &[]).unwrap();
        if !nix::unistd::geteuid().is_root() {
            return; // Only root gives a symlink to another user.
        }
        std::os::unix::fs::lchown(&link, Some(4242), None).unwrap();
        assert!(plain(&link.join("a"), &[]).unwrap_err().contains("is a symlink"));
        assert!(create(&link.join("b"), &[], |_| Ok(())).is_err() && !link.join("b").exists());
    }

    #[test]
    fn it_has_the_rights_of_any_new_file() {
        let dir = tempfile::tempdir().unwrap();
        let (path, usual) = (dir.path().join("a"), dir.path().join("usual"));
        create(&path, &[], |file| file.write_all(b"one")).unwrap();
        File::create(&usual).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode();
        assert_eq!((fs::read(&path).unwrap(), mode(&path)), (b"one".to_vec(), mode(&usual)));
    }
}
