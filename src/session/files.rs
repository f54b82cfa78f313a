//! The workspace's files between the sandbox and the host: what a sandbox tells of them is kept, what is kept is put into
//! the next one.
//!
//! One thread owns the workspace; the session's task never waits for the disk, except where the disk is slower than the
//! sandbox tells.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::limits::Limits;
use crate::protocol::{FilePiece, ToSupervisor};
use crate::text;
use crate::workspace::{FilePath, Piece, Place, Workspace};

/// Jobs that may wait; a piece is below a megabyte.
const JOBS_QUEUED_MAX: usize = 8;
/// Longest part of a report on one file, in characters.
const SAID_CHARS_MAX: usize = 300;

/// What the thread is asked for.
enum Job {
    /// A piece of a file has come.
    Piece(Box<FilePiece>),
    /// A file has gone.
    Gone(String),
    /// All was told: answers with what could not be kept.
    Kept(oneshot::Sender<Option<String>>),
    /// Sends the pieces of all files, and answers with how many files there were.
    PutBack(mpsc::Sender<Vec<u8>>, oneshot::Sender<Result<PutBack, String>>),
}

/// What was put into a sandbox.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct PutBack {
    /// Files; folders are not counted.
    pub(super) files: usize,
    /// Their bytes.
    pub(super) bytes: u64,
}

impl PutBack {
    /// A sentence on it, unless there was nothing.
    pub(super) fn said(self) -> Option<String> {
        let Self { files, bytes } = self;
        let files = match files {
            0 => return None,
            1 => "its one file".to_owned(),
            _ => format!("its {files} files"),
        };
        Some(format!("/workspace has {files} again, {bytes} bytes"))
    }
}

/// The workspace of this session.
#[derive(Debug, Clone)]
pub(super) struct Files {
    jobs: mpsc::Sender<Job>,
}

impl Files {
    /// Begins; the workspace is opened when it is first used. The task ends when nobody holds this any more.
    pub(super) fn start(place: Place, limits: &Arc<Limits>) -> (Self, JoinHandle<()>) {
        let (jobs, inbox) = mpsc::channel(JOBS_QUEUED_MAX);
        let limits = Arc::clone(limits);
        let task = tokio::task::spawn_blocking(move || Keeper::new(place, limits).work(inbox));
        (Self { jobs }, task)
    }

    /// Takes in a piece that the sandbox has sent.
    pub(super) async fn piece(&self, piece: FilePiece) {
        self.ask(Job::Piece(Box::new(piece))).await;
    }

    /// A file has gone from the sandbox.
    pub(super) async fn gone(&self, path: String) {
        self.ask(Job::Gone(path)).await;
    }

    /// Answers when everything before is on the disk, with what could not be kept of it.
    pub(super) async fn kept(&self) -> oneshot::Receiver<Option<String>> {
        let (reply, answer) = oneshot::channel();
        self.ask(Job::Kept(reply)).await;
        answer
    }

    /// Sends all files that are kept as frames, over a queue of lines.
    pub(super) async fn put_back(&self, lines: mpsc::Sender<Vec<u8>>) -> Result<PutBack, String> {
        let (reply, answer) = oneshot::channel();
        self.ask(Job::PutBack(lines, reply)).await;
        answer.await.unwrap_or_else(|_| Err("what keeps the files has broken".into()))
    }

    async fn ask(&self, job: Job) {
        if self.jobs.send(job).await.is_err() {
            tracing::error!("what keeps the files of the workspace has broken");
        }
    }
}

/// The thread's own.
struct Keeper {
    place: Place,
    limits: Arc<Limits>,
    workspace: Option<Workspace>,
    /// What went wrong first since the last `kept`, and how many things did.
    failed: Option<(String, usize)>,
}

impl Keeper {
    fn new(place: Place, limits: Arc<Limits>) -> Self {
        Self { place, limits, workspace: None, failed: None }
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
                    let checked = self.open().and_then(|workspace| workspace.check().map_err(said));
                    self.note(checked);
                    let failed = self.failed.take().map(|(first, count)| match count {
                        1 => first,
                        _ => format!("{first}, and {} more", count - 1),
                    });
                    if reply.send(failed).is_err() {
                        tracing::debug!("nobody waits any more for the files to be kept");
                    }
                }
                Job::PutBack(lines, reply) => {
                    if reply.send(self.put_back(&lines)).is_err() {
                        tracing::debug!("nobody waits any more for the files to be put back");
                    }
                }
            }
        }
    }

    fn open(&mut self) -> Result<&mut Workspace, String> {
        if self.workspace.is_none() {
            self.workspace = Some(Workspace::open(&self.place, &self.limits).map_err(said)?);
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
        self.open()?.take(&piece).map_err(said)
    }

    fn remove(&mut self, path: &str) -> Result<(), String> {
        let path = FilePath::new(path).map_err(said)?;
        self.open()?.remove(&path).map_err(said)
    }

    fn put_back(&mut self, lines: &mpsc::Sender<Vec<u8>>) -> Result<PutBack, String> {
        if self.workspace.is_none() && self.place.name.is_none() {
            // A new session's has no files, and needs no folder before it has.
            return Ok(PutBack::default());
        }
        let workspace = self.open()?;
        workspace.check().map_err(said)?;
        let mut put = PutBack::default();
        for kept in workspace.all().map_err(said)? {
            for piece in workspace.pieces(&kept.path).map_err(said)? {
                let piece = piece.map_err(|error| format!("{}: {error}", kept.path))?;
                let frame = ToSupervisor::File(FilePiece {
                    path: piece.path.as_str().to_owned(),
                    folder: piece.is_folder,
                    executable: piece.is_executable,
                    modified_us: piece.modified_us,
                    offset: piece.offset,
                    base64: STANDARD.encode(&piece.bytes),
                    last: piece.is_last,
                });
                lines.blocking_send(frame.to_line()).map_err(|_| "the sandbox has gone".to_owned())?;
            }
            if !kept.is_folder {
                put.files += 1;
                put.bytes += kept.bytes;
            }
        }
        Ok(put)
    }

    fn note(&mut self, done: Result<(), String>) {
        if let Err(said) = done {
            let (_, count) = self.failed.get_or_insert_with(|| (said, 0));
            *count += 1;
        }
    }
}

fn said(error: impl std::fmt::Display) -> String {
    text::bounded(&text::inert_line(&error.to_string()), SAID_CHARS_MAX).into_owned()
}
