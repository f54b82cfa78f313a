//! `hotcell trust`: what a server's tools are now counts as seen by the user.

use std::process::ExitCode;

use super::named::named;
use super::printing::{err, out};
use crate::broker;
use crate::cli;
use crate::config::Config;

const USAGE: u8 = 2;

/// Forgets what the server's tools were.
pub(super) fn trust(config: &Config, arguments: &cli::Trust) -> ExitCode {
    let name = &arguments.server;
    let server = match named(config, name) {
        Ok(server) => server,
        Err(message) => {
            err!("hotcell: {message}");
            return ExitCode::from(USAGE);
        }
    };
    let Some(dir) = &config.own_state_dir else {
        err!("hotcell: no home folder is known, so nothing is remembered of tools");
        return ExitCode::FAILURE;
    };
    match broker::trust(&dir.join("pins"), &server.name) {
        Ok(true) => out!("trusted: the tools of {name} count as they are at their next use"),
        Ok(false) => {
            out!("nothing was known of the tools of {name}; they count as they are at their first use")
        }
        Err(error) => {
            err!("hotcell: what is remembered of {name} cannot be removed: {error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
