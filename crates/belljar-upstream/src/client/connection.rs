//! One initialized client to one running server.

use std::sync::Arc;
use std::time::Duration;

use belljar_base::limits::Limits;
use belljar_base::names::ServerName;
use belljar_base::text;
use belljar_protocol::depth_exceeds;
use rmcp::RoleClient;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientRequest, CustomRequest, GetPromptRequest,
    GetPromptRequestParams, ReadResourceRequest, ReadResourceRequestParams,
};
use rmcp::service::{Peer, PeerRequestOptions, RunningService, ServiceError};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::call_timeout::{CallTimeout, Clock};
use super::handler::{Handler, ProgressUpdate};
use super::input::{self, Input};
use super::listing::{InvalidPage, ListKind, Pages, Tools, list_tools};
use crate::CallBounds;
use crate::confinement::Lack;
use crate::error::{StderrSummary, UpstreamError};
use crate::http::{ParameterHeaders, Remote};
use crate::jsonrpc::{LineError, WITHDRAWING};
use crate::no_response::NoResponse;
use crate::process::{Process, StderrTail};
use crate::raw_results::{RawResult, RawResults, left_out};
use crate::redaction::Redacted;

/// Longest name of a server in a command, in characters.
const NAME_CHARS_MAX: usize = 100;

/// The largest `data` of an error that is kept, in bytes of JSON.
const DATA_BYTES_MAX: usize = 64 * 1024;

/// An initialized client to a running server; the server's task ends it.
#[derive(Clone)]
pub struct Connection {
    pub(crate) server: ServerName,
    pub(super) peer: Peer<RoleClient>,
    pub(crate) stderr: Option<StderrTail>,
    pub(super) permits: Arc<Semaphore>,
    pub(crate) tools: Tools,
    pub(super) handler: Handler,
    /// The number of changes of tools that the server had reported when the tools were read.
    pub(super) listed_at: u64,
    pub(crate) answers: RawResults,
    /// The arguments that its tools also want as HTTP headers; `None` for a local server.
    pub(crate) parameters: Option<ParameterHeaders>,
    pub(crate) bounds: CallBounds,
    pub(crate) limits: Arc<Limits>,
}

/// A request to a server.
pub enum Request {
    /// Calls a tool.
    Tool {
        /// The tool's name.
        name: String,
        /// The tool's arguments.
        arguments: Map<String, Value>,
        /// Whether the tool only reads, so that a call of unknown outcome may be sent again.
        only_reads: bool,
    },
    /// Reads a resource.
    Resource {
        /// The resource's address.
        uri: String,
    },
    /// Gets a prompt.
    Prompt {
        /// The prompt's name.
        name: String,
        /// The prompt's arguments.
        arguments: Map<String, Value>,
    },
}

/// The parts that must be ended with the connection.
pub(crate) struct ConnectionParts {
    pub(super) service: RunningService<RoleClient, Handler>,
    pub(super) far: ServerEnd,
    pub(super) closed_its_end: CancellationToken,
    /// The task that receives changes of tools.
    pub(crate) listening: JoinSet<()>,
}

/// The server's side of a connection.
pub(super) enum ServerEnd {
    Process(Box<Process>),
    Remote(Remote),
}

impl Connection {
    /// Whether the server is alive and its list of tools still holds: no change was reported, and its lifetime has not
    /// ended.
    #[must_use]
    pub fn is_current(&self) -> bool {
        !self.is_dead() && !self.tools_are_stale()
    }

    /// Whether the server is alive and its list of tools no longer holds.
    #[must_use]
    pub fn has_news(&self) -> bool {
        !self.is_dead() && self.tools_are_stale()
    }

    /// Whether the server is gone.
    #[must_use]
    pub fn is_dead(&self) -> bool {
        self.peer.is_transport_closed()
    }

    /// The server's tools as it published them.
    #[must_use]
    pub fn tools(&self) -> Arc<[Value]> {
        Arc::clone(&self.tools.all)
    }

    /// The largest number of requests to the server that are in progress at once. Further ones wait.
    #[must_use]
    pub fn calls_at_once(&self) -> usize {
        self.bounds.at_once(&self.limits)
    }

    pub(crate) fn tools_are_stale(&self) -> bool {
        let is_old = self.tools.stale_at.is_some_and(|stale_at| Instant::now() >= stale_at);
        is_old || self.handler.changes.count() != self.listed_at
    }

    /// Reads the tools again, and returns the same connection with them. `self` keeps the earlier tools.
    pub(crate) async fn refreshed(&self) -> Result<Self, UpstreamError> {
        let listed_at = self.handler.changes.count();
        let listing = tokio::time::timeout(
            self.limits.server_start,
            list_tools(&self.peer, &self.answers, self.parameters.as_ref(), &self.limits),
        );
        match listing.await {
            Ok(Ok(tools)) => Ok(Self { tools, listed_at, ..self.clone() }),
            Ok(Err(error)) => Err(self.failure(error)),
            Err(_) => Err(UpstreamError::Deadline { server: self.server.clone() }),
        }
    }

    /// Sends a request and returns the server's own answer. The request is cancelled at the server when the clock says
    /// that no time is left, or when the caller cancels. `hears` receives its progress.
    ///
    /// # Errors
    /// See [`UpstreamError`]. A request that may have taken effect is never sent twice.
    pub async fn ask(
        &self,
        request: Request,
        clock: &impl Clock,
        cancel: &CancellationToken,
        hears: Option<watch::Sender<Option<ProgressUpdate>>>,
    ) -> Result<Box<RawValue>, Redacted> {
        let answered = async {
            self.check_offered(match &request {
                Request::Tool { .. } => ListKind::Tools,
                Request::Resource { .. } => ListKind::Resources,
                Request::Prompt { .. } => ListKind::Prompts,
            })?;
            let mut input = Input::default();
            let mut timeout = CallTimeout::new(clock);
            for round in 1..=input::ROUNDS_MAX {
                let result = self.patient((&request, &input), &mut timeout, cancel, hears.clone()).await?;
                let result = match &request {
                    Request::Tool { name, .. } if self.needs_task(name) => {
                        self.result_of_task(result, &mut timeout, cancel).await?
                    }
                    _ => result,
                };
                let required = input::required(&result);
                let required = required.map_err(|why| self.nonsense(why))?;
                let Some(required) = required else { return Ok(result) };
                input = tokio::select! {
                    answered = Input::of(required, round, &self.handler, cancel) => {
                        answered.map_err(|error| self.failure(ServiceError::McpError(error)))?
                    }
                    error = timeout.of_run(&self.server) => return Err(error),
                    () = cancel.cancelled() => return Err(UpstreamError::Cancelled { server: self.server.clone() }),
                };
            }
            Err(self.nonsense(format!("it has asked {} times, and not answered", input::ROUNDS_MAX)))
        };
        answered.await.map_err(|error| self.answers.redaction().error(error))
    }

    /// Reads all pages of a list, within the bounds; otherwise as [`Self::ask`]. The sentence says what was left out.
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub async fn list(
        &self,
        kind: ListKind,
        clock: &impl Clock,
        cancel: &CancellationToken,
    ) -> Result<(Vec<Value>, Option<String>), Redacted> {
        let listed = async {
            self.check_offered(kind)?;
            let mut pages = Pages::of(kind, &self.limits);
            while let Some(request) = pages.next() {
                let page = self.exchange(request, &mut CallTimeout::new(clock), cancel, None).await?;
                let invalid = |InvalidPage(why)| self.nonsense(format!("its list of {}: {why}", kind.name()));
                pages.take(&page).map_err(invalid)?;
            }
            let (items, lacks) = pages.into_items();
            let lacks = (!lacks.is_empty()).then(|| left_out(&lacks));
            Ok((items, lacks))
        };
        listed.await.map_err(|error| self.answers.redaction().error(error))
    }

    /// Whether the server's capabilities include this list.
    #[must_use]
    pub fn offers(&self, kind: ListKind) -> bool {
        self.peer.peer_info().is_none_or(|info| kind.is_offered(&info.capabilities))
    }

    fn check_offered(&self, kind: ListKind) -> Result<(), UpstreamError> {
        // A tool can be called even if the server offers no list of tools.
        if kind == ListKind::Tools || self.offers(kind) {
            return Ok(());
        }
        Err(UpstreamError::NotOffered { server: self.server.clone(), what: kind.name() })
    }

    /// Sends a request once, and again if the server names the time for that and nothing was done, or nothing can be.
    async fn patient(
        &self,
        (request, input): (&Request, &Input),
        timeout: &mut CallTimeout<'_, impl Clock>,
        cancel: &CancellationToken,
        hears: Option<watch::Sender<Option<ProgressUpdate>>>,
    ) -> Result<Box<RawValue>, UpstreamError> {
        let message = || match request {
            Request::Tool { name, arguments, .. } if self.needs_task(name) => {
                let params = json!({"name": name, "arguments": arguments, "task": {}});
                ClientRequest::CustomRequest(CustomRequest::new("tools/call", Some(params)))
            }
            request => request.message(input.clone()),
        };
        let error = match self.exchange(message(), timeout, cancel, hears.clone()).await {
            Ok(result) => return Ok(result),
            Err(error) => error,
        };
        let only_reads = !matches!(request, Request::Tool { only_reads: false, .. });
        let after = error.retry_after(only_reads).filter(|after| timeout.has(*after, &self.bounds));
        let Some(after) = after else { return Err(error) };
        tokio::select! {
            () = tokio::time::sleep(after) => {}
            _ = timeout.of_call(&self.server, &self.bounds) => return Err(error),
            () = cancel.cancelled() => return Err(error),
        }
        self.exchange(message(), timeout, cancel, hears).await
    }

    pub(super) async fn exchange(
        &self,
        request: ClientRequest,
        timeout: &mut CallTimeout<'_, impl Clock>,
        cancel: &CancellationToken,
        hears: Option<watch::Sender<Option<ProgressUpdate>>>,
    ) -> Result<Box<RawValue>, UpstreamError> {
        let cancelled = || UpstreamError::Cancelled { server: self.server.clone() };
        let _permit = tokio::select! {
            permit = self.permits.acquire() => permit.map_err(|_| UpstreamError::Closing)?,
            () = cancel.cancelled() => return Err(cancelled()),
            _ = timeout.of_run(&self.server) => {
                let reason = "no time was left for it beside the other calls".to_owned();
                return Err(UpstreamError::NotReached { server: self.server.clone(), reason });
            }
        };
        let mut handle = self
            .peer
            .send_cancellable_request(request, PeerRequestOptions::no_options())
            .await
            .map_err(|error| self.failure(error))?;
        let awaited = self.answers.awaited(handle.id.clone());
        let _followed = hears.map(|hears| self.handler.changes.follow(handle.progress_token.clone(), hears));
        let (answer, reason) = tokio::select! {
            answer = &mut handle.rx => (Some(answer), None),
            () = cancel.cancelled() => (None, Some(cancelled())),
            error = timeout.of_call(&self.server, &self.bounds) => (None, Some(error)),
        };
        if let Some(reason) = reason {
            let told = tokio::time::timeout(WITHDRAWING, handle.cancel(Some(reason.to_string()))).await;
            if !matches!(told, Ok(Ok(()))) {
                tracing::debug!(?told, "the cancellation did not reach the server");
            }
            return Err(reason);
        }
        match answer {
            Some(Ok(Ok(_))) => {}
            Some(Ok(Err(error))) => {
                return Err(match awaited.take().await {
                    Some(RawResult::Lost(lost)) => lost_error(self.server.clone(), lost),
                    _ => self.failure(error),
                });
            }
            Some(Err(_)) | None => return Err(self.failure(ServiceError::TransportClosed)),
        }
        match awaited.take().await {
            Some(RawResult::Result(result)) => self.checked(result),
            Some(RawResult::Unreadable(LineError::Overlong(bytes_max))) => {
                Err(UpstreamError::Overlong { server: self.server.clone(), bytes_max })
            }
            Some(RawResult::Unreadable(why)) => {
                Err(self.nonsense(format!("its answer cannot be read: {}", why.reason())))
            }
            Some(RawResult::Lost(lost)) => Err(lost_error(self.server.clone(), lost)),
            None => Err(self.nonsense("its answer has no result".into())),
        }
    }

    /// The files and hosts that the server lacks according to this text from it; empty if the server is not confined.
    pub(crate) fn lacks(&self, text: &str) -> Vec<Lack> {
        self.stderr.as_ref().map(|stderr| stderr.lacks(text)).unwrap_or_default()
    }

    /// The end of the server's stderr; empty for a remote server.
    pub(crate) fn stderr_summary(&self) -> StderrSummary {
        self.stderr.as_ref().map(StderrTail::stderr_summary).unwrap_or_default()
    }

    fn checked(&self, result: Box<RawValue>) -> Result<Box<RawValue>, UpstreamError> {
        if !result.get().starts_with('{') {
            return Err(self.nonsense("its result is no object".into()));
        }
        // The frame around the result has two levels.
        let depth_max = self.limits.json_depth_max - 2;
        if depth_exceeds(result.get().as_bytes(), depth_max) {
            return Err(self.nonsense(format!("its result nests deeper than {depth_max} levels")));
        }
        Ok(result)
    }

    pub(super) fn nonsense(&self, reason: String) -> UpstreamError {
        UpstreamError::Nonsense { server: self.server.clone(), reason }
    }

    fn failure(&self, error: ServiceError) -> UpstreamError {
        let server = self.server.clone();
        match error {
            ServiceError::McpError(error) => {
                let depth_max = self.limits.json_depth_max / 2;
                let fits = |data: &Value| {
                    let json = data.to_string();
                    json.len() <= DATA_BYTES_MAX && !depth_exceeds(json.as_bytes(), depth_max)
                };
                let data = error.data.filter(|data| !data.is_null() && fits(data));
                UpstreamError::Refused { server, message: error.message.into_owned(), data }
            }
            ServiceError::TransportClosed | ServiceError::TransportSend(_) if self.answers.were_cut_off() => {
                UpstreamError::Overlong { server, bytes_max: self.limits.server_line_bytes_max }
            }
            ServiceError::TransportClosed | ServiceError::TransportSend(_) => {
                UpstreamError::Died { server, stderr: self.stderr_summary() }
            }
            other => UpstreamError::Nonsense { server, reason: other.to_string() },
        }
    }
}

impl Request {
    fn message(&self, input: Input) -> ClientRequest {
        let Input { responses, state } = input;
        match self {
            Self::Tool { name, arguments, .. } => {
                let mut params = CallToolRequestParams::new(name.clone()).with_arguments(arguments.clone());
                (params.input_responses, params.request_state) = (responses, state);
                ClientRequest::CallToolRequest(CallToolRequest::new(params))
            }
            Self::Resource { uri } => {
                let mut params = ReadResourceRequestParams::new(uri.clone());
                (params.input_responses, params.request_state) = (responses, state);
                ClientRequest::ReadResourceRequest(ReadResourceRequest::new(params))
            }
            Self::Prompt { name, arguments } => {
                let mut params = GetPromptRequestParams::new(name.clone());
                params.arguments = (!arguments.is_empty()).then(|| arguments.clone());
                (params.input_responses, params.request_state) = (responses, state);
                ClientRequest::GetPromptRequest(GetPromptRequest::new(params))
            }
        }
    }
}

impl ConnectionParts {
    /// Waits until the server has closed its end of the connection, as a server that has ended does. Cancel-safe.
    pub(crate) async fn gone(&self) {
        self.closed_its_end.cancelled().await;
    }

    /// Ends the client, and the server's process or remote session.
    pub(crate) async fn end(mut self) {
        self.listening.shutdown().await;
        // This closes the server's stdin, at which most servers end.
        if let Err(error) = self.service.close_with_timeout(Duration::from_millis(200)).await {
            tracing::debug!(%error, "a client task broke");
        }
        match self.far {
            ServerEnd::Process(process) => drop(process.end().await),
            ServerEnd::Remote(remote) => remote.end().await,
        }
    }
}

pub(super) fn lost_error(server: ServerName, lost: NoResponse) -> UpstreamError {
    match lost {
        NoResponse::NotReached(reason) | NoResponse::Refused { reason, .. } => {
            UpstreamError::NotReached { server, reason }
        }
        NoResponse::NotAllowed(reason) => UpstreamError::NotAllowed { server, reason },
        NoResponse::NeedsLogin { reason, scope } => {
            let command = login_command(&server, scope.as_deref());
            UpstreamError::NeedsLogin { server, reason, command }
        }
        NoResponse::LoginFailed(reason) => UpstreamError::LoginFailed { server, reason },
        NoResponse::Busy { reason, after, was_refused } => {
            UpstreamError::Busy { server, reason, after, was_refused }
        }
        NoResponse::SessionLost(reason) => UpstreamError::SessionLost { server, reason },
        NoResponse::Broken(reason) => UpstreamError::Broken { server, reason },
    }
}

/// The command by which the user logs in at the server.
pub(super) fn login_command(server: &ServerName, scope: Option<&str>) -> String {
    let server = text::shell_word(server.as_str(), NAME_CHARS_MAX);
    let scopes = scope.into_iter().flat_map(str::split_whitespace);
    scopes.fold(format!("belljar login {server}"), |command, scope| format!("{command} --scope {scope}"))
}
