//! `belljar trust`: shows the changes of a server's tools, and accepts them.

use std::process::ExitCode;

use super::common::named::named;
use super::common::printing::{err, out};
use crate::broker::Changes;
use crate::cli;
use crate::config::Config;

const USAGE: u8 = 2;

/// Shows the changes, then accepts them.
pub(super) fn trust(config: &Config, arguments: &cli::Trust) -> ExitCode {
    let name = &arguments.server;
    let server = match named(config, name) {
        Ok(server) => server,
        Err(message) => {
            err!("belljar: {message}");
            return ExitCode::from(USAGE);
        }
    };
    let Some(dir) = config.owner.pins() else {
        err!("belljar: no home folder is known, so nothing is remembered of tools");
        return ExitCode::FAILURE;
    };
    let trusted = Changes::of(&dir, &server.name).and_then(|changes| {
        for line in changes.lines() {
            out!("{line}");
        }
        changes.accept().map(|()| changes)
    });
    match trusted {
        Ok(changes) if !changes.is_empty() => out!("trusted: the tools of {name} count as shown"),
        Ok(changes) if changes.is_known => {
            out!("no tool of {name} is known to have changed since it was first used; nothing to trust");
        }
        Ok(_) => {
            out!("nothing is known of the tools of {name}; they count as they are at their first use")
        }
        Err(error) => {
            err!("belljar: what is remembered of {name} cannot be read or written: {error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
