//! Opens a connection: starts or reaches the server, initializes it, and lists its tools.
//!
//! It keeps nothing: the connection belongs to the server's task.

use std::sync::Arc;
use std::time::Duration;

use belljar_base::limits::Limits;
use belljar_base::names::ServerName;
use belljar_base::programs::searched_places;
use belljar_base::text;
use rmcp::RoleClient;
#[expect(deprecated, reason = "servers of earlier versions take a level")]
use rmcp::model::{ClientRequest, LoggingLevel, SetLevelRequest, SetLevelRequestParams};
use rmcp::model::{ErrorCode, ProtocolVersion};
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, ClientServiceExt, Peer, PeerRequestOptions, RunningService,
    ServiceError,
};
use rmcp::transport::Transport;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::connection::{Connection, ConnectionParts, ServerEnd, lost_error};
use super::handler::Handler;
use super::listeners::ClientSide;
use super::listing::{ListKind, Tools, list_tools};
use super::subscription::subscribe;
use crate::confinement::ConfinementError;
use crate::connect_context::ConnectContext;
use crate::error::{StderrSummary, UpstreamError};
use crate::http::{ParameterHeaders, Remote};
use crate::jsonrpc::LineTransport;
use crate::no_response::NoResponse;
use crate::process::{Process, StartError, StderrTail};
use crate::raw_results::{RawResults, UNREADABLE};
use crate::{CallBounds, ProcessSpec, RemoteSpec, RemoteTransport, ServerSpec, ServerTransport};

/// The processor time, in ticks, or the output, in bytes, that counts as work of a command that installs its server.
const WORK_MIN: u64 = 10;
/// The longest list of protocol versions in an error, in characters.
const VERSIONS_CHARS_MAX: usize = 200;

/// The first request of a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Handshake {
    /// `server/discover`, as in versions from 2026-07-28 on. If a server answers it with an error, or not at all,
    /// `initialize` is sent over the same connection.
    Discover,
    /// `initialize` over a new connection, as in earlier versions: for a server with which the first attempt failed,
    /// for example since it ended at `server/discover`.
    Initialize,
    /// `server/discover` with all the time that is left: for a server that answered it too late the first time, and
    /// then refused `initialize`.
    DiscoverPatiently,
}

/// One attempt to connect.
#[derive(Clone, Copy)]
struct Attempt<'a> {
    handshake: Handshake,
    server: &'a ServerName,
    bounds: &'a CallBounds,
    side: &'a Arc<ClientSide>,
    limits: &'a Arc<Limits>,
    time: Duration,
    /// Whether a command that installs its server gets more time, since its entry sets none.
    may_install: bool,
    deadline: Instant,
    context: &'a ConnectContext,
}

/// The reason for which an attempt to connect failed.
struct AttemptError {
    error: UpstreamError,
    /// The handshake that may succeed next; `None` if another attempt would not help, for example since no time is
    /// left. The server wants to have this time before that.
    next: Option<(Handshake, Duration)>,
}

/// The reason for which no session began over a transport.
enum HandshakeError {
    /// The server refused, or ended.
    Refused(String),
    /// The server answered `server/discover` only after `initialize` was sent, and then refused `initialize`.
    Newer(String),
    /// The server did not answer in time.
    Late(String),
    /// The connection could not be prepared, so nothing was sent.
    Unprepared(String),
}

/// A session that has begun, with the tools that the server listed.
type OpenSession = (RunningService<RoleClient, Handler>, Peer<RoleClient>, Tools);

impl Connection {
    /// Starts or reaches the server, initializes it, and reads all pages of its tools, within the start time of its
    /// entry or else within `limits.server_start`.
    pub(crate) async fn open(
        spec: &ServerSpec,
        side: &Arc<ClientSide>,
        limits: &Arc<Limits>,
        context: &ConnectContext,
    ) -> Result<(Self, ConnectionParts), UpstreamError> {
        let time = spec.start_time.unwrap_or(limits.server_start);
        let deadline = Instant::now() + time;
        context.unread.clear();
        let (server, bounds) = (&spec.name, &spec.bounds);
        let handshake = match &spec.transport {
            // Its version is older than `server/discover`, which such servers may leave unanswered.
            ServerTransport::Remote(RemoteSpec { transport: Some(RemoteTransport::Sse), .. }) => {
                Handshake::Initialize
            }
            _ => Handshake::Discover,
        };
        let may_install = spec.start_time.is_none();
        let attempt =
            Attempt { handshake, server, bounds, side, limits, time, may_install, deadline, context };
        let first = match attempt.open(spec).await {
            Ok(opened) => return Ok(opened),
            Err(failed) => failed,
        };
        let is_possible = |(next, after): &(Handshake, Duration)| {
            (*next != handshake || !after.is_zero()) && Instant::now() + *after < deadline
        };
        let Some((handshake, after)) = first.next.filter(is_possible) else { return Err(first.error) };
        tokio::time::sleep(after).await;
        match (Attempt { handshake, ..attempt }.open(spec).await, handshake) {
            (Ok(opened), _) => Ok(opened),
            (Err(second), Handshake::Initialize) if after.is_zero() => Err(both(first.error, second.error)),
            (Err(second), _) => Err(second.error),
        }
    }
}

/// Joins the errors of both handshakes. A common reason is named once.
fn both(discover: UpstreamError, initialize: UpstreamError) -> UpstreamError {
    match (discover, initialize) {
        (
            UpstreamError::Handshake { reason: first, .. },
            UpstreamError::Handshake { server, reason: second, is_late, stderr },
        ) if first != second => {
            let reason = format!("after server/discover: {first}; after initialize: {second}");
            UpstreamError::Handshake { server, reason, is_late, stderr }
        }
        (_, second) => second,
    }
}

impl Attempt<'_> {
    /// The connection of a successful attempt.
    fn connection(
        self,
        (peer, tools): (Peer<RoleClient>, Tools),
        handler: Handler,
        stderr: Option<StderrTail>,
        answers: RawResults,
    ) -> Connection {
        Connection {
            server: self.server.clone(),
            peer,
            stderr,
            permits: Arc::new(Semaphore::new(self.bounds.at_once(self.limits))),
            tools,
            handler,
            listed_at: 0,
            answers,
            parameters: None,
            bounds: self.bounds.clone(),
            limits: Arc::clone(self.limits),
        }
    }

    /// The reader of the server's messages.
    fn answers(self, handler: &Handler) -> RawResults {
        let roots = handler.roots().ok().and_then(|roots| serde_json::to_value(roots).ok());
        let ConnectContext { redaction, unread, .. } = self.context;
        RawResults::of(redaction.clone(), unread.clone()).with_roots(roots)
    }

    /// Subscribes to changes of tools, if the server's version needs that.
    fn listening(self, peer: &Peer<RoleClient>, handler: &Handler) -> JoinSet<()> {
        match peer.peer_info() {
            Some(info) if !info.protocol_version.has_initialize() => subscribe(peer, &handler.changes),
            _ => JoinSet::new(),
        }
    }

    async fn open(self, spec: &ServerSpec) -> Result<(Connection, ConnectionParts), AttemptError> {
        match &spec.transport {
            ServerTransport::Process(process) => started(self, process).await,
            ServerTransport::Remote(remote) => reached(self, remote).await,
        }
    }
}

async fn started(
    attempt: Attempt<'_>,
    spec: &ProcessSpec,
) -> Result<(Connection, ConnectionParts), AttemptError> {
    let (server, limits) = (attempt.server.clone(), attempt.limits);
    let redaction = &attempt.context.redaction;
    let (process, pipes) = Process::start(spec, redaction, limits.server_stderr_bytes_max)
        .map_err(|error| AttemptError { error: spawn_error(server.clone(), spec, error), next: None })?;
    let stderr = process.stderr();
    let handler = Handler::new(attempt.server.clone(), attempt.side, attempt.context.private_to.clone());
    let answers = attempt.answers(&handler);
    let (transport, closed_its_end) = LineTransport::new(
        answers.clone(),
        pipes.stdout,
        pipes.stdin,
        limits.server_line_bytes_max,
        limits.peer_requests_in_flight_max,
    );
    let seen = handler.clone();
    let is_patient = attempt.may_install && spec.is_launcher();
    let work = || if is_patient { process.work() } else { 0 };
    match opened(attempt, handler, transport, (&answers, None), work).await {
        Ok((service, peer, tools)) => {
            let listening = attempt.listening(&peer, &seen);
            let connection = attempt.connection((peer, tools), seen, Some(stderr), answers);
            let far = ServerEnd::Process(Box::new(process));
            Ok((connection, ConnectionParts { service, far, closed_its_end, listening }))
        }
        Err(handshake_error) => {
            // The stderr of a server that is late is read before the server is ended, since output about the end is not
            // the reason.
            let is_late = matches!(handshake_error, HandshakeError::Late(_));
            let before_its_end = is_late.then(|| process.stderr().first_error_and_summary());
            // Otherwise the stderr is read after the end, since the last lines may arrive late.
            let ended = process.end().await;
            let (reason, next) = handshake_error.parts();
            Err(match ended.not_started {
                Some(error) => AttemptError { error: spawn_error(server, spec, error), next: None },
                None => {
                    let stderr = before_its_end.filter(|words| !words.text.is_empty());
                    let stderr = stderr.unwrap_or_else(|| ended.stderr.first_error_and_summary());
                    AttemptError { error: UpstreamError::Handshake { server, reason, is_late, stderr }, next }
                }
            })
        }
    }
}

/// Connects over the transport that the entry names. If it names none, Streamable HTTP is tried first, and HTTP+SSE if
/// the server refuses `initialize`.
async fn reached(
    attempt: Attempt<'_>,
    spec: &RemoteSpec,
) -> Result<(Connection, ConnectionParts), AttemptError> {
    let first = spec.transport.unwrap_or(RemoteTransport::Streamable);
    let (handshake_error, lost) = match reached_over(first, attempt, spec).await {
        Ok(opened) => return Ok(opened),
        Err(failed) => failed,
    };
    let is_late = matches!(handshake_error, HandshakeError::Late(_));
    let (reason, next) = handshake_error.parts();
    let refuses_posts = matches!(lost, Some(NoResponse::Refused { status: 400 | 404 | 405, .. }));
    let reason = if spec.transport.is_none() && refuses_posts && attempt.handshake == Handshake::Initialize {
        match reached_over(RemoteTransport::Sse, attempt, spec).await {
            Ok(opened) => return Ok(opened),
            Err((second, _)) => {
                format!("over Streamable HTTP: {reason}; over HTTP+SSE: {}", second.parts().0)
            }
        }
    } else {
        reason
    };
    let server = attempt.server.clone();
    Err(match lost {
        Some(
            lost @ (NoResponse::NotAllowed(_) | NoResponse::NeedsLogin { .. } | NoResponse::LoginFailed(_)),
        ) => AttemptError { error: lost_error(server, lost), next: None },
        lost => AttemptError {
            error: UpstreamError::Handshake { server, reason, is_late, stderr: StderrSummary::default() },
            next: match lost {
                Some(NoResponse::NotReached(_)) => None,
                Some(NoResponse::Busy { after: Some(after), .. }) => Some((attempt.handshake, after)),
                _ => next,
            },
        },
    })
}

async fn reached_over(
    transport: RemoteTransport,
    attempt: Attempt<'_>,
    spec: &RemoteSpec,
) -> Result<(Connection, ConnectionParts), (HandshakeError, Option<NoResponse>)> {
    let handler = Handler::new(attempt.server.clone(), attempt.side, attempt.context.private_to.clone());
    let (answers, limits) = (attempt.answers(&handler), attempt.limits);
    let parameters = ParameterHeaders::default();
    let sides = (answers.clone(), parameters.clone());
    let (remote, received, sent) = Remote::open(spec, transport, attempt.context, sides, limits)
        .map_err(|reason| (HandshakeError::Unprepared(reason), None))?;
    let (lines, closed_its_end) = LineTransport::between(
        answers.clone(),
        received,
        sent,
        limits.server_line_bytes_max,
        limits.peer_requests_in_flight_max,
    );
    let seen = handler.clone();
    match opened(attempt, handler, lines, (&answers, Some(&parameters)), || 0).await {
        Ok((service, peer, tools)) => {
            let listening = attempt.listening(&peer, &seen);
            let mut connection = attempt.connection((peer, tools), seen, None, answers);
            connection.parameters = Some(parameters);
            Ok((
                connection,
                ConnectionParts { service, far: ServerEnd::Remote(remote), closed_its_end, listening },
            ))
        }
        Err(handshake_error) => {
            remote.end().await;
            match answers.not_opened() {
                Some(lost) => Err((HandshakeError::Refused(lost.reason().to_owned()), Some(lost))),
                None => Err((handshake_error, None)),
            }
        }
    }
}

async fn opened<T>(
    attempt: Attempt<'_>,
    handler: Handler,
    transport: T,
    (answers, parameters): (&RawResults, Option<&ParameterHeaders>),
    work: impl Fn() -> u64,
) -> Result<OpenSession, HandshakeError>
where
    T: Transport<RoleClient> + Send + 'static,
{
    let limits = attempt.limits;
    let mode = match attempt.handshake {
        Handshake::Initialize => ClientLifecycleMode::Initialize,
        Handshake::DiscoverPatiently => {
            ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::LATEST] }
        }
        Handshake::Discover => ClientLifecycleMode::Auto {
            preferred_versions: vec![ProtocolVersion::LATEST],
            legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
        },
    };
    let opening = async {
        let service = handler.serve_with_lifecycle(transport, mode).await;
        let service = service.map_err(|error| match answers.discovered_late() {
            true => HandshakeError::Newer(start_reason(&error)),
            false => HandshakeError::Refused(start_reason(&error)),
        })?;
        let peer = service.peer().clone();
        let tools = if peer.peer_info().is_none_or(|info| ListKind::Tools.is_offered(&info.capabilities)) {
            match list_tools(&peer, answers, parameters, limits).await {
                Err(ServiceError::McpError(error)) if error.code == ErrorCode::METHOD_NOT_FOUND => {
                    answers.unread().items(vec!["all tools, since it has no tools/list".into()]);
                    Tools::default()
                }
                tools => tools.map_err(|error| HandshakeError::Refused(format!("tools/list: {error}")))?,
            }
        } else {
            Tools::default()
        };
        if peer.peer_info().is_some_and(|info| info.capabilities.logging.is_some()) {
            ask_for_words(&peer).await;
        }
        Ok((service, peer, tools))
    };
    let mut opening = std::pin::pin!(opening);
    let (began, mut deadline, mut before) = (Instant::now(), attempt.deadline, 0);
    loop {
        if let Ok(opened) = tokio::time::timeout_at(deadline, &mut opening).await {
            return opened;
        }
        let done = work();
        let is_working = done.abs_diff(before) > WORK_MIN && began.elapsed() < limits.server_installation;
        if !is_working {
            break;
        }
        (before, deadline) = (done, deadline + attempt.time);
    }
    let set_in = match attempt.bounds.set_in.as_str() {
        "" => String::new(),
        set_in => format!(" (start_timeout in {set_in})"),
    };
    let time = deadline.saturating_duration_since(attempt.deadline) + attempt.time;
    Err(HandshakeError::Late(format!("no answer within {} s{set_in}", time.as_secs_f64())))
}

/// Sets the level of the server's messages, since some servers send none before that and others too many. It does not
/// wait for the answer.
#[expect(deprecated, reason = "servers of earlier versions say it so")]
async fn ask_for_words(peer: &Peer<RoleClient>) {
    let level = SetLevelRequest::new(SetLevelRequestParams::new(LoggingLevel::Info));
    let request = ClientRequest::SetLevelRequest(level);
    if let Err(error) = peer.send_cancellable_request(request, PeerRequestOptions::no_options()).await {
        tracing::debug!(%error, "a server was not asked for its messages");
    }
}

impl HandshakeError {
    /// The reason, and the handshake that may succeed instead.
    fn parts(self) -> (String, Option<(Handshake, Duration)>) {
        match self {
            Self::Refused(reason) => (reason, Some((Handshake::Initialize, Duration::ZERO))),
            Self::Newer(reason) => (reason, Some((Handshake::DiscoverPatiently, Duration::ZERO))),
            Self::Late(reason) | Self::Unprepared(reason) => (reason, None),
        }
    }
}

/// The reason without the names of Rust types, which rmcp puts into the text of transport errors.
fn start_reason(error: &ClientInitializeError) -> String {
    match error {
        ClientInitializeError::ConnectionClosed(_) | ClientInitializeError::TransportError { .. } => {
            "it ended, or closed its end, before it was initialized".into()
        }
        ClientInitializeError::JsonRpcError(error) if error.code == UNREADABLE => error.message.to_string(),
        ClientInitializeError::JsonRpcError(error) => format!("JSON-RPC error: {error}"),
        ClientInitializeError::LegacyFallbackFailed { discover, fallback } => format!(
            "after server/discover: {}; after initialize: {}",
            start_reason(discover),
            start_reason(fallback)
        ),
        ClientInitializeError::NoCompatibleProtocolVersion { client_supported, server_supported } => format!(
            "it supports the protocol versions {}, and belljar {}",
            listed(server_supported),
            listed(client_supported)
        ),
        _ => "its answer belongs to no request of belljar's".into(),
    }
}

fn listed(versions: &[ProtocolVersion]) -> String {
    let versions: Vec<String> = versions.iter().map(ToString::to_string).collect();
    text::bounded(&versions.join(", "), VERSIONS_CHARS_MAX).into_owned()
}

fn spawn_error(server: ServerName, spec: &ProcessSpec, error: StartError) -> UpstreamError {
    let error = match error {
        StartError::Program(error) => error,
        StartError::Confinement(ConfinementError { reason, remedy }) => {
            return UpstreamError::NotConfined { server, reason, remedy };
        }
    };
    let (missing, spec) = (error.kind() == std::io::ErrorKind::NotFound, &spec.found());
    let reason = match &spec.cwd {
        Some(cwd) if missing && !cwd.is_dir() => format!("its folder {} does not exist", cwd.display()),
        _ if missing && spec.program.is_file() => {
            format!("its command {:?} needs an interpreter that was not found", spec.program)
        }
        _ if missing && !spec.program.as_os_str().as_encoded_bytes().contains(&b'/') => {
            let places = searched_places(spec.variable("PATH").as_deref());
            format!("its command {:?} was not found in {places}", spec.program)
        }
        _ if missing => format!("its command {:?} was not found", spec.program),
        _ => format!("its command {:?}: {error}", spec.program),
    };
    UpstreamError::Spawn { server, reason }
}
