//! Whether a run is an error, its status word and its exit code.

use belljar_base::run::{RunOutcome, RunReport, SandboxLoss};

/// The kind of a reply: a success, or an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It ran to its end.
    Success,
    /// It did not, or was never begun.
    Error,
}

/// Whether a report is an error.
pub(super) fn verdict(report: &RunReport) -> Verdict {
    match report.outcome {
        RunOutcome::Finished | RunOutcome::Exited { exit_code: 0 } => Verdict::Success,
        _ => Verdict::Error,
    }
}

/// The status word.
pub(super) fn status(report: &RunReport) -> &'static str {
    match (&report.outcome, verdict(report)) {
        (RunOutcome::TimedOut { .. }, _) => "timeout",
        (_, Verdict::Success) => "success",
        (_, Verdict::Error) => "error",
    }
}

/// The exit code that a script of this outcome would have had, where it would have had one.
pub(super) fn exit_code(report: &RunReport) -> Option<i64> {
    match &report.outcome {
        RunOutcome::Finished => Some(0),
        RunOutcome::Raised(_) => Some(1),
        RunOutcome::Exited { exit_code } | RunOutcome::SandboxLost(SandboxLoss::Exited { exit_code }) => {
            Some(*exit_code)
        }
        RunOutcome::SandboxLost(SandboxLoss::Killed { signal, .. }) => Some(128 + signal),
        RunOutcome::TimedOut { .. }
        | RunOutcome::Interrupted
        | RunOutcome::NotStarted(_)
        | RunOutcome::SandboxLost(SandboxLoss::OverLimit { .. } | SandboxLoss::Container { .. }) => None,
    }
}
