//! The reasons why a command failed, and their exit codes.

use std::process::ExitCode;

use belljar_base::text;

use super::printing::err;

/// The exit code for wrong usage, as clap has it.
pub(crate) const USAGE: u8 = 2;

/// The reason why a command did nothing, or not everything.
pub(crate) enum Failure {
    /// The command line is wrong.
    Usage(String),
    /// The command line is right, but the command failed.
    Failed(String),
}

/// A failure with the text of this error.
pub(crate) fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::Failed(text::inert_line(&error.to_string()))
}

/// Prints the failure, if there is one, and returns the exit code.
pub(crate) fn told(done: Result<(), Failure>) -> ExitCode {
    let (message, code) = match done {
        Ok(()) => return ExitCode::SUCCESS,
        Err(Failure::Usage(message)) => (message, ExitCode::from(USAGE)),
        Err(Failure::Failed(message)) => (message, ExitCode::FAILURE),
    };
    err!("belljar: {message}");
    code
}
