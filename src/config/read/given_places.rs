//! The places that confined servers and sandboxed code were given to change, by any bridge of the user, in a file. What they have
//! written is still there when an entry or a setting has gone, is switched off or has an error, or is that of another
//! environment.
//!
//! It decides nothing.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use belljar_base::own_file;
use belljar_base::problem::{Problem, Severity};
use belljar_confine::ChangeablePlaces;
use nix::fcntl::{Flock, FlockArg};
use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, percent_encode};

/// The file, in the folder that all environments of the user share: a line for each place, which is the path, a tab, and a
/// description of the process.
const FILE: &str = "given-places";
/// The largest file, in bytes. A line has about 100.
const FILE_BYTES_MAX: u64 = 4 << 20;
/// What a line has as `%` and two digits, as well as all that is not ASCII.
const ENCODED: &AsciiSet = &CONTROLS.add(b'%');

/// The places that are there, each with a description of the process that was given it.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn read(dir: &Path) -> Result<Vec<(String, PathBuf)>, Box<Problem>> {
    let path = dir.join(FILE);
    let places = lines(&path).map_err(|error| {
        let message =
            format!("cannot be read, so it is not known what servers and code could change: {error}");
        let problem = Problem::of_file(&path, message).severity(Severity::Error);
        Box::new(problem.hint("no sandbox is started until it can be read, or is removed"))
    })?;
    let noted = |who: String| format!("{who} (noted in {})", path.display());
    let are_there = places.into_iter().filter(|(place, _)| place.symlink_metadata().is_ok());
    Ok(are_there.map(|(place, who)| (noted(who), place)).collect())
}

/// Adds these places.
///
/// # Errors
/// The file cannot be read or written.
pub(crate) fn add(dir: &Path, places: &ChangeablePlaces) -> io::Result<()> {
    let path = dir.join(FILE);
    let is_new = |known: &[(PathBuf, String)]| {
        places.named().any(|(_, place)| known.iter().all(|(known, _)| known != place))
    };
    if !is_new(&lines(&path)?) {
        return Ok(());
    }
    own_file::make_folder(dir)?;
    let lock = own_file::open(&dir.join(format!("{FILE}.lock")), File::options().append(true).create(true))?;
    let lock = Flock::lock(lock, FlockArg::LockExclusive).map_err(|(_, errno)| errno)?;
    let mut known = lines(&path)?;
    for (who, place) in places.named() {
        if known.iter().all(|(known, _)| known != place) {
            known.push((place.to_owned(), who.to_owned()));
        }
    }
    let encoded = |bytes: &[u8]| percent_encode(bytes, ENCODED).to_string();
    let line = |(place, who): &(PathBuf, String)| {
        format!("{}\t{}\n", encoded(place.as_os_str().as_bytes()), encoded(who.as_bytes()))
    };
    own_file::write(dir, FILE, known.iter().map(line).collect::<String>().as_bytes())?;
    drop(lock);
    Ok(())
}

/// The places in the file.
fn lines(path: &Path) -> io::Result<Vec<(PathBuf, String)>> {
    let bytes = match own_file::read(path, FILE_BYTES_MAX) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        bytes => bytes?,
    };
    let text = String::from_utf8(bytes).map_err(io::Error::other)?;
    let place = |line: &str| {
        let (place, who) = line.split_once('\t')?;
        let place = OsString::from_vec(percent_decode_str(place).collect());
        let who = percent_decode_str(who).decode_utf8_lossy().into_owned();
        Some((PathBuf::from(place), who)).filter(|(place, _)| place.is_absolute())
    };
    let places = text
        .lines()
        .map(|line| place(line).ok_or_else(|| io::Error::other(format!("a line is no place: {line:.100}"))));
    places.collect()
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::fs;

    use super::*;

    #[test]
    fn places_are_added_once_and_read_while_they_are_there() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let dir = root.join("state");
        let odd = root.join(OsStr::from_bytes(b"a\tb\n%41\xff"));
        fs::create_dir(&odd).unwrap();
        let places =
            |place: &Path| ChangeablePlaces::new([("the confined server 'x'".to_owned(), place.to_owned())]);
        assert_eq!(read(&dir).unwrap(), []);
        for _ in 0..2 {
            add(&dir, &places(&odd)).unwrap();
            add(&dir, &places(&root)).unwrap();
        }
        let who = format!("the confined server 'x' (noted in {})", dir.join(FILE).display());
        assert_eq!(read(&dir).unwrap(), [(who.clone(), odd.clone()), (who.clone(), root.clone())]);
        fs::remove_dir(&odd).unwrap();
        assert_eq!(read(&dir).unwrap(), [(who, root)]);
        fs::write(dir.join(FILE), "relative\twho\n").unwrap();
        let problem = read(&dir).unwrap_err().to_string();
        assert!(problem.contains("a line is no place: relative"), "{problem}");
        assert!(add(&dir, &places(&dir)).is_err(), "what cannot be read is not written over");
    }
}
