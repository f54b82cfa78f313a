//! The channels of lines between the line transport and HTTP.

use std::io::{Error, ErrorKind};
use std::sync::Arc;

use rmcp::model::RequestId;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::jsonrpc::{Incoming, Line, LineSink};
use crate::no_response::NoResponse;
use crate::raw_results::RawResults;

/// The lines from the server, over either transport.
pub(crate) struct ReceivedLines(pub(super) mpsc::Receiver<Line>);

impl Incoming for ReceivedLines {
    async fn next(&mut self) -> std::io::Result<Option<Line>> {
        Ok(self.0.recv().await)
    }
}

/// The lines to the server. The task that owns the connection takes them one at a time.
#[derive(Clone)]
pub(crate) struct SentLines {
    pub(super) sent: mpsc::Sender<SentMessage>,
    pub(super) closing: CancellationToken,
}

impl LineSink for SentLines {
    async fn write(&self, line: Vec<u8>) -> std::io::Result<()> {
        let sent = SentMessage::new(line)?;
        if self.closing.is_cancelled() {
            return Err(ErrorKind::NotConnected.into());
        }
        self.sent.send(sent).await.map_err(|_| ErrorKind::NotConnected.into())
    }

    async fn close(&self) {
        self.closing.cancel();
    }
}

/// A message from the bridge to a server.
#[derive(Debug, Clone)]
pub(super) struct SentMessage {
    pub(super) line: Arc<[u8]>,
    pub(super) method: Option<String>,
    /// The id of a request, as JSON.
    pub(super) id: Option<String>,
    /// The id of the request that a cancellation is about, as JSON.
    pub(super) cancels: Option<String>,
    /// The protocol version that the request's `_meta` names; `None` in versions with `initialize`.
    pub(super) version: Option<String>,
    /// The name of the tool or prompt, or the address of the resource, for a header of versions without `initialize`.
    pub(super) name: Option<String>,
}

#[derive(Deserialize)]
struct Outline<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    method: Option<String>,
    params: Option<Params<'a>>,
}

#[derive(Deserialize)]
struct Params<'a> {
    #[serde(borrow, rename = "requestId")]
    request_id: Option<&'a RawValue>,
    #[serde(borrow, rename = "_meta")]
    meta: Option<Meta<'a>>,
    #[serde(borrow)]
    name: Option<&'a RawValue>,
    #[serde(borrow)]
    uri: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Meta<'a> {
    #[serde(borrow, rename = "io.modelcontextprotocol/protocolVersion")]
    version: Option<&'a RawValue>,
}

impl SentMessage {
    pub(super) fn new(line: Vec<u8>) -> std::io::Result<Self> {
        let outline: Outline<'_> = serde_json::from_slice(&line).map_err(Error::other)?;
        let text =
            |raw: Option<&RawValue>| raw.and_then(|raw| serde_json::from_str::<String>(raw.get()).ok());
        let id = outline.id.filter(|_| outline.method.is_some()).map(|id| id.get().to_owned());
        let is_cancellation = outline.method.as_deref() == Some("notifications/cancelled");
        let params = outline.params;
        let cancels = params.as_ref().filter(|_| is_cancellation).and_then(|params| params.request_id);
        let cancels = cancels.map(|id| id.get().to_owned());
        let version = params.as_ref().and_then(|params| params.meta.as_ref()?.version);
        let name = params.as_ref().and_then(|params| params.name.or(params.uri));
        let (version, name, method) = (text(version), text(name), outline.method);
        Ok(Self { line: line.into(), method, id, cancels, version, name })
    }

    /// The arguments of a call.
    pub(super) fn arguments(&self) -> Option<Value> {
        #[derive(Deserialize)]
        struct Message {
            params: Arguments,
        }
        #[derive(Deserialize)]
        struct Arguments {
            arguments: Option<Value>,
        }
        serde_json::from_slice::<Message>(&self.line).ok()?.params.arguments
    }
}

/// The channels for lines and results from the server.
#[derive(Clone)]
pub(super) struct Deliveries {
    pub(super) lines: mpsc::Sender<Line>,
    pub(super) answers: RawResults,
}

impl Deliveries {
    /// Delivers a line. Returns whether there is still a receiver.
    pub(super) async fn deliver(&self, line: Line) -> bool {
        self.lines.send(line).await.is_ok()
    }

    /// Tells the caller of the request that no answer will come.
    pub(super) async fn lose(&self, id: &str, lost: NoResponse) {
        let answer = json!({
            "jsonrpc": "2.0",
            "id": serde_json::from_str::<Value>(id).unwrap_or_default(),
            "error": {"code": -32000, "message": lost.reason()},
        });
        if let Ok(id) = serde_json::from_str::<RequestId>(id) {
            self.answers.lose(&id, lost);
        }
        if !self.deliver(Line::Whole(answer.to_string().into_bytes())).await {
            tracing::trace!("nobody waits for the answer any more");
        }
    }
}
