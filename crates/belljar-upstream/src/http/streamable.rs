//! Streamable HTTP. Each message is sent by a POST, whose response is the answer or a stream. A GET receives the
//! server's other messages.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Response};
use rmcp::model::ProtocolVersion;
use serde_json::Value;
use tokio::sync::Mutex;
use url::Url;

use super::events::{BodyError, BodyLimits, Events};
use super::lines::{Deliveries, SentMessage};
use super::parameter_headers::{ParameterHeaders, header_of};
use super::requests::Requests;
use crate::jsonrpc::{Line, answer_with_id, answered_error, answered_id, is_message, repaired};
use crate::no_response::NoResponse;
use crate::web::{media_type, written_type};

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");
const BOTH: &str = "application/json, text/event-stream";
const EVENTS: &str = "text/event-stream";

/// First and longest pause before a broken stream is requested again.
const BACK_OFF: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(60));
/// The largest number of times that a broken answer is resumed.
const RESUMES_MAX: usize = 5;
/// The largest answer that is searched for an error about the session, in bytes.
const ERROR_BYTES_MAX: usize = 16 * 1024;
/// The code of an error about an unknown session in the official libraries.
const SESSION_NOT_FOUND: i64 = -32001;
/// Words of errors about a session that the server no longer has, in lower case.
const GONE: [&str; 16] = [
    "not found",
    "no such",
    "not exist",
    "unknown",
    "invalid",
    "not valid",
    "no valid",
    "no active",
    "not initialized",
    "not recogni",
    "no longer",
    "expired",
    "terminated",
    "closed",
    "lost",
    "missing",
];
/// The longest time for a message without an answer to be accepted, and for a new session.
const CONTROL: Duration = Duration::from_secs(10);

/// One server over Streamable HTTP. If the server has lost the session, a new one is made.
pub(super) struct Streamable {
    requests: Requests,
    url: Url,
    body_limits: BodyLimits,
    deliveries: Deliveries,
    parameters: ParameterHeaders,
    session: Mutex<Session>,
    /// Whether the server has listed its tools.
    has_listed: AtomicBool,
}

/// A session with the server: the headers that it set at `initialize`.
#[derive(Clone, Default)]
struct Session {
    headers: HeaderMap,
    /// The `initialize` message that it was made with.
    asked: Option<SentMessage>,
    /// How many sessions were made, including this one.
    made: usize,
}

/// A request whose answer is read, and the session that it named.
struct Awaited<'a> {
    id: &'a str,
    session: &'a Session,
    is_first: bool,
}

impl Streamable {
    pub(super) fn new(
        (requests, url): (Requests, Url),
        body_limits: BodyLimits,
        deliveries: Deliveries,
        parameters: ParameterHeaders,
    ) -> Self {
        let (session, has_listed) = (Mutex::default(), AtomicBool::new(false));
        Self { requests, url, body_limits, deliveries, parameters, session, has_listed }
    }

    /// Sends a message, and delivers the answer.
    pub(super) async fn exchange(&self, sent: SentMessage) {
        let exchanged = self.exchanged(&sent);
        let exchanged = match &sent.id {
            Some(_) => exchanged.await,
            None => match tokio::time::timeout(CONTROL, exchanged).await {
                Ok(exchanged) => exchanged,
                Err(_) => Err(NoResponse::Broken("it did not take the message in time".into())),
            },
        };
        match (exchanged, &sent.id) {
            (Ok(()), _) => {}
            (Err(lost), Some(id)) => self.deliveries.lose(id, lost).await,
            (Err(lost), None) => tracing::debug!(?lost, "a message did not reach the server"),
        }
    }

    async fn exchanged(&self, sent: &SentMessage) -> Result<(), NoResponse> {
        let is_first = sent.method.as_deref() == Some("initialize");
        let session = if is_first { Session::default() } else { self.session.lock().await.clone() };
        let lost = match self.tried(sent, &session).await {
            Err(NoResponse::SessionLost(reason)) => NoResponse::SessionLost(reason),
            tried => return tried,
        };
        tracing::info!("the server has lost the session, which is made again");
        let Ok(renewed) = self.renewed(session.made).await else {
            return Err(NoResponse::NotReached(lost.reason().to_owned()));
        };
        // The server did not know the session, so the message had no effect. Whether a call is repeated is not decided
        // here.
        match sent.method.as_deref() {
            Some("tools/call") => Err(lost),
            _ => self.tried(sent, &renewed).await,
        }
    }

    /// Sends a message once, and delivers the answer.
    async fn tried(&self, sent: &SentMessage, session: &Session) -> Result<(), NoResponse> {
        let is_first = sent.method.as_deref() == Some("initialize");
        let response = match (lost_session(session, self.post(sent, session).await?)?, &sent.id) {
            // The body of an HTTP error may be the answer. At `initialize` it is not used: the server may want the
            // older transport.
            (Err(NoResponse::Refused { error: Some(error), .. }), Some(id))
                if !is_first && is_answer(&error, id) =>
            {
                self.deliveries.deliver(Line::Whole(error)).await;
                return Ok(());
            }
            (response, _) => response?,
        };
        if is_first {
            *self.session.lock().await =
                Session { headers: session_headers(&response), asked: Some(sent.clone()), made: 1 };
        }
        match &sent.id {
            None => Ok(()),
            Some(id) => {
                self.answered(&Awaited { id, session, is_first }, response).await?;
                if sent.method.as_deref() == Some("tools/list") {
                    self.has_listed.store(true, Ordering::Release);
                }
                Ok(())
            }
        }
    }

    /// Posts a message. The outer error: there is no response. The inner error: the response is a refusal.
    async fn post(
        &self,
        sent: &SentMessage,
        session: &Session,
    ) -> Result<Result<Response, NoResponse>, NoResponse> {
        let mut headers = session.headers.clone();
        if let Some(version) = sent.version.as_deref().and_then(|version| HeaderValue::from_str(version).ok())
        {
            headers.insert(VERSION, version);
            for (name, value) in [(METHOD, &sent.method), (NAME, &sent.name)] {
                if let Some(value) = value {
                    headers.insert(name, header_of(value));
                }
            }
            if let (Some("tools/call"), Some(tool)) = (sent.method.as_deref(), &sent.name)
                && self.parameters.has(tool)
                && let Some(arguments) = sent.arguments()
            {
                self.parameters.add(tool, &arguments, &mut headers);
            }
        }
        let request = self.requests.to(Method::POST, self.url.clone()).headers(headers).header(ACCEPT, BOTH);
        let request = request.header(CONTENT_TYPE, "application/json").body(sent.line.to_vec());
        self.requests.send(request).await
    }

    async fn answered(&self, awaited: &Awaited<'_>, response: Response) -> Result<(), NoResponse> {
        let (kind, written) = (media_type(&response), written_type(&response));
        if kind == EVENTS {
            return self.streamed(awaited, response).await;
        }
        let status = response.status();
        match self.body_limits.whole(response).await {
            Ok(body) => {
                let said = match is_answer(&body, awaited.id) {
                    true => String::new(),
                    false => self.requests.said_in(&body),
                };
                if self.delivered(awaited, body).await? {
                    return Ok(());
                }
                let reply = match kind.ends_with("json") {
                    true => "its reply is no answer to this request".to_owned(),
                    false => format!("HTTP {status} with no answer (content type {written:?})"),
                };
                Err(NoResponse::Broken(format!("{reply}{said}")))
            }
            Err(error) => self.unread(awaited.id, error).await,
        }
    }

    /// Reads a stream until the answer. If it ends before, it is resumed after its last event.
    async fn streamed(&self, awaited: &Awaited<'_>, response: Response) -> Result<(), NoResponse> {
        let mut events = Events::of(response, &self.body_limits);
        let mut last: Option<String> = None;
        let mut pause = BACK_OFF.0;
        let mut resumes = 0;
        let mut said = String::new();
        loop {
            let why = match events.next().await {
                Ok(Some(event)) => {
                    last = event.id.or(last);
                    pause = event.retry.map_or(pause, Duration::from_millis).min(BACK_OFF.1);
                    let data = event.data.filter(|data| !data.trim().is_empty());
                    if let Some(data) = data {
                        if !is_message(data.as_bytes()) {
                            said = self.requests.said_in(data.as_bytes());
                        }
                        if self.delivered(awaited, data.into_bytes()).await? {
                            return Ok(());
                        }
                    }
                    continue;
                }
                Ok(None) => format!("its stream ended before the answer{said}"),
                Err(BodyError::Broken(reason)) => reason,
                Err(error @ BodyError::Overlong) => return self.unread(awaited.id, error).await,
            };
            let Some(from) = last.clone().filter(|_| resumes < RESUMES_MAX) else {
                return Err(NoResponse::Broken(why));
            };
            resumes += 1;
            tokio::time::sleep(pause).await;
            match self.listened(Some(&from)).await {
                Ok(response) => events = Events::of(response, &self.body_limits),
                Err(_) => return Err(NoResponse::Broken(why)),
            }
        }
    }

    /// Delivers a message. Returns true if it is the answer to this request, or if there is no receiver. An error that
    /// says that the session is lost is not delivered.
    async fn delivered(&self, awaited: &Awaited<'_>, message: Vec<u8>) -> Result<bool, NoResponse> {
        let is_answer = is_answer(&message, awaited.id);
        // An answer in the response to a request is that request's.
        let named = if is_answer { None } else { answer_with_id(&message, awaited.id) };
        let is_answer = is_answer || named.is_some();
        let message = named.unwrap_or(message);
        if is_answer && awaited.is_first {
            self.note_version(&message).await;
        }
        if is_answer
            && awaited.session.headers.contains_key(SESSION)
            && let Some(words) = words_of_lost_session(&message)
        {
            return Err(NoResponse::SessionLost(words));
        }
        Ok(!self.deliveries.deliver(Line::Whole(message)).await || is_answer)
    }

    async fn note_version(&self, answer: &[u8]) {
        if let Some(version) = version_of(answer) {
            self.session.lock().await.headers.insert(VERSION, version);
        }
    }

    async fn unread(&self, id: &str, error: BodyError) -> Result<(), NoResponse> {
        match error {
            BodyError::Overlong => {
                self.deliveries.deliver(Line::Overlong { id: Some(id.to_owned()) }).await;
                Ok(())
            }
            BodyError::Broken(reason) => Err(NoResponse::Broken(reason)),
        }
    }

    /// A newer session than the one with the number `made`. If several callers need it, only the first makes it.
    async fn renewed(&self, made: usize) -> Result<Session, NoResponse> {
        let mut session = self.session.lock().await;
        if session.made > made {
            return Ok(session.clone());
        }
        let asked = session.asked.clone().ok_or_else(|| NoResponse::Broken("no session was made".into()))?;
        let making = async {
            let response = self.post(&asked, &Session::default()).await??;
            let mut headers = session_headers(&response);
            if let Some(version) =
                first_message(response, &self.body_limits).await.and_then(|text| version_of(&text))
            {
                headers.insert(VERSION, version);
            }
            let renewed = Session { headers, asked: Some(asked.clone()), made: made + 1 };
            let line = br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.to_vec();
            let initialized =
                SentMessage::new(line).map_err(|error| NoResponse::Broken(error.to_string()))?;
            self.post(&initialized, &renewed).await??;
            Ok(renewed)
        };
        let making = tokio::time::timeout(CONTROL, making).await;
        *session =
            making.unwrap_or_else(|_| Err(NoResponse::Broken("no new session was made in time".into())))?;
        self.tools_may_have_changed().await;
        Ok(session.clone())
    }

    /// Delivers a notification of changed tools, as if the server had sent it.
    async fn tools_may_have_changed(&self) {
        let line = br#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#.to_vec();
        self.deliveries.deliver(Line::Whole(line)).await;
    }

    async fn listened(&self, from: Option<&str>) -> Result<Response, NoResponse> {
        let session = self.session.lock().await.clone();
        let mut request = self
            .requests
            .to(Method::GET, self.url.clone())
            .headers(session.headers.clone())
            .header(ACCEPT, EVENTS);
        if let Some(from) = from.and_then(|from| HeaderValue::from_str(from).ok()) {
            request = request.header(LAST_EVENT, from);
        }
        match lost_session(&session, self.requests.send(request).await?) {
            Ok(response) => response,
            Err(lost) => {
                self.renewed(session.made).await.map_err(|_| lost)?;
                Err(NoResponse::Broken("the session was made again".into()))
            }
        }
    }

    /// Receives the server's own messages, until it turns out that the server offers no such stream. Cancel-safe.
    pub(super) async fn listen(&self) {
        let mut last: Option<String> = None;
        let mut pause = BACK_OFF.0;
        loop {
            match self.listened(last.as_deref()).await {
                Ok(response) => {
                    // If the stream is not resumed, messages may have been lost, such as a change of tools.
                    if last.is_none() && self.has_listed.load(Ordering::Acquire) {
                        self.tools_may_have_changed().await;
                    }
                    let mut events = Events::of(response, &self.body_limits);
                    while let Ok(Some(event)) = events.next().await {
                        pause = event.retry.map_or(BACK_OFF.0, Duration::from_millis).min(BACK_OFF.1);
                        last = event.id.or(last);
                        let data = event.data.filter(|data| !data.trim().is_empty());
                        if let Some(data) = data
                            && !self.deliveries.deliver(Line::Whole(data.into_bytes())).await
                        {
                            return;
                        }
                    }
                }
                Err(
                    NoResponse::Refused { .. }
                    | NoResponse::NotAllowed(_)
                    | NoResponse::NeedsLogin { .. }
                    | NoResponse::LoginFailed(_),
                ) => return,
                Err(NoResponse::Busy { after: Some(after), .. }) => pause = after,
                Err(lost) => tracing::debug!(?lost, "the server's own messages cannot be listened to"),
            }
            tokio::time::sleep(pause.clamp(BACK_OFF.0, BACK_OFF.1)).await;
            pause = (pause * 2).clamp(BACK_OFF.0, BACK_OFF.1);
        }
    }

    /// Whether the server has answered `initialize` with a protocol version.
    pub(super) async fn is_open(&self) -> bool {
        self.session.lock().await.headers.contains_key(VERSION)
    }

    /// Tells the server that the session is over.
    pub(super) async fn end(&self) {
        let session = self.session.lock().await.clone();
        if session.headers.contains_key(SESSION) {
            let request = self.requests.to(Method::DELETE, self.url.clone()).headers(session.headers);
            if let Err(lost) = self.requests.send(request).await {
                tracing::debug!(?lost, "the session could not be ended");
            }
        }
    }
}

fn session_headers(response: &Response) -> HeaderMap {
    let session = response.headers().get(SESSION).map(|session| (SESSION, session.clone()));
    session.into_iter().collect()
}

/// A refusal, or the outer error if it says that the server no longer knows the session that the request named.
fn lost_session(
    session: &Session,
    response: Result<Response, NoResponse>,
) -> Result<Result<Response, NoResponse>, NoResponse> {
    let Err(refused) = &response else { return Ok(response) };
    let reason = refused.reason();
    let is_lost = match refused {
        NoResponse::Refused { status: 404 | 410, .. } => true,
        NoResponse::Refused { status: 400, .. } if reason.to_ascii_lowercase().contains("session") => true,
        NoResponse::Refused { error: Some(error), .. } => words_of_lost_session(error).is_some(),
        NoResponse::Refused { .. } | NoResponse::Busy { .. } | NoResponse::Broken(_) => {
            reason.starts_with("HTTP ") && tells_of_lost_session(reason, None)
        }
        _ => false,
    };
    match is_lost && session.headers.contains_key(SESSION) {
        true => Err(NoResponse::SessionLost(reason.to_owned())),
        false => Ok(response),
    }
}

/// The words of an answer that is an error of the protocol about a lost session.
fn words_of_lost_session(answer: &[u8]) -> Option<String> {
    if answer.len() > ERROR_BYTES_MAX {
        return None;
    }
    let error = answered_error(answer)?;
    let words = error.get("message").and_then(Value::as_str).or(error.as_str()).unwrap_or_default();
    tells_of_lost_session(words, error.get("code").and_then(Value::as_i64)).then(|| words.to_owned())
}

/// Whether an error says that a session is lost, by its words or its code.
fn tells_of_lost_session(words: &str, code: Option<i64>) -> bool {
    let words = words.to_lowercase();
    let is_gone = GONE.iter().any(|gone| words.contains(gone));
    match code == Some(SESSION_NOT_FOUND) {
        // Some libraries use the same number for a timeout.
        true => words.contains("session") || words.contains("not found"),
        false => words.contains("session") && is_gone,
    }
}

fn is_answer(message: &[u8], id: &str) -> bool {
    // Some servers return a numeric id as a string.
    answered_id(message).is_some_and(|found| found.trim_matches('"') == id.trim_matches('"'))
}

fn version_of(answer: &[u8]) -> Option<HeaderValue> {
    let answer: Value = serde_json::from_str(&repaired(&String::from_utf8_lossy(answer))).ok()?;
    let version = answer.get("result")?.get("protocolVersion").and_then(Value::as_str);
    HeaderValue::from_str(version.unwrap_or(ProtocolVersion::LATEST_WITH_INITIALIZE.as_str())).ok()
}

/// The answer to `initialize`, as a body or as an event.
async fn first_message(response: Response, body_limits: &BodyLimits) -> Option<Vec<u8>> {
    if media_type(&response) != EVENTS {
        return body_limits.whole(response).await.ok();
    }
    let mut events = Events::of(response, body_limits);
    while let Ok(Some(event)) = events.next().await {
        if let Some(data) = event.data.filter(|data| version_of(data.as_bytes()).is_some()) {
            return Some(data.into_bytes());
        }
    }
    None
}
