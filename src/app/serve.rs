//! `belljar` without a command: the MCP server on stdin and stdout.

use std::process::ExitCode;
use std::sync::Arc;

use belljar_base::limits::Limits;
use belljar_base::problem::report;
use rmcp::transport::io::stdio_pipes;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::common::signals::Signals;
use super::wiring::Modules;
use crate::config::{Config, ConfigFiles, Sampling, StructuredContent};
use crate::server::{Handler, HandlerSettings, RunDefaults, serve as serve_client};

/// Serves until the client disconnects or a signal comes, and ends all resources of the bridge.
pub(super) async fn serve(config: Config, files: ConfigFiles) -> ExitCode {
    report(&config.problems);
    let mut signals = match Signals::listen() {
        Ok(signals) => signals,
        Err(error) => {
            tracing::error!(%error, "cannot listen for signals");
            return ExitCode::from(70);
        }
    };
    let told = files.told();
    let modules = Modules::build(&config, files);
    let limits = Arc::new(config.limits.clone());
    let closing = CancellationToken::new();
    let serving =
        serve_client(handler(&modules, told, limits), stdio_pipes(), &config.limits, closing.clone());
    let code = tokio::select! {
        served = serving => match served {
            Ok(()) => 0,
            Err(error) => {
                tracing::error!(error, "the client did not open a connection");
                0
            }
        },
        ending = signals.next() => ending.exit_code(),
    };
    closing.cancel();
    tokio::select! {
        () = modules.close(&config) => ExitCode::from(code),
        // A second signal ends the program at once. Other processes end by themselves when their pipes close.
        ending = signals.next() => ExitCode::from(ending.exit_code()),
    }
}

/// The MCP server of a session.
pub(super) fn handler(modules: &Modules, told: watch::Receiver<Arc<Config>>, limits: Arc<Limits>) -> Handler {
    let settings = move || face_settings(&told.borrow(), Arc::clone(&limits));
    Handler::new(Arc::clone(&modules.reruns), Arc::clone(&modules.broker), settings)
}

fn face_settings(config: &Config, limits: Arc<Limits>) -> HandlerSettings {
    HandlerSettings {
        defaults: RunDefaults { timeout: config.timeout, timeout_max: config.timeout_max },
        task_after: config.task_after,
        output_mode: config.output_mode,
        structured: config.structured == StructuredContent::On,
        images_as_files: config.images_as_files.clone(),
        prewarm: config.prewarm,
        sampling: config.sampling == Sampling::Ask,
        limits,
    }
}
