//! The bridge's end of a stream to a sandbox on another machine, which outlives its connections.
//!
//! Both ends count the bytes that they receive, store what they have sent until the other confirms it, and send the rest
//! again at the next connection. So a restarted proxy or a lost network is a pause, and no byte is lost or repeated. The
//! records are described in `entrypoint/remote/stream.py`, which is the other end. It does not know what the bytes mean.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use belljar_protocol::RELAY;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use futures_util::future::BoxFuture;
use futures_util::stream::poll_fn;
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream};
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep, timeout, timeout_at};

use super::interface::{Chunk, Output, Streams};

/// Makes connections to one sandbox: starts a relay in it and joins its standard streams.
pub(crate) trait Connect: Debug + Send + Sync + 'static {
    /// The streams of a new relay. Dropping them ends it.
    ///
    /// # Errors
    /// The relay could not be started.
    fn connect(&self) -> BoxFuture<'_, Result<Streams, ConnectError>>;

    /// Whether the sandbox has ended, so that another try is useless. It is asked when a relay has ended without an answer.
    fn is_gone(&self) -> BoxFuture<'_, bool>;
}

/// The reason why no connection could be made.
#[derive(Debug)]
pub(crate) struct ConnectError {
    /// The reason.
    pub(crate) message: String,
    /// Whether the sandbox is gone, so that another try is useless.
    pub(crate) is_final: bool,
}

/// The longest time of one try.
const TRY: Duration = Duration::from_secs(30);
/// The first and the longest pause between two tries.
const PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// How often the sandbox is asked for its count.
const ASKED_EACH: Duration = Duration::from_secs(10);
/// A connection on which nothing arrives for this long is replaced.
const SILENCE: Duration = Duration::from_secs(25);
/// The most bytes in one record.
const RECORD_BYTES_MAX: usize = 64 * 1024;
/// At most so many bytes are sent before the sandbox confirms any.
const WINDOW_BYTES: usize = 8 << 20;
/// Received bytes are confirmed when there are so many more.
const CONFIRMED_BYTES: u64 = 1 << 20;
/// Pieces of output that wait for the session.
const PIECES_QUEUED: usize = 16;
/// The length of a record that ends the stream.
const END: u32 = u32::MAX;
/// How long the last count may take.
const LAST_WORD: Duration = Duration::from_secs(1);
/// The longest answer to a hello: a number and a line feed.
const ANSWER_BYTES_MAX: usize = 21;

/// The command of a relay.
pub(crate) fn relay_command() -> Vec<String> {
    ["python3", "-I", "-S", "-c", RELAY].map(str::to_owned).to_vec()
}

/// Streams to a sandbox whose connections are made by `connect`. Whenever one breaks, the next one is tried for
/// `reconnection`.
pub(crate) fn resumable(connect: Arc<dyn Connect>, reconnection: Duration) -> Streams {
    let (input, from_session) = tokio::io::duplex(RECORD_BYTES_MAX);
    let (to_session, mut output) = mpsc::channel(PIECES_QUEUED);
    let hasher = RandomState::new();
    let stream = ResumableStream {
        connect,
        reconnection,
        token: format!("{:016x}{:016x}", hasher.hash_one(1), hasher.hash_one(2)),
        connections: 0,
        from_session,
        to_session,
        counts: Counts::default(),
    };
    tokio::spawn(stream.run());
    Streams { input: Box::pin(input), output: Output::new(poll_fn(move |context| output.poll_recv(context))) }
}

struct ResumableStream {
    connect: Arc<dyn Connect>,
    reconnection: Duration,
    token: String,
    connections: u64,
    from_session: DuplexStream,
    to_session: mpsc::Sender<Chunk>,
    counts: Counts,
}

/// What both ends have received.
#[derive(Default)]
struct Counts {
    counted: Mutex<Counted>,
    /// Wakes the writer once the sandbox has confirmed bytes.
    window_opens: Notify,
    /// Wakes the writer to confirm received bytes.
    confirms: Notify,
}

#[derive(Default)]
struct Counted {
    received: u64,
    /// The count that was confirmed to the sandbox last.
    reported: u64,
    /// The number of bytes that the sandbox has confirmed.
    confirmed: u64,
    /// What was sent after them.
    sent: VecDeque<Bytes>,
    in_flight: usize,
    /// Whether the session has ended the stream.
    is_closed: bool,
}

/// Why a connection is not used any more.
#[derive(Debug, PartialEq, Eq)]
enum End {
    /// It broke, and the next one goes on.
    Cut,
    /// One end has ended the stream.
    Stream,
}

struct Connection {
    input: Pin<Box<dyn AsyncWrite + Send>>,
    output: Output,
    /// What has arrived after the answer.
    rest: Bytes,
    /// What the sandbox has not received through earlier connections.
    again: VecDeque<Bytes>,
}

impl ResumableStream {
    async fn run(mut self) {
        loop {
            let to_session = self.to_session.clone();
            let connection = tokio::select! {
                () = to_session.closed() => return,
                connection = self.connected() => connection,
            };
            let connection = match connection {
                Ok(connection) => connection,
                Err(reason) => {
                    tracing::debug!(reason, "no connection to a sandbox can be made");
                    // Later, the fate of the sandbox says more.
                    if self.counts.counted.lock().received == 0 {
                        let _session_has_gone = self.to_session.send(Chunk::Stderr(reason.into())).await;
                    }
                    return;
                }
            };
            let Connection { mut input, output, rest, again } = connection;
            let end = tokio::select! {
                () = to_session.closed() => return,
                end = read(output, rest, &self.counts, &self.to_session) => end,
                end = write(&mut input, again, &mut self.from_session, &self.counts) => end,
            };
            if end == End::Stream {
                // So that the sandbox does not wait.
                let _broken_by_now = timeout(LAST_WORD, write_count(&mut input, &self.counts)).await;
                return;
            }
            tracing::debug!(connection = self.connections, "a connection to a sandbox broke");
        }
    }

    /// Makes a connection, as often as it takes.
    async fn connected(&mut self) -> Result<Connection, String> {
        let is_first = self.connections == 0;
        let deadline = Instant::now() + if is_first { self.reconnection.max(TRY) } else { self.reconnection };
        let mut pause = PAUSE.0;
        loop {
            self.connections += 1;
            let made = timeout_at(deadline.min(Instant::now() + TRY), self.greet()).await;
            let error = match made {
                Ok(Ok(connection)) => return Ok(connection),
                Ok(Err(error)) => error,
                Err(_) => ConnectError { message: "no relay answered in time".into(), is_final: false },
            };
            if error.is_final || Instant::now() + pause >= deadline {
                return Err(error.message);
            }
            tracing::debug!(error.message, "a connection to a sandbox is tried again");
            // Many sessions that lose an API server must not return to it at the same time.
            let jitter = RandomState::new().hash_one(self.connections) % 1000;
            sleep(pause.mul_f64(0.5 + f64::from(u32::try_from(jitter).unwrap_or_default()) / 1000.0)).await;
            pause = (pause * 2).min(PAUSE.1);
        }
    }

    /// Starts a relay and exchanges the counts.
    async fn greet(&self) -> Result<Connection, ConnectError> {
        let Streams { mut input, mut output } = self.connect.connect().await?;
        let broke = |error: io::Error| ConnectError { message: error.to_string(), is_final: false };
        let hello =
            format!("belljar {} {} {}\n", self.token, self.connections, self.counts.counted.lock().received);
        write_all(&mut input, &[hello.as_bytes()]).await.map_err(broke)?;
        let mut answer = BytesMut::new();
        let end = loop {
            if let Some(end) = answer.iter().position(|byte| *byte == b'\n') {
                break end;
            }
            match output.next().await {
                Some(bytes) if answer.len() <= ANSWER_BYTES_MAX => answer.extend_from_slice(&bytes),
                _ => {
                    let message = Some(output.stderr()).filter(|stderr| !stderr.is_empty());
                    let message = message.unwrap_or_else(|| "the relay in the sandbox ended".into());
                    return Err(ConnectError { message, is_final: self.connect.is_gone().await });
                }
            }
        };
        let rest = answer.split_off(end + 1).freeze();
        let count = std::str::from_utf8(&answer[..end]).ok().and_then(|count| count.parse().ok());
        if !count.is_some_and(|count| self.counts.confirm(count)) {
            return Err(ConnectError { message: "the sandbox counts other bytes".into(), is_final: true });
        }
        let mut counted = self.counts.counted.lock();
        counted.reported = counted.received;
        Ok(Connection { input, output, rest, again: counted.sent.clone() })
    }
}

impl Counts {
    /// Forgets what the sandbox has received. Returns false if it cannot have received so many bytes.
    fn confirm(&self, count: u64) -> bool {
        let mut counted = self.counted.lock();
        let Some(more) = count.checked_sub(counted.confirmed).and_then(|more| usize::try_from(more).ok())
        else {
            return false;
        };
        if more > counted.in_flight {
            return false;
        }
        counted.in_flight -= more;
        counted.confirmed = count;
        let mut more = more;
        while let Some(first) = counted.sent.front_mut().filter(|_| more > 0) {
            let part = more.min(first.len());
            first.advance(part);
            more -= part;
            if first.is_empty() {
                counted.sent.pop_front();
            }
        }
        true
    }

    fn may_send(&self) -> bool {
        let counted = self.counted.lock();
        !counted.is_closed && counted.in_flight < WINDOW_BYTES
    }
}

/// Passes the output of a connection to the session. It waits for the session between two reads only, so that no byte is
/// counted that the session does not get.
async fn read(mut output: Output, rest: Bytes, counts: &Counts, to_session: &mpsc::Sender<Chunk>) -> End {
    let mut records = Records::default();
    let mut rest = Some(rest);
    loop {
        let Ok(permit) = to_session.reserve().await else { return End::Stream };
        let chunk = match rest.take() {
            Some(rest) => rest,
            None => match timeout(SILENCE, output.next()).await {
                Ok(Some(chunk)) => chunk,
                Ok(None) | Err(_) => return End::Cut,
            },
        };
        let Found { bytes, count, is_end } = records.take(chunk);
        let must_confirm = {
            let mut counted = counts.counted.lock();
            counted.received += bytes.len() as u64;
            counted.received - counted.reported >= CONFIRMED_BYTES
        };
        if !bytes.is_empty() {
            permit.send(Chunk::Stdout(bytes));
        }
        if is_end {
            return End::Stream;
        }
        if let Some(count) = count {
            if !counts.confirm(count) {
                return End::Cut;
            }
            counts.window_opens.notify_one();
        }
        if must_confirm {
            counts.confirms.notify_one();
        }
    }
}

/// Sends what the sandbox has not received, passes on what the session sends, and confirms what has arrived. Each piece is
/// stored before it is sent.
async fn write(
    input: &mut Pin<Box<dyn AsyncWrite + Send>>,
    again: VecDeque<Bytes>,
    from_session: &mut DuplexStream,
    counts: &Counts,
) -> End {
    let error = write_until_cut(input, again, from_session, counts).await.err();
    tracing::debug!(error = error.map(tracing::field::display), "a connection takes no more input");
    End::Cut
}

async fn write_until_cut(
    input: &mut Pin<Box<dyn AsyncWrite + Send>>,
    again: VecDeque<Bytes>,
    from_session: &mut DuplexStream,
    counts: &Counts,
) -> io::Result<()> {
    for piece in again {
        write_record(input, &piece).await?;
    }
    let mut must_end = counts.counted.lock().is_closed;
    let mut asks = interval_at(Instant::now() + ASKED_EACH, ASKED_EACH);
    asks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut buffer = vec![0; RECORD_BYTES_MAX];
    loop {
        if std::mem::take(&mut must_end) {
            write_all(input, &[&END.to_be_bytes()]).await?;
        }
        tokio::select! {
            biased;
            () = counts.confirms.notified() => write_count(input, counts).await?,
            _ = asks.tick() => write_count(input, counts).await?,
            read = from_session.read(&mut buffer), if counts.may_send() => {
                let sent = Bytes::copy_from_slice(&buffer[..read?]);
                {
                    let mut counted = counts.counted.lock();
                    must_end = sent.is_empty();
                    counted.is_closed = must_end;
                    counted.in_flight += sent.len();
                    counted.sent.extend(Some(sent.clone()).filter(|_| !must_end));
                }
                if !must_end {
                    write_record(input, &sent).await?;
                }
            },
            () = counts.window_opens.notified() => {}
        }
    }
}

async fn write_count(input: &mut Pin<Box<dyn AsyncWrite + Send>>, counts: &Counts) -> io::Result<()> {
    let count = {
        let mut counted = counts.counted.lock();
        counted.reported = counted.received;
        counted.received
    };
    write_all(input, &[&[0; 4], &count.to_be_bytes()]).await
}

async fn write_record(input: &mut Pin<Box<dyn AsyncWrite + Send>>, piece: &[u8]) -> io::Result<()> {
    let length = u32::try_from(piece.len()).map_err(io::Error::other)?;
    write_all(input, &[&length.to_be_bytes(), piece]).await
}

async fn write_all(input: &mut Pin<Box<dyn AsyncWrite + Send>>, parts: &[&[u8]]) -> io::Result<()> {
    // One message for one record, since each message has its own cost.
    input.write_all(&parts.concat()).await?;
    input.flush().await
}

/// Cuts the bytes of a connection into records.
#[derive(Default)]
struct Records {
    /// The beginning of a record that is not complete.
    head: BytesMut,
    /// How many bytes of the current record are missing.
    missing: usize,
}

/// What was found in some bytes of a connection.
#[derive(Default)]
struct Found {
    /// Bytes of the stream.
    bytes: Bytes,
    /// The last count.
    count: Option<u64>,
    is_end: bool,
}

impl Records {
    fn take(&mut self, mut chunk: Bytes) -> Found {
        let mut found = Found::default();
        let mut joined = BytesMut::new();
        while !chunk.is_empty() {
            if self.missing > 0 {
                let part = chunk.split_to(self.missing.min(chunk.len()));
                self.missing -= part.len();
                if found.bytes.is_empty() && joined.is_empty() {
                    found.bytes = part;
                } else {
                    joined.extend_from_slice(&std::mem::take(&mut found.bytes));
                    joined.put(part);
                }
                continue;
            }
            let wanted = if self.head.starts_with(&[0; 4]) { 12 } else { 4 };
            let part = chunk.split_to((wanted - self.head.len()).min(chunk.len()));
            self.head.put(part);
            if self.head.len() < 4 {
                continue;
            }
            match (&self.head[..]).get_u32() {
                END => found.is_end = true,
                0 if self.head.len() < 12 => continue,
                0 => found.count = Some((&self.head[4..]).get_u64()),
                length => self.missing = length as usize,
            }
            self.head.clear();
        }
        if !joined.is_empty() {
            found.bytes = joined.freeze();
        }
        found
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
#[path = "stream_tests.rs"]
mod tests;
