//! The HTTP side of `belljar serve`: who may come in, and how much at once. rmcp speaks Streamable HTTP.

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use belljar_base::text;
use bytes::Bytes;
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, AUTHORIZATION, CONNECTION, CONTENT_TYPE, HeaderName, HeaderValue, ORIGIN,
    RETRY_AFTER, VARY, WWW_AUTHENTICATE,
};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body::Body;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use rmcp::transport::streamable_http_server::session::SessionStore;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use serde::de::IgnoredAny;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::access_token::Refusal;
use super::holding_body::HoldingBody;
use super::oauth::{OAuth, OAuthOptions};
use super::owners::{Owner, Owners, REQUESTS_MAX, Service, ServiceParts};
use super::tls::Tls;
use super::tokens::{Token, TokenError, of_others};
use crate::audit::AuditLog;
use crate::server::Remote;

/// The largest number of connections at once.
const CONNECTIONS_MAX: usize = 512;
/// The longest time for the head of a request, and of a connection between two requests.
const HEAD: Duration = Duration::from_secs(20);
/// The longest time for the body of a request.
const BODY: Duration = Duration::from_secs(60);
/// The longest time for the TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// The largest head of a request, in bytes.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// The largest number of headers.
const HEADERS_MAX: usize = 100;
/// The largest number of parts of a body.
const PARTS_MAX: usize = 20_000;
/// What a body may have besides code, which JSON may write six times as long, in bytes.
const BESIDE_CODE_BYTES_MAX: usize = 64 << 10;
/// Seconds after which a client that was refused for lack of room may try again.
const RETRY_S: &str = "2";
/// The same where the keys of the OAuth issuer cannot be fetched.
const RETRY_KEYS_S: &str = "10";
/// How long an answer, or a stream that waits for notifications, goes on after its access token of the OAuth issuer has expired.
const AFTER_ACCESS_TOKEN: Duration = Duration::from_secs(300);
/// How often a removed or expired token is noticed while its sessions last.
const LOOK: Duration = Duration::from_secs(1);
/// Equal refusals are written down once in this time, with their number.
const COUNTING: Duration = Duration::from_secs(1);

tokio::task_local! {
    /// The id of the protocol's session that the request in progress opens or comes back to, for the server that rmcp asks for
    /// meanwhile.
    static OPENED: Arc<OnceLock<String>>;
}

/// What a page of an allowed origin may send and read.
const ALLOWED_TO_PAGES: [(HeaderName, &str); 4] = [
    (ACCESS_CONTROL_ALLOW_METHODS, "GET, POST, DELETE"),
    (
        ACCESS_CONTROL_ALLOW_HEADERS,
        "authorization, content-type, last-event-id, mcp-method, mcp-name, mcp-protocol-version, mcp-session-id",
    ),
    (ACCESS_CONTROL_EXPOSE_HEADERS, "mcp-session-id, www-authenticate"),
    (VARY, "origin"),
];

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
    /// The OAuth issuer whose access tokens let in its subjects.
    pub(crate) oauth: Option<OAuthOptions>,
    /// The certificate and key for TLS.
    pub(crate) tls: Option<Tls>,
}

/// Whom a request is from.
struct Admitted {
    token: Token,
    /// The end of its access token; `None`: it is a belljar token.
    until: Option<Instant>,
}

/// The reason why a request is refused.
enum Refused {
    Token(TokenError),
    AccessToken(Refusal),
}

/// Serves HTTP.
pub(super) struct Http {
    owners: Arc<Owners>,
    options: HttpOptions,
    oauth: Option<OAuth>,
    log: AuditLog,
    /// The refusals by the word for the reason.
    refused: Mutex<BTreeMap<&'static str, Counted>>,
    body_bytes_max: usize,
}

impl Http {
    pub(super) fn new(
        owners: Arc<Owners>,
        options: HttpOptions,
        oauth: Option<OAuth>,
        log: AuditLog,
        code_bytes_max: usize,
    ) -> Self {
        let body_bytes_max = 2 * code_bytes_max + BESIDE_CODE_BYTES_MAX;
        Self { owners, options, oauth, log, refused: Mutex::default(), body_bytes_max }
    }

    /// Serves until `stopping` is cancelled.
    pub(super) async fn serve(self: Arc<Self>, listener: TcpListener, stopping: CancellationToken) {
        let doors = Doors::default();
        let mut connections = JoinSet::new();
        let mut look = tokio::time::interval(LOOK);
        look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok((stream, peer)) => match doors.enter() {
                        Some(door) => {
                            let (own, stopping) = (Arc::clone(&self), stopping.clone());
                            connections.spawn(async move {
                                if let Err(error) = stream.set_nodelay(true) {
                                    tracing::debug!(%error, "small messages may be held back");
                                }
                                let shut = door.shut.clone();
                                let serving = own.secured(stream, peer, door, stopping);
                                tokio::select! {
                                    () = serving => {}
                                    () = shut.cancelled() => {}
                                }
                            });
                        }
                        None => self.write_down("too_many_connections", None, peer).await,
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

    async fn secured(
        self: Arc<Self>,
        stream: TcpStream,
        peer: SocketAddr,
        door: Arc<Door>,
        stopping: CancellationToken,
    ) {
        match &self.options.tls {
            None => Arc::clone(&self).connection(stream, peer, door, stopping).await,
            Some(tls) => match tokio::time::timeout(HANDSHAKE, tls.accept(stream)).await {
                Ok(Ok(stream)) => Arc::clone(&self).connection(stream, peer, door, stopping).await,
                failed => tracing::debug!(?failed, "no TLS"),
            },
        }
    }

    async fn connection(
        self: Arc<Self>,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        peer: SocketAddr,
        door: Arc<Door>,
        stopping: CancellationToken,
    ) {
        let own = Arc::clone(&self);
        let service = service_fn(move |request| {
            let (own, door) = (Arc::clone(&own), Arc::clone(&door));
            async move { Ok::<_, Infallible>(own.answer(request, peer, &door).await) }
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

    async fn answer(&self, request: Request<Incoming>, peer: SocketAddr, door: &Door) -> Answer {
        let origin = self.allowed_origin(request.headers());
        let mut answer = match request.uri().path() {
            // A proxy asks so. The host in the address would not be compared with those that are served.
            _ if request.uri().authority().is_some() => {
                said(StatusCode::BAD_REQUEST, "belljar is no proxy\n")
            }
            // A browser asks whether a page may send its request, without the token.
            "/mcp" if request.method() == Method::OPTIONS && origin.is_some() => {
                said(StatusCode::NO_CONTENT, "")
            }
            "/healthz" if request.method() == Method::GET => said(StatusCode::OK, "ok\n"),
            "/metrics" if request.method() == Method::GET => self.metrics(&request, peer).await,
            "/mcp" => self.mcp(request, peer, door).await,
            path => self.resource_metadata(request.method(), path),
        };
        if let Some(origin) = origin {
            let headers = answer.headers_mut();
            headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
            for (name, value) in ALLOWED_TO_PAGES {
                headers.insert(name, HeaderValue::from_static(value));
            }
        }
        if !door.is_known.load(Ordering::Relaxed) {
            answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        answer
    }

    /// The metadata about access tokens, if they are at this path.
    fn resource_metadata(&self, method: &Method, path: &str) -> Answer {
        match self.oauth.as_ref().and_then(|oauth| oauth.metadata(path)) {
            Some(_) if *method == Method::OPTIONS => said(StatusCode::NO_CONTENT, ""),
            Some(metadata) if *method == Method::GET => {
                let mut answer = said(StatusCode::OK, &metadata);
                answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
                answer
            }
            _ => said(StatusCode::NOT_FOUND, "not found: MCP is at /mcp\n"),
        }
    }

    /// Whom a request for MCP or for the numbers is from; the answer if its token is not for that.
    async fn admitted(
        &self,
        request: &Request<Incoming>,
        is_for_metrics: bool,
        peer: SocketAddr,
    ) -> Result<Admitted, Answer> {
        let refused = match self.token(request.headers(), is_for_metrics).await {
            Ok(admitted) if admitted.token.metrics == is_for_metrics => return Ok(admitted),
            Ok(Admitted { token, .. }) => {
                self.write_down("other_token", Some(&token.name), peer).await;
                let why = "this token is not for this address: `belljar token add NAME --metrics` makes one for /metrics, \
                           and one without --metrics is for /mcp\n";
                return Err(said(StatusCode::FORBIDDEN, why));
            }
            Err(refused) => refused,
        };
        let oauth = self.oauth.as_ref().filter(|_| !is_for_metrics);
        let (word, owner) = match &refused {
            Refused::Token(error) => (error.word(), None),
            Refused::AccessToken(refusal) => {
                (refusal.word(), oauth.and_then(|oauth| oauth.refused_owner(refusal)))
            }
        };
        self.write_down(word, owner.as_deref(), peer).await;
        Err(refused.answer(&oauth.map(OAuth::challenge).unwrap_or_default()))
    }

    async fn metrics(&self, request: &Request<Incoming>, peer: SocketAddr) -> Answer {
        if let Err(refused) = self.admitted(request, true, peer).await {
            return refused;
        }
        match self.owners.bridges.metrics() {
            Ok(text) => {
                let mut answer = said(StatusCode::OK, &text);
                let format = HeaderValue::from_static("text/plain; version=0.0.4");
                answer.headers_mut().insert(CONTENT_TYPE, format);
                answer
            }
            Err(error) => said(StatusCode::INTERNAL_SERVER_ERROR, &format!("{error}\n")),
        }
    }

    async fn mcp(&self, request: Request<Incoming>, peer: SocketAddr, door: &Door) -> Answer {
        let Admitted { token, until } = match self.admitted(&request, false, peer).await {
            Ok(admitted) => admitted,
            Err(refused) => return refused,
        };
        door.is_known.store(true, Ordering::Relaxed);
        let name = token.name.clone();
        let Some(owner) =
            self.owners.of(token, until, |owner, parts, ending| self.service(owner, parts, ending))
        else {
            return said(StatusCode::SERVICE_UNAVAILABLE, "belljar is ending\n");
        };
        let session = session_of(request.headers());
        // Requests since MCP 2026-07-28 name their version, and open no session of the protocol.
        let is_opening = session.is_none()
            && request.method() == Method::POST
            && request.headers().get("mcp-protocol-version").is_none_or(|version| version < "2026");
        let Some(mut open) = owner.open(session) else {
            self.write_down("too_many_requests", Some(&name), peer).await;
            let why =
                format!("{REQUESTS_MAX} requests of {name} are in progress; try again when one has ended\n");
            return busy(&why);
        };
        if is_opening {
            owner.end_left_connection().await;
            if !owner.has_room_for_connection() {
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
        if parts(&body) > PARTS_MAX {
            let why = format!("the body has more than {PARTS_MAX} parts; keep data out of it\n");
            return said(StatusCode::PAYLOAD_TOO_LARGE, &why);
        }
        let service = owner.service.clone();
        if head.method == Method::POST && serde_json::from_slice::<IgnoredAny>(&body).is_err() {
            return not_json();
        }
        let opened: Arc<OnceLock<String>> = Arc::default();
        if let Some(session) = session_of(&head.headers) {
            opened.get_or_init(|| session);
        }
        let handling = service.handle(Request::from_parts(head, Full::new(body)));
        let mut answer = OPENED.scope(Arc::clone(&opened), handling).await;
        if answer.status() == StatusCode::FORBIDDEN {
            self.write_down("foreign_host_or_origin", Some(&name), peer).await;
        }
        if let Some(session) = session_of(answer.headers()) {
            opened.get_or_init(|| session);
        }
        if is_deleting && answer.status() == StatusCode::ACCEPTED {
            // Clients expect that nothing follows.
            *answer.status_mut() = StatusCode::NO_CONTENT;
        }
        if answer.status().is_success() && !is_deleting {
            open.begins(opened.get());
        } else if answer.status().is_success() || answer.status() == StatusCode::NOT_FOUND {
            open.is_over();
        }
        let end = until.map(|until| until + AFTER_ACCESS_TOKEN);
        answer.map(|body| BoxBody::new(HoldingBody::new(body, open, end)))
    }

    async fn token(&self, headers: &HeaderMap, is_for_metrics: bool) -> Result<Admitted, Refused> {
        let mut headers = headers.get_all(AUTHORIZATION).iter();
        let header = headers.next().filter(|_| headers.next().is_none());
        let header = header.and_then(|value| value.to_str().ok());
        if let Some(oauth) = self.oauth.as_ref().filter(|_| !is_for_metrics)
            && let Some(text) = of_others(header)
        {
            let (token, until) = oauth.admitted(text).await.map_err(Refused::AccessToken)?;
            return Ok(Admitted { token, until: Some(until) });
        }
        let token = self.owners.tokens.of_request(header).map_err(Refused::Token)?;
        Ok(Admitted { token, until: None })
    }

    /// The origin of the request, if its web page may use belljar.
    fn allowed_origin(&self, headers: &HeaderMap) -> Option<HeaderValue> {
        let origin = headers.get(ORIGIN)?;
        let text = origin.to_str().ok()?;
        let usual = if text.starts_with("https:") { ":443" } else { ":80" };
        let is_it = |allowed: &String| *allowed == text || allowed.strip_suffix(usual) == Some(text);
        self.options.origins.iter().any(is_it).then(|| origin.clone())
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
            .with_sse_retry(None)
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

/// The connections.
#[derive(Default)]
struct Doors(Mutex<VecDeque<Weak<Door>>>);

/// One connection.
#[derive(Default)]
struct Door {
    /// Whether a valid token has come through it. Otherwise it is closed after one answer.
    is_known: AtomicBool,
    /// Cancelled when the place is needed.
    shut: CancellationToken,
}

impl Doors {
    /// A place for a connection. If there is none, the oldest connection without a token gives way, so that nobody without a token
    /// keeps others out; `None`: all have one.
    fn enter(&self) -> Option<Arc<Door>> {
        let mut all = self.0.lock();
        all.retain(|door| door.strong_count() > 0);
        if all.len() >= CONNECTIONS_MAX {
            let is_unknown =
                |door: &Weak<Door>| door.upgrade().is_some_and(|door| !door.is_known.load(Ordering::Relaxed));
            let at = all.iter().position(is_unknown)?;
            let door = all.remove(at)?;
            if let Some(door) = door.upgrade() {
                door.shut.cancel();
            }
        }
        let door = Arc::new(Door::default());
        all.push_back(Arc::downgrade(&door));
        Some(door)
    }
}

/// Refusals of one kind.
struct Counted {
    /// When one was written last.
    written: Option<Instant>,
    /// Those that came since and were not written.
    more: u64,
}

/// The number of parts of JSON: what separates values outside of texts. The time to read JSON grows with it, and no request of
/// belljar's has many.
fn parts(json: &[u8]) -> usize {
    let (mut parts, mut at, mut is_text) = (0, 0, false);
    while at < json.len() {
        match json[at] {
            b'\\' if is_text => at += 1,
            b'"' => is_text = !is_text,
            b',' | b'{' | b'[' if !is_text => parts += 1,
            _ => {}
        }
        at += 1;
    }
    parts
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
            Self::Unreadable => "unreadable_tokens",
        }
    }
}

impl Refused {
    /// The answer. `hints` are what its challenge says besides the error.
    fn answer(self, hints: &str) -> Answer {
        let (status, why, error) = match &self {
            Self::Token(error @ TokenError::Unreadable) => {
                return said(StatusCode::SERVICE_UNAVAILABLE, &format!("{error}\n"));
            }
            Self::AccessToken(refusal @ Refusal::Unreachable) => {
                let mut answer = said(StatusCode::SERVICE_UNAVAILABLE, &format!("{refusal}\n"));
                answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static(RETRY_KEYS_S));
                return answer;
            }
            Self::Token(error) => {
                let how = "`belljar token add NAME` makes one, which goes into the header `Authorization: Bearer TOKEN`";
                let is_missing = *error == TokenError::Missing;
                let challenge = if is_missing { "" } else { ", error=\"invalid_token\"" };
                (StatusCode::UNAUTHORIZED, format!("{error}; {how}\n"), challenge)
            }
            Self::AccessToken(refusal @ Refusal::Scope { .. }) => {
                (StatusCode::FORBIDDEN, format!("{refusal}\n"), ", error=\"insufficient_scope\"")
            }
            Self::AccessToken(refusal) => {
                (StatusCode::UNAUTHORIZED, format!("{refusal}\n"), ", error=\"invalid_token\"")
            }
        };
        let mut answer = said(status, &why);
        if let Ok(challenge) = HeaderValue::try_from(format!("Bearer realm=\"belljar\"{error}{hints}")) {
            answer.headers_mut().insert(WWW_AUTHENTICATE, challenge);
        }
        answer
    }
}

fn not_json() -> Answer {
    let error = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"the body is no JSON"}}"#;
    let mut answer = said(StatusCode::BAD_REQUEST, error);
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
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
    answer
}
