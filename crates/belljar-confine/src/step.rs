//! The steps of a process that confines itself, and the report of the one that failed.

#[cfg(target_os = "linux")]
use std::os::fd::RawFd;

use serde::{Deserialize, Serialize};

/// Folders of the machine with programs and their data, which confined processes see read-only. All except the first
/// are mostly links into it.
pub const PROGRAM_FOLDERS: [&str; 8] =
    ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc/alternatives"];

/// A failed step, after which nothing was started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepFailure {
    /// What the process could not do.
    pub could_not: String,
    /// The reason.
    pub why: String,
    /// The system's error number, if there is one.
    pub errno: Option<i32>,
    /// What kind of step it is.
    pub kind: StepKind,
}

/// What a step needs of the machine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum StepKind {
    /// The machine must let processes make namespaces, and change in them what every confined process changes: its root
    /// and its host name.
    Namespaces,
    /// The step needs something else, which can be files that others control, such as a server's package.
    #[default]
    Other,
}

/// Longest path in the description of a step, in characters, escapes included.
#[cfg(target_os = "linux")]
const PATH_CHARS_MAX: usize = 200;

/// A path for the description of a step. A package can have chosen the path, so it is quoted: nobody can take it for a
/// part of the sentence.
#[cfg(target_os = "linux")]
pub(super) fn quoted(path: &str) -> String {
    let escaped = path.escape_debug().to_string();
    if escaped.chars().nth(PATH_CHARS_MAX).is_none() {
        return format!("\"{escaped}\"");
    }
    let shown: String = escaped.chars().take(PATH_CHARS_MAX - 1).collect();
    format!("\"{}…\"", shown.trim_end_matches('\\'))
}

/// The result of a step, to which a name can be added for the case that it failed.
pub trait Step<T> {
    /// Adds the step's name, worded to follow "a process could not".
    ///
    /// # Errors
    /// The step's own.
    fn step(self, could_not: impl Into<String>) -> Result<T, StepFailure>;

    /// As [`Self::step`], of a step of [`StepKind::Namespaces`].
    ///
    /// # Errors
    /// The step's own.
    fn namespace_step(self, could_not: impl Into<String>) -> Result<T, StepFailure>
    where
        Self: Sized,
    {
        self.step(could_not).map_err(|failed| StepFailure { kind: StepKind::Namespaces, ..failed })
    }
}

impl<T> Step<T> for std::io::Result<T> {
    fn step(self, could_not: impl Into<String>) -> Result<T, StepFailure> {
        self.map_err(|error| StepFailure {
            could_not: could_not.into(),
            why: error.to_string(),
            errno: error.raw_os_error(),
            kind: StepKind::Other,
        })
    }
}

impl<T> Step<T> for nix::Result<T> {
    fn step(self, could_not: impl Into<String>) -> Result<T, StepFailure> {
        self.map_err(std::io::Error::from).step(could_not)
    }
}

/// Checks that this process is the first one of a PID namespace, as belljar starts it. Any other process would change
/// the mounts and the host name of the machine.
///
/// # Errors
/// It is not.
#[cfg(target_os = "linux")]
pub fn is_first_process() -> Result<(), StepFailure> {
    let is_first = std::process::id() == 1;
    is_first.then_some(()).ok_or(nix::errno::Errno::EPERM).step("find itself in namespaces of its own")
}

/// Closes all descriptors except the standard streams, so that files of the bridge are not passed on.
///
/// # Errors
/// The system has no list of them.
#[cfg(target_os = "linux")]
pub fn close_others() -> std::io::Result<()> {
    let numbers: Vec<RawFd> = std::fs::read_dir("/proc/self/fd")?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|number| *number > 2)
        .collect();
    for number in numbers {
        // The descriptor that listed the folder is closed already.
        let _closed = nix::unistd::close(number);
    }
    Ok(())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_path_ends_where_its_quotes_end() {
        assert_eq!(quoted("/srv/a b"), r#""/srv/a b""#);
        assert_eq!(quoted("/x\": it is safe\n\u{202e}"), r#""/x\": it is safe\n\u{202e}""#);
        let long = quoted(&format!("/{}", "\"".repeat(300)));
        assert_eq!(long, format!("\"/{}…\"", "\\\"".repeat(99)));
    }
}
