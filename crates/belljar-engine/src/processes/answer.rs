//! The answers to the bridge from the process that becomes a sandbox.

use std::io::Write;

use belljar_confine::StepFailure;

/// Writes a line to the bridge.
pub(super) fn say(line: &str) -> std::io::Result<()> {
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{line}")?;
    stdout.flush()
}

/// Says that a step has failed.
pub(super) fn tell(failed: &StepFailure) {
    // If the bridge is gone, nobody reads the line.
    drop(serde_json::to_string(failed).map_err(std::io::Error::other).and_then(|line| say(&line)));
}
