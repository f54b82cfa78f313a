//! What must hold of the reader of JSON-RPC lines, whatever bytes come from the client or from a server.
//!
//! The input is what the peer sends; it is read once as the client's and once as a server's, in which case three
//! requests of ours wait for answers.
//! - It does not panic and comes to an end; what comes out does not depend on how the bytes are cut.
//! - Nothing is lost in silence: each line that is not blank is a message, a notification that is left out on purpose, or
//!   is said to be unreadable. Only a server's line that is too long and names no request ends the connection.
//! - A line that cannot be read, but whose JSON has an id, is told apart by that id.
//! - What is written to the peer is refusals, one line each, with an id that the peer has sent, or none.
//! - Requests that are open have different ids, however often the peer uses one, and are as many as the bound allows.
//! - A result that is kept for a request of ours is, to the byte, a part of what came, unless a line that came is no JSON
//!   and may have been repaired.
//! - A message behind any garbage is read.

use std::collections::HashSet;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use belljar::server::Requests;
use belljar_upstream::jsonrpc::{ENDLESS_TIMES, Envelope, LineError, LineTransport, Messages, OnUnreadable};
use belljar_upstream::{RawResult, RawResults};
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CancelledNotificationParam, ClientRequest, JsonRpcMessage,
    RequestId,
};
use rmcp::service::{RxJsonRpcMessage, ServiceRole, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// So small that inputs have lines over it.
const LINE_BYTES_MAX: usize = 300;
/// Of a line of as many bytes, its line feed not counted, nothing more is waited for.
const ENDLESS_BYTES: usize = LINE_BYTES_MAX * ENDLESS_TIMES;
/// More than an input has lines: what is refused is answered, what is not stays open here.
const REQUESTS_MAX: usize = 1 << 20;
/// Our requests that wait for a server's answers, by number.
const AWAITED: std::ops::Range<i64> = 0..3;
/// Longest id that is looked for in lines that cannot be read.
const ID_BYTES_MAX: usize = 250;

/// Checks what one peer sends, as the client's and as a server's.
pub fn check(bytes: &[u8]) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        check_face(bytes, Requests::default).await;
        check_face(bytes, waiting).await;
        check_answers(bytes).await;
    });
}

/// What becomes of a line that is not blank.
#[derive(Debug, PartialEq)]
enum Event {
    Read,
    Unreadable(Option<RequestId>, LineError),
}

/// What became of a peer's bytes.
#[derive(Debug, Default, PartialEq)]
struct Heard {
    messages: Vec<Value>,
    events: Vec<Event>,
    /// What was written to the peer, sorted: refusals have no order.
    written: Vec<String>,
    has_given_up: bool,
}

async fn check_face<M: Messages>(bytes: &[u8], messages: impl Fn() -> M)
where
    RxJsonRpcMessage<M::Role>: serde::Serialize,
{
    let heard = hear(bytes, Cut::Whole, messages()).await;
    check_heard(bytes, &heard);
    assert_eq!(heard, hear(bytes, Cut::Bytes, messages()).await, "byte by byte");
    assert_eq!(heard, hear(bytes, Cut::Uneven, messages()).await, "in uneven pieces");
    let more = [bytes, b"\n{\"jsonrpc\":\"2.0\",\"id\":77,\"method\":\"ping\"}\n"].concat();
    let heard = hear(&more, Cut::Whole, messages()).await;
    if !heard.has_given_up {
        let last = heard.messages.last().expect("the last line is a message");
        assert_eq!(last["method"], "ping", "{last}");
    }
}

async fn hear<M: Messages>(bytes: &[u8], cut: Cut, inner: M) -> Heard
where
    RxJsonRpcMessage<M::Role>: serde::Serialize,
{
    let notes = Arc::new(Mutex::new(Notes::default()));
    let written = Written::default();
    let messages = Watched { inner, notes: Arc::clone(&notes) };
    let pieces = Pieces { rest: bytes.to_vec(), cut };
    let (mut transport, ended) =
        LineTransport::new(messages, pieces, written.clone(), LINE_BYTES_MAX, REQUESTS_MAX);
    let mut heard = Heard::default();
    while let Some(message) = transport.receive().await {
        heard.messages.push(serde_json::to_value(&message).expect("a message is JSON"));
    }
    assert!(ended.is_cancelled(), "the end is told");
    let notes = std::mem::take(&mut *notes.lock().unwrap());
    // Refusals are written by tasks, which get their turns now.
    for _ in 0..notes.refused + 8 {
        tokio::task::yield_now().await;
    }
    heard.events = notes.events;
    heard.has_given_up = notes.has_given_up;
    heard.written = written.lines();
    heard.written.sort();
    assert_eq!(heard.written.len(), notes.refused, "each refusal is written once");
    heard
}

fn check_heard(bytes: &[u8], heard: &Heard) {
    // Of a line without end its beginning is enough.
    let rest = bytes.rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
    let lines: Vec<&[u8]> =
        complete_lines(bytes).chain(Some(rest).filter(|rest| rest.len() > ENDLESS_BYTES)).collect();
    if heard.has_given_up {
        assert!(heard.events.len() <= lines.len());
    } else {
        assert_eq!(heard.events.len(), lines.len(), "nothing is lost in silence: {:?}", heard.events);
    }
    for (line, event) in lines.iter().zip(&heard.events) {
        let Event::Unreadable(id, why) = event else { continue };
        let is_overlong = line.len() >= LINE_BYTES_MAX;
        assert_eq!(is_overlong, *why == LineError::Overlong(LINE_BYTES_MAX), "{why:?}");
        let is_endless = line.len() >= ENDLESS_BYTES;
        assert!(!is_endless || id.is_none(), "{id:?} of a line without end");
        let plain = plain_id(line).filter(|_| !is_endless);
        assert!(plain.is_none() || *id == plain, "{id:?} is found where {plain:?} stands");
    }
    check_open(&heard.messages);
    for line in &heard.written {
        let refusal: Value = serde_json::from_str(line).expect("a refusal is JSON");
        assert_eq!(refusal["jsonrpc"], "2.0", "{line}");
        assert!(matches!(refusal["error"]["code"].as_i64(), Some(-32700 | -32600)), "{line}");
        let id = refusal.get("id").filter(|id| !id.is_null());
        assert!(id.is_none_or(|id| was_sent(bytes, id)), "{line} answers what nobody asked");
    }
}

/// Requests are told apart as long as they are open: until they are cancelled, since nobody answers here.
fn check_open(messages: &[Value]) {
    let mut open = HashSet::new();
    for message in messages {
        let Some(method) = message.get("method") else { continue };
        if let Some(id) = message.get("id") {
            assert!(open.insert(id.to_string()), "{id} is open twice");
        } else if method == "notifications/cancelled" {
            open.remove(&message["params"]["requestId"].to_string());
        }
    }
}

async fn check_answers(bytes: &[u8]) {
    let answers = waiting();
    hear(bytes, Cut::Whole, answers.clone()).await;
    for id in AWAITED {
        if let Some(RawResult::Result(result)) = answers.awaited(RequestId::Number(id)).take().await {
            let is_part = memchr::memmem::find(bytes, result.get().as_bytes()).is_some();
            let may_be_repaired =
                complete_lines(bytes).any(|line| serde_json::from_slice::<Value>(line).is_err());
            assert!(is_part || may_be_repaired, "{result} is not what came");
        }
    }
}

/// A server's face, with requests of ours that wait.
fn waiting() -> RawResults {
    let mut answers = RawResults::default();
    for id in AWAITED {
        let request = CallToolRequest::new(CallToolRequestParams::new("t"));
        answers.sending(&JsonRpcMessage::request(
            ClientRequest::CallToolRequest(request),
            RequestId::Number(id),
        ));
    }
    answers
}

/// The lines that count: those over the bound, and those that are not blank.
fn complete_lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let lines = bytes[..end].split_inclusive(|byte| *byte == b'\n').map(|line| &line[..line.len() - 1]);
    lines.filter(|line| {
        let text = line.trim_ascii();
        line.len() >= LINE_BYTES_MAX || !text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text).is_empty()
    })
}

/// The id of a line that is a JSON object, where it is written without escapes and is not very long.
fn plain_id(line: &[u8]) -> Option<RequestId> {
    let object: Value = serde_json::from_slice(line).ok()?;
    let id = object.as_object()?.get("id")?;
    let is_plain = !line.contains(&b'\\') && id.to_string().len() <= ID_BYTES_MAX;
    is_plain.then(|| serde_json::from_value(id.clone()).ok())?
}

/// Whether an id stands in the bytes. What was written there with escapes counts as found; a number may be written in other
/// ways, such as 1e2.
fn was_sent(bytes: &[u8], id: &Value) -> bool {
    let is_in_number = |byte: &u8| byte.is_ascii_digit() || b"+-.eE".contains(byte);
    let mut numbers = bytes.split(|byte| !is_in_number(byte)).filter_map(|text| {
        let text = std::str::from_utf8(text).ok()?;
        text.parse::<f64>().ok()
    });
    bytes.contains(&b'\\')
        || memchr::memmem::find(bytes, id.to_string().as_bytes()).is_some()
        || id.as_f64().is_some_and(|id| numbers.any(|number| number == id))
}

#[derive(Default)]
struct Notes {
    events: Vec<Event>,
    refused: usize,
    has_given_up: bool,
}

/// Messages as they are, with notes of what became of each line.
struct Watched<M> {
    inner: M,
    notes: Arc<Mutex<Notes>>,
}

impl<M: Messages> Messages for Watched<M> {
    type Role = M::Role;

    fn read(
        &mut self,
        line: &[u8],
        envelope: &Envelope<'_>,
    ) -> Result<Option<RxJsonRpcMessage<M::Role>>, String> {
        let read = self.inner.read(line, envelope);
        if read.is_ok() {
            self.notes.lock().unwrap().events.push(Event::Read);
        }
        read
    }

    fn repaired(&self, line: &[u8], id: Option<&str>) -> Option<String> {
        self.inner.repaired(line, id)
    }

    fn unreadable(&mut self, line: &[u8], id: Option<RequestId>, why: LineError) -> OnUnreadable<M::Role> {
        let instead = self.inner.unreadable(line, id.clone(), why.clone());
        let mut notes = self.notes.lock().unwrap();
        notes.events.push(Event::Unreadable(id, why));
        match instead {
            OnUnreadable::Refusal(_) => notes.refused += 1,
            OnUnreadable::End => notes.has_given_up = true,
            OnUnreadable::Nothing | OnUnreadable::Message(_) => {}
        }
        instead
    }

    fn sending(&mut self, message: &TxJsonRpcMessage<M::Role>) {
        self.inner.sending(message);
    }

    fn cancelled(
        notification: &mut <M::Role as ServiceRole>::PeerNot,
    ) -> Option<&mut CancelledNotificationParam> {
        M::cancelled(notification)
    }
}

/// How many bytes a read gives.
#[derive(Clone, Copy)]
enum Cut {
    Whole,
    Bytes,
    /// By the bytes themselves, so that an input stays what the peer sends.
    Uneven,
}

/// The peer's end that is read.
struct Pieces {
    rest: Vec<u8>,
    cut: Cut,
}

impl AsyncRead for Pieces {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let bytes = match (self.cut, self.rest.first()) {
            (Cut::Whole, _) => self.rest.len(),
            (Cut::Bytes, _) => 1,
            (Cut::Uneven, first) => 1 + usize::from(first.copied().unwrap_or(0)) % 37,
        };
        let bytes = bytes.min(self.rest.len()).min(into.remaining());
        into.put_slice(&self.rest[..bytes]);
        self.rest.drain(..bytes);
        Poll::Ready(Ok(()))
    }
}

/// The peer's end that is written to.
#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl Written {
    fn lines(&self) -> Vec<String> {
        let written = String::from_utf8(self.0.lock().unwrap().clone()).expect("refusals are UTF-8");
        assert!(written.is_empty() || written.ends_with('\n'), "a whole line");
        written.lines().map(str::to_owned).collect()
    }
}

impl AsyncWrite for Written {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
