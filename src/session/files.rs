//! Moves the workspace's files between the sandbox and the host: files that a sandbox reports are stored, and stored
//! files are restored into the next one.
//!
//! One thread owns the workspace. The session's task waits for the disk only if the sandbox sends files faster than the
//! disk stores them.

use std::collections::BTreeSet;
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use belljar_base::limits::Limits;
use belljar_base::text;
use belljar_protocol::{FilePiece, ToSupervisor};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::journal::Sessions;
use crate::workspace::{FilePath, Outbox, Piece, View, Workspace, WorkspaceLocation, path_of};

/// The largest number of queued requests. Each holds at most one piece of a file, which is smaller than a megabyte.
const JOBS_QUEUED_MAX: usize = 8;
/// Longest part of a report on one file, in characters.
const SAID_CHARS_MAX: usize = 300;
/// The largest number of files that are named if they could not be handed over.
const NOT_KEPT_NAMED_MAX: usize = 3;

/// A request to the thread.
enum Job {
    /// Stores a piece of a file.
    Piece(Box<FilePiece>),
    /// Removes a file that the sandbox has removed.
    Gone(String),
    /// Answers, after all earlier jobs, with the problem of files that could not be stored.
    Kept(oneshot::Sender<Option<String>>),
    /// Copies a file of the host into the workspace.
    Put(FilePath, File, oneshot::Sender<Result<(), String>>),
    /// Ends the thread.
    Close,
    /// Answers with a view of the stored files; drops the sender if there are none.
    Look(oneshot::Sender<View>),
    /// Answers with the files that have changed since the last such job.
    Changes(oneshot::Sender<BTreeSet<FilePath>>),
    /// Copies these files to the outbox, and answers with sentences that tell where they are.
    HandOver(Vec<FilePath>, oneshot::Sender<Vec<String>>),
    /// Answers with the command by which the user gets the file of this path that a session has handed over last.
    HandedOver(FilePath, oneshot::Sender<String>),
    /// Sends the pieces of all files, and answers with how many files there were.
    Restore(mpsc::Sender<Vec<u8>>, oneshot::Sender<Result<RestoredFiles, String>>),
}

/// The number and size of the files that were written into a new sandbox.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct RestoredFiles {
    /// The number of files; folders are not counted.
    pub(super) files: usize,
    /// Their size, in bytes.
    pub(super) bytes: u64,
    /// The number of files and folders that exceed a limit or cannot be read.
    pub(super) left_out: usize,
}

impl RestoredFiles {
    /// Sentences about the restored files; empty if there were none.
    pub(super) fn said(self) -> Vec<String> {
        let Self { files, bytes, left_out } = self;
        let files = match files {
            0 => None,
            1 => Some(format!("/workspace has 1 file that was kept, {bytes} bytes")),
            _ => Some(format!("/workspace has {files} files that were kept, {bytes} bytes")),
        };
        let left_out = (left_out > 0).then(|| {
            format!("{left_out} files of the workspace are not in this sandbox: there is no room for them, or they cannot be read")
        });
        files.into_iter().chain(left_out).collect()
    }
}

/// The workspace of this session.
#[derive(Debug, Clone)]
pub struct Files {
    jobs: mpsc::Sender<Job>,
    /// Whether any file has changed since the last call of `changes`. Most runs change none, and need not wait for the
    /// thread.
    has_changed: Arc<AtomicBool>,
}

impl Files {
    /// Starts the thread, which opens the workspace at its first use. The task ends after [`Self::close`].
    pub(super) fn start(
        location: WorkspaceLocation,
        outbox: WorkspaceLocation,
        limits: &Arc<Limits>,
    ) -> (Self, JoinHandle<()>) {
        let (jobs, inbox) = mpsc::channel(JOBS_QUEUED_MAX);
        let limits = Arc::clone(limits);
        let has_changed = Arc::new(AtomicBool::new(false));
        let changing = Arc::clone(&has_changed);
        let task =
            tokio::task::spawn_blocking(move || Keeper::new(location, outbox, limits, changing).work(inbox));
        (Self { jobs, has_changed }, task)
    }

    /// Ends the thread, even if others still hold this value.
    pub(super) async fn close(&self) {
        self.ask(Job::Close).await;
    }

    /// Stores a piece of a file that the sandbox has sent.
    pub(super) async fn piece(&self, piece: FilePiece) {
        self.ask(Job::Piece(Box::new(piece))).await;
    }

    /// Removes a file that the sandbox has removed.
    pub(super) async fn gone(&self, path: String) {
        self.ask(Job::Gone(path)).await;
    }

    /// Answers when everything before is on the disk, with the problem of files that could not be stored.
    pub(super) async fn kept(&self) -> oneshot::Receiver<Option<String>> {
        let (reply, answer) = oneshot::channel();
        self.ask(Job::Kept(reply)).await;
        answer
    }

    /// Sends all stored files as frames through a queue of lines.
    pub(super) async fn put_back(&self, lines: mpsc::Sender<Vec<u8>>) -> Result<RestoredFiles, String> {
        let (reply, answer) = oneshot::channel();
        self.ask(Job::Restore(lines, reply)).await;
        answer.await.unwrap_or_else(|_| Err("what keeps the files has broken".into()))
    }

    /// Copies a file of the host into the workspace, for the next sandbox.
    ///
    /// # Errors
    /// The reason why it cannot be stored.
    pub async fn put(&self, path: FilePath, file: File) -> Result<(), String> {
        let (reply, answer) = oneshot::channel();
        self.ask(Job::Put(path, file, reply)).await;
        answer.await.unwrap_or_else(|_| Err("what keeps the files has broken".into()))
    }

    /// Copies files that a run has handed over to the outbox. `saved` has their resource addresses. Returns sentences
    /// that tell the user where they are.
    pub async fn hand_over(&self, saved: &[String]) -> Vec<String> {
        let paths: Vec<FilePath> = saved.iter().filter_map(|address| path_of(address)).collect();
        if paths.is_empty() {
            return vec![];
        }
        let (reply, answer) = oneshot::channel();
        self.ask(Job::HandOver(paths, reply)).await;
        answer.await.unwrap_or_default()
    }

    /// The command by which the user gets the file of this path that a session has handed over; `None`: no session has.
    pub async fn handed_over(&self, path: FilePath) -> Option<String> {
        let (reply, answer) = oneshot::channel();
        self.ask(Job::HandedOver(path, reply)).await;
        answer.await.ok()
    }

    /// A view of the stored files, which change between runs only; `None`: no file was ever stored.
    pub async fn view(&self) -> Option<View> {
        let (reply, answer) = oneshot::channel();
        self.ask(Job::Look(reply)).await;
        answer.await.ok()
    }

    /// The files that have changed since the last call.
    pub async fn changes(&self) -> BTreeSet<FilePath> {
        if !self.has_changed.swap(false, Ordering::Relaxed) {
            return BTreeSet::new();
        }
        let (reply, answer) = oneshot::channel();
        self.ask(Job::Changes(reply)).await;
        answer.await.unwrap_or_default()
    }

    async fn ask(&self, job: Job) {
        if self.jobs.send(job).await.is_err() {
            tracing::debug!("what keeps the files of the workspace has ended");
        }
    }
}

/// The state of the thread.
struct Keeper {
    location: WorkspaceLocation,
    outbox: WorkspaceLocation,
    limits: Arc<Limits>,
    workspace: Option<Workspace>,
    /// This session's part of the outbox, after the first file was handed over.
    handed_over: Option<Workspace>,
    /// The files that were stored or removed since the last `Changes` request.
    changed: BTreeSet<FilePath>,
    has_changed: Arc<AtomicBool>,
    /// The first error since the last `kept`, and the number of errors.
    failed: Option<(String, usize)>,
}

impl Keeper {
    fn new(
        location: WorkspaceLocation,
        outbox: WorkspaceLocation,
        limits: Arc<Limits>,
        has_changed: Arc<AtomicBool>,
    ) -> Self {
        let (workspace, handed_over, changed, failed) = (None, None, BTreeSet::new(), None);
        Self { location, outbox, limits, workspace, handed_over, changed, has_changed, failed }
    }

    fn work(mut self, mut inbox: mpsc::Receiver<Job>) {
        while let Some(job) = inbox.blocking_recv() {
            match job {
                Job::Piece(piece) => {
                    let taken = self.take(*piece);
                    self.note(taken);
                }
                Job::Gone(path) => {
                    let removed = self.remove(&path);
                    self.note(removed);
                }
                Job::Kept(reply) => {
                    let failed = self.failed.take().map(|(first, count)| match count {
                        1 => first,
                        _ => format!("{first}, and {} more", count - 1),
                    });
                    if reply.send(failed).is_err() {
                        tracing::debug!("nobody waits any more for the files to be kept");
                    }
                }
                Job::Put(path, file, reply) => {
                    let put = self.open().and_then(|workspace| workspace.put(&path, file).map_err(said));
                    if reply.send(put).is_err() {
                        tracing::debug!("nobody waits any more for a file to be put");
                    }
                }
                Job::HandOver(paths, reply) => {
                    if reply.send(self.hand_over(&paths)).is_err() {
                        tracing::debug!("nobody waits any more to hear where files are kept for the user");
                    }
                }
                Job::HandedOver(path, reply) => {
                    let outbox = Outbox::new(self.outbox.root.clone(), &self.limits);
                    if let Some(session) = outbox.last_with(&path)
                        && reply.send(command(Kind::Session, session.as_str(), path.as_str())).is_err()
                    {
                        tracing::debug!("nobody waits any more to hear where a file is");
                    }
                }
                Job::Close => return,
                Job::Look(reply) => {
                    let view = self.look();
                    if let Some(view) = view
                        && reply.send(view).is_err()
                    {
                        tracing::debug!("nobody waits any more for a look at the files");
                    }
                }
                Job::Changes(reply) => {
                    if reply.send(std::mem::take(&mut self.changed)).is_err() {
                        tracing::debug!("nobody waits any more for changes of files");
                    }
                }
                Job::Restore(lines, reply) => {
                    if reply.send(self.put_back(&lines)).is_err() {
                        tracing::debug!("nobody waits any more for the files to be put back");
                    }
                }
            }
        }
    }

    /// A view of the workspace. A workspace that has no name and no files yet is not opened for that.
    fn look(&mut self) -> Option<View> {
        match &self.workspace {
            Some(workspace) => Some(workspace.view()),
            None => self.open_named().ok()?.map(|workspace| workspace.view()),
        }
    }

    fn open_named(&mut self) -> Result<Option<&mut Workspace>, String> {
        if self.workspace.is_none() && self.location.name.is_none() {
            // A new session's workspace has no files, and needs no folder yet.
            return Ok(None);
        }
        self.open().map(Some)
    }

    fn open(&mut self) -> Result<&mut Workspace, String> {
        if self.workspace.is_none() {
            self.workspace = Some(Workspace::open(&self.location, &self.limits).map_err(said)?);
        }
        self.workspace.as_mut().ok_or_else(|| "it could not be opened".into())
    }

    fn take(&mut self, piece: FilePiece) -> Result<(), String> {
        let FilePiece { path, folder, executable, modified_us, offset, base64, last } = piece;
        let named =
            |why: &dyn std::fmt::Display| format!("{}: {why}", text::inert_excerpt(&path, SAID_CHARS_MAX));
        let bytes = STANDARD.decode(&base64).map_err(|error| named(&error))?;
        let path = FilePath::new(&path).map_err(|error| named(&error))?;
        let piece = Piece {
            path,
            is_folder: folder,
            is_executable: executable,
            modified_us,
            offset,
            bytes,
            is_last: last,
        };
        self.open()?.take(&piece).map_err(said)?;
        self.note_change(piece.path);
        Ok(())
    }

    fn remove(&mut self, path: &str) -> Result<(), String> {
        let path = FilePath::new(path).map_err(said)?;
        self.open()?.remove(&path).map_err(said)?;
        self.note_change(path);
        Ok(())
    }

    fn put_back(&mut self, lines: &mpsc::Sender<Vec<u8>>) -> Result<RestoredFiles, String> {
        // The errors of an earlier sandbox do not belong to this one.
        self.failed = None;
        let Some(workspace) = self.open_named()? else { return Ok(RestoredFiles::default()) };
        let view = workspace.view();
        let (bytes_max, files_max) = (self.limits.workspace_bytes_max, self.limits.workspace_files_max);
        let mut put = RestoredFiles::default();
        for (at, kept) in view.all().map_err(said)?.into_iter().enumerate() {
            // The user may have added files beyond the limits.
            if at >= files_max || put.bytes + kept.bytes > bytes_max {
                put.left_out += 1;
                continue;
            }
            let frames = view.pieces(&kept.path).map_err(said).and_then(|pieces| {
                pieces.map(|piece| piece.map(frame).map_err(said)).collect::<Result<Vec<_>, _>>()
            });
            let frames = match frames {
                Ok(frames) => frames,
                Err(reason) => {
                    tracing::warn!(reason, "a file of the workspace cannot be read");
                    put.left_out += 1;
                    continue;
                }
            };
            for frame in frames {
                lines.blocking_send(frame.to_line()).map_err(|_| "the sandbox has gone".to_owned())?;
            }
            if !kept.is_folder {
                put.files += 1;
                put.bytes += kept.bytes;
            }
        }
        Ok(put)
    }

    /// A named workspace outlives the session, so its files need no copy.
    fn hand_over(&mut self, paths: &[FilePath]) -> Vec<String> {
        let (mut kept, mut failed) = (Vec::new(), Vec::new());
        for path in paths {
            match self.keep_for_user(path) {
                Ok(()) => kept.push(path),
                Err(why) => failed.push(why),
            }
        }
        let (kind, name) = match (&self.location.name, &self.outbox.name) {
            (Some(workspace), _) => (Kind::Workspace, workspace.as_str()),
            (None, session) => (Kind::Session, session.as_ref().map_or("", |session| session.as_str())),
        };
        let mut said = Vec::new();
        match kept[..] {
            [] => {}
            [path] => said.push(format!(
                "kept for the user after this session: `{}`",
                command(kind, name, path.as_str())
            )),
            [first, ..] => said.push(format!(
                "kept for the user after this session, each by its own path: `{}`",
                command(kind, name, first.as_str())
            )),
        }
        let count = failed.len();
        failed.truncate(NOT_KEPT_NAMED_MAX);
        if count > 0 {
            let more = if count > failed.len() {
                format!("; and {} more", count - failed.len())
            } else {
                String::new()
            };
            said.push(format!("not kept for the user after this session: {}{more}", failed.join("; ")));
        }
        said
    }

    fn keep_for_user(&mut self, path: &FilePath) -> Result<(), String> {
        let in_workspace = self.look().ok_or_else(|| format!("{path}: there is no such file"))?;
        let file = in_workspace.open(path).map_err(said)?;
        let (None, Some(session)) = (&self.location.name, &self.outbox.name) else { return Ok(()) };
        let outbox = Outbox::new(self.outbox.root.clone(), &self.limits);
        let own = match &mut self.handed_over {
            Some(own) => own,
            none => none.insert(outbox.of(session).map_err(said)?),
        };
        outbox.take(own, path, file).map_err(said)
    }

    fn note_change(&mut self, path: FilePath) {
        if self.changed.len() < self.limits.workspace_files_max {
            self.changed.insert(path);
            self.has_changed.store(true, Ordering::Relaxed);
        }
    }

    fn note(&mut self, done: Result<(), String>) {
        if let Err(said) = done {
            let (_, count) = self.failed.get_or_insert((said, 0));
            *count += 1;
        }
    }
}

/// Whether a file is in a named workspace or in a session's part of the outbox.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Workspace,
    Session,
}

/// The command by which the user gets a file.
fn command(kind: Kind, name: &str, path: &str) -> String {
    // Otherwise a name that begins with a hyphen would be an option.
    let hyphens = if path.starts_with('-') { "-- " } else { "" };
    let path = format!("{hyphens}{}", text::shell_word(path, SAID_CHARS_MAX));
    match kind {
        Kind::Workspace => format!("belljar files --workspace {name} get {path}"),
        Kind::Session => format!("belljar files --session {} get {path}", Sessions::short(name)),
    }
}

fn frame(piece: Piece) -> ToSupervisor {
    ToSupervisor::File(FilePiece {
        path: piece.path.as_str().to_owned(),
        folder: piece.is_folder,
        executable: piece.is_executable,
        modified_us: piece.modified_us,
        offset: piece.offset,
        base64: STANDARD.encode(&piece.bytes),
        last: piece.is_last,
    })
}

fn said(error: impl std::fmt::Display) -> String {
    text::bounded(&text::inert_line(&error.to_string()), SAID_CHARS_MAX).into_owned()
}
