//! The keeper, from the bridge's side: how a server is started below one.
//!
//! A keeper is a process between the bridge and a server; `subreaper` is its own side. Where the system has no
//! subreapers servers are started without one, and only their process groups are ended.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use nix::sys::signal::Signal;

use crate::confine::Failed;

/// The exit code of a keeper whose program could not be started, as shells have it; its stderr says why.
pub(super) const NOT_STARTED: u8 = 127;
pub(super) const NOT_STARTED_WORDS: &str = "belljar keep: os error ";
/// The same of a program that could not be confined.
pub(super) const NOT_CONFINED: u8 = 126;
pub(super) const NOT_CONFINED_WORDS: &str = "belljar keep: not confined: ";

/// Starts keepers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keeper {
    program: PathBuf,
}

impl Keeper {
    /// Ends everything below the keeper at once; other endings are for the server, and left to it.
    pub const AT_ONCE: Signal = Signal::SIGQUIT;

    /// With the program that has this mode, on systems that have subreapers.
    #[must_use]
    pub fn new(program: PathBuf) -> Option<Self> {
        cfg!(target_os = "linux").then_some(Self { program })
    }

    /// A command that starts the program below a keeper, confined if there is a plan for it. Its stderr must be a pipe that
    /// the bridge reads.
    #[must_use]
    pub fn command(&self, program: &Path, plan: Option<&str>) -> Command {
        let mut command = Command::new(&self.program);
        command.arg0("belljar").arg("keep");
        if let Some(plan) = plan {
            command.args(["--confine", plan]);
        }
        command.arg("--").arg(program);
        command
    }

    /// Why the program below the keeper could not be started, when that is how the keeper ended.
    #[must_use]
    pub fn not_started(status: ExitStatus, stderr: &str) -> Option<NotStarted> {
        let said = |code: u8, words: &str| {
            (status.code() == Some(code.into())).then(|| Some(stderr.rsplit_once(words)?.1.trim())).flatten()
        };
        if let Some(failed) = said(NOT_CONFINED, NOT_CONFINED_WORDS) {
            return serde_json::from_str(failed).ok().map(NotStarted::Confinement);
        }
        let number = said(NOT_STARTED, NOT_STARTED_WORDS)?.parse().ok()?;
        Some(NotStarted::Program(std::io::Error::from_raw_os_error(number)))
    }
}

/// Why a keeper has started no server.
#[derive(Debug)]
pub enum NotStarted {
    /// Its program could not be started.
    Program(std::io::Error),
    /// It could not be confined.
    Confinement(Failed),
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    #[test]
    fn a_program_that_could_not_be_started_is_told_from_one_that_ended() {
        let status = |code: i32| ExitStatus::from_raw(code << 8);
        let Some(NotStarted::Program(error)) = Keeper::not_started(status(127), "belljar keep: os error 2\n")
        else {
            panic!()
        };
        assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
        let said = "belljar keep: not confined: {\"could_not\":\"a\",\"why\":\"b\",\"errno\":1}\n";
        let Some(NotStarted::Confinement(failed)) = Keeper::not_started(status(126), said) else { panic!() };
        assert_eq!(failed.could_not, "a");
        assert!(Keeper::not_started(status(127), "sh: lost: not found\n").is_none());
        assert!(Keeper::not_started(status(1), "belljar keep: os error 2\n").is_none());
    }
}
