//! The HTTP side of `belljar serve`: who may come in, and how much at once. rmcp speaks Streamable HTTP.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, OnceLock, Weak};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use belljar_base::text;
use bytes::Bytes;
use http::header::{ALLOW, AUTHORIZATION, CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use rmcp::transport::streamable_http_server::session::SessionStore;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::owners::{OpenRequest, Owner, Owners, REQUESTS_MAX, Service, ServiceParts};
use super::tls::Tls;
use super::tokens::{Token, TokenError};
use crate::audit::AuditLog;
use crate::server::Remote;

/// The largest number of connections at once. A further one is closed.
const CONNECTIONS_MAX: usize = 512;
/// The longest time for the head of a request, and of a connection between two requests.
const HEAD: Duration = Duration::from_secs(30);
/// The longest time for the body of a request.
const BODY: Duration = Duration::from_secs(60);
/// The longest time for the TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// The largest head of a request, in bytes.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// The largest number of headers.
const HEADERS_MAX: usize = 100;
/// Seconds after which a client that was refused for lack of room may try again.
const RETRY_S: &str = "2";
/// How often a removed or expired token is noticed while its sessions last.
const LOOK: Duration = Duration::from_secs(1);
/// Equal refusals are written down once in this time, with their number.
const COUNTING: Duration = Duration::from_secs(1);

tokio::task_local! {
    /// The id of the protocol's session that the request in progress opens or comes back to, for the server that rmcp asks for
    /// meanwhile.
    static OPENED: Arc<OnceLock<String>>;
}

type Answer = Response<BoxBody<Bytes, Infallible>>;

/// What the command line says of the HTTP side.
#[derive(Debug, Clone)]
pub(crate) struct HttpOptions {
    /// The address to listen on.
    pub(crate) address: SocketAddr,
    /// The values of `Host` that are served besides those of loopback.
    pub(crate) hosts: Vec<String>,
    /// The origins of web pages that are served; no other page is.
    pub(crate) origins: Vec<String>,
    /// The certificate and key for TLS.
    pub(crate) tls: Option<Tls>,
}

/// Serves HTTP.
pub(super) struct Http {
    owners: Arc<Owners>,
    options: HttpOptions,
    log: AuditLog,
    /// The refusals by the word for the reason.
    refused: Mutex<BTreeMap<&'static str, Counted>>,
    body_bytes_max: usize,
}

impl Http {
    pub(super) fn new(
        owners: Arc<Owners>,
        options: HttpOptions,
        log: AuditLog,
        body_bytes_max: usize,
    ) -> Self {
        Self { owners, options, log, refused: Mutex::default(), body_bytes_max }
    }

    /// Serves until `stopping` is cancelled.
    pub(super) async fn serve(self: Arc<Self>, listener: TcpListener, stopping: CancellationToken) {
        let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let mut connections = JoinSet::new();
        let mut look = tokio::time::interval(LOOK);
        look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok((stream, peer)) => match Arc::clone(&room).try_acquire_owned() {
                        Ok(place) => {
                            let (own, stopping) = (Arc::clone(&self), stopping.clone());
                            connections.spawn(async move {
                                let _place = place;
                                if let Err(error) = stream.set_nodelay(true) {
                                    tracing::debug!(%error, "small messages may be held back");
                                }
                                match &own.options.tls {
                                    None => own.connection(stream, peer, stopping).await,
                                    Some(tls) => {
                                        let tls = tls.accept(stream);
                                        match tokio::time::timeout(HANDSHAKE, tls).await {
                                            Ok(Ok(stream)) => own.connection(stream, peer, stopping).await,
                                            failed => tracing::debug!(?failed, "no TLS"),
                                        }
                                    }
                                }
                            });
                        }
                        Err(_) => {
                            self.write_down("too_many_connections", None, peer).await;
                        }
                    },
                    Err(error) => {
                        // The reason may pass, for example too many open files.
                        tracing::error!(%error, "cannot accept a connection");
                        tokio::time::sleep(Duration::from_millis(100)).await;
                    }
                },
                Some(_) = connections.join_next() => {}
                _ = look.tick() => {
                    self.owners.end_those_without_token();
                    self.write_counted().await;
                }
                () = stopping.cancelled() => break,
            }
        }
        drop(listener);
        self.owners.end_all().await;
        connections.shutdown().await;
        self.write_counted().await;
        self.log.close().await;
    }

    async fn connection(
        self: Arc<Self>,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        peer: SocketAddr,
        stopping: CancellationToken,
    ) {
        let own = Arc::clone(&self);
        let service = service_fn(move |request| {
            let own = Arc::clone(&own);
            async move { Ok::<_, Infallible>(own.answer(request, peer).await) }
        });
        let connection = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD)
            .max_buf_size(HEAD_BYTES_MAX)
            .max_headers(HEADERS_MAX)
            .serve_connection(TokioIo::new(stream), service);
        tokio::pin!(connection);
        tokio::select! {
            served = &mut connection => {
                if let Err(error) = served {
                    tracing::debug!(%error, "a connection has ended");
                }
            }
            () = stopping.cancelled() => {
                connection.as_mut().graceful_shutdown();
                let _ = connection.await;
            }
        }
    }

    async fn answer(&self, request: Request<Incoming>, peer: SocketAddr) -> Answer {
        match request.uri().path() {
            "/healthz" if request.method() == Method::GET => said(StatusCode::OK, "ok\n"),
            "/mcp" => self.mcp(request, peer).await,
            _ => said(StatusCode::NOT_FOUND, "not found: MCP is at /mcp\n"),
        }
    }

    async fn mcp(&self, request: Request<Incoming>, peer: SocketAddr) -> Answer {
        let token = match self.token(&request) {
            Ok(token) => token,
            Err(error) => {
                self.write_down(error.word(), None, peer).await;
                return unauthorized(error);
            }
        };
        let name = token.name.clone();
        let Some(owner) = self.owners.of(token, |owner, parts, ending| self.service(owner, parts, ending))
        else {
            return said(StatusCode::SERVICE_UNAVAILABLE, "belljar is ending\n");
        };
        let session = session_of(request.headers());
        let is_opening = session.is_none() && request.method() == Method::POST;
        let Some(mut open) = owner.open(session) else {
            self.write_down("too_many_requests", Some(&name), peer).await;
            let why =
                format!("{REQUESTS_MAX} requests of {name} are in progress; try again when one has ended\n");
            return busy(&why);
        };
        if is_opening {
            owner.end_left_connection().await;
            if !owner.has_room() {
                self.write_down("too_many_sessions", Some(&name), peer).await;
                return busy("there are too many sessions; end one by DELETE\n");
            }
        }
        let is_deleting = request.method() == Method::DELETE;
        let (head, body) = request.into_parts();
        let too_large = || {
            said(
                StatusCode::PAYLOAD_TOO_LARGE,
                &format!("the body has more than {} bytes\n", self.body_bytes_max),
            )
        };
        if body.size_hint().lower() > self.body_bytes_max as u64 {
            return too_large();
        }
        let body = match tokio::time::timeout(BODY, Limited::new(body, self.body_bytes_max).collect()).await {
            Ok(Ok(body)) => body.to_bytes(),
            Ok(Err(error)) if error.is::<LengthLimitError>() => return too_large(),
            Ok(Err(error)) => {
                return said(StatusCode::BAD_REQUEST, &format!("the body cannot be read: {error}\n"));
            }
            Err(_) => return said(StatusCode::REQUEST_TIMEOUT, "the body has not come in time\n"),
        };
        let service = owner.service.clone();
        let opened: Arc<OnceLock<String>> = Arc::default();
        if let Some(session) = session_of(&head.headers) {
            opened.get_or_init(|| session);
        }
        let handling = service.handle(Request::from_parts(head, Full::new(body)));
        let answer = OPENED.scope(Arc::clone(&opened), handling).await;
        if answer.status() == StatusCode::FORBIDDEN {
            self.write_down("foreign_host_or_origin", Some(&name), peer).await;
        }
        if is_opening {
            let session = session_of(answer.headers());
            if let Some(session) = &session {
                opened.get_or_init(|| session.clone());
            }
            open.is_of(session);
        } else if is_deleting || answer.status() == StatusCode::NOT_FOUND {
            open.is_over();
        }
        answer.map(|body| BoxBody::new(Holding { body, _open: open }))
    }

    fn token(&self, request: &Request<Incoming>) -> Result<Token, TokenError> {
        let header = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        self.owners.tokens.of_request(header)
    }

    /// rmcp's part for the sessions of one owner.
    fn service(
        &self,
        owner: &Weak<Owner>,
        (manager, open): ServiceParts<'_>,
        ending: CancellationToken,
    ) -> Service {
        let usual = StreamableHttpServerConfig::default();
        let (scheme, port) =
            (if self.options.tls.is_some() { "https" } else { "http" }, self.options.address.port());
        // belljar has no pages of its own, so no page has these origins. Some programs send them all the same.
        let own = ["127.0.0.1", "localhost", "[::1]"].map(|host| format!("{scheme}://{host}:{port}"));
        let origins: Vec<String> = self.options.origins.iter().cloned().chain(own).collect();
        let hosts: Vec<String> = usual.allowed_hosts.iter().chain(&self.options.hosts).cloned().collect();
        let mut config = usual
            .with_allowed_hosts(hosts)
            .with_allowed_origins(origins)
            .enforce_origin_validation()
            .with_max_request_body_bytes(self.body_bytes_max)
            .with_cancellation_token(ending);
        config.session_store = open.map(|open| Arc::new(open) as Arc<dyn SessionStore>);
        let owner = owner.clone();
        let remote = move || {
            let owner = owner.upgrade().ok_or_else(|| io::Error::other("the owner has gone"))?;
            let id = OPENED.try_with(Arc::clone).unwrap_or_default();
            Ok(Remote::new(owner, id))
        };
        StreamableHttpService::new(remote, Arc::clone(manager), config)
    }

    /// Writes a refusal into the log of calls and runs, or counts it if one of its kind was written a moment ago.
    async fn write_down(&self, outcome: &'static str, owner: Option<&str>, peer: SocketAddr) {
        let more = {
            let mut refused = self.refused.lock();
            let counted = refused.entry(outcome).or_insert(Counted { written: None, more: 0 });
            if counted.written.is_some_and(|written| written.elapsed() < COUNTING) {
                counted.more += 1;
                return;
            }
            counted.written = Some(Instant::now());
            std::mem::take(&mut counted.more)
        };
        let others = if more > 0 {
            format!(", and {more} others since the last line of this kind")
        } else {
            String::new()
        };
        let why = format!("an HTTP request from {}{others}", peer.ip());
        self.log.record_refused_request(owner, outcome, why).await;
    }

    /// Writes the refusals that were only counted.
    async fn write_counted(&self) {
        let due: Vec<(&'static str, u64)> = {
            let mut refused = self.refused.lock();
            let is_due = |counted: &&mut Counted| {
                counted.more > 0 && counted.written.is_none_or(|written| written.elapsed() >= COUNTING)
            };
            let due = refused.iter_mut().map(|(outcome, counted)| (*outcome, counted));
            let due = due.filter(|(_, counted)| is_due(counted));
            due.map(|(outcome, counted)| (outcome, std::mem::take(&mut counted.more))).collect()
        };
        for (outcome, more) in due {
            let why = format!("{more} further HTTP requests");
            self.log.record_refused_request(None, outcome, why).await;
        }
    }
}

/// Refusals of one kind.
struct Counted {
    /// When one was written last.
    written: Option<Instant>,
    /// Those that came since and were not written.
    more: u64,
}

/// The session of the protocol that headers name.
fn session_of(headers: &HeaderMap) -> Option<String> {
    headers.get("mcp-session-id").and_then(|value| value.to_str().ok()).map(str::to_owned)
}

impl TokenError {
    /// The word in the log.
    fn word(self) -> &'static str {
        match self {
            Self::Missing => "no_token",
            Self::Unknown => "unknown_token",
            Self::Expired => "expired_token",
        }
    }
}

fn unauthorized(error: TokenError) -> Answer {
    let mut answer = said(
        StatusCode::UNAUTHORIZED,
        &format!(
            "{error}; `belljar token add NAME` makes one, which goes into the header `Authorization: Bearer TOKEN`\n"
        ),
    );
    let challenge = match error {
        TokenError::Missing => "Bearer realm=\"belljar\"",
        TokenError::Unknown | TokenError::Expired => "Bearer realm=\"belljar\", error=\"invalid_token\"",
    };
    answer.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
    answer
}

fn busy(why: &str) -> Answer {
    let mut answer = said(StatusCode::TOO_MANY_REQUESTS, why);
    answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static(RETRY_S));
    answer
}

fn said(status: StatusCode, why: &str) -> Answer {
    let mut answer = Response::new(BoxBody::new(Full::new(Bytes::from(text::inert(why).into_owned()))));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    if status == StatusCode::METHOD_NOT_ALLOWED {
        answer.headers_mut().insert(ALLOW, HeaderValue::from_static("GET"));
    }
    answer
}

/// A body whose request is in progress until it has ended.
struct Holding {
    body: BoxBody<Bytes, Infallible>,
    _open: OpenRequest,
}

impl Body for Holding {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
