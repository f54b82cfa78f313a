//! The requests to a session.

use belljar_base::names::RunId;
use belljar_base::run::{ClientAbilities, OutputPiece, Progress, RunReport, RunRequest, ToolFault};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::broker::{Origin, Question};
use crate::journal::RecordedSession;

/// A request to the task of the session, with the channel for its answer.
pub(super) enum SessionRequest {
    /// A run to execute.
    Run(RunSubmission, oneshot::Sender<FinishedRun>),
    /// A snapshot to take or restore.
    Snapshot(Snapshot, oneshot::Sender<SnapshotEnd>),
    /// Whether the interpreter with the variables of earlier runs was lost.
    IsLost(oneshot::Sender<bool>),
}

/// An operation on the files of the workspace, before and after a replay of runs.
#[derive(Debug)]
pub enum Snapshot {
    /// The files are copied.
    Take,
    /// The files are restored from the copy, and the named checkpoints are removed.
    Restore {
        /// The names of the checkpoints.
        forget: Vec<String>,
    },
}

/// The result of a snapshot. The inner error tells why it failed, the outer one why there is no sandbox for it.
pub type SnapshotEnd = Result<Result<(), String>, ToolFault>;

/// A run that has ended, with its report.
pub struct FinishedRun {
    /// The number of the run.
    pub run: RunId,
    /// The report.
    pub report: RunReport,
    /// The session that the code of the run asks to resume, and the last run of it to replay.
    pub resumes: Option<(RecordedSession, u64)>,
}

/// A run that a client submits, with the channels to that client.
pub struct RunSubmission {
    /// The code and its options.
    pub request: RunRequest,
    /// The client's cancellation.
    pub cancel: CancellationToken,
    /// Receives the progress of the run. Messages that do not fit are dropped. A closed channel means that nobody
    /// follows it.
    pub progress: mpsc::Sender<Progress>,
    /// Receives the output of the run as it comes. Pieces that do not fit are dropped.
    pub output: Option<mpsc::Sender<OutputPiece>>,
    /// Receives the questions to the human. A closed channel means that nobody can be asked.
    pub questions: mpsc::Sender<Question>,
    /// The abilities of the client that servers may use.
    pub abilities: ClientAbilities,
    /// The name of the client, for the journal.
    pub client: String,
    /// The origin of the run.
    pub origin: Origin,
}

impl RunSubmission {
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
