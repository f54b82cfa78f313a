//! The places that confined servers and sandboxed code were given to change, by any bridge of the user, in a file. What they have
//! written is still there when an entry or a setting has gone, is switched off or has an error, or is that of another
//! environment.
//!
//! It decides nothing.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use belljar_base::own_file;
use belljar_base::problem::{Problem, Severity};
use belljar_base::resolved_path::ResolvedPath;
use belljar_confine::ChangeablePlaces;
use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, percent_encode};

/// The file, in the folder that all environments of the user share: a line for each place, which is the path, a tab, and a
/// description of the process.
const FILE: &str = "given-places";
/// The largest file, in bytes. A line has about 100.
const FILE_BYTES_MAX: u64 = 4 << 20;
/// What a line has as `%` and two digits, as well as all that is not ASCII.
const ENCODED: &AsciiSet = &CONTROLS.add(b'%');

/// The file in this folder.
pub(crate) fn path(dir: &Path) -> PathBuf {
    dir.join(FILE)
}

/// The places that are there, each with a description of the process that was given it.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn read(dir: &Path) -> Result<Vec<(String, PathBuf)>, Box<Problem>> {
    let path = path(dir);
    let places =
        lines(&path).map_err(|error| {
            let message =
                format!("cannot be read, so it is not known what servers and code could change: {error}");
            let problem = Problem::of_file(&path, message).severity(Severity::Error);
            Box::new(problem.hint(
                "nothing starts until it can; a line has the path, a tab, and who could change it, and the file is only for its owner (mode 600)",
            ))
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
    let path = path(dir);
    let known = lines(&path)?;
    let encoded = |bytes: &[u8]| percent_encode(bytes, ENCODED).to_string();
    let new = places.named().filter(|(_, place)| known.iter().all(|(known, _)| known != place));
    let line = |(who, place): (&str, &Path)| {
        format!("{}\t{}\n", encoded(place.as_os_str().as_bytes()), encoded(who.as_bytes()))
    };
    let lines: String = new.map(line).collect();
    if lines.is_empty() {
        return Ok(());
    }
    own_file::make_folder(dir)?;
    // Bridges may add lines at the same time. Equal ones do no harm, and a line that was cut off takes no other with it.
    let mut file = own_file::open(&path, File::options().append(true).create(true))?;
    file.write_all(format!("\n{lines}").as_bytes())?;
    file.sync_all()
}

/// The places in the file. A line without a tab was cut off while it was written, so nothing was given there.
fn lines(path: &Path) -> io::Result<Vec<(PathBuf, String)>> {
    let bytes = match own_file::read(path, FILE_BYTES_MAX) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            // The record may be on a disk that is not there now.
            let dangling = ResolvedPath::of(path).links.into_iter().find(|(link, _)| !link.exists());
            return match dangling {
                Some((link, _)) => {
                    Err(io::Error::other(format!("the symlink {} leads to nothing", link.display())))
                }
                None => Ok(Vec::new()),
            };
        }
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
        .filter(|line| line.contains('\t'))
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
        assert_eq!(read(&dir).unwrap(), [(who.clone(), root.clone())]);
        // A line that was cut off takes no later one with it, wherever that was.
        let path = dir.join(FILE);
        let whole = fs::read_to_string(&path).unwrap();
        for length in 0..whole.len() {
            fs::write(&path, &whole[..length]).unwrap();
            add(&dir, &places(&dir)).unwrap();
            fs::write(&path, format!("\n{}\n \n", fs::read_to_string(&path).unwrap())).unwrap();
            assert!(read(&dir).unwrap().iter().any(|(_, place)| *place == dir), "{length}");
        }
        fs::write(dir.join(FILE), "relative\twho\n").unwrap();
        let problem = read(&dir).unwrap_err().to_string();
        assert!(problem.contains("a line is no place: relative"), "{problem}");
        assert!(add(&dir, &places(&dir)).is_err(), "what cannot be read is not written over");
        let link = root.join("link");
        std::os::unix::fs::symlink("not-here", &link).unwrap();
        let problem = read(&link).unwrap_err().to_string();
        assert!(problem.contains("/link leads to nothing"), "{problem}");
        fs::create_dir(root.join("not-here")).unwrap();
        assert_eq!(read(&link).unwrap(), []);
    }
}
