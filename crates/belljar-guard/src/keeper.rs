//! The keeper, from the bridge's side: how a server is started below one.
//!
//! A keeper is a process between the bridge and a server; `subreaper` is its own side. Where the system has no
//! subreapers servers are started without one, and only their process groups are ended.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use belljar_confine::StepFailure;
use nix::sys::signal::Signal;

use super::mark::{Mark, PARENT_VARIABLE};

/// The exit code of a keeper whose program could not be started, as shells have it; its stderr says why.
pub(super) const NOT_STARTED: u8 = 127;
pub(super) const NOT_STARTED_WORDS: &str = "os error ";
/// The same of a program that could not be confined.
pub(super) const NOT_CONFINED: u8 = 126;
pub(super) const NOT_CONFINED_WORDS: &str = "not confined: ";
/// What the name of each variable of a confined server begins with while its keeper has it. The dynamic linker and the
/// libraries of the keeper itself, which is not confined, then do not know them.
pub(super) const FOR_SERVER: &str = "SERVER:";

/// Starts keepers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keeper {
    program: PathBuf,
}

/// What a keeper says of itself begins with this word, which the server does not know: the server writes to the same
/// stderr, and ends with any exit code.
#[derive(Debug)]
pub struct Token(String);

impl Keeper {
    /// Ends everything below the keeper at once; other endings are for the server, and left to it.
    pub const AT_ONCE: Signal = Signal::SIGQUIT;

    /// With the program that has this mode, on systems that have subreapers.
    #[must_use]
    pub fn new(program: PathBuf) -> Option<Self> {
        cfg!(target_os = "linux").then_some(Self { program })
    }

    /// A command that starts the program below a keeper. Its stderr must be a pipe that the bridge reads.
    #[must_use]
    pub fn command(&self, program: &Path) -> (Command, Token) {
        self.keep(&[], program)
    }

    /// A command that starts the program confined by that plan, with these variables. They and the folder of the plan are the
    /// server's: the keeper itself runs with neither. Its stderr must be a pipe that the bridge reads.
    #[must_use]
    pub fn confined(
        &self,
        program: &Path,
        plan: &str,
        variables: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> (Command, Token) {
        let (mut command, token) = self.keep(&["--confine", plan], program);
        command.env_clear().current_dir("/");
        for (name, value) in variables {
            // By its mark the guardian finds the keeper, too.
            if name == PARENT_VARIABLE {
                command.env(PARENT_VARIABLE, &value);
            }
            let mut hidden = OsString::from(FOR_SERVER);
            hidden.push(name);
            command.env(hidden, value);
        }
        (command, token)
    }

    fn keep(&self, options: &[&str], program: &Path) -> (Command, Token) {
        let token = Token(Mark::new().as_str().to_owned());
        let mut command = Command::new(&self.program);
        let bridge = std::process::id().to_string();
        command.arg0("belljar").args(["keep", "--bridge", &bridge, "--token", &token.0]);
        command.args(options).arg("--").arg(program);
        (command, token)
    }

    /// Why the program below the keeper could not be started, when that is how the keeper ended.
    #[must_use]
    pub fn not_started(status: ExitStatus, stderr: &str, token: &Token) -> Option<KeepError> {
        let said = |code: u8, words: &str| {
            let begin = format!("{} {words}", token.0);
            (status.code() == Some(code.into())).then(|| Some(stderr.rsplit_once(&begin)?.1.trim())).flatten()
        };
        if let Some(failed) = said(NOT_CONFINED, NOT_CONFINED_WORDS) {
            return serde_json::from_str(failed).ok().map(KeepError::Confinement);
        }
        let number = said(NOT_STARTED, NOT_STARTED_WORDS)?.parse().ok()?;
        Some(KeepError::Program(std::io::Error::from_raw_os_error(number)))
    }
}

/// Why a keeper has started no server.
#[derive(Debug)]
pub enum KeepError {
    /// Its program could not be started.
    Program(std::io::Error),
    /// It could not be confined.
    Confinement(StepFailure),
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    #[test]
    fn a_program_that_could_not_be_started_is_told_from_one_that_ended() {
        let status = |code: i32| ExitStatus::from_raw(code << 8);
        let token = Token("0123".to_owned());
        let reason = |code, said: &str| Keeper::not_started(status(code), said, &token);
        let Some(KeepError::Program(error)) = reason(127, "0123 os error 2\n") else { panic!() };
        assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
        let said = "0123 not confined: {\"could_not\":\"a\",\"why\":\"b\",\"errno\":1,\"kind\":\"Other\"}\n";
        let Some(KeepError::Confinement(failed)) = reason(126, said) else { panic!() };
        assert_eq!(failed.could_not, "a");
        assert!(reason(127, "sh: lost: not found\n").is_none());
        assert!(reason(1, "0123 os error 2\n").is_none());
        // A server does not know the token.
        assert!(reason(126, &said.replace("0123", "0124")).is_none());
    }

    #[test]
    fn variables_of_a_confined_server_are_hidden_from_its_keeper() {
        let keeper = Keeper { program: "/belljar".into() };
        let variables = [("LD_PRELOAD", "./x.so"), (PARENT_VARIABLE, "7")];
        let variables = variables.map(|(name, value)| (name.into(), value.into()));
        let (command, _) = keeper.confined(Path::new("server"), "{}", variables);
        let names: Vec<_> = command.get_envs().map(|(name, _)| name.to_str().unwrap().to_owned()).collect();
        assert_eq!(names, [PARENT_VARIABLE, &format!("SERVER:{PARENT_VARIABLE}"), "SERVER:LD_PRELOAD"]);
        assert_eq!(command.get_current_dir(), Some(Path::new("/")));
    }
}
