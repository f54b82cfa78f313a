//! Keeps the raw texts of the servers' answers, and gives rmcp empty answers instead. The types of rmcp would lose
//! unknown keys, and parsing costs more than the rest of the call.

mod lenient;
mod unread;

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};

use belljar_base::text;
use parking_lot::Mutex;
use rmcp::RoleClient;
use rmcp::model::{
    CancelledNotificationParam, ClientJsonRpcMessage, ClientRequest, ClientResult, CustomResult, ErrorCode,
    ErrorData, JsonRpcMessage, RequestId, ServerJsonRpcMessage, ServerNotification, ServerRequest,
    ServerResult,
};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::no_response::NoResponse;
use super::redaction::Redaction;
use crate::jsonrpc::{self, Envelope, LineError, Messages, OnUnreadable, repaired};
pub(super) use lenient::object;
pub(super) use unread::{Unread, left_out};

/// The largest text from which secrets are removed on the bridge's thread, in bytes. That can take longer than the rest
/// of a call, and this thread has to send heartbeats to the sandbox meanwhile. Larger results are left to another thread.
/// Larger requests and notifications of a server are refused.
const LARGE_BYTES: usize = 1 << 20;
/// The bytes of the message that stay of an error that is larger.
const MESSAGE_BYTES_MAX: usize = 64 * 1024;
/// The largest number of requests whose late answers are expected.
const GIVEN_UP_MAX: usize = 256;
/// The code of an error that stands for an answer that cannot be read. No server can send it.
pub(super) const UNREADABLE: ErrorCode = ErrorCode(i32::MIN);

/// The result of a request, as the server sent it.
#[derive(Debug)]
pub enum RawResult {
    /// The result, not parsed.
    Result(Box<RawValue>),
    /// A line that could not be read.
    Unreadable(LineError),
    /// No answer will come.
    Lost(NoResponse),
}

/// The requests without an answer, and the answers that nobody has taken yet. Clones share the table.
#[derive(Debug, Clone, Default)]
pub struct RawResults {
    table: Arc<Mutex<HashMap<RequestId, SentRequest>>>,
    /// The largest id of a request so far.
    last_id: Arc<AtomicI64>,
    /// The last requests whose callers have given up before the answer, which may still come.
    given_up: Arc<Mutex<VecDeque<RequestId>>>,
    overlong: Arc<AtomicBool>,
    not_opened: Arc<OnceLock<NoResponse>>,
    redaction: Redaction,
    unread: Unread,
    /// The answer to `roots/list` before the end of the handshake.
    roots: Option<Value>,
    /// Whether the server has answered the handshake.
    is_open: Arc<AtomicBool>,
    /// Whether `server/discover` was answered after it was given up.
    discovered_late: Arc<AtomicBool>,
}

/// A request that was sent, and how its answer is read.
#[derive(Debug)]
enum SentRequest {
    Initialize,
    Discover,
    /// `initialize` was sent after this `server/discover`, which was refused or not answered in time.
    DiscoverGivenUp,
    /// The result is kept for a caller as it is.
    Kept {
        is_list: bool,
        answer: Option<RawResult>,
    },
    /// rmcp reads the result.
    Other,
}

/// A request that waits for its answer. If this is dropped, the answer is not kept.
#[derive(Debug)]
pub struct PendingResult {
    answers: RawResults,
    id: RequestId,
}

impl RawResults {
    /// The table for one server. Credentials are removed from the server's messages as they arrive.
    pub(super) fn of(redaction: Redaction, unread: Unread) -> Self {
        Self { redaction, unread, ..Self::default() }
    }

    /// Answers `roots/list` with this result while the server has not answered the handshake.
    pub(super) fn with_roots(self, roots: Option<Value>) -> Self {
        Self { roots, ..self }
    }

    /// What could not be read of the server.
    pub(super) fn unread(&self) -> &Unread {
        &self.unread
    }

    /// The redaction for the server.
    pub(super) fn redaction(&self) -> &Redaction {
        &self.redaction
    }

    /// The pending answer to a request that was sent.
    #[must_use]
    pub fn awaited(&self, id: RequestId) -> PendingResult {
        PendingResult { answers: self.clone(), id }
    }

    /// Whether a line was too long and could not be assigned to a request, which has ended the connection.
    pub(super) fn were_cut_off(&self) -> bool {
        self.overlong.load(Ordering::Acquire)
    }

    /// Whether the server answered `server/discover` only after `initialize` was sent. It then supports a version
    /// without `initialize`.
    pub(super) fn discovered_late(&self) -> bool {
        self.discovered_late.load(Ordering::Acquire)
    }

    /// Notes that no answer to this request will come.
    pub(super) fn lose(&self, id: &RequestId, lost: NoResponse) {
        match self.table.lock().get_mut(id) {
            Some(SentRequest::Kept { answer: Some(_), .. }) => {}
            Some(SentRequest::Kept { answer, .. }) => *answer = Some(RawResult::Lost(lost)),
            _ => self.note_lost(lost),
        }
    }

    /// Notes the loss of a message that belongs to the handshake.
    pub(super) fn note_lost(&self, lost: NoResponse) {
        // Only the first loss counts: it is that of the message that opens the connection.
        drop(self.not_opened.set(lost));
    }

    /// The reason why a connection over HTTP could not be opened, if one is known.
    pub(super) fn not_opened(&self) -> Option<NoResponse> {
        self.not_opened.get().cloned()
    }

    /// The open request that a message answers. An answer without a usable id belongs to the only request that is open.
    fn asked(&self, envelope: &Envelope<'_>) -> Option<RequestId> {
        if envelope.method.is_some() {
            return None;
        }
        let table = self.table.lock();
        // Some servers return a numeric id as a string.
        let id = match envelope.id.and_then(|id| serde_json::from_str(id.get()).ok()) {
            Some(RequestId::String(text)) => text.trim().parse().ok().map(RequestId::Number),
            id => id,
        };
        match id {
            Some(id) if table.contains_key(&id) => return Some(id),
            // It was answered already, or its caller has given up.
            Some(RequestId::Number(id)) if id <= self.last_id.load(Ordering::Acquire) => return None,
            _ => {}
        }
        // Some programs write their log to stdout as JSON.
        let is_answer = envelope.jsonrpc.is_some() && (envelope.result.is_some() || envelope.error.is_some());
        let is_open = |asked: &SentRequest| {
            !matches!(asked, SentRequest::DiscoverGivenUp | SentRequest::Kept { answer: Some(_), .. })
        };
        let mut open = table.iter().filter(|(_, asked)| is_answer && is_open(asked));
        let only = open.next().map(|(id, _)| id.clone());
        only.filter(|_| open.next().is_none())
    }

    /// Takes in an answer, and returns what rmcp gets instead; `None`: nothing.
    fn take_in(&self, id: RequestId, answer: RawResult) -> Option<ServerJsonRpcMessage> {
        let unreadable = |why: &str| {
            let message = format!("its answer cannot be read: {why}");
            JsonRpcMessage::error(ErrorData::new(UNREADABLE, message, None), Some(id.clone()))
        };
        let mut table = self.table.lock();
        if let SentRequest::Kept { answer: kept, .. } = table.get_mut(&id)? {
            *kept = Some(answer);
            return Some(JsonRpcMessage::response(
                ServerResult::CustomResult(CustomResult::new(Value::Null)),
                id,
            ));
        }
        let asked = table.remove(&id)?;
        let result = match &answer {
            RawResult::Result(result) => result,
            RawResult::Unreadable(why) => return Some(unreadable(why.reason())),
            RawResult::Lost(_) => return None,
        };
        let value = self.parsed(result.get());
        let read = match (asked, value) {
            (SentRequest::DiscoverGivenUp, _) => {
                self.discovered_late.store(true, Ordering::Release);
                return None;
            }
            (_, Err(why)) => Err(why),
            (SentRequest::Initialize, Ok(value)) => Ok(lenient::initialized(&value)),
            (SentRequest::Discover, Ok(value)) => lenient::discovered(&value),
            (_, Ok(value)) => Ok(serde_json::from_value(value.clone())
                .unwrap_or(ServerResult::CustomResult(CustomResult(value)))),
        };
        Some(match read {
            Ok(result) => {
                self.is_open.store(true, Ordering::Release);
                JsonRpcMessage::response(result, id)
            }
            Err(why) => unreadable(&why),
        })
    }

    /// An unreadable line without secrets, or its beginning. In a whole line, what happens to look like the beginning of a
    /// secret stays: its absence would tell so.
    fn shown(&self, line: &[u8], is_cut: bool) -> String {
        match is_cut || line.len() > LARGE_BYTES {
            true => self.redaction.beginning(&line[..line.len().min(LARGE_BYTES)]),
            false => self.redaction.text(String::from_utf8_lossy(line).into_owned()),
        }
    }

    /// An error, without half characters and secrets. A very large error keeps its code and the beginning of its message.
    fn parsed_error(&self, json: &str) -> Result<Value, String> {
        #[derive(Deserialize)]
        struct LargeError {
            code: i64,
            message: String,
        }
        let large = Some(json).filter(|json| json.len() > LARGE_BYTES);
        match large.and_then(|json| serde_json::from_str(&repaired(json)).ok()) {
            Some(LargeError { code, message }) => {
                let message = match message.as_bytes().get(..MESSAGE_BYTES_MAX) {
                    Some(first) => self.redaction.beginning(first),
                    None => self.redaction.text(message),
                };
                Ok(json!({"code": code, "message": message}))
            }
            None => self.parsed(json),
        }
    }

    /// A value of a message, without half characters and secrets.
    fn parsed(&self, json: &str) -> Result<Value, String> {
        if json.len() > LARGE_BYTES {
            return Err(format!(
                "it has {} bytes, and only a result may have more than {LARGE_BYTES}",
                json.len()
            ));
        }
        let json = repaired(json);
        let clean = self.redaction.json(&json);
        jsonrpc::message(clean.as_deref().unwrap_or(&json).as_bytes())
    }
}

impl RawResults {
    fn read_answer(&self, envelope: &Envelope<'_>) -> Result<Option<ServerJsonRpcMessage>, String> {
        let Some(id) = self.asked(envelope) else {
            let id = envelope.id.and_then(|id| serde_json::from_str(id.get()).ok());
            let is_late = id.is_some_and(|id: RequestId| self.given_up.lock().contains(&id));
            return if is_late { Ok(None) } else { Err("it answers no request that is open".into()) };
        };
        let error = envelope.error.map(|error| self.parsed_error(error.get())).transpose()?;
        if let Some(error) = lenient::error(error.as_ref(), envelope.result.is_some()) {
            let mut table = self.table.lock();
            let is_late = matches!(table.get(&id), Some(SentRequest::DiscoverGivenUp));
            if !matches!(table.get(&id), Some(SentRequest::Kept { .. })) {
                table.remove(&id);
            }
            return Ok((!is_late).then(|| JsonRpcMessage::error(error, Some(id))));
        }
        let answer = match envelope.result {
            Some(result) => RawResult::Result(result.to_owned()),
            None => {
                RawResult::Unreadable(LineError::Misshapen("it has neither a result nor an error".into()))
            }
        };
        Ok(self.take_in(id, answer))
    }
}

impl PendingResult {
    /// The answer, if it has come. A result is on one line, and has no credentials of the server.
    pub async fn take(self) -> Option<RawResult> {
        let asked = self.answers.table.lock().remove(&self.id)?;
        let SentRequest::Kept { answer, .. } = asked else { return None };
        let answer = answer?;
        let RawResult::Result(result) = answer else { return Some(answer) };
        let (is_large, redaction) = (result.get().len() > LARGE_BYTES, self.answers.redaction.clone());
        let clean = move || redaction.result(result).and_then(in_one_line);
        let cleaned = match is_large {
            true => tokio::task::spawn_blocking(clean).await.unwrap_or_else(|error| Err(error.to_string())),
            false => clean(),
        };
        let misshapen = |reason| RawResult::Unreadable(LineError::Misshapen(reason));
        Some(cleaned.map_or_else(misshapen, RawResult::Result))
    }
}

impl Drop for PendingResult {
    fn drop(&mut self) {
        let asked = self.answers.table.lock().remove(&self.id);
        if let Some(SentRequest::Kept { answer: None, .. }) = asked {
            let mut given_up = self.answers.given_up.lock();
            given_up.truncate(GIVEN_UP_MAX - 1);
            given_up.push_front(self.id.clone());
        }
    }
}

impl Messages for RawResults {
    type Role = RoleClient;

    fn read(&mut self, line: &[u8], envelope: &Envelope<'_>) -> Result<Option<ServerJsonRpcMessage>, String> {
        let Some(method) = &envelope.method else { return self.read_answer(envelope) };
        let line = std::str::from_utf8(line).map_err(|_| "it is no UTF-8".to_owned())?;
        let mut message = self.parsed(line)?;
        let members = message.as_object_mut().ok_or("it is no object")?;
        let params = lenient::params(method, members.get("params"))?;
        let clean = members.get("method").filter(|method| method.is_string()).cloned();
        members.clear();
        members.insert("jsonrpc".into(), "2.0".into());
        members.insert("method".into(), clean.unwrap_or_else(|| method.as_str().into()));
        members.extend(params.map(|params| ("params".to_owned(), params)));
        // The id of the server's request stays unchanged, since it only goes back to the server.
        if let Some(id) = envelope.id {
            let id: RequestId = serde_json::from_str(&repaired(id.get()))
                .map_err(|_| "its id is neither a number nor a text".to_owned())?;
            members.insert("id".into(), id.into_json_value());
        }
        serde_json::from_value(message)
            .map(Some)
            .map_err(|_| "its members are not those of its method".to_owned())
    }

    fn repaired(&self, line: &[u8], id: Option<&str>) -> Option<String> {
        let id = id.and_then(|id| serde_json::from_str(id.trim_matches('"')).ok());
        let table = self.table.lock();
        // What a tool, a resource or a prompt contains is exact, or an error.
        let is_exact = |asked: &SentRequest| matches!(asked, SentRequest::Kept { is_list: false, .. });
        let is_exact = match id {
            Some(id) => table.get(&id).is_some_and(is_exact),
            None => table.values().any(is_exact),
        };
        (!is_exact).then(|| repaired(&String::from_utf8_lossy(line)).into_owned())
    }

    fn unreadable(&mut self, line: &[u8], id: Option<RequestId>, why: LineError) -> OnUnreadable<RoleClient> {
        let shown = || self.shown(line, matches!(why, LineError::Overlong(_)));
        let envelope = serde_json::from_slice::<Envelope<'_>>(line);
        if envelope.is_ok_and(|envelope| envelope.method.is_some()) {
            self.unread.line(shown, why.reason());
            return id.map_or(OnUnreadable::Nothing, |id| OnUnreadable::Refusal(Some(id)));
        }
        let id = id.map(|id| match id {
            RequestId::String(text) => text.parse().map_or(RequestId::String(text), RequestId::Number),
            number => number,
        });
        if let Some(message) = id.and_then(|id| self.take_in(id, RawResult::Unreadable(why.clone()))) {
            return OnUnreadable::Message(message);
        }
        self.unread.line(shown, why.reason());
        match why {
            // It is unknown which request the line answers. Its caller would wait for ever if the connection did not
            // end.
            LineError::Overlong(_) => {
                self.overlong.store(true, Ordering::Release);
                OnUnreadable::End
            }
            // Many servers print other text to stdout.
            LineError::NotJson(_) | LineError::Misshapen(_) => OnUnreadable::Nothing,
        }
    }

    fn early(&self, message: &ServerJsonRpcMessage) -> Option<ClientJsonRpcMessage> {
        let JsonRpcMessage::Request(request) = message else { return None };
        if self.is_open.load(Ordering::Acquire) {
            return None;
        }
        let answer = match (&request.request, &self.roots) {
            (ServerRequest::PingRequest(_), _) => Ok(ClientResult::empty(())),
            (ServerRequest::ListRootsRequest(_), Some(roots)) => {
                Ok(ClientResult::CustomResult(CustomResult::new(roots.clone())))
            }
            _ => Err(ErrorData::new(
                ErrorCode::METHOD_NOT_FOUND,
                "it is not offered before the answer to initialize",
                None,
            )),
        };
        let id = request.id.clone();
        Some(match answer {
            Ok(result) => JsonRpcMessage::response(result, id),
            Err(error) => JsonRpcMessage::error(error, Some(id)),
        })
    }

    fn sending(&mut self, message: &ClientJsonRpcMessage) {
        let JsonRpcMessage::Request(request) = message else { return };
        if let RequestId::Number(id) = request.id {
            self.last_id.fetch_max(id, Ordering::AcqRel);
        }
        let mut table = self.table.lock();
        let kept = |is_list| SentRequest::Kept { is_list, answer: None };
        let asked = match request.request {
            ClientRequest::CallToolRequest(_)
            // A call as a task, and what is asked about it.
            | ClientRequest::CustomRequest(_)
            | ClientRequest::ReadResourceRequest(_)
            | ClientRequest::GetPromptRequest(_) => kept(false),
            ClientRequest::ListToolsRequest(_)
            | ClientRequest::ListResourcesRequest(_)
            | ClientRequest::ListResourceTemplatesRequest(_)
            | ClientRequest::ListPromptsRequest(_) => kept(true),
            ClientRequest::DiscoverRequest(_) => SentRequest::Discover,
            ClientRequest::InitializeRequest(_) => {
                for asked in table.values_mut().filter(|asked| matches!(asked, SentRequest::Discover)) {
                    *asked = SentRequest::DiscoverGivenUp;
                }
                SentRequest::Initialize
            }
            _ => SentRequest::Other,
        };
        table.insert(request.id.clone(), asked);
    }

    fn cancelled(notification: &mut ServerNotification) -> Option<&mut CancelledNotificationParam> {
        match notification {
            ServerNotification::CancelledNotification(cancelled) => Some(&mut cancelled.params),
            _ => None,
        }
    }
}

/// Removes the line breaks that remote servers put into JSON: the sandbox reads one message from each line.
fn in_one_line(result: Box<RawValue>) -> Result<Box<RawValue>, String> {
    match text::json_on_one_line(result.get()) {
        Cow::Borrowed(_) => Ok(result),
        Cow::Owned(line) => RawValue::from_string(line).map_err(|error| error.to_string()),
    }
}

#[cfg(test)]
#[path = "raw_results_tests.rs"]
mod tests;
