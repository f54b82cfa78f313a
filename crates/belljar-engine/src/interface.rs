//! The interface of engines, and of the sandboxes that they start.
//!
//! It depends on no particular kind of engine.

use std::fmt::Debug;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{BoxFuture, ready};
use futures_util::{Stream, StreamExt};
use tokio::io::AsyncWrite;

use super::error::EngineError;
use super::fate::Fate;
use super::guarantees::Guarantees;
use super::kernel::OuterLimits;
use super::owner::Owner;
use super::spec::{CpuQuota, SandboxSpec, User};
use super::usage::UsageMeter;

/// An engine, which starts sandboxes of one kind.
pub trait Engine: Debug + Send + Sync {
    /// The address at which it listens.
    fn address(&self) -> &str;

    /// Whether it still answers.
    fn answers(&self) -> BoxFuture<'_, bool>;

    /// The engine's description of itself; it takes half a second on Podman.
    ///
    /// # Errors
    /// The engine does not report it.
    fn about(&self) -> BoxFuture<'_, Result<EngineInfo, EngineError>>;

    /// The number of processors of the machine that sandboxes run on; `None`: the engine does not say it, or not within
    /// `after`.
    fn processors(&self, after: Duration) -> BoxFuture<'_, Option<u64>>;

    /// Whether its sandboxes can outlive the bridge, so that the guardian must be able to remove them.
    fn outlives_bridge(&self) -> bool;

    /// Whether it runs on this machine, according to its address.
    fn is_here(&self) -> bool;

    /// What it guarantees about its sandboxes.
    fn guarantees(&self) -> Guarantees;

    /// Starts a sandbox. An optional CPU limit that the engine refuses is left out.
    ///
    /// # Errors
    /// The failure of a step. The engine removes what it has created. [`StartFailure::may_exist`] tells whether a
    /// sandbox may remain.
    fn start<'a>(&'a self, spec: &'a SandboxSpec) -> BoxFuture<'a, Result<StartedSandbox, StartFailure>>;

    /// Removes the sandboxes of dead owners, and returns their number.
    ///
    /// # Errors
    /// The engine cannot list them. A sandbox that cannot be removed is logged and left to the next start.
    fn reap<'a>(&'a self, owner: &'a Owner) -> BoxFuture<'a, Result<usize, EngineError>>;

    /// Gives up what stands for this bridge in the engine, if there is anything. Sandboxes that are left end with it.
    fn release(&self) -> BoxFuture<'_, ()> {
        Box::pin(ready(()))
    }
}

/// A sandbox that an engine has started, which must be closed with [`Instance::close`].
pub trait Instance: Debug + Send + Sync {
    /// A meter of its resource usage; `None`: the usage cannot be read on this machine.
    fn meter(&self) -> BoxFuture<'_, Option<UsageMeter>>;

    /// The limits that this machine's cgroups enforce on it, if it runs on this machine.
    fn outer_limits(&self) -> BoxFuture<'_, OuterLimits>;

    /// What became of it, after its output has ended. It takes a few seconds at most.
    fn fate(&mut self) -> BoxFuture<'_, Fate>;

    /// Kills and removes it. The streams must be dropped before: an engine waits for an attached client that does not
    /// read.
    ///
    /// # Errors
    /// The sandbox could not be removed, which was logged.
    fn close(self: Box<Self>) -> BoxFuture<'static, Result<(), EngineError>>;
}

/// The name and the kind of an engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineInfo {
    /// The name and version, for example `podman 4.3.1`.
    pub name: String,
    /// Whether its sandboxes are containers.
    pub is_containers: bool,
    /// The OCI runtime, if the engine reports it.
    pub runtime: Option<Runtime>,
}

/// The OCI runtime of an engine, as the engine names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Runtime {
    /// For example `runc`.
    pub name: String,
    /// For example `1.3.3`.
    pub version: String,
}

/// A sandbox that was started, with what the engine reports about it.
#[derive(Debug)]
pub struct StartedSandbox {
    /// The sandbox.
    pub instance: Box<dyn Instance>,
    /// The standard streams of the sandbox.
    pub streams: Streams,
    /// The name of the image that the sandbox was made from.
    pub image: String,
    /// An identifier of its Python, which is unique among all engines; `None`: the engine does not report it.
    pub python_id: Option<String>,
    /// The user of its processes, as they see it.
    pub user: User,
    /// The reason for which other processes of the machine have the same user, unless that was requested.
    pub shared_user: Option<String>,
    /// The limit of CPU time that was requested from the engine.
    pub cpu: Option<CpuQuota>,
    /// The engine's warnings about requests that it does not fulfil.
    pub warnings: Vec<String>,
}

/// The reason for which no sandbox was started.
#[derive(Debug)]
pub struct StartFailure {
    /// The error.
    pub error: EngineError,
    /// Whether a sandbox may exist nevertheless, now or later, because the engine did not answer or could not remove
    /// it.
    pub may_exist: bool,
}

/// The standard streams of a sandbox.
pub struct Streams {
    /// The sandbox's stdin.
    pub input: Pin<Box<dyn AsyncWrite + Send>>,
    /// The sandbox's stdout, and the end of its stderr.
    pub output: Output,
}

/// The output of a sandbox.
pub struct Output {
    chunks: Pin<Box<dyn Stream<Item = Chunk> + Send>>,
    stderr: Vec<u8>,
}

/// Bytes of one of the two streams.
pub(super) enum Chunk {
    Stdout(Bytes),
    Stderr(Bytes),
}

/// How many bytes of the end of a sandbox's stderr are stored. The supervisor writes there only if it fails.
const STDERR_BYTES_MAX: usize = 8 * 1024;

impl Output {
    /// Makes the output from a stream of chunks, which ends with the sandbox. Dropping a pending read must lose no
    /// chunk.
    pub(super) fn new(chunks: impl Stream<Item = Chunk> + Send + 'static) -> Self {
        Self { chunks: Box::pin(chunks), stderr: Vec::new() }
    }

    /// The next bytes of stdout; `None`: the sandbox or the connection is gone. Cancel-safe.
    pub async fn next(&mut self) -> Option<Bytes> {
        loop {
            match self.chunks.next().await? {
                Chunk::Stdout(bytes) => return Some(bytes),
                Chunk::Stderr(bytes) => self.keep_stderr(&bytes),
            }
        }
    }

    /// The end of the sandbox's stderr.
    #[must_use]
    pub fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.stderr).trim().to_owned()
    }

    fn keep_stderr(&mut self, bytes: &[u8]) {
        self.stderr.extend_from_slice(bytes);
        let excess = self.stderr.len().saturating_sub(STDERR_BYTES_MAX);
        self.stderr.drain(..excess);
    }
}

impl Debug for Streams {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Streams")
    }
}
