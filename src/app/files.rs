//! `hotcell files`: the files of workspaces that are kept, for the user: shown, taken out, put in, removed.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::failure::{Failure, failed, told};
use super::new_file;
use super::printing::{err, out};
use super::wiring::workspaces;
use crate::cli::{self, FilesCommand};
use crate::config::{Config, nearest};
use crate::names::WorkspaceName;
use crate::text;
use crate::workspace::{FilePath, Place, View, Workspace, names};

/// Longest name that is shown, in characters.
const SHOWN_CHARS_MAX: usize = 300;

/// Does what is asked for, or says why not.
pub(super) fn files(config: &Config, arguments: cli::Files) -> ExitCode {
    let root = workspaces(config);
    let done = match (&arguments.workspace, &config.workspace) {
        (Some(name), _) => named(name).map(Some),
        (None, configured) => Ok(configured.clone()),
    };
    let done = done.and_then(|name| match (arguments.command, name) {
        (FilesCommand::Ls, None) => list_workspaces(&root),
        (_, None) => {
            Err(Failure::Usage("say which workspace: --workspace NAME, or set MCP_BRIDGE_WORKSPACE".into()))
        }
        (FilesCommand::Ls, Some(name)) => list(&view(&root, &name)?),
        (FilesCommand::Get { path, to }, Some(name)) => get(&view(&root, &name)?, &path, to),
        (FilesCommand::Put { file, path }, Some(name)) => {
            put(config, &Place { root, name: Some(name) }, &file, path)
        }
        (FilesCommand::Rm { path }, Some(name)) => {
            view(&root, &name)?;
            remove(config, &Place { root, name: Some(name) }, &path)
        }
    });
    told(done)
}

fn named(name: &str) -> Result<WorkspaceName, Failure> {
    WorkspaceName::new(name).map_err(|error| Failure::Usage(error.to_string()))
}

fn view(root: &Path, name: &WorkspaceName) -> Result<View, Failure> {
    View::named(root, name).ok_or_else(|| {
        let known = names(root).unwrap_or_default();
        let known: Vec<&str> = known.iter().map(WorkspaceName::as_str).collect();
        let known = if known.is_empty() {
            "none is kept yet".into()
        } else {
            format!("there is {}", known.join(", "))
        };
        Failure::Usage(format!("there is no workspace \"{name}\"; {known}"))
    })
}

fn list_workspaces(root: &Path) -> Result<(), Failure> {
    let names = names(root).map_err(failed)?;
    if names.is_empty() {
        err!("hotcell: no workspace is kept yet; MCP_BRIDGE_WORKSPACE=NAME keeps one");
    }
    for name in names {
        let (files, bytes) = match View::named(root, &name).map(|view| view.all()) {
            Some(Ok(all)) => {
                (all.iter().filter(|kept| !kept.is_folder).count(), all.iter().map(|kept| kept.bytes).sum())
            }
            Some(Err(error)) => return Err(failed(error)),
            None => (0, 0_u64),
        };
        out!("{name}  {files} file{}, {bytes} bytes", if files == 1 { "" } else { "s" });
    }
    Ok(())
}

fn list(view: &View) -> Result<(), Failure> {
    for kept in view.all().map_err(failed)? {
        let path = text::inert_excerpt(kept.path.as_str(), SHOWN_CHARS_MAX);
        if kept.is_folder { out!("{:>12}  {path}/", "") } else { out!("{:>12}  {path}", kept.bytes) }
    }
    Ok(())
}

fn get(view: &View, path: &str, to: Option<PathBuf>) -> Result<(), Failure> {
    let path = kept(view, path)?;
    let mut pieces = view.pieces(&path).map_err(failed)?.peekable();
    if pieces.peek().is_some_and(|piece| piece.as_ref().is_ok_and(|piece| piece.is_folder)) {
        return Err(Failure::Failed(format!("{path} is a folder; get its files one by one")));
    }
    if to.as_deref() == Some(Path::new("-")) {
        return copy(pieces, &mut io::stdout().lock()).map_err(failed);
    }
    let own_name = path.as_str().rsplit('/').next().unwrap_or_default();
    let to = match to {
        Some(folder) if folder.is_dir() => folder.join(own_name),
        Some(to) => to,
        None => PathBuf::from(own_name),
    };
    let named = |error: io::Error| Failure::Failed(new_file::why_not(&to, &error));
    // Nothing of the user's is overwritten by what code in a sandbox has written.
    new_file::create(&to, |file| copy(pieces, file)).map_err(named)?;
    out!("{}", text::inert_excerpt(&to.display().to_string(), SHOWN_CHARS_MAX));
    Ok(())
}

/// The path of something that is kept.
fn kept(view: &View, path: &str) -> Result<FilePath, Failure> {
    let path = FilePath::new(path).map_err(|error| Failure::Usage(error.to_string()))?;
    let all = view.all().map_err(failed)?;
    if all.iter().any(|kept| kept.path == path) {
        return Ok(path);
    }
    let near = nearest(path.as_str(), all.iter().map(|kept| kept.path.as_str()));
    let near = near.map(|near| format!("; did you mean {}?", text::inert_excerpt(near, SHOWN_CHARS_MAX)));
    Err(Failure::Usage(format!("there is no file {path} in it{}", near.unwrap_or_default())))
}

fn copy(
    pieces: impl Iterator<Item = io::Result<crate::workspace::Piece>>,
    to: &mut impl Write,
) -> io::Result<()> {
    for piece in pieces {
        let piece = piece?;
        to.write_all(&piece.bytes)?;
    }
    to.flush()
}

fn put(config: &Config, place: &Place, file: &Path, path: Option<String>) -> Result<(), Failure> {
    let own_name = || file.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
    let path =
        FilePath::new(&path.unwrap_or_else(own_name)).map_err(|error| Failure::Usage(error.to_string()))?;
    let opened = plain_file(file).map_err(Failure::Failed)?;
    let mut workspace = Workspace::open(place, &config.limits).map_err(failed)?;
    workspace.put(&path, opened).map_err(failed)?;
    out!("/workspace/{}", text::inert_excerpt(path.as_str(), SHOWN_CHARS_MAX));
    Ok(())
}

/// A file of the user's, open.
pub(super) fn plain_file(path: &Path) -> Result<File, String> {
    let named = |error: io::Error| format!("{}: {error}", path.display());
    // Without a look first a pipe would be waited for.
    if !path.metadata().map_err(named)?.is_file() {
        return Err(format!("{} is no plain file", path.display()));
    }
    File::open(path).map_err(named)
}

fn remove(config: &Config, place: &Place, path: &str) -> Result<(), Failure> {
    let mut workspace = Workspace::open(place, &config.limits).map_err(failed)?;
    let path = kept(&workspace.view(), path)?;
    workspace.remove(&path).map_err(failed)
}
