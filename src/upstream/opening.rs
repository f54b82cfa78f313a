//! How a connection begins: the server is started or reached, initialized, and asked for its tools.
//!
//! It keeps nothing: what it opens belongs to the server's task.

use std::sync::Arc;

use rmcp::RoleClient;
use rmcp::model::ProtocolVersion;
#[expect(deprecated, reason = "servers of earlier versions take a level")]
use rmcp::model::{ClientRequest, LoggingLevel, SetLevelRequest, SetLevelRequestParams};
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, ClientServiceExt, Peer, PeerRequestOptions, RunningService,
};
use rmcp::transport::Transport;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::answers::Answers;
use super::connection::{Connection, Far, Running, lost_error};
use super::error::UpstreamError;
use super::face::Face;
use super::http::{Lost, Remote};
use super::listeners::ClientSide;
use super::listing::{Listed, Tools, list_tools};
use super::oauth::Access;
use super::process::{Process, StderrTail};
use super::redaction::Redaction;
use super::subscription::subscribe;
use super::{CallBounds, ProcessSpec, RemoteSpec, RemoteTransport, ServerSpec, Way};
use crate::jsonrpc::LineTransport;
use crate::limits::Limits;
use crate::names::ServerName;

/// What a connection uses that outlives it.
pub(super) struct Means {
    /// The login that there may be at a remote server.
    pub(super) access: Option<Arc<Access>>,
    /// What it is trusted with.
    pub(super) redaction: Redaction,
    /// Large bodies that may be read at once, of all remote servers.
    pub(super) large_bodies: Arc<Semaphore>,
}

/// How the two sides begin to speak.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Beginning {
    /// With `initialize`, as all versions before 2026-07-28.
    Initialize,
    /// With `server/discover`, as the stateless ones.
    Discover,
}

/// One attempt.
#[derive(Clone, Copy)]
struct Attempt<'a> {
    beginning: Beginning,
    server: &'a ServerName,
    bounds: &'a CallBounds,
    side: &'a Arc<ClientSide>,
    limits: &'a Arc<Limits>,
    deadline: Instant,
    means: &'a Means,
}

/// Why a connection was not opened.
enum NotOpened {
    /// The server answered, and does not want this beginning.
    Declined(String),
    /// Anything else.
    Failed(String),
}

type Opened = (RunningService<RoleClient, Face>, Peer<RoleClient>, Tools);

impl Connection {
    /// Starts or reaches the server, initializes it, reads all pages of its tools; all within `limits.server_start`.
    pub(super) async fn open(
        spec: &ServerSpec,
        side: &Arc<ClientSide>,
        limits: &Arc<Limits>,
        means: &Means,
    ) -> Result<(Self, Running), UpstreamError> {
        let deadline = Instant::now() + limits.server_start;
        let (server, bounds) = (&spec.name, &spec.bounds);
        let beginning = Beginning::Initialize;
        let attempt = Attempt { beginning, server, bounds, side, limits, deadline, means };
        let first = attempt.open(spec).await;
        match first {
            // Whatever its words are: a server of the stateless era has no `initialize`.
            Err((_, true)) => {
                let second = Attempt { beginning: Beginning::Discover, ..attempt }.open(spec).await;
                second.or(first).map_err(|(error, _)| error)
            }
            other => other.map_err(|(error, _)| error),
        }
    }
}

impl Attempt<'_> {
    /// What the opening has come to.
    fn connection(
        self,
        (peer, tools): (Peer<RoleClient>, Tools),
        face: Face,
        stderr: Option<StderrTail>,
        answers: Answers,
    ) -> Connection {
        Connection {
            server: self.server.clone(),
            peer,
            stderr,
            permits: self.permits(),
            tools,
            face,
            listed_at: 0,
            answers,
            bounds: self.bounds.clone(),
            limits: Arc::clone(self.limits),
        }
    }

    /// Hears of changed tools, where the server does not tell of them by itself.
    fn listening(self, peer: &Peer<RoleClient>, face: &Face) -> JoinSet<()> {
        match self.beginning {
            Beginning::Initialize => JoinSet::new(),
            Beginning::Discover => subscribe(peer, &face.changes),
        }
    }

    /// As many as there may be calls at once.
    fn permits(self) -> Arc<Semaphore> {
        let of_any = self.limits.calls_in_flight_per_server_max;
        Arc::new(Semaphore::new(self.bounds.at_once.map_or(of_any, |at_once| at_once.min(of_any))))
    }

    /// The error says too whether the server declined this beginning.
    async fn open(self, spec: &ServerSpec) -> Result<(Connection, Running), (UpstreamError, bool)> {
        match &spec.way {
            Way::Process(process) => started(self, process).await,
            Way::Remote(remote) => reached(self, remote).await,
        }
    }
}

async fn started(
    attempt: Attempt<'_>,
    spec: &ProcessSpec,
) -> Result<(Connection, Running), (UpstreamError, bool)> {
    let (server, limits) = (attempt.server.clone(), attempt.limits);
    let redaction = &attempt.means.redaction;
    let (process, pipes) =
        Process::start(spec, redaction, limits.server_stderr_bytes_max).map_err(|error| {
            (UpstreamError::Spawn { server: server.clone(), reason: spawn_reason(spec, &error) }, false)
        })?;
    let stderr = process.stderr();
    let answers = Answers::of(redaction.clone());
    let (transport, closed_its_end) = LineTransport::new(
        answers.clone(),
        pipes.stdout,
        pipes.stdin,
        limits.server_line_bytes_max,
        limits.peer_requests_in_flight_max,
    );
    let face = Face::new(attempt.server.clone(), attempt.side);
    let seen = face.clone();
    match opened(attempt, face, transport, &answers).await {
        Ok((service, peer, tools)) => {
            let listening = attempt.listening(&peer, &seen);
            let connection = attempt.connection((peer, tools), seen, Some(stderr), answers);
            let far = Far::Process(Box::new(process));
            Ok((connection, Running { service, far, closed_its_end, listening }))
        }
        Err(not_opened) => {
            // Its last words may come after its last breath.
            let ended = process.end().await;
            let (reason, declined) = not_opened.parts();
            let error = match ended.not_started {
                Some(error) => UpstreamError::Spawn { server, reason: spawn_reason(spec, &error) },
                None => UpstreamError::Handshake { server, reason, stderr: ended.stderr.last_words() },
            };
            Err((error, declined))
        }
    }
}

/// Over the transport that the entry names; else over Streamable HTTP, and HTTP+SSE where the server refuses that.
async fn reached(
    attempt: Attempt<'_>,
    spec: &RemoteSpec,
) -> Result<(Connection, Running), (UpstreamError, bool)> {
    let first = spec.transport.unwrap_or(RemoteTransport::Streamable);
    let (reason, lost, declined) = match reached_over(first, attempt, spec).await {
        Ok(opened) => return Ok(opened),
        Err(failed) => failed,
    };
    // An older server, or one of the stateless era.
    let is_other = matches!(lost, Some(Lost::Refused { status: 400 | 404 | 405, .. }));
    let may_be_older = is_other && attempt.beginning == Beginning::Initialize;
    let reason = if spec.transport.is_none() && may_be_older {
        match reached_over(RemoteTransport::Sse, attempt, spec).await {
            Ok(opened) => return Ok(opened),
            Err((second, ..)) => format!("over Streamable HTTP: {reason}; over HTTP+SSE: {second}"),
        }
    } else {
        reason
    };
    let server = attempt.server.clone();
    Err(match lost {
        Some(lost @ (Lost::NotAllowed(_) | Lost::NeedsLogin { .. })) => (lost_error(server, lost), false),
        _ => (UpstreamError::Handshake { server, reason, stderr: String::new() }, declined || is_other),
    })
}

async fn reached_over(
    transport: RemoteTransport,
    attempt: Attempt<'_>,
    spec: &RemoteSpec,
) -> Result<(Connection, Running), (String, Option<Lost>, bool)> {
    let (answers, limits) = (Answers::of(attempt.means.redaction.clone()), attempt.limits);
    let (remote, received, sent) = Remote::open(spec, transport, attempt.means, answers.clone(), limits)
        .map_err(|reason| (reason, None, false))?;
    let (lines, closed_its_end) = LineTransport::between(
        answers.clone(),
        received,
        sent,
        limits.server_line_bytes_max,
        limits.peer_requests_in_flight_max,
    );
    let face = Face::new(attempt.server.clone(), attempt.side);
    let seen = face.clone();
    match opened(attempt, face, lines, &answers).await {
        Ok((service, peer, tools)) => {
            let listening = attempt.listening(&peer, &seen);
            let connection = attempt.connection((peer, tools), seen, None, answers);
            Ok((connection, Running { service, far: Far::Remote(remote), closed_its_end, listening }))
        }
        Err(not_opened) => {
            remote.end().await;
            let (reason, declined) = not_opened.parts();
            match answers.not_opened() {
                Some(lost) => Err((lost.reason().to_owned(), Some(lost), false)),
                None => Err((reason, None, declined)),
            }
        }
    }
}

async fn opened<T>(
    attempt: Attempt<'_>,
    face: Face,
    transport: T,
    answers: &Answers,
) -> Result<Opened, NotOpened>
where
    T: Transport<RoleClient> + Send + 'static,
{
    let limits = attempt.limits;
    let mode = match attempt.beginning {
        Beginning::Initialize => ClientLifecycleMode::Initialize,
        Beginning::Discover => {
            ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::LATEST] }
        }
    };
    let opening = async {
        let service =
            face.serve_with_lifecycle(transport, mode).await.map_err(|error| start_reason(&error))?;
        let peer = service.peer().clone();
        let tools = if peer.peer_info().is_none_or(|info| Listed::Tools.is_offered(&info.capabilities)) {
            let tools = list_tools(&peer, answers, limits).await;
            tools.map_err(|error| NotOpened::Failed(format!("tools/list: {error}")))?
        } else {
            Tools { all: Arc::from([]), stale_at: None }
        };
        if peer.peer_info().is_some_and(|info| info.capabilities.logging.is_some()) {
            ask_for_words(&peer).await;
        }
        Ok((service, peer, tools))
    };
    match tokio::time::timeout_at(attempt.deadline, opening).await {
        Ok(opened) => opened,
        Err(_) => Err(NotOpened::Failed(format!("no answer within {} s", limits.server_start.as_secs()))),
    }
}

/// Some servers say nothing of themselves before they are asked to, others too much. Nobody waits for the answer.
#[expect(deprecated, reason = "servers of earlier versions say it so")]
async fn ask_for_words(peer: &Peer<RoleClient>) {
    let level = SetLevelRequest::new(SetLevelRequestParams::new(LoggingLevel::Info));
    let request = ClientRequest::SetLevelRequest(level);
    if let Err(error) = peer.send_cancellable_request(request, PeerRequestOptions::no_options()).await {
        tracing::debug!(%error, "a server was not asked for its messages");
    }
}

impl NotOpened {
    /// What happened, and whether the server declined the beginning.
    fn parts(self) -> (String, bool) {
        match self {
            Self::Declined(reason) => (reason, true),
            Self::Failed(reason) => (reason, false),
        }
    }
}

/// Without the names of Rust types, which rmcp puts into the text of transport errors.
fn start_reason(error: &ClientInitializeError) -> NotOpened {
    match error {
        ClientInitializeError::ConnectionClosed(_) | ClientInitializeError::TransportError { .. } => {
            NotOpened::Failed("it ended, or closed its end, before it was initialized".into())
        }
        ClientInitializeError::JsonRpcError(error) => NotOpened::Declined(format!("JSON-RPC error: {error}")),
        other => NotOpened::Failed(other.to_string()),
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
