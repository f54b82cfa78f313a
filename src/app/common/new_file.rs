//! Creates a new file for the user: completely or not at all, even if belljar is killed, and never over another file.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use belljar_base::text;
use nix::errno::Errno;

/// Longest name that is shown, in characters.
const SHOWN_CHARS_MAX: usize = 300;

/// Creates a file with the content that `write` writes, and with the usual permissions of a new file. Until it is
/// complete, it is a file `.belljar-*.part` in the same folder, which stays there if belljar is killed.
///
/// # Errors
/// Something exists at `path` already, and stays unchanged. Or the file cannot be written, and is not created.
pub(crate) fn create(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    if fs::symlink_metadata(path).is_ok() {
        return Err(Errno::EEXIST.into());
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::metadata(folder)?;
    let mut beside = tempfile::Builder::new()
        .prefix(".belljar-")
        .suffix(".part")
        // The user's umask is applied to this mode.
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(folder)?;
    write(beside.as_file_mut())?;
    // A file that was created meanwhile is not overwritten either.
    beside.persist_noclobber(path).map_err(|error| error.error)?;
    Ok(())
}

/// The message for the user about a file that could not be created.
pub(crate) fn why_not(path: &Path, error: &io::Error) -> String {
    let shown = text::inert_excerpt(&path.display().to_string(), SHOWN_CHARS_MAX);
    match error.kind() {
        io::ErrorKind::AlreadyExists => {
            format!("{shown} is there already, and stays as it is: give another name")
        }
        _ => format!("{shown}: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let names = fs::read_dir(folder).unwrap();
        names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn nothing_is_overwritten_also_what_comes_meanwhile_and_what_fails_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let full = create(&path, |_| Err(Errno::ENOSPC.into())).unwrap_err();
        assert_eq!((full.raw_os_error(), names(dir.path())), (Some(nix::libc::ENOSPC), vec![]));
        let late = create(&path, |file| {
            fs::write(&path, "theirs")?;
            file.write_all(b"mine")
        });
        assert_eq!(late.unwrap_err().raw_os_error(), Some(nix::libc::EEXIST));
        let again = create(&path, |_| panic!("it is there already")).unwrap_err();
        assert_eq!(again.raw_os_error(), Some(nix::libc::EEXIST));
        assert_eq!((fs::read(&path).unwrap(), names(dir.path())), (b"theirs".to_vec(), vec!["a".into()]));
        let nowhere = create(&dir.path().join("no/b"), |_| Ok(())).unwrap_err();
        assert_eq!(nowhere.raw_os_error(), Some(nix::libc::ENOENT));
    }

    #[test]
    fn it_has_the_rights_of_any_new_file() {
        let dir = tempfile::tempdir().unwrap();
        let (path, usual) = (dir.path().join("a"), dir.path().join("usual"));
        create(&path, |file| file.write_all(b"one")).unwrap();
        File::create(&usual).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode();
        assert_eq!((fs::read(&path).unwrap(), mode(&path)), (b"one".to_vec(), mode(&usual)));
    }
}
