//! `belljar image`: executes its subcommands.

use std::process::ExitCode;

use belljar_base::text;
use belljar_engine::{Choice, EngineLocations};

use super::build::build;
use super::engine_images::Images;
use super::pull::pull;
use crate::app::common::failure::{Failure, told};
use crate::app::common::printing::err;
use crate::cli;
use crate::config::{Config, Environment};

/// Executes the subcommand.
pub(crate) async fn image(config: &Config, environment: &Environment, command: cli::Image) -> ExitCode {
    let fleet = config.engine.fleet();
    if fleet.is_empty() {
        return told(on_engine(config, environment, command).await);
    }
    // Each engine has images of its own. A failure at one does not stop the others.
    let mut code = ExitCode::SUCCESS;
    for address in fleet {
        err!("belljar: at {}:", text::inert_line(address));
        let choice = Choice::At(vec![address.clone()]);
        let config = Config { engine: EngineLocations { choice, ..config.engine.clone() }, ..config.clone() };
        let done = told(on_engine(&config, environment, command.clone()).await);
        if done != ExitCode::SUCCESS {
            code = done;
        }
    }
    code
}

async fn on_engine(config: &Config, environment: &Environment, command: cli::Image) -> Result<(), Failure> {
    let images = Images { config, environment };
    match command {
        cli::Image::Build(arguments) => build(&images, arguments).await,
        cli::Image::Pull(arguments) => pull(&images, arguments).await,
        cli::Image::Ls { json } => images.list(json).await,
        cli::Image::Use { name } => images.choose(&name).await,
        cli::Image::Rm { name } => images.remove(&name).await,
    }
}
