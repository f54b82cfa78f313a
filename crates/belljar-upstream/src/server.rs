//! The task that owns one server. Only this task starts, restarts and ends it.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use belljar_base::limits::Limits;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::client::connection::{Connection, ConnectionParts};
use super::client::listeners::{ClientSide, ServerMessage};
use super::connect_context::ConnectContext;
use super::error::UpstreamError;
use super::login_file::LoginFingerprint;
use super::secrets::Secrets;
use super::{RemoteSpec, ServerSpec, ServerTransport, commands};

/// A request to the task of a server, which starts the server if it does not run.
pub(super) enum ServerTaskRequest {
    /// A request for a live connection.
    Connection(oneshot::Sender<Result<Arc<Connection>, UpstreamError>>),
    /// A request for the server's tools. A server that is started for it is ended afterwards.
    Tools(oneshot::Sender<Result<Arc<[Value]>, UpstreamError>>),
}

/// First and longest pause before a failed server is started again.
const BACK_OFF: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(30));

/// A configured server, with the values that are redacted in texts.
pub(super) struct ConfiguredServer {
    pub(super) spec: ServerSpec,
    pub(super) secrets: Arc<Secrets>,
    pub(super) start: Arc<StartState>,
}

/// What the starts of a server have come to.
#[derive(Default)]
pub(super) struct StartState {
    /// Whether a start is going on.
    pub(super) is_going_on: AtomicBool,
    /// Whether the last start that has ended took longer than it may.
    pub(super) was_late: AtomicBool,
}

/// Marks a server as starting until this value is dropped.
struct StartingFlag(Arc<StartState>);

impl StartingFlag {
    fn begin(start: &Arc<StartState>) -> Self {
        start.is_going_on.store(true, Ordering::Release);
        Self(Arc::clone(start))
    }
}

impl Drop for StartingFlag {
    fn drop(&mut self) {
        self.0.is_going_on.store(false, Ordering::Release);
    }
}

/// The channels between the task of a server and the registry.
pub(super) struct TaskChannels {
    pub(super) asks: mpsc::Receiver<ServerTaskRequest>,
    /// Publishes the connection, while calls may use it without a request to the task.
    pub(super) live: watch::Sender<Option<Arc<Connection>>>,
    pub(super) closing: CancellationToken,
}

/// A start that has failed, and the time until which the server is not started again.
struct FailedStart {
    error: UpstreamError,
    until: Instant,
    /// The fingerprint of the login before that start.
    login: Option<LoginFingerprint>,
}

struct Server {
    spec: ServerSpec,
    secrets: Arc<Secrets>,
    start: Arc<StartState>,
    side: Arc<ClientSide>,
    limits: Arc<Limits>,
    context: ConnectContext,
    current: Option<(Arc<Connection>, ConnectionParts)>,
    live: watch::Sender<Option<Arc<Connection>>>,
    /// The last failure. It is the answer to requests until its time is over or the login changes.
    failed: Option<FailedStart>,
    back_off: Duration,
}

/// Serves the requests to the server's task until the server is removed or replaced, or the bridge closes.
pub(super) async fn own(
    ConfiguredServer { spec, secrets, start }: ConfiguredServer,
    side: Arc<ClientSide>,
    limits: Arc<Limits>,
    context: ConnectContext,
    TaskChannels { mut asks, live, closing }: TaskChannels,
) {
    let (current, failed, back_off) = (None, None, BACK_OFF.0);
    let mut server = Server { spec, secrets, start, side, limits, context, current, live, failed, back_off };
    let serving = async {
        loop {
            let asked = tokio::select! {
                asked = asks.recv() => asked,
                // A server that is gone is ended at once: the next call may never come, and the server's child
                // processes and keeper would stay.
                () = server.gone() => {
                    server.say_stderr_summary();
                    server.end().await;
                    continue;
                }
            };
            let is_taken = match asked {
                None => return,
                Some(ServerTaskRequest::Connection(reply)) => {
                    let connected = server.connected().await;
                    // A connection that was opened for the list of tools only is not published, since it may be ended
                    // at once.
                    server.live.send_replace(connected.as_ref().ok().cloned());
                    reply.send(connected).is_ok()
                }
                Some(ServerTaskRequest::Tools(reply)) => {
                    let stays = server.is_running();
                    let connected = server.connected().await;
                    let is_taken = reply.send(connected.map(|connection| connection.tools())).is_ok();
                    // The server stays if a call waits for it already.
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
    // If a server hangs in its start, it is dropped with the future, which kills its group.
    tokio::select! {
        () = serving => {}
        () = closing.cancelled() => {}
    }
    server.end().await;
    if let Some(access) = &server.context.access {
        access.settle().await;
    }
}

impl Server {
    fn is_running(&self) -> bool {
        self.current.as_ref().is_some_and(|(connection, _)| !connection.is_dead())
    }

    async fn connected(&mut self) -> Result<Arc<Connection>, UpstreamError> {
        if let Some((connection, running)) = self.current.take() {
            if !connection.is_dead() && !self.needs_new_credentials() {
                let connection = self.fresh(connection).await;
                self.current = Some((Arc::clone(&connection), running));
                return Ok(connection);
            }
            tracing::info!(server = %self.spec.name, "the server has ended or needs new credentials, and is started again");
            self.say("stderr", connection.stderr_summary().text);
            self.live.send_replace(None);
            running.end().await;
        }
        // The fingerprint is taken before the login is used, so that a change in between is noticed.
        let login = self.context.access.as_ref().and_then(|access| access.fingerprint());
        if let Some(failed) = &self.failed
            && Instant::now() < failed.until
            && login == failed.login
        {
            return Err(failed.error.clone());
        }
        let starting = StartingFlag::begin(&self.start);
        let opened = match self.found().await {
            Ok(spec) => Connection::open(&spec, &self.side, &self.limits, &self.context).await,
            Err(error) => Err(error),
        };
        drop(starting);
        let was_late = matches!(opened, Err(UpstreamError::Handshake { is_late: true, .. }));
        self.start.was_late.store(was_late, Ordering::Release);
        match opened {
            Ok((connection, running)) => {
                let connection = Arc::new(connection);
                self.current = Some((Arc::clone(&connection), running));
                self.failed = None;
                self.back_off = BACK_OFF.0;
                Ok(connection)
            }
            Err(error) => {
                let error = self.context.redaction.error(error);
                let advice = error.advice(&self.spec.bounds.set_in);
                let advice = advice.map(|advice| format!("; {advice}")).unwrap_or_default();
                self.say("failed", format!("{error}{advice}"));
                self.failed = Some(FailedStart {
                    error: UpstreamError::clone(&error),
                    until: Instant::now() + self.back_off,
                    login,
                });
                self.back_off = (self.back_off * 2).min(BACK_OFF.1);
                Err(error.into())
            }
        }
    }

    /// Whether a login with credentials that commands have printed has failed.
    fn needs_new_credentials(&self) -> bool {
        self.spec.deferred.is_some() && self.context.access.as_ref().is_some_and(|access| access.has_failed())
    }

    /// The specification of the server. Its commands run for each start, so that expired values are renewed.
    async fn found(&self) -> Result<Cow<'_, ServerSpec>, UpstreamError> {
        let Some(deferred) = &self.spec.deferred else { return Ok(Cow::Borrowed(&self.spec)) };
        let unavailable = |reason| UpstreamError::Unavailable { server: self.spec.name.clone(), reason };
        (deferred.check)().map_err(unavailable)?;
        let printed = commands::printed(&deferred.commands, &self.limits).await.map_err(unavailable)?;
        let (transport, secrets) = (deferred.resolve)(&printed).map_err(unavailable)?;
        // The secrets are added before the start, since the server could repeat them at once.
        self.secrets.add(&transport, &secrets);
        if let (Some(access), ServerTransport::Remote(RemoteSpec { login: Some(login), .. })) =
            (&self.context.access, &transport)
        {
            access.set(login.settings.clone());
        }
        Ok(Cow::Owned(ServerSpec { transport, ..self.spec.clone() }))
    }

    /// The connection with current tools.
    async fn fresh(&self, connection: Arc<Connection>) -> Arc<Connection> {
        if !connection.tools_are_stale() {
            return connection;
        }
        match connection.refreshed().await {
            Ok(refreshed) => Arc::new(refreshed),
            Err(error) => {
                let reason = self.context.redaction.error(error);
                tracing::warn!(server = %self.spec.name, %reason, "the changed tools could not be read");
                connection
            }
        }
    }

    /// Waits until the running server is gone.
    async fn gone(&self) {
        match &self.current {
            Some((_, running)) => running.gone().await,
            None => std::future::pending().await,
        }
    }

    fn say_stderr_summary(&self) {
        if let Some((connection, _)) = &self.current {
            self.say("stderr", connection.stderr_summary().text);
        }
    }

    fn say(&self, level: &str, text: String) {
        self.side.said(ServerMessage { server: self.spec.name.clone(), level: level.to_owned(), text });
    }

    async fn end(&mut self) {
        self.live.send_replace(None);
        if let Some((_, running)) = self.current.take() {
            running.end().await;
        }
    }
}
