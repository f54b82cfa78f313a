//! Files of skills on the disk: read only when nobody else can have written them, written whole or not at all.
//!
//! Others may read them, as in a checkout; what is for the user alone is in `own_file`. It knows nothing of what is in them.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use belljar_base::own_file;
use nix::fcntl::OFlag;

/// What is being written has this name until it is whole; one writer at a time has the folder's lock.
const PART: &str = ".part";

/// The fingerprint of a skill file, which differs when the file has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SkillFileFingerprint([i64; 4], [u64; 3]);

/// The text of a file of this user's that no other user can write, and its look.
///
/// # Errors
/// A sentence to come after "it": what is wrong with it.
pub(super) fn read(path: &Path, bytes_max: usize) -> Result<String, String> {
    // Neither a link nor a pipe is followed or waited for.
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
    let refused = || "must be a plain file of yours that only you can write".to_owned();
    let opened = File::options().read(true).custom_flags(flags.bits()).open(path);
    let file = match opened {
        Err(error) if error.raw_os_error() == Some(nix::libc::ELOOP) => return Err(refused()),
        opened => opened.map_err(|error| format!("cannot be read: {error}"))?,
    };
    let about = file.metadata().map_err(|error| format!("cannot be read: {error}"))?;
    if !about.is_file() || !is_alone(&about) {
        return Err(refused());
    }
    let mut bytes = Vec::new();
    let read = file.take(bytes_max as u64 + 1).read_to_end(&mut bytes);
    read.map_err(|error| format!("cannot be read: {error}"))?;
    if bytes.len() > bytes_max {
        return Err(format!("is larger than {bytes_max} bytes"));
    }
    String::from_utf8(bytes).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        format!("is not UTF-8 at line {}", 1 + valid.iter().filter(|byte| **byte == b'\n').count())
    })
}

/// What the file looks like now; nothing: it is not there.
pub(super) fn fingerprint(path: &Path) -> Option<SkillFileFingerprint> {
    let about = fs::symlink_metadata(path).ok()?;
    let times = [about.mtime(), about.mtime_nsec(), about.ctime(), about.ctime_nsec()];
    Some(SkillFileFingerprint(times, [about.ino(), about.len(), about.dev()]))
}

/// Makes the folder if need be, and waits until nobody else writes in it; it is free again when the lock is dropped, and
/// when its holder ends in whatever way.
pub(super) fn lock(dir: &Path) -> io::Result<File> {
    own_file::make_plain_folder(dir)?;
    let folder = File::open(dir)?;
    folder.lock()?;
    Ok(folder)
}

/// Writes the file whole: either the old or the new one is there at any time. Its folder is locked by the caller.
pub(super) fn write(dir: &Path, name: &str, text: &str) -> io::Result<()> {
    own_file::make_plain_folder(dir)?;
    let part = dir.join(PART);
    let whole = write_part(&part, text).and_then(|()| fs::rename(&part, dir.join(name)));
    if whole.is_err() {
        // What could be written of it only takes space.
        drop(fs::remove_file(&part));
    }
    whole
}

fn write_part(part: &Path, text: &str) -> io::Result<()> {
    // One that a killed writer left is no use to anybody.
    own_file::remove(part)?;
    let mut file = File::options().write(true).create_new(true).mode(0o600).open(part)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// Whether no other user can write it.
fn is_alone(about: &fs::Metadata) -> bool {
    about.uid() == nix::unistd::geteuid().as_raw() && about.mode() & 0o022 == 0
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn what_others_can_write_links_and_pipes_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("tools");
        let lock = lock(&place).unwrap();
        write(&place, "a.py", "one").unwrap();
        drop(lock);
        let path = place.join("a.py");
        assert_eq!(read(&path, 3), Ok("one".into()));
        assert_eq!(read(&path, 2), Err("is larger than 2 bytes".into()));
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!((mode(&place), mode(&path)), (0o700, 0o600));
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        assert!(read(&path, 3).is_ok(), "others may read it, as in a checkout");
        fs::set_permissions(&path, Permissions::from_mode(0o664)).unwrap();
        symlink("/etc/hostname", place.join("link.py")).unwrap();
        nix::unistd::mkfifo(&place.join("pipe.py"), nix::sys::stat::Mode::S_IRUSR).unwrap();
        for name in ["a.py", "link.py", "pipe.py"] {
            let refused = read(&place.join(name), 3);
            assert_eq!(
                refused,
                Err("must be a plain file of yours that only you can write".into()),
                "{name}"
            );
        }
        fs::write(&path, b"one\n\xff").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        assert_eq!(read(&path, 9), Err("is not UTF-8 at line 2".into()));
        fs::set_permissions(&place, Permissions::from_mode(0o707)).unwrap();
        assert!(write(&place, "a.py", "two").is_err());
    }

    #[test]
    fn half_of_a_file_that_a_killed_writer_left_is_in_nobodys_way() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(PART), "half").unwrap();
        write(dir.path(), "a.py", "one").unwrap();
        assert_eq!(
            (read(&dir.path().join("a.py"), 9), own_file::names(dir.path()).unwrap()),
            (Ok("one".into()), vec!["a.py".to_owned()])
        );
        let before = fingerprint(&dir.path().join("a.py"));
        write(dir.path(), "a.py", "two").unwrap();
        assert_ne!(fingerprint(&dir.path().join("a.py")), before);
        fs::create_dir(dir.path().join("b.py")).unwrap();
        assert!(write(dir.path(), "b.py", "three").is_err());
        assert_eq!(own_file::names(dir.path()).unwrap(), ["a.py", "b.py"], "no half of a file");
    }
}
