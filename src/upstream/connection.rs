//! One initialized client to one running server.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientRequest, ElicitRequestParams, ElicitResult, ErrorCode,
    ErrorData, ListToolsRequest, PaginatedRequestParams,
};
use rmcp::service::{
    NotificationContext, Peer, PeerRequestOptions, RequestContext, RunningService, ServiceError,
};
use rmcp::{ClientHandler, RoleClient};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::CallBounds;
use super::answers::{Answer, Answers};
use super::error::UpstreamError;
use super::http::{Lost, Remote};
use super::process::{Process, StderrTail};
use crate::jsonrpc::Unreadable;
use crate::limits::Limits;
use crate::names::ServerName;
use crate::protocol::depth_exceeds;
use crate::text;

/// Longest name of a server in a command, in characters.
const NAME_CHARS_MAX: usize = 100;

/// An initialized client to a running server; the server's task ends it.
pub struct Connection {
    pub(super) server: ServerName,
    pub(super) peer: Peer<RoleClient>,
    pub(super) stderr: Option<StderrTail>,
    pub(super) permits: Arc<Semaphore>,
    pub(super) tools: Arc<[Value]>,
    pub(super) tools_changed: Arc<AtomicBool>,
    pub(super) answers: Answers,
    pub(super) bounds: CallBounds,
    pub(super) limits: Arc<Limits>,
}

/// What must be ended with the connection.
pub(super) struct Running {
    pub(super) service: RunningService<RoleClient, Face>,
    pub(super) far: Far,
    pub(super) closed_its_end: CancellationToken,
}

/// The server's side of a connection.
pub(super) enum Far {
    Process(Process),
    Remote(Remote),
}

/// What the servers see of us: no capabilities, so they ask for nothing.
pub(super) struct Face {
    pub(super) tools_changed: Arc<AtomicBool>,
}

impl ClientHandler for Face {
    fn get_info(&self) -> rmcp::model::ClientConfig {
        let mut config = rmcp::model::ClientConfig::default();
        config.client_info = rmcp::model::Implementation::new("hotcell", env!("CARGO_PKG_VERSION"));
        config
    }

    // rmcp alone would answer these two, which are for clients that say that they can do them.
    #[expect(deprecated, reason = "servers of earlier versions still ask")]
    async fn list_roots(
        &self,
        _context: RequestContext<RoleClient>,
    ) -> Result<rmcp::model::ListRootsResult, ErrorData> {
        Err(not_offered("roots/list"))
    }

    async fn create_elicitation(
        &self,
        _request: ElicitRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        Err(not_offered("elicitation/create"))
    }

    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.tools_changed.store(true, Ordering::Release);
    }
}

fn not_offered(method: &str) -> ErrorData {
    ErrorData::new(ErrorCode::METHOD_NOT_FOUND, format!("{method} is not offered"), None)
}

impl Connection {
    /// Whether the server lives, and has not said that its tools have changed since they were read.
    #[must_use]
    pub fn is_current(&self) -> bool {
        !self.is_dead() && !self.tools_are_stale()
    }

    /// Whether the server lives, and has said that its tools have changed since they were read.
    #[must_use]
    pub fn has_news(&self) -> bool {
        !self.is_dead() && self.tools_are_stale()
    }

    pub(super) fn is_dead(&self) -> bool {
        self.peer.is_transport_closed()
    }

    /// The server's tools as it published them.
    #[must_use]
    pub fn tools(&self) -> Arc<[Value]> {
        Arc::clone(&self.tools)
    }

    pub(super) fn tools_are_stale(&self) -> bool {
        self.tools_changed.load(Ordering::Acquire)
    }

    /// The same connection with its tools read again.
    pub(super) async fn refreshed(&self) -> Result<Arc<[Value]>, UpstreamError> {
        self.tools_changed.store(false, Ordering::Release);
        let listing = tokio::time::timeout(
            self.limits.server_start,
            list_tools(&self.peer, &self.answers, &self.limits),
        );
        match listing.await {
            Ok(Ok(tools)) => Ok(tools),
            Ok(Err(error)) => Err(self.failure(error)),
            Err(_) => Err(UpstreamError::Deadline { server: self.server.clone() }),
        }
    }

    pub(super) fn with_tools(&self, tools: Arc<[Value]>) -> Self {
        Self {
            server: self.server.clone(),
            peer: self.peer.clone(),
            stderr: self.stderr.clone(),
            permits: Arc::clone(&self.permits),
            tools,
            tools_changed: Arc::clone(&self.tools_changed),
            answers: self.answers.clone(),
            bounds: self.bounds.clone(),
            limits: Arc::clone(&self.limits),
        }
    }

    /// One call; the result is the server's own. It is cancelled at the server when the time is over or the caller
    /// cancels.
    ///
    /// # Errors
    /// See [`UpstreamError`]. Nothing is ever sent twice.
    pub async fn call(
        &self,
        tool: String,
        arguments: Map<String, Value>,
        deadline: Instant,
        cancel: &CancellationToken,
    ) -> Result<Box<RawValue>, UpstreamError> {
        let cancelled = || UpstreamError::Cancelled { server: self.server.clone() };
        let run_is_over = || UpstreamError::Deadline { server: self.server.clone() };
        let _permit = tokio::select! {
            permit = self.permits.acquire() => permit.map_err(|_| UpstreamError::Closing)?,
            () = cancel.cancelled() => return Err(cancelled()),
            () = tokio::time::sleep_until(deadline) => return Err(run_is_over()),
        };
        // From now on: that others had their turn first costs the call nothing.
        let own_deadline = self.bounds.time.map(|time| Instant::now() + time).filter(|own| *own < deadline);
        let late = || match self.bounds.time.filter(|_| own_deadline.is_some()) {
            Some(time) => {
                let (server, set_in) = (self.server.clone(), self.bounds.set_in.clone());
                UpstreamError::CallTime { server, time, set_in }
            }
            None => run_is_over(),
        };
        let deadline = own_deadline.unwrap_or(deadline);
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(
            CallToolRequestParams::new(tool).with_arguments(arguments),
        ));
        let mut handle = self
            .peer
            .send_cancellable_request(request, PeerRequestOptions::no_options())
            .await
            .map_err(|error| self.failure(error))?;
        let awaited = self.answers.awaited(handle.id.clone());
        let (answer, reason) = tokio::select! {
            answer = &mut handle.rx => (Some(answer), None),
            () = cancel.cancelled() => (None, Some(cancelled())),
            () = tokio::time::sleep_until(deadline) => (None, Some(late())),
        };
        if let Some(reason) = reason {
            if let Err(error) = handle.cancel(Some(reason.to_string())).await {
                tracing::debug!(%error, "the cancellation did not reach the server");
            }
            return Err(reason);
        }
        match answer {
            Some(Ok(Ok(_))) => {}
            Some(Ok(Err(error))) => {
                return Err(match awaited.take() {
                    Some(Answer::Lost(lost)) => lost_error(self.server.clone(), lost),
                    _ => self.failure(error),
                });
            }
            Some(Err(_)) | None => return Err(self.failure(ServiceError::TransportClosed)),
        }
        match awaited.take() {
            Some(Answer::Result(result)) => self.checked(result),
            Some(Answer::Unreadable(Unreadable::Overlong(bytes_max))) => {
                Err(UpstreamError::Overlong { server: self.server.clone(), bytes_max })
            }
            Some(Answer::Unreadable(Unreadable::NotJson(reason) | Unreadable::Misshapen(reason))) => {
                Err(self.nonsense(format!("its answer cannot be read: {reason}")))
            }
            Some(Answer::Lost(lost)) => Err(lost_error(self.server.clone(), lost)),
            None => Err(self.nonsense("its answer has no result".into())),
        }
    }

    fn checked(&self, result: Box<RawValue>) -> Result<Box<RawValue>, UpstreamError> {
        if !result.get().starts_with('{') {
            return Err(self.nonsense("its result is no object".into()));
        }
        // Two levels of the frame that carries it are ours.
        let depth_max = self.limits.json_depth_max - 2;
        if depth_exceeds(result.get().as_bytes(), depth_max) {
            return Err(self.nonsense(format!("its result nests deeper than {depth_max} levels")));
        }
        Ok(result)
    }

    fn nonsense(&self, reason: String) -> UpstreamError {
        UpstreamError::Nonsense { server: self.server.clone(), reason }
    }

    fn failure(&self, error: ServiceError) -> UpstreamError {
        let server = self.server.clone();
        match error {
            ServiceError::McpError(error) => {
                UpstreamError::Refused { server, message: error.message.into_owned() }
            }
            ServiceError::TransportClosed | ServiceError::TransportSend(_) if self.answers.were_cut_off() => {
                UpstreamError::Overlong { server, bytes_max: self.limits.server_line_bytes_max }
            }
            ServiceError::TransportClosed | ServiceError::TransportSend(_) => UpstreamError::Died {
                server,
                stderr: self.stderr.as_ref().map(StderrTail::last_words).unwrap_or_default(),
            },
            other => UpstreamError::Nonsense { server, reason: other.to_string() },
        }
    }
}

impl Running {
    /// Waits until the server says nothing more, as one that has ended does. Cancel-safe.
    pub(super) async fn gone(&self) {
        self.closed_its_end.cancelled().await;
    }

    /// Ends the client and the process group.
    pub(super) async fn end(mut self) {
        // Closes the server's stdin, which ends most servers.
        if let Err(error) = self.service.close_with_timeout(Duration::from_millis(200)).await {
            tracing::debug!(%error, "a client task broke");
        }
        match self.far {
            Far::Process(process) => drop(process.end().await),
            Far::Remote(remote) => remote.end().await,
        }
    }
}

/// One page of a server's tools, which are read one by one: a page may hold more than is kept, and its values take many
/// times the room of their text.
#[derive(serde::Deserialize)]
struct Page<'a> {
    #[serde(borrow)]
    tools: Vec<&'a RawValue>,
    #[serde(rename = "nextCursor", default)]
    next_cursor: Option<Value>,
}

pub(super) async fn list_tools(
    peer: &Peer<RoleClient>,
    answers: &Answers,
    limits: &Limits,
) -> Result<Arc<[Value]>, ServiceError> {
    let mut tools = Vec::new();
    let mut bytes = 0;
    let mut cursor: Option<String> = None;
    let mut cursors = HashSet::new();
    for _ in 0..limits.tool_pages_max {
        let mut params = PaginatedRequestParams::default();
        params.cursor = cursor.clone();
        let request = ListToolsRequest { params: Some(params), ..ListToolsRequest::default() };
        let handle = peer
            .send_cancellable_request(
                ClientRequest::ListToolsRequest(request),
                PeerRequestOptions::no_options(),
            )
            .await?;
        let awaited = answers.awaited(handle.id.clone());
        handle.await_response().await?;
        // As JSON, since one odd tool would make the typed list fail whole.
        let Some(Answer::Result(page)) = awaited.take() else { return Err(ServiceError::UnexpectedResponse) };
        let page: Page<'_> =
            serde_json::from_str(page.get()).map_err(|_| ServiceError::UnexpectedResponse)?;
        let next = page.next_cursor.as_ref().and_then(Value::as_str).map(str::to_owned);
        for tool in page.tools {
            bytes += tool.get().len();
            if tools.len() == limits.tools_per_server_max || bytes > limits.tool_list_bytes_max {
                let (tools_max, bytes_max) = (limits.tools_per_server_max, limits.tool_list_bytes_max);
                tracing::warn!(tools_max, bytes_max, "a server's further tools are left out");
                return Ok(tools.into());
            }
            match serde_json::from_str(tool.get()) {
                Ok(tool) => tools.push(tool),
                Err(error) => tracing::warn!(%error, "a tool that cannot be read is left out"),
            }
        }
        let Some(next) = next else { break };
        if !cursors.insert(next.clone()) {
            tracing::warn!("a server's list of tools goes round in circles, and is read once");
            break;
        }
        cursor = Some(next);
    }
    Ok(tools.into())
}

pub(super) fn lost_error(server: ServerName, lost: Lost) -> UpstreamError {
    match lost {
        Lost::NotReached(reason) | Lost::Refused { reason, .. } => {
            UpstreamError::NotReached { server, reason }
        }
        Lost::NotAllowed(reason) => UpstreamError::NotAllowed { server, reason },
        Lost::NeedsLogin { reason, scope } => {
            let command = login_command(&server, scope.as_deref());
            UpstreamError::NeedsLogin { server, reason, command }
        }
        Lost::Broken(reason) => UpstreamError::Broken { server, reason },
    }
}

/// What the user runs to log in there.
pub(super) fn login_command(server: &ServerName, scope: Option<&str>) -> String {
    let server = text::shell_word(server.as_str(), NAME_CHARS_MAX);
    let scopes = scope.into_iter().flat_map(str::split_whitespace);
    scopes.fold(format!("hotcell login {server}"), |command, scope| format!("{command} --scope {scope}"))
}
