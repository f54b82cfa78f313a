//! `belljar image`: executes its subcommands.

use std::process::ExitCode;

use belljar_base::text;
use belljar_engine::Choice;

use super::build::build;
use super::engine_images::Images;
use super::pull::pull;
use crate::app::common::failure::{Failure, told};
use crate::app::common::printing::err;
use crate::cli;
use crate::config::{Config, Environment};

/// Executes the subcommand.
pub(crate) async fn image(config: &Config, environment: &Environment, command: cli::Image) -> ExitCode {
    // Each engine has images of its own. A failure at one does not stop the others.
    let mut code = ExitCode::SUCCESS;
    let is_fleet = !config.engine.fleet().is_empty();
    for engine in config.engine.each() {
        if let (true, Choice::At(addresses)) = (is_fleet, &engine.choice) {
            err!("belljar: at {}:", text::inert_line(&addresses.join(",")));
        }
        let config = Config { engine, ..config.clone() };
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
