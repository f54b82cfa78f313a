//! What the bridge runs in the sandbox for itself, before and after earlier runs are made once more.

use std::time::Duration;

use belljar_base::run::{
    FaultCode, Progress, Reset, RunOutcome, RunReport, RunRequest, ServerScope, ToolFault,
};
use belljar_base::text;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::broker::Origin;
use crate::session::{RunSubmission, Snapshot, Turn};

/// Longest name in a sentence, in characters.
const NAME_CHARS_MAX: usize = 64;
/// Longest reason of a failure, in characters.
const WHY_CHARS_MAX: usize = 300;

/// The client whose request causes earlier runs to run again.
pub(super) struct Requester {
    pub(super) client: String,
    pub(super) cancel: CancellationToken,
    pub(super) progress: mpsc::Sender<Progress>,
    timeout: Duration,
}

impl Requester {
    pub(super) fn of(asked: &RunSubmission) -> Self {
        Self {
            client: asked.client.clone(),
            cancel: asked.cancel.clone(),
            progress: asked.progress.clone(),
            timeout: asked.request.timeout,
        }
    }

    /// A run of the bridge's own.
    fn asked(&self, code: String, reset: Reset, keep_files: bool) -> RunSubmission {
        let request = RunRequest {
            code,
            servers: ServerScope::Only(vec![]),
            timeout: self.timeout,
            timeout_max: self.timeout,
            reset,
            dry_run: false,
            keep_files,
        };
        // A cancellation has its answer: it must not stand in the way of what there was before.
        RunSubmission::unattended(request, CancellationToken::new(), &self.client, Origin::Own)
    }
}

/// Copies the files of the workspace, before earlier runs are made once more; the inner error: why not.
pub(super) async fn take_snapshot(turn: &Turn) -> Result<Result<(), String>, ToolFault> {
    let taken = turn.snapshot(Snapshot::Take).await?;
    Ok(taken.map_err(|why| text::inert_excerpt(&why, WHY_CHARS_MAX)))
}

/// Makes the files what they were, and lets checkpoints of these names go.
pub(super) async fn restore_snapshot(turn: &Turn, forget: Vec<String>) -> Result<(), ToolFault> {
    turn.snapshot(Snapshot::Restore { forget }).await?.map_err(|why| {
        let why = text::inert_excerpt(&why, WHY_CHARS_MAX);
        let said = format!("files of /workspace could not be put back as they were: {why}");
        ToolFault::new(FaultCode::SandboxUnavailable, said)
            .hint("they are kept by belljar: `belljar files get`")
    })
}

/// A run that does nothing but begin there.
pub(super) async fn begin_at(
    turn: &mut Turn,
    name: &str,
    requester: &Requester,
) -> Result<RunReport, ToolFault> {
    let code = format!("# back to checkpoint {:?}", text::inert_excerpt(name, NAME_CHARS_MAX));
    let asked = requester.asked(code, Reset::Checkpoint(name.to_owned()), false);
    let report = turn.run(asked).await?.report;
    match report.outcome {
        RunOutcome::NotStarted(fault) => Err(fault),
        _ => Ok(report),
    }
}

/// Makes a checkpoint of the present state. It returns the notes of the run that made it; the inner error says why no
/// checkpoint could be made.
pub(super) async fn make_checkpoint(
    turn: &mut Turn,
    name: &str,
    requester: &Requester,
) -> Result<Result<Vec<String>, String>, ToolFault> {
    let code = format!("__import__('mcp.runtime').runtime.checkpoint({name:?});");
    let report = turn.run(requester.asked(code, Reset::No, true)).await?.report;
    match report.outcome {
        RunOutcome::NotStarted(fault) => Err(fault),
        RunOutcome::Finished => Ok(Ok(report.notes)),
        RunOutcome::Raised(error) => Ok(Err(error.message)),
        other => Ok(Err(other.word().to_owned())),
    }
}
