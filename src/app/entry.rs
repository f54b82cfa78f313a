//! Where the program goes after its arguments are parsed.

use std::process::ExitCode;

use super::{doctor, logging, run, serve};
use crate::cli::{Arguments, Command};
use crate::config::{Config, Environment};

/// Does what the command line asks for.
#[must_use]
pub fn main(arguments: Arguments) -> ExitCode {
    let config = Config::load(&Environment::capture());
    logging::start(config.log_level);
    // Two threads: one for the client's side and one for the sandbox's; more only cost memory.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("hotcell: cannot start: {error}");
            return ExitCode::from(70);
        }
    };
    let code = runtime.block_on(async {
        match arguments.command {
            None => serve::serve(config).await,
            Some(Command::Run(run)) => run::run(config, run).await,
            Some(Command::Doctor) => doctor::doctor(config).await,
        }
    });
    // A reader of stdin may be stuck in its thread for ever.
    runtime.shutdown_background();
    code
}
