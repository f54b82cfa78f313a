//! `belljar files`: lists, shows, exports, adds and removes the user's files of workspaces, and files that sessions
//! handed over.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use belljar_base::names::WorkspaceName;
use belljar_base::text::{self, suggest};
use serde_json::json;

use super::common::failure::{Failure, failed, told};
use super::common::printing::{err, out, row, to_stdout};
use super::common::user_file;

use crate::cli::{self, FilesCommand};
use crate::config::{Config, ConfigFiles};
use crate::journal::Sessions;
use crate::workspace::{FilePath, Outbox, Piece, SessionOutbox, View, Workspace, WorkspaceLocation, names};

/// Longest name that is shown, in characters.
const SHOWN_CHARS_MAX: usize = 300;

/// Executes the subcommand, or prints why it failed.
pub(super) fn files(config: &Config, files: &ConfigFiles, arguments: cli::Files) -> ExitCode {
    told(done(config, &files.foreign_places(), arguments))
}

fn done(config: &Config, foreign: &[PathBuf], arguments: cli::Files) -> Result<(), Failure> {
    if let Some(asked) = arguments.session {
        return of_session(config, foreign, &asked, arguments.command);
    }
    let root = config.owner.workspaces();
    let name = match (&arguments.workspace, &config.workspace) {
        (Some(name), _) => Some(named(name)?),
        (None, configured) => configured.clone(),
    };
    match (arguments.command, name) {
        (FilesCommand::Ls { json }, None) => list_all(config, &root, json),
        (_, None) => Err(Failure::Usage(
            "say whose: --workspace NAME or --session ID, or set MCP_BRIDGE_WORKSPACE; `belljar files ls` lists them".into(),
        )),
        (FilesCommand::Ls { json }, Some(name)) => list(&view(&root, &name)?, json),
        (FilesCommand::Get { path, to }, Some(name)) => {
            get(&view(&root, &name)?, &path, to, foreign)
        }
        (FilesCommand::Put { file, path }, Some(name)) => {
            put(config, &WorkspaceLocation { root, name: Some(name) }, (&file, foreign), path)
        }
        (FilesCommand::Rm { path: Some(path), .. }, Some(name)) => {
            view(&root, &name)?;
            remove(config, &WorkspaceLocation { root, name: Some(name) }, &path)
        }
        (FilesCommand::Rm { path: None, .. }, Some(_)) => {
            Err(Failure::Usage("--all is for what a session has handed over: --session ID".into()))
        }
    }
}

/// Executes a subcommand on the files that a session has handed over.
fn of_session(
    config: &Config,
    foreign: &[PathBuf],
    asked: &str,
    command: FilesCommand,
) -> Result<(), Failure> {
    let outbox = Outbox::new(config.owner.outbox(), &config.limits);
    let SessionOutbox { session, view, .. } = found(outbox.all().map_err(failed)?, asked)?;
    match command {
        FilesCommand::Ls { json } => list(&view, json),
        FilesCommand::Get { path, to } => get(&view, &path, to, foreign),
        FilesCommand::Put { .. } => {
            Err(Failure::Usage("only its code hands files over; --workspace NAME takes some in".into()))
        }
        FilesCommand::Rm { path, .. } => {
            let mut own = outbox.of(&session).map_err(failed)?;
            if let Some(path) = path {
                own.remove(&kept(&view, &path)?).map_err(failed)?;
                if view.all().map_err(failed)?.iter().any(|kept| !kept.is_folder) {
                    return Ok(());
                }
            }
            own.discard();
            Ok(())
        }
    }
}

/// The session whose name begins with `asked`, or the latest session if `asked` is `last`.
fn found(mut all: Vec<SessionOutbox>, asked: &str) -> Result<SessionOutbox, Failure> {
    if asked == Sessions::LAST
        && let Some(last) = all.pop()
    {
        return Ok(last);
    }
    let beginning = asked.to_lowercase();
    all.retain(|of| of.session.as_str().starts_with(&beginning));
    match (all.pop(), all.is_empty()) {
        (Some(one), true) if !asked.is_empty() => Ok(one),
        (None, _) => {
            let asked = text::inert_excerpt(asked, SHOWN_CHARS_MAX);
            Err(Failure::Usage(format!(
                "nothing is kept that a session \"{asked}\" has handed over; `belljar files ls` lists what is kept"
            )))
        }
        _ => Err(Failure::Usage("several sessions begin like that; give more of the ID".into())),
    }
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

/// Lists the workspaces, then the sessions that have handed over files, the latest session last.
fn list_all(config: &Config, root: &Path, as_json: bool) -> Result<(), Failure> {
    let names = names(root).map_err(failed)?;
    let sessions = Outbox::new(config.owner.outbox(), &config.limits).all().map_err(failed)?;
    if names.is_empty() && sessions.is_empty() {
        err!(
            "belljar: no file is kept yet; MCP_BRIDGE_WORKSPACE=NAME keeps all of a session, runtime.save(path) in its code one"
        );
    }
    for name in names {
        if let Some(view) = View::named(root, &name) {
            let (files, bytes) = counted(&view)?;
            if as_json {
                out!("{}", json!({"workspace": name.as_str(), "files": files, "bytes": bytes}));
            } else {
                row!("{name}  {}", in_words(files, bytes));
            }
        }
    }
    for SessionOutbox { session, view, .. } in sessions {
        let (files, bytes) = counted(&view)?;
        if as_json {
            out!("{}", json!({"session": session.as_str(), "files": files, "bytes": bytes}));
        } else {
            row!("session {}  {}", Sessions::short(session.as_str()), in_words(files, bytes));
        }
    }
    Ok(())
}

/// The number of files, and their bytes.
fn counted(view: &View) -> Result<(usize, u64), Failure> {
    let all = view.all().map_err(failed)?;
    let files = all.iter().filter(|kept| !kept.is_folder).count();
    Ok((files, all.iter().map(|kept| kept.bytes).sum()))
}

fn in_words(files: usize, bytes: u64) -> String {
    format!("{files} file{}, {bytes} bytes", if files == 1 { "" } else { "s" })
}

fn list(view: &View, as_json: bool) -> Result<(), Failure> {
    for kept in view.all().map_err(failed)? {
        if as_json {
            let (path, is_folder) = (kept.path.as_str(), kept.is_folder);
            out!("{}", json!({"path": path, "folder": is_folder, "bytes": kept.bytes}));
            continue;
        }
        let path = text::inert_excerpt(kept.path.as_str(), SHOWN_CHARS_MAX);
        if kept.is_folder { row!("{:>12}  {path}/", "") } else { row!("{:>12}  {path}", kept.bytes) }
    }
    Ok(())
}

fn get(view: &View, path: &str, to: Option<PathBuf>, foreign: &[PathBuf]) -> Result<(), Failure> {
    let path = kept(view, path)?;
    let mut pieces = view.pieces(&path).map_err(failed)?.peekable();
    if pieces.peek().is_some_and(|piece| piece.as_ref().is_ok_and(|piece| piece.is_folder)) {
        return Err(Failure::Failed(format!("{path} is a folder; get its files one by one")));
    }
    if to.as_deref() == Some(Path::new("-")) {
        let mut stdout = io::stdout().lock();
        if !stdout.is_terminal() {
            return copy(pieces, &mut stdout).map_err(failed);
        }
        drop(stdout);
        return show(pieces, &path);
    }
    let own_name = path.as_str().rsplit('/').next().unwrap_or_default();
    let to = match to {
        Some(folder) if folder.is_dir() => folder.join(own_name),
        Some(to) => to,
        None => PathBuf::from(own_name),
    };
    let named = |error: io::Error| Failure::Failed(user_file::why_not(&to, &error));
    // No file of the user is overwritten with content that code in a sandbox has written.
    user_file::create(&to, foreign, |file| copy(pieces, file)).map_err(named)?;
    out!("{}", text::inert_excerpt(&to.display().to_string(), SHOWN_CHARS_MAX));
    Ok(())
}

/// Finds a stored file by its path.
fn kept(view: &View, path: &str) -> Result<FilePath, Failure> {
    let path = FilePath::new(path).map_err(|error| Failure::Usage(error.to_string()))?;
    let all = view.all().map_err(failed)?;
    if all.iter().any(|kept| kept.path == path) {
        return Ok(path);
    }
    let near = suggest::nearest(path.as_str(), all.iter().map(|kept| kept.path.as_str()));
    let near = near.map(|near| format!("; did you mean {}?", text::inert_excerpt(near, SHOWN_CHARS_MAX)));
    Err(Failure::Usage(format!("there is no file {path} in it{}", near.unwrap_or_default())))
}

/// Prints a text file on the terminal, with control characters escaped.
fn show(pieces: impl Iterator<Item = io::Result<Piece>>, path: &FilePath) -> Result<(), Failure> {
    let mut bytes = Vec::new();
    copy(pieces, &mut bytes).map_err(failed)?;
    match String::from_utf8(bytes) {
        Ok(text) if !text.contains('\0') => {
            to_stdout(&text);
            Ok(())
        }
        _ => Err(Failure::Failed(format!(
            "{path} is not text, and a terminal shows only that: redirect it with >FILE"
        ))),
    }
}

fn copy(pieces: impl Iterator<Item = io::Result<Piece>>, to: &mut impl Write) -> io::Result<()> {
    for piece in pieces {
        let piece = piece?;
        to.write_all(&piece.bytes)?;
    }
    to.flush()
}

fn put(
    config: &Config,
    location: &WorkspaceLocation,
    (file, foreign): (&Path, &[PathBuf]),
    path: Option<String>,
) -> Result<(), Failure> {
    let own_name = || file.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
    let path =
        FilePath::new(&path.unwrap_or_else(own_name)).map_err(|error| Failure::Usage(error.to_string()))?;
    let opened = user_file::plain(file, foreign).map_err(Failure::Failed)?;
    let mut workspace = Workspace::open(location, &config.limits).map_err(failed)?;
    workspace.put(&path, opened).map_err(failed)?;
    out!("/workspace/{}", text::inert_excerpt(path.as_str(), SHOWN_CHARS_MAX));
    Ok(())
}

fn remove(config: &Config, location: &WorkspaceLocation, path: &str) -> Result<(), Failure> {
    let mut workspace = Workspace::open(location, &config.limits).map_err(failed)?;
    let path = kept(&workspace.view(), path)?;
    workspace.remove(&path).map_err(failed)
}
