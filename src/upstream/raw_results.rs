//! Keeps the raw texts of the servers' answers, and gives rmcp empty answers instead. The types of rmcp would lose
//! unknown keys, and parsing costs more than the rest of the call.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use rmcp::RoleClient;
use rmcp::model::{
    CancelledNotificationParam, ClientJsonRpcMessage, ClientRequest, CustomResult, JsonRpcMessage, RequestId,
    ServerJsonRpcMessage, ServerNotification, ServerResult,
};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::no_response::NoResponse;
use super::redaction::Redaction;
use crate::jsonrpc::{self, Envelope, LineError, Messages, OnUnreadable};
use crate::text;

/// The size above which secrets are removed from a result on another thread, in bytes. That can take longer than the
/// rest of a call, and the bridge's thread has to send heartbeats to the sandbox meanwhile.
const LARGE_BYTES: usize = 1 << 20;

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

/// The requests whose answers are kept as texts, and the answers that nobody has taken yet. Clones share the table.
#[derive(Debug, Clone, Default)]
pub struct RawResults {
    table: Arc<Mutex<HashMap<RequestId, Option<RawResult>>>>,
    overlong: Arc<AtomicBool>,
    not_opened: Arc<OnceLock<NoResponse>>,
    redaction: Redaction,
    discovery: Discovery,
    /// Whether `server/discover` was answered after it was given up.
    discovered_late: Arc<AtomicBool>,
}

/// The state of `server/discover` at the beginning of a connection.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
enum Discovery {
    /// It was not sent.
    #[default]
    None,
    /// This request was sent.
    Asked(RequestId),
    /// `initialize` was sent after this request, which was refused or not answered in time.
    GivenUp(RequestId),
}

/// A request that waits for its answer. If this is dropped, the answer is not kept.
#[derive(Debug)]
pub struct PendingResult {
    answers: RawResults,
    id: RequestId,
}

impl RawResults {
    /// The table for one server. Credentials are removed from the server's messages as they arrive.
    pub(super) fn of(redaction: Redaction) -> Self {
        Self { redaction, ..Self::default() }
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
            Some(place) => *place = Some(RawResult::Lost(lost)),
            None => self.note_lost(lost),
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

    /// Keeps an expected answer, and returns an empty one for rmcp.
    fn keep(&self, id: RequestId, answer: RawResult) -> Option<ServerJsonRpcMessage> {
        // Some servers return a numeric id as a string.
        let id = match id {
            RequestId::String(text) => RequestId::Number(text.parse().ok()?),
            number => number,
        };
        *self.table.lock().get_mut(&id)? = Some(answer);
        let result = ServerResult::CustomResult(CustomResult::new(Value::Null));
        Some(JsonRpcMessage::response(result, id))
    }
}

impl PendingResult {
    /// The answer, if it has come. A result is on one line, and has no credentials of the server.
    pub async fn take(self) -> Option<RawResult> {
        let answer = self.answers.table.lock().remove(&self.id).flatten()?;
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
        self.answers.table.lock().remove(&self.id);
    }
}

impl Messages for RawResults {
    type Role = RoleClient;

    fn read(&mut self, line: &[u8], envelope: &Envelope<'_>) -> Result<Option<ServerJsonRpcMessage>, String> {
        if let (None, Some(id), Some(result)) = (&envelope.method, envelope.id, envelope.result)
            && let Ok(id) = serde_json::from_str(id.get())
            && let Some(message) = self.keep(id, RawResult::Result(result.to_owned()))
        {
            return Ok(Some(message));
        }
        let completed = match &self.discovery {
            Discovery::GivenUp(id) if answers(envelope, id) => {
                self.discovered_late.store(envelope.result.is_some(), Ordering::Release);
                return Ok(None);
            }
            Discovery::Asked(id) if answers(envelope, id) => completed(line),
            _ => None,
        };
        let line = completed.as_deref().unwrap_or(line);
        // Requests, notifications and errors also have text of the server.
        let clean = std::str::from_utf8(line).ok().and_then(|line| self.redaction.json(line));
        let Some(clean) = clean else { return jsonrpc::message(line).map(Some) };
        let mut message = jsonrpc::message(clean.as_bytes())?;
        // The id of the server's request stays unchanged, since it only goes back to the server.
        if let (JsonRpcMessage::Request(request), Some(id)) = (&mut message, envelope.id) {
            request.id = serde_json::from_str(id.get()).map_err(|error| error.to_string())?;
        }
        Ok(Some(message))
    }

    fn unreadable(&mut self, id: Option<RequestId>, why: LineError) -> OnUnreadable<RoleClient> {
        if let Some(message) = id.and_then(|id| self.keep(id, RawResult::Unreadable(why.clone()))) {
            return OnUnreadable::Message(message);
        }
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

    fn sending(&mut self, message: &ClientJsonRpcMessage) {
        let JsonRpcMessage::Request(request) = message else { return };
        match request.request {
            ClientRequest::CallToolRequest(_)
            // A call as a task, and what is asked about it.
            | ClientRequest::CustomRequest(_)
            | ClientRequest::ListToolsRequest(_)
            | ClientRequest::ListResourcesRequest(_)
            | ClientRequest::ListResourceTemplatesRequest(_)
            | ClientRequest::ReadResourceRequest(_)
            | ClientRequest::ListPromptsRequest(_)
            | ClientRequest::GetPromptRequest(_) => {
                self.table.lock().insert(request.id.clone(), None);
            }
            ClientRequest::DiscoverRequest(_) => self.discovery = Discovery::Asked(request.id.clone()),
            ClientRequest::InitializeRequest(_) => {
                if let Discovery::Asked(id) = std::mem::take(&mut self.discovery) {
                    self.discovery = Discovery::GivenUp(id);
                }
            }
            _ => {}
        }
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

/// Whether a message answers the request with this id. Some servers return a numeric id as a string.
fn answers(envelope: &Envelope<'_>, id: &RequestId) -> bool {
    let found = envelope.id.filter(|_| envelope.method.is_none());
    found.is_some_and(|found| found.get().trim_matches('"') == id.to_string())
}

/// Completes an answer to `server/discover` with the members that the specification requires and some servers leave
/// out.
fn completed(line: &[u8]) -> Option<Vec<u8>> {
    let mut message: Value = serde_json::from_slice(line).ok()?;
    let result = message.get_mut("result")?.as_object_mut()?;
    for (name, value) in
        [("resultType", json!("complete")), ("ttlMs", json!(0)), ("cacheScope", json!("private"))]
    {
        result.entry(name).or_insert(value);
    }
    serde_json::to_vec(&message).ok()
}

#[cfg(test)]
#[path = "raw_results_tests.rs"]
mod tests;
