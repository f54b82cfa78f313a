//! Where the program goes after its arguments are parsed.

use std::process::ExitCode;

use super::{doctor, guardian, logging, run, search_model, serve};
use crate::cli::{Arguments, Command};
use crate::config::{Environment, ServerFiles};

/// Does what the command line asks for.
#[must_use]
pub fn main(arguments: Arguments) -> ExitCode {
    // These two are the bridge's own, and small: they read no configuration and say nothing.
    match arguments.command {
        #[cfg(target_os = "linux")]
        Some(Command::Keep(keep)) => crate::guard::keep(&keep.command),
        Some(Command::Guardian(guardian)) => guardian::guard(guardian.mark.into()),
        command => bridge(command),
    }
}

fn bridge(command: Option<Command>) -> ExitCode {
    let (config, files) = ServerFiles::load(Environment::capture());
    logging::start(config.log_level);
    // One thread: what the bridge does is short, and handing it to another thread would cost each call more than that.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("hotcell: cannot start: {error}");
            return ExitCode::from(70);
        }
    };
    let code = runtime.block_on(async {
        match command {
            None => serve::serve(config, files).await,
            Some(Command::Run(run)) => run::run(config, files, run).await,
            Some(Command::Doctor) => doctor::doctor(config).await,
            Some(Command::Search(search)) => search_model::search(&config, search).await,
            Some(Command::Keep(_) | Command::Guardian(_)) => ExitCode::from(70),
        }
    });
    // A reader of stdin may be stuck in its thread for ever.
    runtime.shutdown_background();
    code
}
