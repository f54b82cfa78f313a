//! Reads a client's file whole, and refuses a file that is not a regular one of a trusted owner.
//!
//! It never blocks on a pipe or device, and knows no format.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use belljar_base::limits::Limits;
use belljar_base::problem::{Position, Problem};
use belljar_base::real_file::RealFile;

/// The text of a file, `None` when there is none.
pub(super) fn read(path: &Path, uid: u32, limits: &Limits) -> Result<Option<String>, Box<Problem>> {
    read_at(&RealFile::of(path), path, uid, limits)
}

/// The text of this file, which problems name `path`; `None` when there is none.
pub(super) fn read_at(
    file: &RealFile,
    path: &Path,
    uid: u32,
    limits: &Limits,
) -> Result<Option<String>, Box<Problem>> {
    let broken = |message: String| Box::new(Problem::of_file(path, message));
    let unreadable = |error: io::Error| broken(format!("cannot be read: {error}"));
    match file.path().metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return if path.is_symlink() {
                Err(broken("is a symbolic link to nothing".into()))
            } else {
                Ok(None)
            };
        }
        Err(error) => return Err(unreadable(error)),
        // A pipe is not opened, since the open would wait for its other end.
        Ok(metadata) => trusted(&metadata, uid, limits).map_err(&broken)?,
    }
    let file = file.open().map_err(unreadable)?;
    // The path may lead to another file by now: the checks count for the file that was opened.
    let opened = file.metadata().map_err(unreadable)?;
    trusted(&opened, uid, limits).map_err(&broken)?;
    let bytes = bounded(file, limits).map_err(unreadable)?.ok_or_else(|| broken(too_large(limits)))?;
    match String::from_utf8(bytes) {
        Ok(text) => Ok(Some(text)),
        Err(error) => {
            let valid = error.utf8_error().valid_up_to();
            let text = String::from_utf8_lossy(error.as_bytes());
            let problem = Problem::of_file(path, "is not UTF-8").hint("save it as UTF-8");
            Err(Box::new(problem.at(Position::of(&text, valid))))
        }
    }
}

fn bounded(file: File, limits: &Limits) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    file.take(limits.client_file_bytes_max + 1).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= limits.client_file_bytes_max).then_some(bytes))
}

fn trusted(metadata: &Metadata, uid: u32, limits: &Limits) -> Result<(), String> {
    if !metadata.is_file() {
        return Err(if metadata.is_dir() { "is a folder, not a file" } else { "is no ordinary file" }.into());
    }
    if metadata.uid() != uid && metadata.uid() != 0 {
        return Err("belongs to another user, so it is not trusted to name commands".into());
    }
    if metadata.mode() & 0o002 != 0 {
        return Err(
            "may be written by every user, so it is not trusted to name commands; chmod o-w it".into()
        );
    }
    if metadata.len() > limits.client_file_bytes_max {
        return Err(too_large(limits));
    }
    Ok(())
}

fn too_large(limits: &Limits) -> String {
    format!("is larger than the {} bytes allowed", limits.client_file_bytes_max)
}
