//! What is asked of a session.

use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::broker::{Origin, Question};
use crate::journal::RecordedSession;
use crate::names::RunId;
use crate::run::{ClientAbilities, OutputPiece, Progress, RunReport, RunRequest, ToolFault};

/// What the session's task is asked for, and who waits for it.
pub(super) enum Ask {
    /// A run.
    Run(RunAsked, oneshot::Sender<Ended>),
    /// A snapshot of the workspace.
    Snapshot(Snapshot, oneshot::Sender<SnapshotEnd>),
}

/// What is done with the files of the workspace around runs that are made once more.
#[derive(Debug)]
pub enum Snapshot {
    /// The files are copied.
    Take,
    /// The files become what they were in the copy, and the named checkpoints are removed.
    Restore {
        /// Their names.
        forget: Vec<String>,
    },
}

/// The inner error: why it failed. The outer one: why there is no sandbox for it.
pub type SnapshotEnd = Result<Result<(), String>, ToolFault>;

/// What comes of a run.
pub struct Ended {
    /// Its number.
    pub run: RunId,
    /// Its report.
    pub report: RunReport,
    /// The session that its code asks to resume, and the last run of it that counts.
    pub resumes: Option<(RecordedSession, u64)>,
}

/// A run that is asked for, and who waits for it.
pub struct RunAsked {
    /// What to run.
    pub request: RunRequest,
    /// The client's cancellation.
    pub cancel: CancellationToken,
    /// Hears of the run's progress; what does not fit is left out. Closed, nobody wants to hear of it.
    pub progress: mpsc::Sender<Progress>,
    /// Hears what the run writes, as it comes; what does not fit is left out.
    pub output: Option<mpsc::Sender<OutputPiece>>,
    /// Takes what the human is asked while the run waits; closed, nobody can be asked.
    pub questions: mpsc::Sender<Question>,
    /// What the client can do for servers.
    pub abilities: ClientAbilities,
    /// Who asks, in their own words: for the journal.
    pub client: String,
    /// Where the run comes from.
    pub origin: Origin,
}

impl RunAsked {
    /// A run that nobody watches, and during which nobody can be asked.
    #[must_use]
    pub fn unattended(request: RunRequest, cancel: CancellationToken, client: &str, origin: Origin) -> Self {
        Self {
            request,
            cancel,
            progress: mpsc::channel(1).0,
            output: None,
            questions: mpsc::channel(1).0,
            abilities: ClientAbilities::default(),
            client: client.to_owned(),
            origin,
        }
    }
}
