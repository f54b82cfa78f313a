//! What is asked of a session.

use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::broker::Question;
use crate::names::RunId;
use crate::run::{OutputPiece, RunReport, RunRequest};

/// A run, and who waits for its report.
pub(super) type Ask = (RunAsked, oneshot::Sender<(RunId, RunReport)>);

/// A run that is asked for, and who waits for it.
pub struct RunAsked {
    /// What to run.
    pub request: RunRequest,
    /// The client's cancellation.
    pub cancel: CancellationToken,
    /// Hears of the run's progress; what does not fit is left out.
    pub progress: mpsc::Sender<Progress>,
    /// Hears what the run writes, as it comes; what does not fit is left out.
    pub output: Option<mpsc::Sender<OutputPiece>>,
    /// Takes what the human is asked while the run waits; closed, nobody can be asked.
    pub questions: mpsc::Sender<Question>,
}

/// What happens in a run while it goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// The code is executing.
    Started,
    /// A tool is called, or has answered.
    Call {
        /// `server.tool`.
        tool: String,
        /// Calls of this run that have ended.
        answered: usize,
        /// All calls of this run so far.
        made: usize,
    },
}
