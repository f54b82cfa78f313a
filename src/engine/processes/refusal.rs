//! The error for a process that could not confine itself as a sandbox.

use super::super::error::EngineError;
use crate::confine::{StepFailure, remedy};

const ELSE: &str = "use Podman or Docker: `sudo apt-get install podman` (or your distribution's way)";

/// The error for the failed step, with the remedy on this machine.
pub(super) fn unconfined(failed: &StepFailure) -> EngineError {
    let StepFailure { could_not, why, .. } = failed;
    EngineError::Unconfined {
        what: format!("a process could not {could_not}: {why}"),
        remedy: remedy(failed).map_or_else(|| ELSE.to_owned(), |found| format!("{found}; or {ELSE}")),
    }
}
