//! What is asked of a session.

use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::broker::Question;
use crate::names::RunId;
use crate::run::{ClientAbilities, OutputPiece, Progress, RunReport, RunRequest};

/// A run, and who waits for its report.
pub(super) type Ask = (RunAsked, oneshot::Sender<(RunId, RunReport)>);

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
}
