//! `hotcell trust`: shows what a server's tools have been changed to, and lets that count.

use std::process::ExitCode;

use crate::broker::Changes;
use crate::cli;
use crate::config::Config;

const USAGE: u8 = 2;

/// Shows the changes, then accepts them.
pub(super) fn trust(config: &Config, arguments: &cli::Trust) -> ExitCode {
    let name = &arguments.server;
    let Some(server) = config.servers.iter().find(|server| server.name.as_str() == name) else {
        let names: Vec<&str> = config.servers.iter().map(|server| server.name.as_str()).collect();
        let known = if names.is_empty() { "none is".into() } else { names.join(", ") };
        eprintln!("hotcell: no server {name:?} is configured; configured: {known}");
        return ExitCode::from(USAGE);
    };
    let Some(dir) = &config.own_state_dir else {
        eprintln!("hotcell: no home folder is known, so nothing is remembered of tools");
        return ExitCode::FAILURE;
    };
    let trusted = Changes::of(&dir.join("pins"), &server.name).and_then(|changes| {
        for line in changes.lines() {
            println!("{line}");
        }
        changes.accept().map(|()| changes)
    });
    match trusted {
        Ok(changes) if !changes.is_empty() => println!("trusted: the tools of {name} count as shown"),
        Ok(changes) if changes.is_known => {
            println!("no tool of {name} is known to have changed since it was first used; nothing to trust");
        }
        Ok(_) => {
            println!("nothing is known of the tools of {name}; they count as they are at their first use")
        }
        Err(error) => {
            eprintln!("hotcell: what is remembered of {name} cannot be read or written: {error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
