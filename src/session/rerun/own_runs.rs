//! What the bridge runs in the sandbox for itself, before and after earlier runs are made once more.

use crate::run::{FaultCode, Reset, RunOutcome, RunReport, ToolFault};
use crate::session::request::{Asker, Snapshot};
use crate::session::turn::Turn;
use crate::text;

/// Longest name in a sentence, in characters.
const NAME_CHARS_MAX: usize = 64;
/// Longest reason of a failure, in characters.
const WHY_CHARS_MAX: usize = 300;

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
pub(super) async fn begin_at(turn: &mut Turn, name: &str, asker: &Asker) -> Result<RunReport, ToolFault> {
    let code = format!("# back to checkpoint {:?}", text::inert_excerpt(name, NAME_CHARS_MAX));
    let asked = asker.asked(code, Reset::Checkpoint(name.to_owned()), false);
    let report = turn.run(asked).await?.report;
    match report.outcome {
        RunOutcome::NotStarted(fault) => Err(fault),
        _ => Ok(report),
    }
}

/// What was said of a run of belljar's own; the inner error: why it failed, the outer one: why it never began.
pub(super) fn done(report: RunReport) -> Result<Result<Vec<String>, String>, ToolFault> {
    match report.outcome {
        RunOutcome::NotStarted(fault) => Err(fault),
        RunOutcome::Finished => Ok(Ok(report.notes)),
        RunOutcome::Raised(error) => Ok(Err(error.message)),
        other => Ok(Err(other.word().to_owned())),
    }
}
