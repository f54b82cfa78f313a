//! The bridge's end against the sandbox's end in a real Python, over connections that are cut.

use std::os::linux::net::SocketAddrExt;
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};

use belljar_protocol::REMOTE_BOOTSTRAP;
use futures_util::stream::FuturesUnordered;
use futures_util::{StreamExt, stream};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};
use tokio::net::UnixStream;
use tokio::process::{Child, Command};

use super::*;

/// What the sandbox does: it sends back what it receives.
const ECHO: &str = "
while not stream.ended:
    stream.push(stream.wait())
stream.finish(30)
";
/// Only against a hang.
const HANG: Duration = Duration::from_secs(240);

static SANDBOXES: AtomicUsize = AtomicUsize::new(0);

/// A sandbox that echoes, whose connections end after so many bytes.
#[derive(Debug)]
struct Echo {
    address: String,
    python: Mutex<Child>,
    /// For each connection, how many bytes pass from the bridge and to it before it is cut. Later ones are not cut.
    cuts: Vec<(usize, usize)>,
    made: AtomicUsize,
}

impl Echo {
    fn new(cuts: Vec<(usize, usize)>) -> Arc<Self> {
        let number = SANDBOXES.fetch_add(1, Ordering::Relaxed);
        let address = format!("belljar-test-{}-{number}", std::process::id());
        let end = REMOTE_BOOTSTRAP.split_once("if __name__").unwrap().0;
        let code = format!("{end}stream = ResumableStream(b'\\0{address}')\nprint(flush=True)\n{ECHO}");
        let python = Command::new("python3")
            .args(["-I", "-S", "-c", &code])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        Arc::new(Self { address, python: Mutex::new(python), cuts, made: AtomicUsize::new(0) })
    }

    /// Waits until it listens.
    async fn listens(self: Arc<Self>) -> Arc<Self> {
        let mut stdout = self.python.lock().stdout.take().unwrap();
        stdout.read_u8().await.unwrap();
        self
    }

    async fn socket(&self) -> UnixStream {
        let address = std::os::unix::net::SocketAddr::from_abstract_name(&self.address).unwrap();
        let socket = std::os::unix::net::UnixStream::connect_addr(&address).unwrap();
        socket.set_nonblocking(true).unwrap();
        UnixStream::from_std(socket).unwrap()
    }
}

impl Connect for Echo {
    fn connect(&self) -> BoxFuture<'_, Result<Streams, ConnectError>> {
        Box::pin(async {
            let (from_sandbox, mut to_sandbox) = self.socket().await.into_split();
            let number = self.made.fetch_add(1, Ordering::Relaxed);
            let (inward, outward) = self.cuts.get(number).copied().unwrap_or((usize::MAX, usize::MAX));
            let (input, from_bridge) = tokio::io::duplex(4096);
            let (sends, mut received) = mpsc::channel(1);
            tokio::spawn(async move {
                let in_direction =
                    async { tokio::io::copy(&mut from_bridge.take(inward as u64), &mut to_sandbox).await };
                let out_direction = async {
                    let mut limited = from_sandbox.take(outward as u64);
                    let mut bytes = BytesMut::with_capacity(4096);
                    while limited.read_buf(&mut bytes).await? > 0 {
                        if sends.send(Chunk::Stdout(bytes.split().freeze())).await.is_err() {
                            break;
                        }
                    }
                    io::Result::Ok(0)
                };
                // The end of either direction is the end of the connection.
                let _ended = tokio::select! { end = in_direction => end, end = out_direction => end };
            });
            let output = Output::new(poll_fn(move |context| received.poll_recv(context)));
            Ok(Streams { input: Box::pin(input), output })
        })
    }

    fn is_gone(&self) -> BoxFuture<'_, bool> {
        Box::pin(std::future::ready(false))
    }
}

/// Sends these pieces through the sandbox, and returns what comes back until the stream has ended.
async fn echoed(echo: Arc<Echo>, pieces: Vec<Vec<u8>>) -> Vec<u8> {
    let echo = echo.listens().await;
    let Streams { mut input, mut output } = resumable(Arc::clone(&echo) as Arc<dyn Connect>, HANG);
    let sending = async {
        for piece in pieces {
            input.write_all(&piece).await.unwrap();
            input.flush().await.unwrap();
        }
        drop(input);
    };
    let receiving = async {
        let mut back = vec![];
        while let Some(bytes) = output.next().await {
            back.extend_from_slice(&bytes);
        }
        back
    };
    timeout(HANG, async { tokio::join!(sending, receiving).1 }).await.expect("the stream ends")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_may_be_cut_after_any_byte() {
    let pieces = || vec![b"first".to_vec(), vec![b'x'; 40], b"last".to_vec()];
    // More bytes than such an exchange has in each direction.
    let inward = (0..120).map(|bytes| (bytes, usize::MAX));
    let cuts = inward.chain((0..75).map(|bytes| (usize::MAX, bytes)));
    let exchanges = stream::iter(cuts).map(|cut| async move {
        // The next connection is cut there, too.
        assert_eq!(echoed(Echo::new(vec![cut, cut]), pieces()).await, pieces().concat(), "{cut:?}");
    });
    exchanges.buffer_unordered(8).collect::<Vec<()>>().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn long_exchanges_arrive_whole_however_connections_are_cut() {
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(12) };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let sizes = prop::collection::vec(0..400_000_usize, 1..40);
    let cuts = prop::collection::vec((0..3_000_000_usize, 0..3_000_000_usize), 0..12);
    let exchanges = FuturesUnordered::new();
    for _ in 0..12 {
        let (sizes, cuts) = (&sizes, &cuts).new_tree(&mut runner).unwrap().current();
        let pieces: Vec<Vec<u8>> = sizes
            .iter()
            .enumerate()
            .map(|(number, size)| (0..*size).map(|at| (at * 31 + number) as u8).collect())
            .collect();
        exchanges.push(async move {
            let back = echoed(Echo::new(cuts.clone()), pieces.clone()).await;
            assert!(back == pieces.concat(), "{} bytes with {cuts:?}", pieces.concat().len());
        });
    }
    exchanges.collect::<Vec<()>>().await;
}

/// Sends a hello over a connection of its own, and returns the answer; empty if it was turned away.
async fn greeted(echo: &Echo, hello: &str) -> (UnixStream, String) {
    let mut socket = echo.socket().await;
    socket.write_all(hello.as_bytes()).await.unwrap();
    let mut answer = String::new();
    while !answer.ends_with('\n') {
        match timeout(HANG, socket.read_u8()).await.unwrap() {
            Ok(byte) => answer.push(byte.into()),
            Err(_) => break,
        }
    }
    (socket, answer)
}

#[tokio::test]
async fn neither_an_old_relay_nor_one_with_another_token_takes_the_stream_over() {
    let echo = Echo::new(vec![]).listens().await;
    let (mut first, answer) = greeted(&echo, "belljar token 5 0\n").await;
    assert_eq!(answer, "0\n");
    for refused in [
        "belljar token 5 0\n",
        "belljar token 4 0\n",
        "belljar guess 6 0\n",
        "belljar  6 0\n",
        "belljar token 6 1\n",
        "belljar token 6 -1\n",
        "belljar token 6\n",
        "GET / HTTP/1.1\n",
        "\n",
    ] {
        assert_eq!(greeted(&echo, refused).await.1, "", "{refused:?}");
    }
    assert_eq!(greeted(&echo, &"x".repeat(300)).await.1, "");
    // The connection is still the first one.
    first.write_all(&[&2_u32.to_be_bytes(), &b"hi"[..]].concat()).await.unwrap();
    let mut back = [0; 6];
    timeout(HANG, first.read_exact(&mut back)).await.unwrap().unwrap();
    assert_eq!(back, [&2_u32.to_be_bytes(), &b"hi"[..]].concat()[..]);
    // A later one takes it over, and gets what was not confirmed.
    let (mut second, answer) = greeted(&echo, "belljar token 6 0\n").await;
    assert_eq!(answer, "2\n");
    timeout(HANG, second.read_exact(&mut back)).await.unwrap().unwrap();
    assert_eq!(&back[4..], b"hi");
    assert!(timeout(HANG, first.read_u8()).await.unwrap().is_err(), "the old connection has ended");
}

#[tokio::test(start_paused = true)]
async fn a_sandbox_that_is_gone_ends_the_stream_and_says_why() {
    #[derive(Debug)]
    struct Gone {
        is_final: bool,
        tries: AtomicUsize,
    }
    impl Connect for Gone {
        fn connect(&self) -> BoxFuture<'_, Result<Streams, ConnectError>> {
            self.tries.fetch_add(1, Ordering::Relaxed);
            let error = ConnectError { message: "no such container".into(), is_final: self.is_final };
            Box::pin(async { Err(error) })
        }

        fn is_gone(&self) -> BoxFuture<'_, bool> {
            Box::pin(std::future::ready(self.is_final))
        }
    }
    for is_final in [true, false] {
        let gone = Arc::new(Gone { is_final, tries: AtomicUsize::new(0) });
        let started = Instant::now();
        let mut streams = resumable(Arc::clone(&gone) as Arc<dyn Connect>, HANG);
        assert_eq!(streams.output.next().await, None);
        assert_eq!(streams.output.stderr(), "no such container");
        let tries = gone.tries.load(Ordering::Relaxed);
        assert_eq!(tries == 1, is_final, "{tries}");
        assert!(is_final || started.elapsed() > HANG / 2, "{:?}", started.elapsed());
    }
}
