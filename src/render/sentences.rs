//! Facts of a report in one sentence each: what went wrong, what helps, what became of the variables.

use std::borrow::Cow;

use belljar_base::run::{FreshReason, RunOutcome, RunReport, SandboxLoss, StateNote};

/// What helps after an outcome that is not the code's own error.
pub(super) fn hint_of(outcome: &RunOutcome) -> Option<Cow<'_, str>> {
    match outcome {
        RunOutcome::NotStarted(fault) => Some(Cow::from(&fault.hint)).filter(|hint| !hint.is_empty()),
        RunOutcome::TimedOut { after, at_most } => {
            let longer = match after < at_most {
                true => format!("a run may ask for a timeout of up to {} s; ", at_most.as_secs_f64()),
                false => String::new(),
            };
            Some(format!("{longer}longer work goes on beside other runs as a job: runtime.spawn(f)").into())
        }
        _ => None,
    }
}

/// What went wrong in one line, or nothing.
pub(super) fn error_line(outcome: &RunOutcome) -> Option<String> {
    Some(match outcome {
        RunOutcome::Finished | RunOutcome::Exited { exit_code: 0 } => return None,
        RunOutcome::Raised(raised) if raised.message.is_empty() => raised.class.clone(),
        RunOutcome::Raised(raised) => format!("{}: {}", raised.class, raised.message),
        RunOutcome::Exited { exit_code } => format!("SystemExit({exit_code})"),
        RunOutcome::TimedOut { after, .. } => {
            format!("Execution timed out after {}s", after.as_secs_f64())
        }
        RunOutcome::Interrupted => "Execution was cancelled".to_owned(),
        RunOutcome::SandboxLost(SandboxLoss::Exited { exit_code }) => {
            format!("the interpreter exited ({exit_code}) in the middle of the run")
        }
        RunOutcome::SandboxLost(SandboxLoss::Killed { out_of_memory: true, .. }) => {
            "the interpreter was killed because the sandbox ran out of memory".to_owned()
        }
        RunOutcome::SandboxLost(SandboxLoss::Killed { signal, .. }) => {
            format!("the interpreter was killed by signal {signal}")
        }
        RunOutcome::SandboxLost(SandboxLoss::OverLimit { exceeded }) => {
            format!("the interpreter was ended: {exceeded}")
        }
        RunOutcome::SandboxLost(SandboxLoss::Container { reason }) => {
            format!("the sandbox went away: {reason}")
        }
        RunOutcome::NotStarted(fault) => fault.message.clone(),
    })
}

/// What became of the variables, when the reader could take it to be otherwise.
pub(super) fn change(report: &RunReport) -> Option<String> {
    let is_done = matches!(report.outcome, RunOutcome::Finished | RunOutcome::Exited { exit_code: 0 });
    let sentence = match report.state {
        _ if matches!(report.outcome, RunOutcome::NotStarted(_)) => return None,
        StateNote::Kept | StateNote::Fresh(FreshReason::First) if is_done => return None,
        StateNote::Kept | StateNote::Fresh(FreshReason::First) => "variables kept",
        StateNote::Fresh(FreshReason::Reset) => "fresh interpreter, as requested by reset",
        StateNote::Fresh(FreshReason::IdleStop) => {
            "fresh interpreter: the sandbox had been stopped for being idle; earlier variables are gone"
        }
        StateNote::Fresh(FreshReason::NewSession) => "new session: variables of earlier ones are gone",
        StateNote::Fresh(FreshReason::Lost) => {
            "fresh interpreter: the previous one was lost; earlier variables are gone"
        }
        StateNote::RolledBack => "variables as before this run",
        StateNote::RolledBackFurther => "variables as after an earlier run; what later runs changed is gone",
        StateNote::Restored => "variables as at the checkpoint",
        StateNote::Lost => "variables lost; the next run starts with a fresh interpreter",
    };
    Some(format!("state: {sentence}"))
}
