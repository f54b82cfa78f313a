//! How the process that becomes a sandbox tells the bridge which step has failed.

use std::io::Write;
use std::os::fd::RawFd;

use super::plan::Failed;

/// A result of a step, which names the step if it fails.
pub(super) trait Step<T> {
    fn step(self, could_not: impl Into<String>) -> Result<T, Failed>;
}

impl<T> Step<T> for std::io::Result<T> {
    fn step(self, could_not: impl Into<String>) -> Result<T, Failed> {
        self.map_err(|error| Failed {
            could_not: could_not.into(),
            why: error.to_string(),
            errno: error.raw_os_error(),
        })
    }
}

impl<T> Step<T> for nix::Result<T> {
    fn step(self, could_not: impl Into<String>) -> Result<T, Failed> {
        self.map_err(std::io::Error::from).step(could_not)
    }
}

/// Says a line to the bridge.
pub(super) fn say(line: &str) -> std::io::Result<()> {
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{line}")?;
    stdout.flush()
}

/// Says that a step has failed.
pub(super) fn tell(failed: &Failed) {
    // Nobody may be left to hear it.
    drop(serde_json::to_string(failed).map_err(std::io::Error::other).and_then(|line| say(&line)));
}

/// Closes all descriptors but the standard streams: what the bridge was started with is none of the sandbox's.
pub(super) fn close_others() -> std::io::Result<()> {
    let numbers: Vec<RawFd> = std::fs::read_dir("/proc/self/fd")?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|number| *number > 2)
        .collect();
    for number in numbers {
        // The one that listed the folder is closed already.
        let _closed = nix::unistd::close(number);
    }
    Ok(())
}
