//! Sends notifications to the client, and returns whether the client accepted them.
//!
//! `progress` and `live_output` decide which notifications are sent, and how often.

use belljar_base::run::{OutputPiece, OutputStream};
use rmcp::RoleServer;
#[expect(deprecated, reason = "clients of all versions up to now set a level")]
use rmcp::model::{LoggingLevel, LoggingMessageNotificationParam};
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::Peer;

/// Sends a step of the run that the token belongs to; without a token, nothing is sent.
pub(crate) async fn progress(
    peer: Peer<RoleServer>,
    token: Option<ProgressToken>,
    step: u32,
    message: String,
) -> bool {
    let Some(token) = token else { return true };
    let note = ProgressNotificationParam::new(token, f64::from(step)).with_message(message);
    let sent = peer.notify_progress(note).await;
    if let Err(error) = &sent {
        tracing::debug!(%error, "the client takes no progress");
    }
    sent.is_ok()
}

/// Sends a piece of output as a log message, unless the client's level excludes it.
#[expect(deprecated, reason = "as above")]
pub(crate) async fn output(peer: Peer<RoleServer>, least: LoggingLevel, piece: OutputPiece) -> bool {
    let (level, logger) = match piece.stream {
        OutputStream::Stdout => (LoggingLevel::Info, "stdout"),
        OutputStream::Stderr => (LoggingLevel::Warning, "stderr"),
    };
    if (level as u8) < least as u8 {
        return true;
    }
    let message = LoggingMessageNotificationParam::new(level, piece.text.into()).with_logger(logger);
    let sent = peer.notify_logging_message(message).await;
    if let Err(error) = &sent {
        tracing::debug!(%error, "the client takes no log messages");
    }
    sent.is_ok()
}
