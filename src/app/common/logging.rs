//! Logs to stderr, never to stdout, which belongs to MCP.

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use super::progress::StderrAbove;

/// Starts logging. From libraries, only warnings and errors are logged: their debug logs have whole messages.
pub(crate) fn start(level: LevelFilter) {
    let targets = Targets::new()
        .with_target("belljar", level)
        .with_target("rmcp", level.min(LevelFilter::ERROR))
        // What a request to a cluster failed with is in the reply that needed it.
        .with_target("kube_client", LevelFilter::OFF)
        .with_default(level.min(LevelFilter::WARN));
    let layer = tracing_subscriber::fmt::layer()
        .with_writer(|| StderrAbove)
        .with_target(false)
        .without_time()
        .with_ansi(false)
        // Otherwise logging would panic if stderr is closed.
        .log_internal_errors(false);
    tracing_subscriber::registry().with(targets).with(layer).init();
}
