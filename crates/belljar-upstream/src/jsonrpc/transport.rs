//! The transport under rmcp, for both of our roles.

use std::time::Duration;

use rmcp::model::{CancelledNotificationParam, ErrorData, JsonRpcMessage, RequestId};
use rmcp::service::{RxJsonRpcMessage, ServiceRole, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::envelope::{Envelope, LineError, MalformedLine};
use super::lines::{Incoming, Line, LineReader, LineSink, LineWriter};
use super::requests::Requests;

/// How long it may take to tell a peer that nobody waits for its answer any more: one that hangs does not read, and what
/// it was sent before may stand in the way for ever.
pub const WITHDRAWING: Duration = Duration::from_millis(500);
/// Answers of our own that may be under way to a peer; while there are more, nothing is read from it.
const REFUSALS_MAX: usize = 16;

/// The reading of messages on one side of a connection.
pub trait Messages: Send + 'static {
    /// Ours.
    type Role: ServiceRole;

    /// The message of a line; nothing to leave it out.
    ///
    /// # Errors
    /// Why it is no message.
    fn read(
        &mut self,
        line: &[u8],
        envelope: &Envelope<'_>,
    ) -> Result<Option<RxJsonRpcMessage<Self::Role>>, String>;

    /// A line that is no JSON, or no object, as one that is; nothing if it has to be left as it is.
    fn repaired(&self, _line: &[u8], _id: Option<&str>) -> Option<String> {
        None
    }

    /// What becomes of a line that cannot be read; of one that is too long, nothing is left.
    fn unreadable(&mut self, line: &[u8], id: Option<RequestId>, why: LineError) -> OnUnreadable<Self::Role>;

    /// The answer to a request that rmcp does not answer, since it came before the end of the handshake.
    fn early(&self, _message: &RxJsonRpcMessage<Self::Role>) -> Option<TxJsonRpcMessage<Self::Role>> {
        None
    }

    /// A message is about to be sent.
    fn sending(&mut self, message: &TxJsonRpcMessage<Self::Role>);

    /// The cancellation in a notification of the peer's.
    fn cancelled(
        notification: &mut <Self::Role as ServiceRole>::PeerNot,
    ) -> Option<&mut CancelledNotificationParam>;
}

/// The reaction to a message that cannot be read.
#[derive(Debug)]
pub enum OnUnreadable<Role: ServiceRole> {
    /// It is left out.
    Nothing,
    /// This one.
    Message(RxJsonRpcMessage<Role>),
    /// The peer is told, with the id if there is one.
    Refusal(Option<RequestId>),
    /// The connection ends.
    End,
}

/// Lines of JSON-RPC from and to a peer.
pub struct LineTransport<M, I, O> {
    lines: I,
    line_bytes_max: usize,
    writer: O,
    messages: M,
    requests: Requests,
    /// For the next request.
    permit: Option<OwnedSemaphorePermit>,
    refusals: JoinSet<()>,
    ended: CancellationToken,
}

impl<M, R, W> LineTransport<M, LineReader<R>, LineWriter<W>>
where
    M: Messages,
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    /// A transport over byte streams; at most `requests_max` requests of the peer are worked on at once. The token is
    /// cancelled when the peer closes its end.
    pub fn new(
        messages: M,
        read: R,
        write: W,
        line_bytes_max: usize,
        requests_max: usize,
    ) -> (Self, CancellationToken) {
        let lines = LineReader::new(read, line_bytes_max);
        Self::between(messages, lines, LineWriter::new(write), line_bytes_max, requests_max)
    }
}

impl<M: Messages, I: Incoming, O: LineSink> LineTransport<M, I, O> {
    /// A transport over anything that carries lines, each of at most `line_bytes_max` bytes; otherwise as [`Self::new`].
    pub fn between(
        messages: M,
        lines: I,
        writer: O,
        line_bytes_max: usize,
        requests_max: usize,
    ) -> (Self, CancellationToken) {
        let ended = CancellationToken::new();
        let transport = Self {
            lines,
            line_bytes_max,
            writer,
            messages,
            requests: Requests::new(requests_max),
            permit: None,
            refusals: JoinSet::new(),
            ended: ended.clone(),
        };
        (transport, ended)
    }

    async fn next_message(&mut self) -> std::io::Result<Option<RxJsonRpcMessage<M::Role>>> {
        loop {
            while self.refusals.len() >= REFUSALS_MAX {
                self.refusals.join_next().await;
            }
            while self.refusals.try_join_next().is_some() {}
            if self.permit.is_none() {
                self.permit = self.requests.room().await;
            }
            let Some(line) = self.lines.next().await? else { return Ok(None) };
            let unreadable = match line {
                Line::Whole(line) => match self.read(&line) {
                    Ok(Some(message)) => {
                        if let Some(answer) = self.messages.early(&message) {
                            self.send_aside(&answer);
                        } else if let Some(message) = self.admitted(message) {
                            return Ok(Some(message));
                        }
                        continue;
                    }
                    Ok(None) => continue,
                    Err(MalformedLine { id, why }) => (line, id, why),
                },
                Line::Overlong { id } => (vec![], id, LineError::Overlong(self.line_bytes_max)),
                Line::Endless => (vec![], None, LineError::Overlong(self.line_bytes_max)),
            };
            let (line, id, why) = unreadable;
            // The id may hold anything.
            tracing::debug!(has_id = id.is_some(), ?why, "a line from the peer cannot be read");
            let id = id.and_then(|id| serde_json::from_str(&id).ok());
            match self.messages.unreadable(&line, id, why.clone()) {
                OnUnreadable::Nothing => {}
                OnUnreadable::Message(message) => return Ok(Some(message)),
                OnUnreadable::Refusal(id) => self.refuse(id, &why),
                OnUnreadable::End => return Ok(None),
            }
        }
    }

    fn read(&mut self, line: &[u8]) -> Result<Option<RxJsonRpcMessage<M::Role>>, MalformedLine> {
        let malformed = match Envelope::read(line) {
            Ok(envelope) => return self.understood(line, &envelope),
            Err(malformed) => malformed,
        };
        let repaired = self.messages.repaired(line, malformed.id.as_deref());
        let Some(repaired) = repaired else { return Err(malformed) };
        let envelope = Envelope::read(repaired.as_bytes())?;
        self.understood(repaired.as_bytes(), &envelope)
    }

    fn understood(
        &mut self,
        line: &[u8],
        envelope: &Envelope<'_>,
    ) -> Result<Option<RxJsonRpcMessage<M::Role>>, MalformedLine> {
        self.messages.read(line, envelope).map_err(|reason| {
            let id = envelope.id.map(|id| id.get().to_owned());
            MalformedLine { id, why: LineError::Misshapen(reason) }
        })
    }

    /// Takes note of a request; leaves out a cancellation of what is answered already.
    fn admitted(&mut self, mut message: RxJsonRpcMessage<M::Role>) -> Option<RxJsonRpcMessage<M::Role>> {
        match &mut message {
            JsonRpcMessage::Request(request) => {
                let permit = self.permit.take()?;
                request.id = self.requests.open(request.id.clone(), permit);
            }
            JsonRpcMessage::Notification(notification) => {
                if let Some(cancelled) = M::cancelled(&mut notification.notification)
                    && let Some(id) = &cancelled.request_id
                {
                    let own = self.requests.own_id(id)?;
                    // rmcp sends no answer to what was cancelled.
                    self.requests.close(&own);
                    cancelled.request_id = Some(own);
                }
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {}
        }
        Some(message)
    }

    fn refuse(&mut self, id: Option<RequestId>, why: &LineError) {
        let error = match why {
            LineError::Overlong(bytes_max) => ErrorData::invalid_request(
                format!("a message may have {bytes_max} bytes, this one has more"),
                None,
            ),
            LineError::NotJson(reason) => {
                ErrorData::parse_error(format!("the message cannot be read: {reason}"), None)
            }
            LineError::Misshapen(reason) => {
                ErrorData::invalid_request(format!("the message cannot be read: {reason}"), None)
            }
        };
        self.send_aside(&JsonRpcMessage::error(error, id));
    }

    /// Sends an answer of our own, without waiting for the peer to read it.
    fn send_aside(&mut self, message: &TxJsonRpcMessage<M::Role>) {
        let writer = self.writer.clone();
        let line = line_of(message);
        self.refusals.spawn(async move {
            if let Err(error) = write(&writer, line).await {
                tracing::debug!(%error, "the peer takes no answer");
            }
        });
    }
}

fn line_of(message: &impl serde::Serialize) -> std::io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    Ok(line)
}

async fn write(writer: &impl LineSink, line: std::io::Result<Vec<u8>>) -> std::io::Result<()> {
    writer.write(line?).await
}

impl<M: Messages, I: Incoming, O: LineSink> Transport<M::Role> for LineTransport<M, I, O> {
    type Error = std::io::Error;

    fn send(
        &mut self,
        mut message: TxJsonRpcMessage<M::Role>,
    ) -> impl Future<Output = std::io::Result<()>> + Send + 'static {
        self.messages.sending(&message);
        let answered = match &mut message {
            JsonRpcMessage::Response(answer) => Some(&mut answer.id),
            JsonRpcMessage::Error(answer) => answer.id.as_mut(),
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
        };
        // Its permit is given back when the answer is written: a peer that does not read its answers is not read from.
        let open = answered.and_then(|own| {
            let open = self.requests.close(own)?;
            *own = open.id.clone();
            Some(open)
        });
        let writer = self.writer.clone();
        // Now: as a tree it has many times the memory, for as long as a peer that reads slowly keeps it waiting.
        let line = line_of(&message);
        drop(message);
        async move {
            let written = write(&writer, line).await;
            drop(open);
            written
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<M::Role>> {
        let message = self.next_message().await.unwrap_or_else(|error| {
            tracing::debug!(%error, "the peer's stream broke");
            None
        });
        if message.is_none() {
            self.ended.cancel();
        }
        message
    }

    async fn close(&mut self) -> std::io::Result<()> {
        self.writer.close().await;
        Ok(())
    }
}
