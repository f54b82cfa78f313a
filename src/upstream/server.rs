//! The task that owns one server: it is the only one that starts, restarts and ends it.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::ServerSpec;
use super::connection::{Connection, Running};
use super::error::UpstreamError;
use super::listeners::{ClientSide, Said};
use crate::limits::Limits;

/// What the task may be asked for; it starts the server if need be.
pub(super) enum Ask {
    /// A live connection.
    Connection(oneshot::Sender<Result<Arc<Connection>, UpstreamError>>),
    /// What the server lists; one that is started for it does not stay.
    Tools(oneshot::Sender<Result<Arc<[Value]>, UpstreamError>>),
}

/// First and longest pause before a server that failed is started again.
const BACK_OFF: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(30));

struct Server {
    spec: ServerSpec,
    side: Arc<ClientSide>,
    limits: Arc<Limits>,
    current: Option<(Arc<Connection>, Running)>,
    /// The last failure, and until when it is the answer.
    failed: Option<(UpstreamError, Instant)>,
    back_off: Duration,
}

/// Serves the server's requests until the bridge closes.
pub(super) async fn own(
    spec: ServerSpec,
    side: Arc<ClientSide>,
    limits: Arc<Limits>,
    mut asks: mpsc::Receiver<Ask>,
    closing: CancellationToken,
) {
    let mut server = Server { spec, side, limits, current: None, failed: None, back_off: BACK_OFF.0 };
    let serving = async {
        loop {
            let asked = tokio::select! {
                asked = asks.recv() => asked,
                // At once, not with the next call, which may never come: what it has started and its keeper would stay.
                () = server.gone() => {
                    server.say_last_words();
                    server.end().await;
                    continue;
                }
            };
            let is_taken = match asked {
                None => return,
                Some(Ask::Connection(reply)) => reply.send(server.connected().await).is_ok(),
                Some(Ask::Tools(reply)) => {
                    let stays = server.is_running();
                    let connected = server.connected().await;
                    let is_taken = reply.send(connected.map(|connection| connection.tools())).is_ok();
                    // Unless a call waits for it already.
                    if !stays && asks.is_empty() {
                        server.end().await;
                    }
                    is_taken
                }
            };
            if !is_taken {
                tracing::trace!("nobody waits for the answer any more");
            }
        }
    };
    // A server that hangs in its start is dropped with the future, which kills its group.
    tokio::select! {
        () = serving => {}
        () = closing.cancelled() => {}
    }
    server.end().await;
}

impl Server {
    fn is_running(&self) -> bool {
        self.current.as_ref().is_some_and(|(connection, _)| !connection.is_dead())
    }

    async fn connected(&mut self) -> Result<Arc<Connection>, UpstreamError> {
        if let Some((connection, running)) = self.current.take() {
            if !connection.is_dead() {
                let connection = self.fresh(connection).await;
                self.current = Some((Arc::clone(&connection), running));
                return Ok(connection);
            }
            tracing::info!(server = %self.spec.name, "the server had ended and is started again");
            self.say("stderr", connection.last_words());
            running.end().await;
        }
        if let Some((error, until)) = &self.failed
            && Instant::now() < *until
        {
            return Err(error.clone());
        }
        match Connection::open(&self.spec, &self.side, &self.limits).await {
            Ok((connection, running)) => {
                let connection = Arc::new(connection);
                self.current = Some((Arc::clone(&connection), running));
                self.failed = None;
                self.back_off = BACK_OFF.0;
                Ok(connection)
            }
            Err(error) => {
                self.say("failed", error.to_string());
                self.failed = Some((error.clone(), Instant::now() + self.back_off));
                self.back_off = (self.back_off * 2).min(BACK_OFF.1);
                Err(error)
            }
        }
    }

    /// The connection with its tools as they are now.
    async fn fresh(&self, connection: Arc<Connection>) -> Arc<Connection> {
        if !connection.tools_are_stale() {
            return connection;
        }
        match connection.refreshed().await {
            Ok(tools) => Arc::new(connection.with_tools(tools)),
            Err(error) => {
                tracing::warn!(server = %self.spec.name, %error, "the changed tools could not be read");
                connection
            }
        }
    }

    /// Waits until the running server has gone.
    async fn gone(&self) {
        match &self.current {
            Some((_, running)) => running.gone().await,
            None => std::future::pending().await,
        }
    }

    fn say_last_words(&self) {
        if let Some((connection, _)) = &self.current {
            self.say("stderr", connection.last_words());
        }
    }

    fn say(&self, level: &str, text: String) {
        self.side.said(Said { server: self.spec.name.clone(), level: level.to_owned(), text });
    }

    async fn end(&mut self) {
        if let Some((_, running)) = self.current.take() {
            running.end().await;
        }
    }
}
