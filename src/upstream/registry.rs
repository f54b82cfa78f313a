//! All servers by name: each has its own task, and none waits for another.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::ServerSpec;
use super::connection::Connection;
use super::error::UpstreamError;
use super::secrets::Secrets;
use super::server::{Ask, own};
use crate::limits::Limits;
use crate::names::ServerName;

/// Requests to one server's task that may wait; more wait in their callers.
const ASKS_QUEUED_MAX: usize = 64;

/// The way to all configured servers.
pub struct Upstream {
    servers: BTreeMap<ServerName, mpsc::Sender<Ask>>,
    secrets: Secrets,
    tasks: Mutex<JoinSet<()>>,
    closing: CancellationToken,
}

impl Upstream {
    /// Prepares the servers; none is started before it is used. Must be called inside a tokio runtime.
    #[must_use]
    pub fn new(specs: Vec<ServerSpec>, limits: &Arc<Limits>) -> Self {
        let closing = CancellationToken::new();
        let secrets = Secrets::of(&specs);
        let mut tasks = JoinSet::new();
        let servers = specs
            .into_iter()
            .map(|spec| {
                let (asks, inbox) = mpsc::channel(ASKS_QUEUED_MAX);
                let name = spec.name.clone();
                let limits = Arc::clone(limits);
                tasks.spawn(own(spec, limits, inbox, closing.clone()));
                (name, asks)
            })
            .collect();
        Self { servers, secrets, tasks: Mutex::new(tasks), closing }
    }

    /// A text about the server, or of its own, with the values of its configured variables written as their names.
    #[must_use]
    pub fn redacted(&self, server: &ServerName, text: String) -> String {
        self.secrets.redacted(server, text)
    }

    /// Ends all servers, all at once.
    pub async fn close(&self) {
        self.closing.cancel();
        let mut tasks = self.tasks.lock().await;
        while let Some(ended) = tasks.join_next().await {
            if let Err(error) = ended {
                tracing::warn!(%error, "a server's task broke");
            }
        }
    }

    /// A live connection to the server, which is started if need be.
    ///
    /// # Errors
    /// When the server is unknown, cannot be started, or is too late; or when the caller cancels.
    pub async fn connect(
        &self,
        server: &ServerName,
        deadline: Instant,
        cancel: &CancellationToken,
    ) -> Result<Arc<Connection>, UpstreamError> {
        let asks =
            self.servers.get(server).ok_or_else(|| UpstreamError::Unknown { server: server.clone() })?;
        let connecting = async {
            let (reply, answer) = oneshot::channel();
            asks.send(reply).await.map_err(|_| UpstreamError::Closing)?;
            answer.await.map_err(|_| UpstreamError::Closing)?
        };
        tokio::select! {
            connected = connecting => connected,
            () = self.closing.cancelled() => Err(UpstreamError::Closing),
            () = cancel.cancelled() => Err(UpstreamError::Cancelled { server: server.clone() }),
            () = tokio::time::sleep_until(deadline) => Err(UpstreamError::Deadline { server: server.clone() }),
        }
    }
}
