//! What the bridge runs in the sandbox for itself, before and after earlier runs are made once more.

use crate::run::{FaultCode, Reset, RunOutcome, RunReport, ToolFault};
use crate::session::request::Asker;
use crate::session::turn::Turn;
use crate::text;

/// Longest name in a sentence, in characters.
const NAME_CHARS_MAX: usize = 64;
/// In the sandbox, what puts the files of the workspace aside, and back as they were.
pub(super) const ASIDE: &str =
    "__import__('belljar_sandbox.worker.workspace_snapshot').worker.workspace_snapshot";

/// The files of the workspace, before earlier runs are made once more; the inner error: why not.
pub(super) async fn put_files_aside(turn: &mut Turn, asker: &Asker) -> Result<Result<(), String>, ToolFault> {
    let asked = asker.asked(format!("{ASIDE}.put_aside()"), Reset::No, true);
    Ok(done(turn.run(asked).await?.report)?.map(drop))
}

/// As they were.
pub(super) async fn put_files_back(turn: &mut Turn, asker: &Asker) -> Result<(), ToolFault> {
    let asked = asker.asked(format!("{ASIDE}.put_back()"), Reset::No, false);
    put_back(turn.run(asked).await?.report)
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

pub(super) fn put_back(report: RunReport) -> Result<(), ToolFault> {
    done(report)?.map(drop).map_err(|why| {
        let said = format!("files of /workspace could not be put back as they were: {why}");
        ToolFault::new(FaultCode::SandboxUnavailable, said)
            .hint("they are kept by belljar: `belljar files get`")
    })
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
