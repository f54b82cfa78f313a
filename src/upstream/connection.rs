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
    ClientInitializeError, NotificationContext, Peer, PeerRequestOptions, RequestContext, RunningService,
    ServiceError,
};
use rmcp::{ClientHandler, RoleClient, ServiceExt};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::answers::{Answer, Answers};
use super::error::UpstreamError;
use super::process::{Process, StderrTail};
use super::{ProcessSpec, ServerSpec, Way};
use crate::jsonrpc::{LineTransport, Unreadable};
use crate::limits::Limits;
use crate::names::ServerName;
use crate::protocol::depth_exceeds;

/// An initialized client to a running server; the server's task ends it.
pub struct Connection {
    server: ServerName,
    peer: Peer<RoleClient>,
    stderr: StderrTail,
    permits: Arc<Semaphore>,
    tools: Arc<[Value]>,
    tools_changed: Arc<AtomicBool>,
    answers: Answers,
    limits: Arc<Limits>,
}

/// What must be ended with the connection.
pub(super) struct Running {
    service: RunningService<RoleClient, Face>,
    process: Process,
    closed_its_end: CancellationToken,
}

/// What the servers see of us: no capabilities, so they ask for nothing.
struct Face {
    tools_changed: Arc<AtomicBool>,
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
    /// Starts the server, initializes it, reads all pages of its tools; all within `limits.server_start`.
    pub(super) async fn open(
        spec: &ServerSpec,
        limits: &Arc<Limits>,
    ) -> Result<(Self, Running), UpstreamError> {
        let server = spec.name.clone();
        let spec = match &spec.way {
            Way::Process(spec) => spec,
            Way::Remote(_) => {
                let reason = "this version of hotcell cannot reach remote servers".to_owned();
                return Err(UpstreamError::Handshake { server, reason, stderr: String::new() });
            }
        };
        let (process, pipes) = Process::start(spec, limits.server_stderr_bytes_max).map_err(|error| {
            UpstreamError::Spawn { server: server.clone(), reason: spawn_reason(spec, &error) }
        })?;
        let stderr = process.stderr();
        let tools_changed = Arc::new(AtomicBool::new(false));
        let face = Face { tools_changed: Arc::clone(&tools_changed) };
        let answers = Answers::default();
        let (transport, closed_its_end) = LineTransport::new(
            answers.clone(),
            pipes.stdout,
            pipes.stdin,
            limits.server_line_bytes_max,
            limits.peer_requests_in_flight_max,
        );
        let opening = async {
            let service = face.serve(transport).await.map_err(|error| start_reason(&error))?;
            let peer = service.peer().clone();
            let tools = if peer.peer_info().is_none_or(|info| info.capabilities.tools.is_some()) {
                list_tools(&peer, &answers, limits).await.map_err(|error| format!("tools/list: {error}"))?
            } else {
                Arc::from([])
            };
            Ok::<_, String>((service, peer, tools))
        };
        let opened = match tokio::time::timeout(limits.server_start, opening).await {
            Ok(opened) => opened,
            Err(_) => Err(format!("no answer within {} s", limits.server_start.as_secs())),
        };
        match opened {
            Ok((service, peer, tools)) => {
                let permits = Arc::new(Semaphore::new(limits.calls_in_flight_per_server_max));
                let limits = Arc::clone(limits);
                let connection =
                    Self { server, peer, stderr, permits, tools, tools_changed, answers, limits };
                Ok((connection, Running { service, process, closed_its_end }))
            }
            Err(reason) => {
                // Its last words may come after its last breath.
                let ended = process.end().await;
                Err(match ended.not_started {
                    Some(error) => UpstreamError::Spawn { server, reason: spawn_reason(spec, &error) },
                    None => UpstreamError::Handshake { server, reason, stderr: ended.stderr.last_words() },
                })
            }
        }
    }

    /// Whether the server lives, and has not said that its tools have changed since they were read.
    #[must_use]
    pub fn is_current(&self) -> bool {
        !self.is_dead() && !self.tools_are_stale()
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
        let late = || UpstreamError::Deadline { server: self.server.clone() };
        let _permit = tokio::select! {
            permit = self.permits.acquire() => permit.map_err(|_| UpstreamError::Closing)?,
            () = cancel.cancelled() => return Err(cancelled()),
            () = tokio::time::sleep_until(deadline) => return Err(late()),
        };
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
            Some(Ok(Err(error))) => return Err(self.failure(error)),
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
            ServiceError::TransportClosed | ServiceError::TransportSend(_) => {
                UpstreamError::Died { server, stderr: self.stderr.last_words() }
            }
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
        self.process.end().await;
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

async fn list_tools(
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

/// Without the names of Rust types, which rmcp puts into the text of transport errors.
fn start_reason(error: &ClientInitializeError) -> String {
    match error {
        ClientInitializeError::ConnectionClosed(_) | ClientInitializeError::TransportError { .. } => {
            "it ended, or closed its end, before it was initialized".into()
        }
        other => other.to_string(),
    }
}

fn spawn_reason(spec: &ProcessSpec, error: &std::io::Error) -> String {
    let missing = error.kind() == std::io::ErrorKind::NotFound;
    match &spec.cwd {
        Some(cwd) if missing && !cwd.is_dir() => format!("its folder {} does not exist", cwd.display()),
        _ if missing => format!("its command {:?} was not found", spec.program),
        _ => format!("its command {:?}: {error}", spec.program),
    }
}
