//! Keeps the content that a client's file had before belljar was added to it, so that it can be restored byte for byte.
//!
//! The copy may contain secrets of the client, so only the user can read the copy and its folder.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use belljar_base::digest;
use belljar_base::own_file;
use serde_json::{Value, json};

use crate::clients::error::InstallError;

/// The backup of one file: the copy, and a record about it.
#[derive(Debug)]
pub(crate) struct Backup {
    /// The file that was changed.
    path: PathBuf,
    record: PathBuf,
    copy: PathBuf,
}

impl Backup {
    /// The backup for one entry in one file.
    pub(crate) fn of(state: &Path, client: &str, name: &str, path: &Path) -> Self {
        let hash = digest::sha256(&[path.as_os_str().as_bytes(), b"\n", name.as_bytes()].concat());
        let file =
            |extension: &str| state.join("installed").join(format!("{client}-{:.16}.{extension}", hash));
        Self { path: path.to_owned(), record: file("json"), copy: file("before") }
    }

    /// Whether the file still has the content that was written when this backup was made.
    pub(super) fn is_of(&self, text: Option<&str>) -> bool {
        let record = read(&self.record).unwrap_or_default();
        let record: Value = serde_json::from_str(&record).unwrap_or_default();
        let written = record.get("written_sha256").and_then(Value::as_str);
        text.is_some_and(|text| written == Some(&digest::sha256(text.as_bytes())))
            // A copy that is gone cannot be restored.
            && (record.get("was_there") == Some(&Value::Bool(false)) || self.copy.is_file())
    }

    /// Whether belljar has put its entry into the file and has not removed it since.
    pub(super) fn is_there(&self) -> bool {
        self.record.is_file()
    }

    /// The earlier content of the file; `None`: there was no file.
    pub(crate) fn former(&self) -> Result<Option<String>, InstallError> {
        own_file::unless_missing(read(&self.copy))
            .map_err(|source| InstallError::Backup { path: self.copy.clone(), source })
    }

    /// Stores the earlier content of the file, if `before` has it, and the hash of the content that is written now.
    pub(crate) fn keep(&self, before: Option<Option<&str>>, after: &str) -> Result<(), InstallError> {
        let unkept = |path: &Path| {
            let path = path.to_owned();
            move |source| InstallError::Backup { path, source }
        };
        match before {
            Some(Some(text)) => write(&self.copy, text).map_err(unkept(&self.copy))?,
            Some(None) => drop(own_file::remove(&self.copy).map_err(unkept(&self.copy))?),
            None => {}
        }
        let record = json!({
            "path": self.path,
            "was_there": self.copy.is_file(),
            "written_sha256": digest::sha256(after.as_bytes()),
        });
        write(&self.record, &format!("{record:#}\n")).map_err(unkept(&self.record))
    }

    /// Removes the backup.
    pub(super) fn forget(&self) -> Result<(), InstallError> {
        for path in [&self.record, &self.copy] {
            own_file::remove(path).map_err(|source| InstallError::Backup { path: path.clone(), source })?;
        }
        Ok(())
    }
}

/// Reads a file that nobody else can have written.
fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    own_file::open(path, File::options().read(true))?.read_to_string(&mut text)?;
    Ok(text)
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    let (folder, name) = (path.parent().unwrap_or(path), path.file_name().and_then(OsStr::to_str));
    own_file::write(folder, name.unwrap_or_default(), text.as_bytes())
}
