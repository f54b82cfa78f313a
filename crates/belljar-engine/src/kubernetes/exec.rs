//! The streams of a relay in a Pod, over a WebSocket.
//!
//! Two tasks move the bytes, so that a direction that is stuck does not stop the other one. The end of the connection says
//! nothing about the sandbox: a lost kubelet looks like a relay that has succeeded.

use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use futures_util::future::BoxFuture;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{Sink, SinkExt, Stream, StreamExt};
use kube_client::Error;
use kube_client::core::Request as Path;
use kube_client::core::subresource::AttachParams;
use tokio::io::{AsyncRead, AsyncReadExt, DuplexStream, duplex};
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};
use tokio_tungstenite::tungstenite::{self, Message};

use super::super::interface::{Chunk, Output, Streams};
use super::super::stream::{Connect, ConnectError, relay_command};
use super::client::{ANSWER, Cluster};
use super::errors::Asked;
use super::pod::CONTAINER;
use super::requests::{SeenPod, get};

/// Starts relays in one Pod.
#[derive(Debug)]
pub(super) struct Exec {
    pub(super) cluster: Cluster,
    pub(super) pod: String,
    pub(super) uid: Option<String>,
}

pub(super) const EXEC: Asked = Asked { action: "connect to the Pod", verb: "create", resource: "pods/exec" };
/// The longest time until a relay is started, through the API server, its node and its runtime.
const START: Duration = Duration::from_secs(30);
/// The largest message to the server, in bytes. Some servers refuse those above 1 MiB.
const MESSAGE_BYTES_MAX: usize = 256 * 1024;
/// How many messages from the server wait. Each has at most 32 KiB.
const MESSAGES_QUEUED_MAX: usize = 64;
/// The pause after which an empty message is sent, since servers end streams that are idle for long. Pings do not count.
const IDLE: Duration = Duration::from_secs(60);

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const STATUS: u8 = 3;
/// Closes the stream whose number follows.
const CLOSE: u8 = 255;

impl Connect for Exec {
    fn connect(&self) -> BoxFuture<'_, Result<Streams, ConnectError>> {
        Box::pin(async {
            match self.cluster.ask(EXEC, START, self.open()).await {
                Ok(Some(streams)) => Ok(streams),
                Ok(None) => {
                    let message =
                        "the API server does not know v5.channel.k8s.io: it takes Kubernetes 1.31".into();
                    Err(ConnectError { message, is_final: true })
                }
                Err(failed) => {
                    // Also a kubelet that has just started knows no Pod.
                    Err(ConnectError { message: failed.error.to_string(), is_final: self.is_gone().await })
                }
            }
        })
    }

    /// Only the Pod itself says that: an API server refuses everything for a moment when it starts.
    fn is_gone(&self) -> BoxFuture<'_, bool> {
        Box::pin(async {
            match get::<SeenPod>(&self.cluster, &self.pod, ANSWER).await {
                Ok(pod) => {
                    let has_ended = matches!(pod.status.phase.as_deref(), Some("Succeeded" | "Failed"));
                    has_ended || pod.metadata.uid != self.uid || pod.metadata.deletion_timestamp.is_some()
                }
                Err(unread) => unread.status == Some(404),
            }
        })
    }
}

impl Exec {
    /// The streams of a new relay; `None`: the server cannot close stdin.
    async fn open(&self) -> Result<Option<Streams>, Error> {
        let parameters = AttachParams::default().container(CONTAINER).stdin(true);
        let request = Path::new(self.cluster.pods()).exec(&self.pod, relay_command(), &parameters);
        let connection = self.cluster.client.connect(request.map_err(Error::BuildRequest)?).await?;
        Ok(connection.supports_stream_close().then(|| joined(connection.into_stream())))
    }
}

/// The streams of a WebSocket, which its two tasks fill.
fn joined<S>(socket: S) -> Streams
where
    S: Stream<Item = Result<Message, tungstenite::Error>>
        + Sink<Message, Error = tungstenite::Error>
        + Send
        + 'static,
{
    let (sink, source) = socket.split();
    let (input, written) = duplex(MESSAGE_BYTES_MAX);
    let (chunks, queued) = mpsc::channel(MESSAGES_QUEUED_MAX);
    let writing = tokio::spawn(write(written, sink));
    tokio::spawn(async move {
        read(source, chunks).await;
        // The socket closes with both of its halves.
        writing.abort();
    });
    let chunks =
        futures_util::stream::unfold(queued, |mut queued| async { Some((queued.recv().await?, queued)) });
    Streams { input: Box::pin(input), output: Output::new(chunks) }
}

/// Sends what is written, until a write fails. When nothing more can be written, stdin is closed.
async fn write<S>(mut written: DuplexStream, mut sink: SplitSink<S, Message>)
where
    S: Sink<Message, Error = tungstenite::Error>,
{
    let mut idle = interval(IDLE);
    idle.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut is_open = true;
    loop {
        let message = tokio::select! {
            message = next(&mut written), if is_open => {
                is_open = message.is_some();
                message.unwrap_or(Bytes::from_static(&[CLOSE, STDIN]))
            }
            _ = idle.tick() => Bytes::new(),
        };
        if let Err(error) = sink.send(Message::Binary(message)).await {
            return tracing::debug!(%error, "the stream to a Pod broke");
        }
        idle.reset();
    }
}

/// The next message with bytes for stdin; `None`: there are no more. Cancel-safe.
async fn next(written: &mut (impl AsyncRead + Unpin)) -> Option<Bytes> {
    let mut message = BytesMut::with_capacity(MESSAGE_BYTES_MAX);
    message.put_u8(STDIN);
    match written.read_buf(&mut message).await {
        Ok(0) | Err(_) => None,
        Ok(_) => Some(message.freeze()),
    }
}

/// Queues what arrives, until the connection ends or nobody wants more.
async fn read<S>(mut source: SplitStream<S>, chunks: mpsc::Sender<Chunk>)
where
    S: Stream<Item = Result<Message, tungstenite::Error>>,
{
    loop {
        let message = tokio::select! {
            message = source.next() => message,
            () = chunks.closed() => return,
        };
        let mut bytes = match message {
            Some(Ok(Message::Binary(bytes))) => bytes,
            Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Text(_) | Message::Frame(_))) => continue,
            Some(Ok(Message::Close(_))) | None => return,
            Some(Err(error)) => return tracing::debug!(%error, "the stream from a Pod broke"),
        };
        if bytes.is_empty() {
            continue;
        }
        let chunk = match bytes.split_to(1)[0] {
            _ if bytes.is_empty() => continue,
            STDOUT => Chunk::Stdout(bytes),
            STDERR => Chunk::Stderr(bytes),
            STATUS => {
                tracing::debug!(status = %String::from_utf8_lossy(&bytes), "a relay ended");
                return;
            }
            _ => continue,
        };
        if chunks.send(chunk).await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;
    use tokio_tungstenite::WebSocketStream;
    use tokio_tungstenite::tungstenite::protocol::Role;

    use super::*;

    /// The streams at a server, and the server's side of the WebSocket.
    async fn streams() -> (Streams, WebSocketStream<DuplexStream>) {
        let (client, server) = duplex(1 << 16);
        let client = WebSocketStream::from_raw_socket(client, Role::Client, None).await;
        (joined(client), WebSocketStream::from_raw_socket(server, Role::Server, None).await)
    }

    /// The next message that is not empty.
    async fn received(server: &mut WebSocketStream<DuplexStream>) -> Vec<u8> {
        loop {
            match server.next().await.unwrap().unwrap() {
                Message::Binary(bytes) if bytes.is_empty() => {}
                message => return message.into_data().to_vec(),
            }
        }
    }

    #[tokio::test]
    async fn bytes_go_both_ways_by_their_channels_and_the_end_closes_stdin() {
        let (mut streams, mut server) = streams().await;
        for message in [&b"\x01"[..], b"\x01out", b"\x02err", b"\x01more"] {
            server.send(Message::binary(message.to_vec())).await.unwrap();
        }
        assert_eq!(streams.output.next().await.unwrap(), "out");
        assert_eq!(streams.output.next().await.unwrap(), "more");
        assert_eq!(streams.output.stderr(), "err");
        streams.input.write_all(b"in").await.unwrap();
        assert_eq!(received(&mut server).await, b"\0in");
        streams.input.shutdown().await.unwrap();
        assert_eq!(received(&mut server).await, [CLOSE, STDIN]);
        server.send(Message::binary(&b"\x03{\"status\":\"Success\"}"[..])).await.unwrap();
        assert_eq!(streams.output.next().await, None);
    }

    #[tokio::test]
    async fn a_server_that_does_not_read_does_not_stop_what_it_sends() {
        let (Streams { mut input, mut output }, mut server) = streams().await;
        let writing = tokio::spawn(async move { input.write_all(&vec![7; 1 << 22]).await });
        for number in 0..100_u8 {
            server.send(Message::binary(vec![STDOUT, number])).await.unwrap();
            assert_eq!(output.next().await.unwrap(), [number][..]);
        }
        assert!(!writing.is_finished());
        let mut read = 0;
        while read < 1 << 22 {
            let message = received(&mut server).await;
            assert!(message.len() <= MESSAGE_BYTES_MAX && message[0] == STDIN, "{}", message.len());
            read += message.len() - 1;
        }
        writing.await.unwrap().unwrap();
        // The end of the connection ends both streams.
        drop(server);
        assert_eq!(output.next().await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_stream_sends_empty_messages() {
        let (_streams, mut server) = streams().await;
        let begin = tokio::time::Instant::now();
        for _ in 0..3 {
            assert_eq!(server.next().await.unwrap().unwrap(), Message::Binary(Bytes::new()));
        }
        assert!(begin.elapsed() >= 2 * IDLE);
    }
}
