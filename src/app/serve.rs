//! `hotcell` without a command: the MCP server on stdin and stdout.

use std::process::ExitCode;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::signals::Signals;
use super::wiring::Rooms;
use crate::config::{Config, Prewarm, Sampling, ServerFiles, StructuredContent, report};
use crate::server::{Face, FaceSettings, RunDefaults, serve as serve_client};

/// Serves the client until it goes or a signal comes; then nothing of the bridge is left.
pub(super) async fn serve(config: Config, files: ServerFiles) -> ExitCode {
    report(&config.problems);
    let mut signals = match Signals::listen() {
        Ok(signals) => signals,
        Err(error) => {
            tracing::error!(%error, "cannot listen for signals");
            return ExitCode::from(70);
        }
    };
    let rooms = Rooms::build(&config, files);
    let face = Face::new(
        Arc::clone(&rooms.session),
        Arc::clone(&rooms.broker),
        FaceSettings {
            defaults: RunDefaults { timeout: config.timeout, timeout_max: config.timeout_max },
            output_mode: config.output_mode,
            structured: config.structured == StructuredContent::On,
            prewarm: config.prewarm == Prewarm::On,
            sampling: config.sampling == Sampling::Ask,
            limits: Arc::new(config.limits.clone()),
        },
    );
    let closing = CancellationToken::new();
    let serving = serve_client(face, &config.limits, closing.clone());
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
        () = rooms.close(&config) => ExitCode::from(code),
        // Whoever asks twice means at once; what is left ends by itself when our pipes close.
        ending = signals.next() => ExitCode::from(ending.exit_code()),
    }
}
