//! Why a command has not done what it was asked to, and the exit code that says so.

use std::process::ExitCode;

use super::printing::err;
use crate::text;

/// Bad usage, as clap's own.
pub(in crate::app) const USAGE: u8 = 2;

/// The reason for which a command did nothing, or not everything.
pub(in crate::app) enum Failure {
    /// The command cannot be meant like that.
    Usage(String),
    /// It can, and did not work.
    Failed(String),
}

/// What did not work, in words that may be shown.
pub(in crate::app) fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::Failed(text::inert_line(&error.to_string()))
}

/// Says what has failed, if anything has.
pub(in crate::app) fn told(done: Result<(), Failure>) -> ExitCode {
    let (message, code) = match done {
        Ok(()) => return ExitCode::SUCCESS,
        Err(Failure::Usage(message)) => (message, ExitCode::from(USAGE)),
        Err(Failure::Failed(message)) => (message, ExitCode::FAILURE),
    };
    err!("belljar: {message}");
    code
}
