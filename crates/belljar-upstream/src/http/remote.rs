//! The task that owns the connection to one remote server. Every HTTP request belongs to it, and ends with it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use belljar_base::limits::Limits;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use super::events::BodyLimits;
use super::legacy::Legacy;
use super::lines::{Deliveries, ReceivedLines, SentLines, SentMessage};
use super::parameter_headers::ParameterHeaders;
use super::requests::Requests;
use super::streamable::Streamable;
use crate::connect_context::ConnectContext;
use crate::http_client::http_client;
use crate::raw_results::RawResults;
use crate::{RemoteSpec, RemoteTransport};

/// The largest number of queued lines in each direction.
const LINES_QUEUED_MAX: usize = 4;
/// The largest number of HTTP requests in progress. Further messages wait.
const EXCHANGES_MAX: usize = 128;
/// The longest time for the end of a session.
const FAREWELL: Duration = Duration::from_millis(700);

/// A connection to a remote server.
pub(crate) struct Remote {
    closing: CancellationToken,
    task: JoinHandle<()>,
}

enum Server {
    Streamable(Box<Streamable>),
    Legacy(Box<Legacy>),
}

impl Remote {
    /// Starts the task. Over Streamable HTTP, no request is sent before the first message.
    ///
    /// # Errors
    /// The HTTP client cannot be created, for example if the system has no certificates.
    pub(crate) fn open(
        spec: &RemoteSpec,
        transport: RemoteTransport,
        context: &ConnectContext,
        (answers, parameters): (RawResults, ParameterHeaders),
        limits: &Limits,
    ) -> Result<(Self, ReceivedLines, SentLines), String> {
        let (lines, received) = mpsc::channel(LINES_QUEUED_MAX);
        let (sent, outbox) = mpsc::channel(LINES_QUEUED_MAX);
        let requests = Requests::new(http_client(spec)?, context.access.clone(), context.redaction.clone());
        let (url, body_limits) =
            (spec.url.clone(), BodyLimits::new(limits, Arc::clone(&context.large_bodies)));
        let deliveries = Deliveries { lines, answers };
        let server = match transport {
            RemoteTransport::Streamable => {
                let streamable = Streamable::new((requests, url), body_limits, deliveries, parameters);
                Server::Streamable(Box::new(streamable))
            }
            RemoteTransport::Sse => {
                Server::Legacy(Box::new(Legacy::new(requests, url, body_limits, deliveries)))
            }
        };
        let closing = CancellationToken::new();
        let task = tokio::spawn(own(Arc::new(server), outbox, closing.clone()));
        Ok((Self { closing: closing.clone(), task }, ReceivedLines(received), SentLines { sent, closing }))
    }

    /// Ends the session at the server, and all requests in progress.
    pub(crate) async fn end(mut self) {
        self.closing.cancel();
        if let Err(error) = (&mut self.task).await {
            tracing::warn!(%error, "the task of a remote server broke");
        }
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn own(server: Arc<Server>, mut outbox: mpsc::Receiver<SentMessage>, closing: CancellationToken) {
    let mut exchanges = JoinSet::new();
    let mut under_way: HashMap<String, AbortHandle> = HashMap::new();
    let mut listening = JoinSet::new();
    let mut has_sent = false;
    if let Server::Legacy(_) = &*server {
        listening.spawn(listen(Arc::clone(&server)));
    }
    loop {
        let sent = tokio::select! {
            sent = outbox.recv(), if exchanges.len() < EXCHANGES_MAX => sent,
            Some(_) = exchanges.join_next() => {
                under_way.retain(|_, exchange| !exchange.is_finished());
                continue;
            }
            Some(_) = listening.join_next() => match &*server {
                Server::Streamable(_) => continue,
                // In HTTP+SSE, only the stream brings answers, so the connection ends with it. Messages that were not
                // sent yet get an error first, and so does a first message that has not come yet.
                Server::Legacy(_) => {
                    if !has_sent && let Ok(Some(first)) = tokio::time::timeout(FAREWELL, outbox.recv()).await {
                        exchanges.spawn(exchange(Arc::clone(&server), first));
                    }
                    let told = async { while exchanges.join_next().await.is_some() {} };
                    if tokio::time::timeout(FAREWELL, told).await.is_err() {
                        tracing::debug!("a message was under way when the stream ended");
                    }
                    break;
                }
            },
            () = closing.cancelled() => break,
        };
        let Some(sent) = sent else { break };
        has_sent = true;
        // The caller has given up the request, and does not read its answer.
        if let Some(exchange) = sent.cancels.as_ref().and_then(|id| under_way.remove(id)) {
            exchange.abort();
        }
        let is_initialized = sent.method.as_deref() == Some("notifications/initialized");
        let id = sent.id.clone();
        let exchange = exchanges.spawn(exchange(Arc::clone(&server), sent));
        if let Some(id) = id {
            under_way.insert(id, exchange);
        }
        if is_initialized && let Server::Streamable(_) = &*server {
            listening.spawn(listen(Arc::clone(&server)));
        }
    }
    listening.shutdown().await;
    exchanges.shutdown().await;
    if let Server::Streamable(streamable) = &*server
        && tokio::time::timeout(FAREWELL, streamable.end()).await.is_err()
    {
        tracing::debug!("the server did not say that the session has ended");
    }
}

async fn exchange(server: Arc<Server>, sent: SentMessage) {
    match &*server {
        Server::Streamable(streamable) => streamable.exchange(sent).await,
        Server::Legacy(legacy) => legacy.exchange(sent).await,
    }
}

async fn listen(server: Arc<Server>) {
    match &*server {
        Server::Streamable(streamable) if streamable.is_open().await => streamable.listen().await,
        Server::Streamable(_) => {}
        Server::Legacy(legacy) => legacy.listen().await,
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio::sync::Semaphore;
    use url::Url;

    use super::*;
    use crate::no_response::NoResponse;
    use crate::raw_results::Unread;
    use crate::redaction::Redaction;

    #[tokio::test]
    async fn a_first_message_after_the_end_of_the_stream_gets_the_reason_of_that() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = Url::parse(&format!("http://{}/", listener.local_addr().unwrap())).unwrap();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let event = "event: endpoint\ndata: http://other.test/\n\n";
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
            stream.write_all(format!("{head}{event}").as_bytes()).await.unwrap();
            stream.read_to_end(&mut vec![]).await
        });
        let spec = RemoteSpec { url: url.clone(), transport: None, headers: vec![], login: None };
        let limits = Limits::default();
        let requests = Requests::new(http_client(&spec).unwrap(), None, Redaction::default());
        let answers = RawResults::of(Redaction::default(), Unread::default());
        let (lines, _received) = mpsc::channel(LINES_QUEUED_MAX);
        let body_limits = BodyLimits::new(&limits, Arc::new(Semaphore::new(1)));
        let deliveries = Deliveries { lines, answers: answers.clone() };
        let legacy = Server::Legacy(Box::new(Legacy::new(requests, url, body_limits, deliveries)));
        let (sent, outbox) = mpsc::channel(LINES_QUEUED_MAX);
        let task = tokio::spawn(own(Arc::new(legacy), outbox, CancellationToken::new()));
        tokio::time::sleep(FAREWELL / 4).await;
        let first = br#"{"jsonrpc":"2.0","id":0,"method":"initialize"}"#;
        // The task does not take it if it has ended, which is what must not happen.
        let _taken = sent.send(SentMessage::new(first.to_vec()).unwrap()).await;
        task.await.unwrap();
        let reason = "it names another origin as the place for messages".to_owned();
        assert_eq!(answers.not_opened(), Some(NoResponse::NotReached(reason)));
    }
}
