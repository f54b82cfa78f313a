//! `belljar image`: executes its subcommands.

use std::process::ExitCode;

use super::build::build;
use super::engine_images::Images;
use super::pull::pull;
use crate::app::common::failure::told;
use crate::cli;
use crate::config::{Config, Environment};

/// Executes the subcommand.
pub(crate) async fn image(config: &Config, environment: &Environment, command: cli::Image) -> ExitCode {
    let images = Images { config, environment };
    let done = match command {
        cli::Image::Build(arguments) => build(&images, arguments).await,
        cli::Image::Pull(arguments) => pull(&images, arguments).await,
        cli::Image::Ls { json } => images.list(json).await,
        cli::Image::Use { name } => images.choose(&name).await,
        cli::Image::Rm { name } => images.remove(&name).await,
    };
    told(done)
}
